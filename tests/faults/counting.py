"""Faults of the metrics job: schemas that come late, wrong times, a second driver, a topic that is made again, and dead
letters that are replayed.
"""

import json
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from uuid import uuid4

import httpx
import psutil
import psycopg
from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient

from cli.client_log import KAFKA_LOGGER
from local.devstack.config import ROOT
from local.devstack.process import MARKER
from local.devstack.provision import create_topics
from local.devstack.service import base_environment
from masscomm.domain.lanes import Lane
from masscomm.domain.records import SendRequested
from masscomm.domain.time_limits import REPLAYED_WITHIN_S, TOO_OLD_S
from masscomm.errors import DeadLetter
from masscomm.kafka import topics
from masscomm.kafka.avro import own_schema
from masscomm.kafka.dead_letters import dead_letter_headers
from masscomm.kafka.event import KafkaRecord
from masscomm.operations.dead_letters import Filter, read_letters
from tests.support.fault_stack.bench import Bench, Sent
from tests.support.fault_stack.cell import Send
from tests.support.fault_stack.population import CATEGORIES, CLUB
from tests.support.until import until

HOUR_S = 3_600
_RECREATED = topics.in_lane(topics.SEND_MONOLITH, Lane.CRITICAL)

type Place = tuple[str, int, int]


def schema_is_late(bench: Bench, send: Send) -> None:
    """The registry gets the schema of a send after the job has read it, among records of ids that it never gets.

    The scheduler is frozen, so that the chain delivers the send later; the job is killed between the two.
    """
    with _frozen_scheduler(bench):
        coming = _coming_schema_id(bench)
        foreign = (coming + 10_000, coming + 10_001)
        sent = bench.expect_send(_new_send_id(bench), bench.shared[:60])
        unknown = [b"\0" + schema_id.to_bytes(4, "big") + b"any" for schema_id in foreign]
        values = [unknown[0], _value(bench, sent, schema_id=coming), unknown[1]]
        places = list(map(_place, bench.produce(topics.SEND_MONOLITH, values, partition=0)))
        send()
        until("each is quarantined", lambda: _reasons(bench, places) == ["unknown_schema"] * 3, every_s=0.1)
        bench.await_requested(bench.sends[1])
        for schema_id in foreign:
            assert _log(bench).count(f"schema {schema_id} cannot be used") == 1
        bench.stack.stack.kill("spark")
        assert _register(bench) == coming
    bench.stack.stack.restart("spark")
    expected = ["unknown_schema", "late_schema", "unknown_schema"]
    until("the job produces it again", lambda: _reasons(bench, places) == expected, every_s=0.1)
    bench.settle()
    lost = {f"{topic}-{partition}@{offset}" for topic, partition, offset in (places[0], places[2])}
    until("foreign records are dead-lettered", lambda: lost <= _dead_lettered(bench), every_s=0.1)
    # A slow function may have dead-lettered the late one, too.
    bench.accept_dead_letters()


