"""Events as Lambda passes them to functions, and a batch driver with in-memory adapters."""

import base64
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from masscomm.chain.batch import BatchDriver, UseCase
from masscomm.clock import FixedClock
from masscomm.domain.lanes import Lane
from masscomm.domain.records import (
    AvroRecord,
    BuildRequested,
    ContentColumn,
    DeliveryRequested,
    NotificationOutcome,
    RecheckRequested,
    SendRequested,
)
from masscomm.domain.statuses import TERMINAL
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec, InMemorySchemaRegistry, own_schema
from masscomm.kafka.denied_ids import DeniedIds
from masscomm.kafka.producer import InMemoryProducer

NOW = 1_700_000_000_000
SEND_ID = "8a6e0804-2bd0-4672-b79d-d97027f9071a"


@dataclass
class Context:
    """A Lambda context whose remaining time ends at the deadline."""

    clock: FixedClock = field(default_factory=lambda: FixedClock(NOW))
    seconds: float = 60.0

    def __post_init__(self) -> None:
        self._until = self.clock.monotonic() + self.seconds

    def get_remaining_time_in_millis(self) -> int:
        return round((self._until - self.clock.monotonic()) * 1000)


def entry(
    value: bytes | None,
    *,
    topic: str = topics.SEND_MONOLITH,
    partition: int = 0,
    offset: int = 0,
    timestamp: int = NOW,
    key: bytes | None = b"key",
    headers: Sequence[tuple[str, bytes]] = (),
) -> dict[str, Any]:
    """Return one record of an aws:kafka event; the value of a tombstone is absent."""
    document: dict[str, Any] = {
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "timestamp": timestamp,
        "timestampType": "CREATE_TIME",
        "headers": [{name: [byte - 256 if byte > 127 else byte for byte in text]} for name, text in headers],
    }
    if key is not None:
        document["key"] = base64.b64encode(key).decode()
    if value is not None:
        document["value"] = base64.b64encode(value).decode()
    return document


def event(*entries: Mapping[str, Any]) -> dict[str, Any]:
    records: dict[str, list[Mapping[str, Any]]] = {}
    for one in entries:
        records.setdefault(f"{one['topic']}-{one['partition']}", []).append(one)
    return {"eventSource": "aws:kafka", "bootstrapServers": "broker:9092", "records": records}


def failed_offsets(answer: Mapping[str, Any]) -> list[int]:
    return [failure["itemIdentifier"]["offset"] for failure in answer["batchItemFailures"]]


def registry_with_all_schemas() -> InMemorySchemaRegistry:
    registry = InMemorySchemaRegistry()
    for topic in topics.chain_topics():
        if topic.schema is not None:
            registry.register(topic.subject, own_schema(topic.schema))
    return registry


class Chain:
    """The environment of one function, with Kafka, registry and clock in memory."""

    def __init__(self) -> None:
        self.clock = FixedClock(NOW)
        self.registry = registry_with_all_schemas()
        self.codec = Codec(self.registry)
        self.producer = InMemoryProducer()
        self.driver = self._driver()

    def _driver(self) -> BatchDriver:
        return BatchDriver(
            function="under_test", codec=self.codec, producer=self.producer, denied_ids=DeniedIds(clock=self.clock)
        )

    def encoded(self, record: AvroRecord, topic: str, **place: Any) -> dict[str, Any]:
        """Return the event entry of one of masscomm's records."""
        value = self.codec.encode(topic, type(record).__name__, record.to_avro())
        return entry(value, topic=topic, **place)

    def run[T](self, use_case: UseCase[T], *entries: Mapping[str, Any], seconds: float = 60.0) -> list[int]:
        """Process a batch. Return the offsets to be redelivered."""
        return failed_offsets(self.driver.run(event(*entries), Context(self.clock, seconds), use_case))

    def values(self, topic: str, lane: Lane | None = None) -> list[bytes]:
        """Return the values that were produced to a topic, in one lane or in all lanes."""
        names = {topics.in_lane(topic, each) for each in Lane} if lane is None else {topics.in_lane(topic, lane)}
        return [value or b"" for name, _, value, _ in self.producer.produced if name in names]

    def produced(self) -> list[tuple[str, bytes | None, bytes | None]]:
        """Return (topic, key, value) of all produced records. Headers are omitted, because they name the attempt."""
        return [(topic, key, value) for topic, key, value, _ in self.producer.produced]

    def outcomes(self) -> list[NotificationOutcome]:
        return self._decoded(NotificationOutcome, topics.OUTCOME)

    def builds(self, lane: Lane | None = None) -> list[BuildRequested]:
        return self._decoded(BuildRequested, topics.BUILD, lane)

    def deliveries(self, lane: Lane | None = None) -> list[DeliveryRequested]:
        return self._decoded(DeliveryRequested, topics.DELIVERY, lane)

    def rechecks(self, lane: Lane | None = None) -> list[RecheckRequested]:
        return self._decoded(RecheckRequested, topics.RECHECK, lane)

    def dead_letters(self) -> list[dict[str, str]]:
        """Return the headers of the dead letters."""
        found = (headers for name, _, _, headers in self.producer.produced if name == topics.DEAD_LETTER)
        return [{name: text.decode() for name, text in headers} for headers in found]

    def limit(self, max_bytes: int) -> None:
        """Reject larger records on all topics from now on."""
        self.producer = InMemoryProducer(max_bytes=max_bytes)
        self.driver = self._driver()

    def forget(self) -> None:
        """Forget all produced records."""
        self.producer.produced.clear()

    def _decoded[R: AvroRecord](self, kind: type[R], topic: str, lane: Lane | None = None) -> list[R]:
        return [kind.from_avro(self.codec.decode(kind.__name__, value)) for value in self.values(topic, lane)]


