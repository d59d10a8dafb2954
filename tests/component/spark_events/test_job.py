"""The job makes events of the organisation's own topics, with real servers and Spark."""

import json
import random
from collections import defaultdict
from collections.abc import Iterator

import pytest

from masscomm.kafka.dead_letters import REASON
from spark_events.record_mapping import event_id
from tests.support.spark.events_job import EventsBench, events_bench, ids_of
from tests.support.spark.metrics_job import WAIT_S, JobProcess, wait_until

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EventsBench]:
    """Servers of these tests alone, because the job produces to topics by their real names."""
    with events_bench(tmp_path_factory.mktemp("events")) as bench:
        yield bench


@pytest.fixture
def bench(servers: EventsBench) -> Iterator[EventsBench]:
    yield servers
    servers.kill_jobs()


def await_committed(bench: EventsBench, topic: str, offset: int, job: JobProcess) -> None:
    wait_until("the commit", lambda: bench.committed(topic) == offset, job)


@pytest.mark.guarantee("own_topics.at_least_once")
def test_new_topic_is_read_without_a_restart(bench: EventsBench) -> None:
    job = bench.start()
    # The second topic is created when the job has read the first one.
    for topic in ("orders.first", "orders.second"):
        topic_id = bench.create(topic)
        for partition in (0, 1):
            bench.orders(topic, 10, partition=partition)
        for partition in (0, 1):
            bench.await_events(topic_id, 10, job, partition=partition)
        assert len(bench.event_ids(topic_id)) == 20
    bench.stop(job)
    topic_id = bench.create("orders.third")
    bench.orders("orders.third", 5)
    bench.await_events(topic_id, 5, bench.start())


