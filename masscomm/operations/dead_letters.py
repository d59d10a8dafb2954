"""Parses dead letters from the records of the dead-letter topic, and filters them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from masscomm.errors import MasscommError, Retry
from masscomm.integers import integer
from masscomm.kafka import dead_letters as headers
from masscomm.kafka.avro import Codec
from masscomm.kafka.payloads import decoded
from masscomm.kafka.topic_reading import NO_SECURITY, read_topic
from masscomm.kafka.topics import DEAD_LETTER

if TYPE_CHECKING:
    from confluent_kafka import Message


@dataclass(frozen=True, kw_only=True)
class DeadLetter:
    """One record of the dead-letter topic. A field that is read from a header is empty if the header is absent."""

    position: str  # The position of the dead letter in the dead-letter topic, partition@offset.
    dead_at: str  # The time at which the record was dead-lettered (ISO 8601, UTC).
    topic: str  # The source topic; `partition` and `offset` are the record's position in this topic.
    partition: str
    offset: str
    timestamp: str  # The time of the original record (ISO 8601, UTC).
    reason: str
    error: str
    function: str
    # If the source record was a replayed dead letter: the position of that earlier dead letter (see `letter`); else
    # empty.
    replayed: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]

    @property
    def letter(self) -> str:
        """Return the topic and the position of the dead letter in the format of the replay header."""
        partition, _, offset = self.position.partition("@")
        return f"{DEAD_LETTER}-{partition}@{offset}"

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values, with the size of the value instead of its bytes."""
        names = (
            "dead_at",
            "topic",
            "partition",
            "offset",
            "timestamp",
            "reason",
            "error",
            "function",
            "replayed",
        )
        return (
            {"place": self.position} | {name: getattr(self, name) for name in names} | {"size": len(self.value or b"")}
        )


@dataclass(frozen=True, kw_only=True)
class Filter:
    """Conditions on dead letters; None and an empty sequence match every dead letter."""

    positions: Sequence[str] = ()  # Positions on the dead-letter topic, partition@offset.
    topic: str | None = None  # The source topic; `partition` and `offset` are the record's position in this topic.
    reason: str | None = None
    function: str | None = None
    partition: int | None = None
    offset: int | None = None
    since: datetime | None = None  # The earliest time at which a letter was dead-lettered, inclusive.
    until: datetime | None = None  # The latest time at which a letter was dead-lettered, exclusive.

    @property
    def chooses(self) -> bool:
        """Return whether the filter has any condition."""
        return self != Filter()

    def takes(self, letter: DeadLetter) -> bool:
        """Return whether the dead letter meets every condition."""
        dead_at = datetime.fromisoformat(letter.dead_at)
        wanted = (
            (self.topic, letter.topic),
            (self.reason, letter.reason),
            (self.function, letter.function),
            (None if self.partition is None else str(self.partition), letter.partition),
            (None if self.offset is None else str(self.offset), letter.offset),
        )
        return (
            all(asked is None or asked == found for asked, found in wanted)
            and (not self.positions or letter.position in self.positions)
            and (self.since is None or self.since <= dead_at)
            and (self.until is None or dead_at < self.until)
        )


def read(message: "Message") -> DeadLetter:
    """Return the dead letter in a Kafka message; an absent header becomes an empty string."""
    pairs: list[tuple[str, str | bytes | None]] = list(message.headers() or [])  # type: ignore[arg-type]
    kept = tuple((name, _bytes(value) or b"") for name, value in pairs)
    found = dict(kept)

    def text(name: str) -> str:
        return found.get(name, b"").decode("utf-8", "replace")

    return DeadLetter(
        position=f"{message.partition()}@{message.offset()}",
        dead_at=_iso(message.timestamp()[1]),
        topic=text(headers.SOURCE_TOPIC),
        partition=text(headers.SOURCE_PARTITION),
        offset=text(headers.SOURCE_OFFSET),
        timestamp=_when(text(headers.SOURCE_TIMESTAMP)),
        reason=text(headers.REASON),
        error=text(headers.ERROR),
        function=text(headers.FUNCTION),
        replayed=text(headers.REPLAYED),
        key=_bytes(message.key()),
        value=_bytes(message.value()),
        headers=kept,
    )


def club_of(letter: DeadLetter, codec: Codec) -> int | None:
    """Return the club (tenant) in the record of a dead letter; None if the record has none, or cannot be decoded.

    Raises:
        Retry: The schema registry does not answer.
    """
    try:
        club_id = decoded(letter.topic, letter.value, codec).get("club_id")
    except Retry:
        raise
    except (MasscommError, ValueError):
        return None
    return club_id if isinstance(club_id, int) and not isinstance(club_id, bool) else None


def read_letters(
    bootstrap: str, wanted: Filter, *, topic: str = DEAD_LETTER, security: Mapping[str, Any] = NO_SECURITY
) -> Iterator[DeadLetter]:
    """Return the dead letters that meet the filter, ordered by partition and offset.

    Raises:
        KafkaException: The broker does not respond.
    """
    for message in read_topic(bootstrap, topic, security):
        letter = read(message)
        if wanted.takes(letter):
            yield letter


def _when(milliseconds: str) -> str:
    """Return a timestamp header as ISO 8601. A header may contain anything; a value that is not a time is returned
    unchanged.
    """
    try:
        return _iso(integer(milliseconds))
    except (ValueError, OverflowError, OSError):
        return milliseconds


def _iso(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