def category_changes(bench: Bench, send: Send) -> None:
    """The channels of a category change while the job is down, between two sends by Kafka that name none."""
    bench.stack.stack.kill("spark")
    name = f"offers-{_new_send_id(bench)}"
    valid_from_ms = put_category(bench, name, channels=["email"])
    users = bench.shared[:60]
    # Until then, the category is unlisted, and has the channels of such a one.
    bench.emit(users, channel="push", category=name, template=CATEGORIES["push"])
    send()
    until("the version is valid", lambda: time.time_ns() // 1_000_000 >= valid_from_ms, 120)
    bench.emit(users, channel="email", category=name, template=CATEGORIES["email"])
    until("the chain has sent both", lambda: all(map(bench.ended, bench.sends)), bench.timeout_s)
    bench.stack.stack.restart("spark")


def put_category(bench: Bench, name: str, **fields: Any) -> int:
    """Put a category; return the time from which it is valid, in milliseconds since the epoch."""
    config = bench.stack.config
    url, key = f"{config.gateway_url}/v1/categories/{name}", {"x-api-key": config.api_key}
    answer = httpx.put(url, json=fields, headers=key, timeout=60, trust_env=False)
    valid_from = answer.raise_for_status().json()["versions"][0]["valid_from"]
    return round(datetime.fromisoformat(valid_from).timestamp() * 1000)


def letters_are_replayed(bench: Bench, send: Send) -> None:
    """A letter whose ids may be forgotten is not replayed; one that the job has produced again, too, counts once."""
    now_ms = time.time_ns() // 1_000_000
    coming = _coming_schema_id(bench)
    sent = bench.expect_send(_new_send_id(bench), bench.shared[:60])
    old = _letter(bench, now_ms - (REPLAYED_WITHIN_S + HOUR_S) * 1_000)
    (message,) = bench.produce(topics.SEND_MONOLITH, [_value(bench, sent, schema_id=coming)], partition=0)
    late = _place(message)
    send()
    letters = {f"{topic}-{partition}@{offset}" for topic, partition, offset in (old, late)}
    until("both are dead-lettered", lambda: letters <= _dead_lettered(bench), every_s=0.1)
    until("it is quarantined", lambda: _reasons(bench, [late]) == ["unknown_schema"], every_s=0.1)
    before = bench.records(topics.SEND_MONOLITH)
    refused = _replay(bench, old)
    assert refused.status_code == httpx.codes.CONFLICT, refused.text
    assert bench.records(topics.SEND_MONOLITH) == before, "a forgotten record was produced again"
    assert _register(bench) == coming
    _replay(bench, late).raise_for_status()
    until("the job produces it again, too", lambda: _reasons(bench, [late]) == ["late_schema"], every_s=0.1)
    bench.settle()
    bench.accept_dead_letters()


def times_are_wrong(bench: Bench, send: Send) -> None:
    """Sends of a wrong year, or dated ahead of their records, are neither delivered nor counted."""
    now_ms = time.time_ns() // 1_000_000
    times = (now_ms - (TOO_OLD_S + HOUR_S) * 1_000, now_ms + 2 * HOUR_S * 1_000, now_ms // 1_000)
    sends = [Sent(_new_send_id(bench) + str(number), {}, {}) for number in range(len(times))]
    users = bench.shared[:20]
    values = [_value(bench, sent, users=users, timestamp=at) for sent, at in zip(sends, times, strict=True)]
    places = list(map(_place, bench.produce(topics.SEND_MONOLITH, values, partition=0)))
    send()
    expected = ["too_old", "far_future", "bad_timestamp"]
    until("each is quarantined", lambda: _reasons(bench, places) == expected, every_s=0.1)
    bench.settle()
    assert [bench.api.status(sent.send_id) for sent in sends] == [None] * len(sends)


def driver_is_replaced(bench: Bench, send: Send) -> None:
    """A driver hangs while another one takes the stream over; when it goes on, it ends and has written nothing."""
    old = _job_processes(bench)
    _signal(old, signal.SIGSTOP)
    try:
        epoch = _status(bench, "epoch")
        with _second_driver(bench):
            until("it has the stream", lambda: _status(bench, "epoch") > epoch, 180, every_s=0.2)
            until("it counts", lambda: _status(bench, "state") == "running", 180, every_s=0.2)
            # No record is produced meanwhile: a batch would end the first driver, too.
            _signal(old, signal.SIGCONT)
            until("the first driver has ended", lambda: not any(map(_runs, old)), 120, every_s=0.2)
            assert "another driver has taken the stream over" in _log(bench)
            assert _status(bench, "epoch") == epoch + 1
            send()
            bench.settle()
            bench.await_requested(bench.sends[0])
    finally:
        _signal(old, signal.SIGCONT)
        bench.stack.stack.kill("spark")
        bench.stack.stack.restart("spark")


def topic_is_made_again(bench: Bench, send: Send) -> None:
    """The job ends when a topic that it counts is deleted and made again, before it counts another record."""
    bench.emit(bench.shared[:20], critical=True)
    bench.settle()
    bench.await_requested(bench.sends[0])
    old = _job_processes(bench)
    wanted = [topic for topic in topics.chain_topics() if topic.name == _RECREATED]
    try:
        with AdminClient({"bootstrap.servers": bench.stack.config.kafka_bootstrap}) as admin:
            admin.delete_topics([_RECREATED], operation_timeout=10)[_RECREATED].result(20)
        create_topics(bench.stack.config.kafka_bootstrap, wanted)
        until("the job has ended", lambda: not any(map(_runs, old)), every_s=0.1)
        assert f"{_RECREATED} was deleted and made again" in _log(bench)
    finally:
        bench.stack.stack.kill("spark")
        _forget(bench, _RECREATED)
        bench.stack.stack.restart("spark")
        bench.stack.reconfigure({})
    bench.emit(bench.shared[20:40], critical=True)
    send()


def _forget(bench: Bench, topic: str) -> None:
    """Delete what the metrics database knows of a topic, so that the job counts it from its beginning."""
    with psycopg.connect(bench.stack.config.database_url("metrics")) as connection:
        for table in ("stream_topics", "stream_offsets", "lane_offsets"):
            connection.execute(f"delete from {table} where topic = %s", [topic])  # noqa: S608 - our own names


# --- records ---


def _new_send_id(bench: Bench) -> str:
    return f"{time.time_ns():x}-{len(bench.sends)}"


def _value(
    bench: Bench,
    sent: Sent,
    *,
    users: Sequence[int] | None = None,
    schema_id: int | None = None,
    timestamp: int | None = None,
) -> bytes:
    """Return a send in the wire format, with the id of another schema than the registered one if it is given."""
    send = SendRequested(
        type=CATEGORIES[sent.channel],
        club_id=CLUB,
        timestamp=time.time_ns() // 1_000_000 if timestamp is None else timestamp,
        to_users=list(sent.fates) if users is None else list(users),
        send_id=sent.send_id,
    )
    value = bench.codec.encode(topics.SEND_MONOLITH, "SendRequested", send.to_avro())
    return value if schema_id is None else b"\0" + schema_id.to_bytes(4, "big") + value[5:]


def _place(message: Message) -> Place:
    return message.topic() or "", message.partition() or 0, message.offset() or 0


def _letter(bench: Bench, timestamp_ms: int) -> Place:
    """Produce the dead letter of a send of an earlier time, and return the position of the send."""
    sent = Sent(_new_send_id(bench), {}, {})
    place = topics.SEND_MONOLITH, 1, 10**9
    record = KafkaRecord(*place, timestamp_ms, None, _value(bench, sent, users=bench.shared[:20]))
    headers = dead_letter_headers(record, DeadLetter("crashes", "repaired since"), "preference_checker")
    producer = Producer({"bootstrap.servers": bench.stack.config.kafka_bootstrap}, logger=KAFKA_LOGGER)
    producer.produce(topics.DEAD_LETTER, record.value, headers=list(headers))
    assert producer.flush(20) == 0
    return place


def _dead_lettered(bench: Bench) -> set[str]:
    return {f"{letter.topic}-{letter.partition}@{letter.offset}" for letter in bench.letters.all()}


def _replay(bench: Bench, place: Place) -> httpx.Response:
    topic, partition, offset = place
    config = bench.stack.config
    letter = next(read_letters(config.kafka_bootstrap, Filter(topic=topic, partition=partition, offset=offset)))
    url = f"{config.gateway_url}/v1/dead-letters/{letter.position}/replay"
    return httpx.post(url, headers={"x-api-key": config.api_key}, timeout=60, trust_env=False)


# --- the registry ---


def _coming_schema_id(bench: Bench) -> int:
    """Return the id that the registry gives to the next schema."""
    first, second = _register(bench), _register(bench)
    return 2 * second - first


def _register(bench: Bench) -> int:
    """Register a new schema that reads as SendRequested does, and return its id."""
    schema = own_schema("SendRequested") | {"doc": uuid4().hex}
    url = f"{bench.stack.config.registry_url}/subjects/cell.{uuid4()}-value/versions"
    answer = httpx.post(url, json={"schema": json.dumps(schema)}, trust_env=False).raise_for_status()
    return int(answer.json()["id"])


@contextmanager
def _frozen_scheduler(bench: Bench) -> Iterator[None]:
    bench.freeze("scheduler")
    try:
        yield
    finally:
        bench.thaw("scheduler")


# --- the job ---


def _reasons(bench: Bench, places: Sequence[Place]) -> list[str | None]:
    """Return the reason why each position is not counted; None if it is."""
    with psycopg.connect(bench.stack.config.database_url("metrics")) as connection:
        rows = connection.execute("select topic, partition, kafka_offset, reason from quarantine").fetchall()
    found = {(topic, partition, offset): reason for topic, partition, offset, reason in rows}
    return [found.get(place) for place in places]


def _status(bench: Bench, column: str) -> Any:
    with psycopg.connect(bench.stack.config.database_url("metrics")) as connection:
        row = connection.execute("select to_jsonb(s) from stream_status as s").fetchone()
    return row and row[0][column]


def _log(bench: Bench) -> str:
    return bench.stack.config.log("spark").read_text(errors="replace")


def _job_processes(bench: Bench) -> list[psutil.Process]:
    process = psutil.Process(bench.stack.stack.pid("spark"))
    return [process, *process.children(recursive=True)]


@contextmanager
def _second_driver(bench: Bench) -> Iterator[None]:
    """Run a further process of the job until the block ends."""
    service = bench.stack.stack.known["spark"]
    state_dir = bench.stack.config.state_dir
    ready = str(state_dir / "second-driver-ready")
    with bench.stack.config.log("spark_second").open("wb") as log:
        process = subprocess.Popen(
            service.command,
            env={**base_environment(), **service.environment, MARKER: str(state_dir), "SPARK_READY_FILE": ready},
            cwd=ROOT,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield
    finally:
        _signal([psutil.Process(process.pid)], signal.SIGKILL)
        process.wait()


def _signal(processes: Sequence[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        for each in [process, *_children(process)]:
            if _runs(each):
                each.send_signal(number)


def _children(process: psutil.Process) -> list[psutil.Process]:
    return process.children(recursive=True) if _runs(process) else []


def _runs(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