@pytest.mark.guarantee("own_topics.at_least_once")
def test_killed_job_misses_no_offset(bench: EventsBench) -> None:
    """Repetitions of a record have the id and the content of the first event."""
    topic_id, count, first = bench.create("orders.killed"), 1_500, 0
    chance = random.Random(7)  # noqa: S311
    for _ in range(4):
        bench.orders("orders.killed", count, first=first)
        first += count
        job = bench.start(SPARK_MAX_OFFSETS_PER_TRIGGER="100")
        bench.await_more_events(topic_id, chance.randrange(1, count // 2), job)
        job.kill()
    bench.await_events(topic_id, first, bench.start())
    contents = defaultdict(set)
    for each, value in bench.events(topic_id):
        contents[each].add(value)
    assert contents.keys() == ids_of(topic_id, first)
    assert {len(values) for values in contents.values()} == {1}
    assert bench.letters("orders.killed") == []


@pytest.mark.guarantee("own_topics.at_least_once")
def test_available_now_runs_read_each_offset_and_end(bench: EventsBench) -> None:
    """One run is killed; records that are produced during a run are read by it or by the next one."""
    topic_id, count = bench.create("orders.runs"), 500
    bench.orders("orders.runs", count)
    killed = bench.start("--available-now", SPARK_MAX_OFFSETS_PER_TRIGGER="50")
    bench.await_more_events(topic_id, 1, killed)
    killed.kill()
    running = bench.start("--available-now", SPARK_MAX_OFFSETS_PER_TRIGGER="50")
    bench.await_more_events(topic_id, 1, running)
    bench.orders("orders.runs", count, first=count)
    assert running.process.wait(WAIT_S) == 0
    for _ in range(2):  # The last run has nothing to read.
        assert bench.start("--available-now").process.wait(WAIT_S) == 0
        assert bench.committed("orders.runs") == 2 * count
    assert set(bench.event_ids(topic_id)) == ids_of(topic_id, 2 * count)


def test_uncommitted_batch_is_repeated_with_equal_ids(bench: EventsBench) -> None:
    """A kill between the events of a batch and their commit leaves the offsets of the batch before."""
    topic_id = bench.create("orders.again")
    bench.orders("orders.again", 10)
    job = bench.start()
    await_committed(bench, "orders.again", 10, job)
    bench.stop(job)
    bench.reset("orders.again", 4)
    job = bench.start()
    bench.await_more_events(topic_id, 6, job)
    await_committed(bench, "orders.again", 10, job)
    repeated = ids_of(topic_id, 10) - ids_of(topic_id, 4)
    assert sorted(bench.event_ids(topic_id)) == sorted([*ids_of(topic_id, 10), *repeated])


@pytest.mark.kills(guard="own_topics.recreated_topic")
@pytest.mark.parametrize("runs", [True, False], ids=["running", "stopped"])
def test_recreated_topic_is_read_from_its_beginning(runs: bool, bench: EventsBench) -> None:
    """The new topic is longer than the old one was, so that offsets do not reveal it."""
    topic = f"orders.{'same' if runs else 'other'}"
    # A long time between two batches, so that Spark sees only the second topic.
    job = bench.start(SPARK_TRIGGER_MS="8000")
    before = bench.create(topic, partitions=1)
    bench.orders(topic, 3)
    bench.await_events(before, 3, job)
    await_committed(bench, topic, 3, job)
    if not runs:
        bench.stop(job)
    bench.delete(topic)
    now = bench.create(topic, partitions=1)
    assert now != before
    bench.orders(topic, 9)
    if not runs:
        job = bench.start()
    await_committed(bench, topic, 9, job)
    assert set(bench.event_ids(now)) == ids_of(now, 9)
    assert set(bench.event_ids(before)) == ids_of(before, 3)


@pytest.mark.guarantee("own_topics.bad_record_stops_nothing")
def test_deleted_topic_stops_nothing(bench: EventsBench) -> None:
    gone, stays = bench.create("orders.gone"), bench.create("orders.stays")
    job = bench.start()
    for topic, topic_id in {"orders.gone": gone, "orders.stays": stays}.items():
        bench.orders(topic, 3)
        bench.await_events(topic_id, 3, job)
    bench.delete("orders.gone")
    bench.orders("orders.stays", 3, first=3)
    bench.await_events(stays, 6, job)


@pytest.mark.guarantee("own_topics.bad_record_stops_nothing")
def test_hostile_records_stop_nothing(bench: EventsBench) -> None:
    chance = random.Random(11)  # noqa: S311
    topic_id = bench.create("orders.hostile", config={"max.message.bytes": "8000000"})
    hostile: list[bytes | None] = [chance.randbytes(chance.randrange(200)) for _ in range(200)]
    hostile += [None, b"", b"[" * 100_000, b"x" * 6_000_000, json.dumps({"number": "x" * 70_000}).encode()]
    bench.produce("orders.hostile", hostile)
    bench.orders("orders.hostile", 1)
    job = bench.start()
    await_committed(bench, "orders.hostile", len(hostile) + 1, job)
    letters = bench.letters("orders.hostile")
    assert len(letters) == len(hostile)
    assert {letter[REASON] for letter in letters} == {b"undecodable", b"invalid", b"too_large"}
    assert bench.event_ids(topic_id) == [event_id(topic_id, 0, len(hostile))]


def test_job_continues_after_the_brokers_were_away(bench: EventsBench) -> None:
    topic_id = bench.create("orders.broker")
    bench.orders("orders.broker", 3)
    job = bench.start()
    bench.await_events(topic_id, 3, job)
    bench.restart_kafka()
    bench.orders("orders.broker", 3, first=3)
    bench.await_events(topic_id, 6, job)


def test_local_stack_runs_the_job(bench: EventsBench) -> None:
    bench.stack.ensure("spark_events")
    topic_id = bench.create("orders.local")
    bench.orders("orders.local", 3)
    bench.await_events(topic_id, 3)
    bench.stack.kill("spark_events")


def test_missing_dependency_ends_the_job_with_the_reason(bench: EventsBench) -> None:
    job = bench.start(SCHEMA_REGISTRY_URL="http://127.0.0.1:1", SPARK_WAIT_S="1")
    assert job.process.wait(WAIT_S) == 1
    assert "the servers stayed down for 1 s: the schema registry does not answer" in job.log.read_text()