def ends(outcomes: list[NotificationOutcome]) -> dict[tuple[int, str], Counter[str]]:
    """(position, channel) → its terminal statuses; as in the metrics, each outcome id counts once."""
    found: dict[tuple[int, str], Counter[str]] = {}
    for outcome in {each.record_id: each for each in reversed(outcomes)}.values():
        for position, place in zip(outcome.positions, outcome.result_index, strict=True):
            status = outcome.results[place].status
            if status in TERMINAL:
                found.setdefault((position, outcome.channel), Counter())[status] += 1
    return found


def results_of(outcomes: Iterable[NotificationOutcome]) -> dict[tuple[int, str], tuple[str, str | None]]:
    """Return (user, channel) → (status, reason) of outcomes. Fails if two of them differ about a notification."""
    found: dict[tuple[int, str], tuple[str, str | None]] = {}
    for outcome in outcomes:
        for user_id, place in zip(outcome.user_ids, outcome.result_index, strict=True):
            assert (user_id, outcome.channel) not in found
            found[user_id, outcome.channel] = (outcome.results[place].status, outcome.results[place].reason)
    return found


def send(to_users: Iterable[int], **values: Any) -> SendRequested:
    usual: dict[str, Any] = {"type": "news", "club_id": 7, "timestamp": NOW, "send_id": SEND_ID}
    return SendRequested(**usual | {"to_users": list(to_users)} | values)


def _part(user_ids: Iterable[int]) -> dict[str, Any]:
    """Return the fields that records about the users at positions 0, 1, … have in common."""
    users = list(user_ids)
    return {
        "send_id": SEND_ID,
        "chunk_index": 0,
        "range_start": 0,
        "range_end": 500,
        "club_id": 7,
        "type": "news",
        "timestamp": NOW,
        "positions": list(range(len(users))),
        "user_ids": users,
    }


def recheck(user_ids: Iterable[int], **values: Any) -> RecheckRequested:
    """Return a recheck record with the users at positions 0, 1, …"""
    usual: dict[str, Any] = {
        "record_id": "44444444-4444-5444-8444-444444444444",
        "parent_id": "22222222-2222-5222-8222-222222222222",
        "why": "send_at",
        "channels": ["push"],
    }
    return RecheckRequested(**_part(user_ids) | usual | values)


def build(user_ids: Iterable[int], **values: Any) -> BuildRequested:
    """Return a build record with the users at positions 0, 1, …"""
    usual: dict[str, Any] = {
        "record_id": "11111111-1111-5111-8111-111111111111",
        "parent_id": "22222222-2222-5222-8222-222222222222",
        "channel": "push",
    }
    return BuildRequested(**_part(user_ids) | usual | values)


def delivery(user_ids: Iterable[int], **values: Any) -> DeliveryRequested:
    """Return a delivery record with the users at positions 0, 1, … whose push message is Hello."""
    usual: dict[str, Any] = {
        "record_id": "33333333-3333-5333-8333-333333333333",
        "parent_id": "11111111-1111-5111-8111-111111111111",
        "built_at": NOW,
        "channel": "push",
        "addresses": [],
        "content": [
            ContentColumn(field="title", values=["Hello"], index=[]),
            ContentColumn(field="body", values=["There is news."], index=[]),
        ],
    }
    return DeliveryRequested(**_part(user_ids) | usual | values)
