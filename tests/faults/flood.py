"""Hostile records on every topic at the same time: each is counted or dead-lettered, and a good send is unaffected."""

import itertools
import random
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import psycopg
from confluent_kafka import Message, Producer

from cli.client_log import KAFKA_LOGGER
from functions.catalogue import read_catalogue
from masscomm.cdc.change_events import ChangeDecoder
from masscomm.errors import DeadLetter
from masscomm.kafka import topics
from masscomm.kafka.event import KafkaRecord
from spark_metrics.common.sources import SEND
from tests.support.fault_stack.bench import Bench
from tests.support.fault_stack.cell import FaultOf, Send
from tests.support.inputs.hostile_records import HostileRecord, hostile_records
from tests.support.until import until

_SCHEMAS = {topic.name: topic.schema for topic in topics.chain_topics()}
# Topics of which the job refuses the same records as the functions; of others it reads fewer fields.
_REFUSED_ALIKE = set(SEND.topics())


def flood(count: int, *, timeout_s: float) -> FaultOf:
    """Produce this many hostile records over all topics, then a good send."""

    def fault(bench: Bench, send: Send) -> None:
        written = _produce(bench, count)
        send()
        read = partial(bench.at_rest, _sources(bench.stack.generation))
        until("every record of the flood is read", read, timeout_s, every_s=1, progress=lambda: bench.unfinished)
        until(
            "every recipient has a terminal status", lambda: all(map(bench.ended, bench.sends)), timeout_s, every_s=0.5
        )
        until("every record after the flood is read", read, timeout_s, every_s=1)
        unreadable = {place for place, record in written.items() if _is_unreadable(bench, record)}
        letters = {f"{letter.topic}-{letter.partition}@{letter.offset}" for letter in bench.letters.all()}
        missing = sorted(unreadable - letters)
        assert missing == [], f"{len(missing)} of {len(written)} are neither handled nor dead letters: {missing[:5]}"
        refused = {place for place in unreadable if written[place].topic in _REFUSED_ALIKE}
        until("the job has quarantined each", lambda: refused <= _quarantined(bench), timeout_s, every_s=1)
        bench.accept_dead_letters()

    return fault


def _quarantined(bench: Bench) -> set[str]:
    """Return the positions of records that the metrics job cannot count."""
    with psycopg.connect(bench.stack.config.database_url("metrics")) as connection:
        places = connection.execute("SELECT topic, partition, kafka_offset FROM quarantine").fetchall()
    return {f"{topic}-{partition}@{offset}" for topic, partition, offset in places}


def _produce(bench: Bench, count: int) -> dict[str, HostileRecord]:
    """Produce the hostile records to the topics in turn. Returns the records by position."""
    generation = bench.stack.generation
    names = list(dict.fromkeys(itertools.chain.from_iterable(_sources(generation).values())))
    known = {topic.name: topic for topic in [*topics.chain_topics(), *topics.cdc_topics(generation)]}
    each = -(-count // len(names))
    floods = [_harmless(bench, _records(bench, name, 2 * each)) for name in names]
    chance = random.Random(count)  # noqa: S311
    written: dict[str, HostileRecord] = {}
    producer = Producer(
        {"bootstrap.servers": bench.stack.config.kafka_bootstrap, "linger.ms": 20, "logger": KAFKA_LOGGER}
    )

    def keep(record: HostileRecord, _: object, message: Message) -> None:
        written[f"{message.topic()}-{message.partition()}@{message.offset()}"] = record

    for record in itertools.islice(itertools.chain.from_iterable(zip(*floods, strict=False)), count):
        if record.key is None and known[record.topic].cleanup == "compact":
            record = replace(record, key=b"none")
        producer.produce(
            record.topic,
            record.value,
            record.key,
            partition=chance.randrange(known[record.topic].partitions),
            headers=list(record.headers),
            on_delivery=partial(keep, record),
        )
        producer.poll(0)
    assert producer.flush(60) == 0
    return written


def _sources(generation: str) -> dict[str, tuple[str, ...]]:
    return {
        entry.group: entry.event_source.topics
        for entry in read_catalogue(generation=generation)
        if entry.event_source is not None
    }


def _records(bench: Bench, topic: str, count: int) -> Iterator[HostileRecord]:
    generation = bench.stack.generation
    return hostile_records(topic, count, codec=bench.codec, generation=generation)


def _harmless(bench: Bench, records: Iterator[HostileRecord]) -> Iterator[HostileRecord]:
    """Leave out records that would change the values that a cell compares.

    Readable row changes would change the directory, readable outcomes the metrics. The dead letters of records with a
    source position have another position. tests/unit/test_hostile_records.py and the job's own tests use all records.
    """
    for record in records:
        if any(name.startswith("masscomm.source") for name, _ in record.headers or ()):
            continue
        compared = topics.base_of(record.topic) == topics.OUTCOME or record.topic.startswith("cdc.")
        if not compared or record.value is None or _is_unreadable(bench, record):
            yield record


def _is_unreadable(bench: Bench, record: HostileRecord) -> bool:
    schema = _SCHEMAS.get(record.topic)
    try:
        if schema is not None:
            bench.codec.decode(schema, record.value)
        elif record.topic.startswith("cdc."):
            ChangeDecoder(bench.stack.generation).decode(_as_read(record))
    except DeadLetter:
        return True
    return False


def _as_read(record: HostileRecord) -> KafkaRecord:
    return KafkaRecord(topic=record.topic, partition=0, offset=0, timestamp_ms=0, key=record.key, value=record.value)


def phones_change_hands(bench: Bench, _: Send) -> None:
    """Rows of old and new owners are in different partitions, so that two environments process them."""
    four = {"device_registrar": {"concurrency": 4}, "cdc_consumer": {"concurrency": 4}}
    with bench.stack.configured(four):
        have_devices = (0, 3, 5, 6, 7, 8, 9)
        old = [user_id for user_id in bench.population.grow(40) if user_id % 10 in have_devices]
        new = [user_id for user_id in bench.population.grow(40) if user_id % 10 in have_devices]
        pairs = list(zip(old, new, strict=False))
        bench.population.hand_over([giver for giver, _ in pairs], [taker for _, taker in pairs])
        bench.emit([*old, *new])
        bench.settle()
        _owners_log_out(bench)


def _owners_log_out(bench: Bench) -> None:
    """A user logs in on the phone of another one, whose row stays, and logs out: the other one gets pushes again."""
    one_phone = (0, 6, 7, 8, 9)
    earlier = [user_id for user_id in bench.population.grow(40) if user_id % 10 in one_phone]
    later = [user_id for user_id in bench.population.grow(40) if user_id % 10 in one_phone]
    bench.population.log_in(later, earlier)
    bench.kill("device_registrar")
    bench.population.await_tokens_of(later, not_of=earlier)
    bench.emit([*earlier, *later], refused_users=frozenset(earlier))
    bench.settle()
    half = len(later) // 2
    bench.population.log_out(later[:half], later[half:])
    bench.kill("device_registrar")
    bench.population.await_tokens_of(earlier, not_of=later)
    bench.emit([*earlier, *later])
    bench.settle()
