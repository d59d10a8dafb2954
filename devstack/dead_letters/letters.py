"""Dead letters as they are on their topic, and filters over them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from confluent_kafka import Message

from devstack.topic_reading import NO_SECURITY, read_topic
from masscomm.kafka import dead_letters as headers
from masscomm.kafka.topics import DEAD_LETTER

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


@dataclass(frozen=True, kw_only=True)
class DeadLetter:
    """One record of the dead-letter topic. Fields that come from a header are empty if the header is absent."""

    position: str  # its own position, partition@offset
    dead_at: str  # time at which it was dead-lettered (ISO 8601, UTC)
    topic: str  # source topic; partition and offset: position there
    partition: str
    offset: str
    timestamp: str  # time of the original record (ISO 8601, UTC)
    reason: str
    error: str
    function: str
    replayed: str  # the dead letter that was replayed into this record, as `letter`; empty if none
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]

    @property
    def letter(self) -> str:
        """Its position with its topic, as in the header of a replayed record."""
        partition, _, offset = self.position.partition("@")
        return f"{DEAD_LETTER}-{partition}@{offset}"

    def as_dict(self) -> dict[str, Any]:
        """The fields as JSON values, with the size of the value instead of the bytes."""
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
    """Conditions on dead letters; None and an empty sequence match every letter."""

    positions: Sequence[str] = ()  # positions on the dead-letter topic, partition@offset
    topic: str | None = None  # source topic; partition and offset: position there
    reason: str | None = None
    function: str | None = None
    partition: int | None = None
    offset: int | None = None
    since: datetime | None = None  # first time of dead-lettering, inclusive
    until: datetime | None = None  # end of the dead-lettering times, exclusive

    @property
    def chooses(self) -> bool:
        """Whether it has any condition."""
        return self != Filter()

    def takes(self, letter: DeadLetter) -> bool:
        """Whether the letter meets every condition."""
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


def moment(text: str, now: datetime) -> datetime:
    """Parse a time: ISO 8601 (UTC without a zone), or an age: 90s, 15m, 2h, 7d.

    Raises:
        ValueError: It is neither.
    """
    if ago := re.fullmatch(r"(\d{1,9})([smhd])", text):
        try:
            return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        except OverflowError as error:
            raise ValueError(f"{text} is before the beginning of time") from error
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def read(message: Message) -> DeadLetter:
    """Read a dead letter from its message; an absent header becomes an empty string."""
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


def read_letters(
    bootstrap: str, wanted: Filter, *, topic: str = DEAD_LETTER, security: Mapping[str, Any] = NO_SECURITY
) -> Iterator[DeadLetter]:
    """The dead letters that meet the filter, by partition and age.

    Raises:
        KafkaException: The broker does not answer.
    """
    for message in read_topic(bootstrap, topic, security):
        letter = read(message)
        if wanted.takes(letter):
            yield letter


def _when(milliseconds: str) -> str:
    """A timestamp header as ISO 8601. A header may hold anything: a value that is not a time is returned unchanged."""
    try:
        return _iso(int(milliseconds))
    except (ValueError, OverflowError, OSError):
        return milliseconds


def _iso(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
