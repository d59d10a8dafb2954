"""Reads the topics independently of the functions: new outcomes, dead letters, and a plain count of all records."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from confluent_kafka import Consumer, IsolationLevel, KafkaException, Message, TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from cli.client_log import KAFKA_LOGGER
from masscomm.domain.categories import resolve_channels
from masscomm.domain.ids import notification_id, send_id_of_record
from masscomm.domain.statuses import Status
from masscomm.errors import DeadLetter, Retry
from masscomm.kafka import dead_letters, topics
from masscomm.kafka.admin import KafkaAdmin
from masscomm.kafka.avro import Codec, HttpSchemaRegistry
from masscomm.kafka.offsets import topic_offsets

TIMEOUT_S = 10.0
MINUTE_MS = 60_000

_EARLIEST = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]

# The time-out of one request for end offsets, and the pause before the next request, in seconds.
_ASK_S, _PAUSE_S = 3.0, 0.1

# The key of a row of the metrics by minute: (minute in ms since the epoch, club_id, type, channel, measure).
type Key = tuple[int, int, str, str, str]


class RecordsError(Exception):
    """Kafka did not respond, or a record that should be valid cannot be decoded."""


@dataclass(frozen=True)
class DeadLettered:
    """A dead letter: the original bytes, their position, and the reason."""

    value: bytes
    topic: str
    partition: int
    offset: int
    reason: str
    error: str
    function: str


class TopicReader:
    """Reads topics without a consumer group: all partitions, from their beginning or from their current end."""

    def __init__(self, bootstrap: str, names: Sequence[str], *, from_beginning: bool) -> None:
        """Find the partitions and their offsets. Raises RecordsError."""
        client: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "broker.address.family": "v4",
            "logger": KAFKA_LOGGER,
        }
        # End offsets are requested on a separate connection, because long polls delay requests on the consumer's
        # connection.
        self._admin = KafkaAdmin(client)
        self._consumer = Consumer(
            client
            | {
                "group.id": "masscomm.demo",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 20,
            }
        )
        partitions = [partition for name in names for partition in self._partitions(name)]
        self._position = self._offsets(partitions, _EARLIEST if from_beginning else _LATEST)
        self._consumer.assign([TopicPartition(*partition, offset) for partition, offset in self._position.items()])

    def close(self) -> None:
        self._admin.close()
        self._consumer.close()

    def poll(self) -> Iterator[Message]:
        """Return the records that are in the topics at this moment and were not read before. Raises RecordsError."""
        ends = self._offsets(list(self._position), _LATEST)
        remaining = {partition for partition, end in ends.items() if self._position[partition] < end}
        while remaining:
            # Messages are read one at a time, because a call for several messages waits until it has all of them.
            message = self._consumer.poll(TIMEOUT_S)
            if message is None:
                raise RecordsError(f"Kafka returned no record in {TIMEOUT_S:.0f} s although more records exist")
            if (error := message.error()) is not None:
                raise RecordsError(str(error))
            partition = (str(message.topic()), int(message.partition() or 0))
            self._position[partition] = int(message.offset() or 0) + 1
            if self._position[partition] >= ends[partition]:
                remaining.discard(partition)
            yield message

    def _partitions(self, name: str) -> list[tuple[str, int]]:
        try:
            found = self._admin.client().list_topics(name, TIMEOUT_S).topics[name]
        except KafkaException as error:
            raise RecordsError(f"topic {name}: {error}") from error
        if found.error is not None:
            raise RecordsError(f"topic {name}: {found.error}")
        return [(name, partition) for partition in found.partitions]

    def _offsets(self, partitions: Sequence[tuple[str, int]], which: OffsetSpec) -> dict[tuple[str, int], int]:
        until = time.monotonic() + TIMEOUT_S
        asked = [TopicPartition(*partition) for partition in partitions]
        while True:
            try:
                return topic_offsets(
                    self._admin.client(), asked, which, timeout_s=_ASK_S, isolation_level=IsolationLevel.READ_COMMITTED
                )
            except Retry as error:
                self._admin.close()
                if time.monotonic() > until:
                    raise RecordsError(str(error)) from error
            time.sleep(_PAUSE_S)


class OutcomeTail:
    """Reads outcomes from now on, by send."""

    def __init__(self, bootstrap: str, registry_url: str) -> None:
        self._reader = TopicReader(bootstrap, [topics.OUTCOME], from_beginning=False)
        self._codec = Codec(HttpSchemaRegistry(registry_url))
        self._by_send: dict[str, list[dict[str, Any]]] = {}

    def close(self) -> None:
        self._reader.close()

    def of(self, send_id: str) -> list[dict[str, Any]]:
        """Return the outcome records of a send so far (schemas/NotificationOutcome.avsc); a record that was produced
        twice occurs twice.
        """
        for message in self._reader.poll():
            try:
                outcome = self._codec.decode("NotificationOutcome", message.value())
            except DeadLetter:
                # Any client may write to the topic, so a record that is not a valid outcome is skipped.
                continue
            self._by_send.setdefault(outcome["send_id"], []).append(outcome)
        return self._by_send.get(send_id, [])

    def accounted(self, send_id: str) -> int:
        """Return the distinct notifications of a send that have an outcome."""
        return len({(user_id, record["channel"]) for record in self.of(send_id) for user_id in record["user_ids"]})

    def rules(self, send_id: str, status: str) -> dict[int, str]:
        """Return user → the rule of the outcomes of a send with a status."""
        return {
            user_id: record["results"][place]["rule"]
            for record in self.of(send_id)
            for user_id, place in zip(record["user_ids"], record["result_index"], strict=True)
            if record["results"][place]["status"] == status
        }


class Published(NamedTuple):
    """The publishing of a notification."""

    # In ms since the epoch.
    at_ms: int
    user_id: int


class PublishTimes:
    """Reads from the outcomes when notifications were published. LocalStack stores no time with a push.

    Args:
        user_ids: The users whose notifications are read; None for those of all users.
    """

    def __init__(self, bootstrap: str, registry_url: str, user_ids: Iterable[int] | None) -> None:
        self._reader = TopicReader(bootstrap, [topics.OUTCOME], from_beginning=True)
        self._codec = Codec(HttpSchemaRegistry(registry_url))
        self._user_ids = None if user_ids is None else frozenset(user_ids)
        self._found: dict[str, Published] = {}

    def close(self) -> None:
        self._reader.close()

    def all(self) -> Mapping[str, Published]:
        """Return the notifications that were published so far, by their ids. Raises RecordsError."""
        for message in self._reader.poll():
            try:
                outcome = self._codec.decode("NotificationOutcome", message.value())
            except DeadLetter:
                # Any client may write to the topic, so a record that is not a valid outcome is skipped.
                continue
            for user_id, index in zip(outcome["user_ids"], outcome["result_index"], strict=True):
                wanted = self._user_ids is None or user_id in self._user_ids
                if wanted and outcome["results"][index]["status"] == Status.SENT:
                    known = notification_id(outcome["send_id"], user_id, outcome["channel"])
                    self._found.setdefault(known, Published(outcome["timestamp"], user_id))
        return self._found


class DeadLetterTail:
    """Reads dead letters from now on."""

    def __init__(self, bootstrap: str) -> None:
        self._reader = TopicReader(bootstrap, [topics.DEAD_LETTER], from_beginning=False)
        self._found: list[DeadLettered] = []

    def close(self) -> None:
        self._reader.close()

    def all(self) -> list[DeadLettered]:
        """Return every dead letter since this object was created."""
        for message in self._reader.poll():
            headers = dict(_headers(message))
            self._found.append(
                DeadLettered(
                    value=message.value() or b"",
                    topic=headers[dead_letters.SOURCE_TOPIC],
                    partition=int(headers[dead_letters.SOURCE_PARTITION]),
                    offset=int(headers[dead_letters.SOURCE_OFFSET]),
                    reason=headers[dead_letters.REASON],
                    error=headers[dead_letters.ERROR],
                    function=headers[dead_letters.FUNCTION],
                )
            )
        return self._found


def _headers(message: Message) -> Iterator[tuple[str, str]]:
    for name, value in cast(list[tuple[str, bytes | None]], message.headers() or []):
        yield name, (value or b"").decode(errors="replace")


class RecordCount:
    """Counts the records of the topics: the expected metrics by minute and by send.

    A record that is in its topic twice, because it was produced again after a crash, counts once, by its id. Records
    that cannot be decoded are not counted.
    """

    def __init__(self, bootstrap: str, registry_url: str) -> None:
        self._codec = Codec(HttpSchemaRegistry(registry_url))
        self._schema_of = {
            topic.name: topic.schema
            for topic in topics.chain_topics()
            if topic.schema in ("SendRequested", "DeliveryRequested", "NotificationOutcome")
        }
        self._reader = TopicReader(bootstrap, list(self._schema_of), from_beginning=True)
        self._seen: set[tuple[Any, ...]] = set()
        self.by_send: dict[str, Counter[Key]] = {}

    def close(self) -> None:
        self._reader.close()

    def update(self) -> Counter[Key]:
        """Return the count of all records so far. Raises RecordsError."""
        for message in self._reader.poll():
            schema = self._schema_of[str(message.topic())]
            try:
                record = self._codec.decode(str(schema), message.value())
            except DeadLetter:
                continue
            self._count(str(schema), message, record)
        total: Counter[Key] = Counter()
        for counts in self.by_send.values():
            total.update(counts)
        return total

    def _count(self, schema: str, message: Message, record: dict[str, Any]) -> None:
        if schema == "SendRequested":
            send_id = record["send_id"] or send_id_of_record(
                str(message.topic()), int(message.partition() or 0), int(message.offset() or 0), message.timestamp()[1]
            )
            distinct = len(set(record["to_users"]))
            repeated = len(record["to_users"]) - distinct
            identity: tuple[Any, ...] = (schema, send_id, record["chunk_index"])
            at = record["timestamp"]
            counted = [
                (channel, measure, count)
                for channel in resolve_channels(record["type"], record["channels"], record["club_id"], at)
                for measure, count in (("requested", distinct), ("duplicate", repeated))
            ]
        elif schema == "DeliveryRequested":
            send_id, identity, at = record["send_id"], (schema, record["record_id"]), record["built_at"]
            counted = [(record["channel"], "queued", len(record["positions"]))]
        else:
            send_id, identity, at = record["send_id"], (schema, record["record_id"]), record["timestamp"]
            counted = [(record["channel"], result["status"], result["count"]) for result in record["results"]]
        if identity in self._seen:
            return
        self._seen.add(identity)
        counts = self.by_send.setdefault(send_id, Counter())
        for channel, measure, count in counted:
            if count:
                counts[at // MINUTE_MS * MINUTE_MS, record["club_id"], record["type"], channel, measure] += count
