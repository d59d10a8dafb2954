"""Records of the metrics job's topics, for benchmarks: sends, deliveries and outcomes of slices of sends."""

import io
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import fastavro
from confluent_kafka import Producer

from local.devstack.config import StackConfig
from local.devstack.provision import create_topics
from local.devstack.stack import Stack
from masscomm.domain import ids
from masscomm.kafka.avro import own_schema
from masscomm.kafka.topics import chain_topics

SCHEMAS = {"send.api": "SendRequested", "delivery": "DeliveryRequested", "outcome": "NotificationOutcome"}
_MADE_AT_ONCE = 20_000
_REDELIVERED_ONE_IN = 10_000

# Topic and value.
type Made = tuple[str, bytes]


@dataclass(frozen=True, kw_only=True)
class Load:
    """The events of a measurement.

    Attributes:
        sends: The number of sends, whose events are produced in turns. If it equals `events`, each event is a send of
            its own.
        outcomes_only: Whether all events are outcomes and none is redelivered.
    """

    name: str
    events: int
    recipients: int = 3
    tenants: int = 20
    sends: int = 300
    outcomes_only: bool = False

    def topic(self, number: int) -> str:
        if self.outcomes_only:
            return "outcome"
        if self.sends >= self.events:
            return list(SCHEMAS)[number % 3]
        turn = number // self.sends
        return "send.api" if turn == 0 else "delivery" if turn % 2 else "outcome"


def event(load: Load, topic: str, rng: random.Random, number: int, at_ms: int) -> dict[str, Any]:
    """Return the value of the event with this number."""
    turn, send = divmod(number, load.sends)
    place = (turn if load.outcomes_only else max(0, turn - 1) // 2) * load.recipients
    send_id = ids.chunk_id(load.name, send)
    first, end = place % 10_000, place % 10_000 + load.recipients
    shared = {
        "send_id": send_id,
        "club_id": send % load.tenants,
        "type": ("news", "newsletter", "security_alert")[send % 3],
        "timestamp": at_ms - rng.randrange(600_000),
        "chunk_index": place // 10_000,
    }
    if topic == "send.api":
        return shared | {"to_users": list(range(load.recipients)), "channels": ["push"]}
    shared |= {
        "parent_id": send_id,
        "range_start": first,
        "range_end": end,
        "channel": "push",
        "positions": list(range(first, end)),
        "user_ids": list(range(load.recipients)),
    }
    if topic == "delivery":
        record_id = ids.derived_id(send_id, "delivery", "push", place, place + load.recipients)
        return shared | {"record_id": record_id, "built_at": shared["timestamp"], "content": []}
    return shared | {
        "record_id": ids.derived_id(send_id, "outcome.delivery", "push", place, place + load.recipients),
        "step": "delivery",
        "requested_at": at_ms,
        "results": [{"status": "sent", "reason": None, "count": load.recipients}],
        "result_index": [0] * load.recipients,
    }


@cache
def _schema(topic: str) -> Any:
    return fastavro.parse_schema(dict(own_schema(SCHEMAS[topic])))


def encoded(topic: str, schema_id: int, value: dict[str, Any]) -> bytes:
    """Return a value in the Confluent wire format."""
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, _schema(topic), value)
    return b"\0" + schema_id.to_bytes(4, "big") + buffer.getvalue()


def records_of(load: Load, schema_ids: dict[str, int]) -> Iterator[list[Made]]:
    """Yield the events of a load in lists. One in 10,000 is repeated.

    Args:
        schema_ids: The schema id of each subject.
    """
    made = partial(_made_from, load, schema_ids, int(time.time() * 1000))
    with get_context("spawn").Pool() as pool:
        yield from pool.imap(made, range(0, load.events, _MADE_AT_ONCE))


def _made_from(load: Load, schema_ids: dict[str, int], at_ms: int, begin: int) -> list[Made]:
    rng = random.Random(begin)
    made = []
    for number in range(begin, min(begin + _MADE_AT_ONCE, load.events)):
        topic = load.topic(number)
        made.append((topic, encoded(topic, schema_ids[f"{topic}-value"], event(load, topic, rng, number, at_ms))))
    return made if load.outcomes_only else made + made[::_REDELIVERED_ONE_IN]


@contextmanager
def metrics_servers() -> Iterator[tuple[StackConfig, Path]]:
    """Start a broker with all topics, a registry and a database for the block. Yield their configuration, and a folder
    for files.
    """
    with tempfile.TemporaryDirectory() as folder:
        stack = StackConfig.on_free_ports(Path(folder))
        with Stack(stack, ["kafka", "registry", "postgres"]):
            create_topics(stack.kafka_bootstrap, chain_topics())
            yield stack, Path(folder)


def notifications(load: Load) -> Counter[str]:
    """Return the sum of the counts of a load, by topic."""
    topics = Counter(load.topic(number) for number in range(load.events))
    return Counter({topic: n * load.recipients for topic, n in topics.items()})


def produce(config: StackConfig, lists: Iterable[list[Made]]) -> None:
    """Produce the records, compressed as the functions do (masscomm.kafka.producer)."""
    producer = Producer(
        {
            "bootstrap.servers": config.kafka_bootstrap,
            "compression.type": "lz4",
            "linger.ms": 50,
            "queue.buffering.max.messages": 10**6,
        }
    )
    number = 0
    for records in lists:
        for topic, value in records:
            producer.produce(topic, value, key=number.to_bytes(8, "big"))
            number += 1
        producer.poll(0.5 if len(producer) > 500_000 else 0)
    assert producer.flush(60) == 0
