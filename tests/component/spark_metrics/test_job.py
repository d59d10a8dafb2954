"""After every fault of a real broker, registry or database, the job's metrics equal a plain count."""

import json
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock
from uuid import uuid4

import httpx
import psycopg
import pytest
from confluent_kafka import Producer

from local.devstack.config import StackConfig
from local.devstack.provision import create_topics, register_schemas
from local.devstack.stack import Stack
from masscomm.domain import ids
from masscomm.domain.categories import resolve_channels
from masscomm.errors import Stop
from masscomm.kafka.avro import own_schema
from masscomm.kafka.topics import chain_topics
from spark_metrics.common.broker import Broker
from spark_metrics.common.session import topic_names
from spark_metrics.common.settings import Settings
from spark_metrics.job import Job
from tests.support.servers.metrics_database import metrics_database
from tests.support.spark.documented import as_the_pages_say
from tests.support.spark.metrics_job import (
    WAIT_S,
    JobProcess,
    StartJob,
    await_watermark,
    jobs_on,
    query_value,
    recompute,
    wait_until,
)
from tests.support.spark.metrics_topics import Topics

# In a run that ends, records are produced this often.
PRODUCED_EVERY_S = 2.0
MINIMAL = ("type", "club_id", "timestamp", "to_users")


@dataclass
class CountedTopics(Topics):
    """The job's topics, with a plain count of the records produced to them."""

    rng: random.Random = field(default_factory=lambda: random.Random(20261121))  # noqa: S311
    counts: Counter[tuple[int, int, str, str, str]] = field(default_factory=Counter)
    by_send: Counter[tuple[str, str, str, str]] = field(default_factory=Counter)
    log: Counter[tuple[int, int, str, str, int, str, str, str]] = field(default_factory=Counter)
    quarantined: set[tuple[str, int, int]] = field(default_factory=set)
    # The positions of records whose schema is registered after a job has read them.
    late: set[tuple[str, int, int]] = field(default_factory=set)
    refused: list[tuple[tuple[Any, ...], int, int]] = field(default_factory=list)

    def count(self, at_ms: int, club_id: int, category: str, channel: str, measure: str, n: int) -> None:
        if n:
            self.counts[at_ms, club_id, category, channel, measure] += n

    def a_send(self, *, times: int = 1) -> None:
        """Produce a send of one or two chunks and its outcomes, each record `times` times."""
        rng, now = self.rng, int(time.time() * 1000)
        send_id, club_id = str(uuid4()), rng.randrange(3)
        category = rng.choice(["news", "newsletter", "security_alert", "unheard of"])
        lane = rng.choice(["", ".critical"])
        chunks = rng.randrange(1, 3)
        for index in range(chunks):
            users = [rng.randrange(40) for _ in range(rng.randrange(60))]
            at_ms = now - rng.choice([0, 0, 0, 60_000, 3_700_000, 90_000_000])
            topic = rng.choice(["send.monolith", "send.api"]) + lane
            shared = {"send_id": send_id, "club_id": club_id, "type": category}
            chunk = {"chunk_index": index, "chunk_count": chunks, "timestamp": at_ms, "to_users": users}
            value = self.own(topic, "SendRequested", shared | chunk)
            channels = resolve_channels(category, [], club_id, at_ms)
            for channel in channels:
                self.count(at_ms, club_id, category, channel, "requested", len(set(users)))
                self.count(at_ms, club_id, category, channel, "duplicate", len(users) - len(set(users)))
                self.by_send[send_id, channel, "requested", ""] += len(set(users))
            records = [(topic, value)]
            for channel in channels:
                records += self._steps(
                    shared | {"chunk_index": index},
                    ids.chunk_id(send_id, index),
                    lane,
                    channel,
                    sorted(set(users)),
                    now,
                )
            for _ in range(times):
                rng.shuffle(records)
                for where, bytes_ in records:
                    self.put(where, bytes_)

    def _steps(
        self, shared: dict[str, Any], chunk: str, lane: str, channel: str, users: list[int], now: int
    ) -> Iterator[tuple[str, bytes]]:
        common = shared | {
            "parent_id": chunk,
            "range_start": 0,
            "range_end": 500,
            "channel": channel,
            "positions": list(range(len(users))),
            "user_ids": users,
        }
        topic = f"delivery{lane}"
        built = {"record_id": ids.derived_id(chunk, "delivery", channel, 0, 500), "timestamp": now, "built_at": now}
        yield topic, self.own(topic, "DeliveryRequested", common | built | {"content": []})
        self.count(now, shared["club_id"], shared["type"], channel, "queued", len(users))
        results: list[dict[str, Any]] = []
        result_index: list[int] = []
        for place, (status, reason) in enumerate(
            (("sent", None), ("suppressed", "opted_out"), ("suppressed", "no_device"))
        ):
            n = self.rng.randrange(5)
            results.append({"status": status, "reason": reason, "count": n})
            logged_row = (now, shared["send_id"], channel, shared["club_id"], shared["type"], status, reason or "")
            self.log.update((user, *logged_row) for user in range(len(result_index), len(result_index) + n))
            result_index += [place] * n
            self.count(now, shared["club_id"], shared["type"], channel, status, n)
            if n:
                self.by_send[shared["send_id"], channel, status, reason or ""] += n
        outcome = {
            "record_id": ids.derived_id(chunk, "outcome.delivery", channel, 0, 500),
            "step": "delivery",
            "timestamp": now,
            "requested_at": now,
            "positions": list(range(len(result_index))),
            "user_ids": list(range(len(result_index))),
            "results": results,
            "result_index": result_index,
        }
        yield "outcome", self.own("outcome", "NotificationOutcome", common | outcome)

    def a_send_of_the_minimal_producer(
        self, schema: Mapping[str, Any], schema_id: int, *, is_registered: bool = True
    ) -> None:
        at_ms, users = int(time.time() * 1000), [1, 2, 2]
        value = {"type": "newsletter", "club_id": 9, "timestamp": at_ms, "to_users": users}

        def then(topic: str, partition: int, offset: int, timestamp_ms: int) -> None:
            send_id = ids.send_id_of_record(topic, partition, offset, timestamp_ms)
            self.by_send[send_id, "email", "requested", ""] += 2
            if not is_registered:
                # It is counted at the position at which the job produces it again; by a later job, at this one.
                self.late.add((topic, partition, offset))

        self.put("send.monolith", self.encoded("send.monolith", schema, schema_id, value), then)
        self.count(at_ms, 9, "newsletter", "email", "requested", 2)
        self.count(at_ms, 9, "newsletter", "email", "duplicate", 1)

    def put_poison(self) -> None:
        for topic in ("send.api", "outcome", "delivery"):
            for value in self.poison(topic):
                self.put(topic, value, self._quarantine)

    def put_refused(self, club_id: int) -> None:
        """Produce a send of a club that a constraint of this test's database rejects."""
        at_ms = int(time.time() * 1000)
        value = {"type": "news", "club_id": club_id, "timestamp": at_ms, "to_users": [1]}

        def then(*position: Any) -> None:
            self._quarantine(*position)
            self.refused.append((position, club_id, at_ms))

        self.put("send.api", self.own("send.api", "SendRequested", value), then)

    def allow_refused(self) -> None:
        """Count the refused sends from now on, for a database without the constraint."""
        for position, club_id, at_ms in self.refused:
            self.quarantined.discard(position[:3])
            self.count(at_ms, club_id, "news", "push", "requested", 1)
            self.by_send[ids.send_id_of_record(*position), "push", "requested", ""] += 1
        self.refused.clear()

    def _quarantine(self, topic: str, partition: int, offset: int, _timestamp_ms: int) -> None:
        self.quarantined.add((topic, partition, offset))

    def expected(self, step_ms: int) -> dict[tuple[Any, ...], int]:
        found: Counter[tuple[Any, ...]] = Counter()
        for (at_ms, *rest), n in self.counts.items():
            found[at_ms // step_ms * step_ms, *rest] += n
        return dict(found)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack for this file alone, because the job reads topics by their real names and the database is killed."""
    config = StackConfig.on_free_ports(tmp_path_factory.mktemp("spark-metrics"))
    with Stack(config, ["kafka", "registry", "postgres"], discard=True) as running:
        yield running


@pytest.fixture(scope="module")
def counted(stack: Stack) -> CountedTopics:
    create_topics(stack.config.kafka_bootstrap, chain_topics())
    return CountedTopics(stack.config, register_schemas(stack.config.registry_url, chain_topics()))


@pytest.fixture
def start_job(stack: Stack, database: str, tmp_path: Path) -> Iterator[StartJob]:
    with jobs_on(stack.config, database, tmp_path) as start:
        yield start


@pytest.fixture
def database(stack: Stack) -> Iterator[str]:
    with metrics_database(stack.config) as url:
        yield url


def assert_is_a_plain_count(database: str, counted: CountedTopics) -> None:
    with psycopg.connect(database) as connection:
        for table, step_ms in (("counts_minute", 60_000), ("counts_hour", 3_600_000), ("counts_day", 86_400_000)):
            rows = connection.execute(
                "select extract(epoch from bucket)::bigint * 1000, club_id, type, channel, measure, sum(count_total)"  # noqa: S608
                f" from {table} group by bucket, club_id, type, channel, measure"
            )
            assert {row[:5]: row[5] for row in rows} == counted.expected(step_ms), table
        rows = connection.execute(
            "select send_id, channel, status, reason, count_total from send_totals"
            " union all select send_id, channel, 'requested', '', requested from send_channels"
        )
        assert Counter({row[:4]: row[4] for row in rows}) == counted.by_send
        rows = connection.execute(
            "select user_id, (extract(epoch from at) * 1000)::bigint, send_id, channel, club_id, type, status, reason"
            " from recipient_log"
        )
        assert Counter(rows) == counted.log
        places = set(connection.execute("select topic, partition, kafka_offset from quarantine"))
        assert places - counted.late == counted.quarantined


def assert_views_are_sums_of_the_counts(database: str) -> None:
    with psycopg.connect(database) as connection:
        rows = connection.execute(
            "select bucket, club_id, status, sum(total) from not_sent group by 1, 2, 3"
            " except all select bucket, club_id, measure, sum(count_total) from counts_hour group by 1, 2, 3"
        )
        assert rows.fetchall() == []
        assert (
            connection.execute("select sum(total) from not_sent").fetchone()
            == connection.execute(
                "select sum(count_total) from counts_hour where measure in ('suppressed', 'failed', 'expired')"
            ).fetchone()
        )


def _registered(config: StackConfig, subject: str, schema: Mapping[str, Any]) -> int:
    answer = httpx.post(f"{config.registry_url}/subjects/{subject}/versions", json={"schema": json.dumps(schema)})
    schema_id: int = answer.raise_for_status().json()["id"]
    return schema_id


@pytest.mark.guarantee(
    "metrics_job.refused_record_is_quarantined",
    "registry_answer.unknown_id_in_the_job",
    "postgres_answer.refused_values",
    "postgres_answer.no_tables",
)
@pytest.mark.kills(guard="metrics.permanent_postgres_error")
def test_job_counts_good_records_once_and_quarantines_bad(
    start_job: StartJob, counted: CountedTopics, stack: Stack, database: str, tmp_path: Path
) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("alter table counts_day rename to not_yet")
    job = start_job(**as_the_pages_say(tmp_path))
    wait_until("the log", lambda: "tables are missing: counts_day" in job.log.read_text(), job)
    with psycopg.connect(database) as connection:
        connection.execute("alter table not_yet rename to counts_day")
    wait_until("the ready file", lambda: query_value(job.database, "select state from stream_status") == "running", job)
    # A producer uses its schema before the registry has it. Other records are counted meanwhile.
    schema = own_schema("SendRequested")
    schema = schema | {"fields": [f for f in schema["fields"] if f["name"] in MINIMAL]}
    first, second = (_registered(stack.config, "probe-value", schema | {"doc": doc}) for doc in ("one", "two"))
    coming = 2 * second - first
    counted.a_send_of_the_minimal_producer(schema, coming, is_registered=False)
    counted.a_send()
    await_watermark(job, counted.flush())
    assert job.log.read_text().count(f"schema {coming} cannot be used") == 1
    waiting = f"select reason from quarantine where schema_id = {coming}"  # noqa: S608 - a number
    assert query_value(job.database, waiting) == "unknown_schema"
    assert query_value(job.database, "select count(*) from sends") == 1
    assert _registered(stack.config, "send.monolith-value", schema) == coming
    wait_until("producing it again", lambda: query_value(job.database, waiting) == "late_schema", job)
    for _ in range(20):
        counted.a_send(times=counted.rng.choice([1, 1, 3]))
    counted.put_poison()
    await_watermark(job, counted.flush())
    assert_is_a_plain_count(job.database, counted)
    with psycopg.connect(job.database) as connection:
        rows = connection.execute("select distinct schema_id from quarantine where reason = 'unknown_schema'")
        assert {schema_id for (schema_id,) in rows} == {2**31 - 1, 2**31 - 2}

    # The lag by partition is stored while the merge is blocked, and is 0 afterwards.
    with psycopg.connect(job.database) as holding:
        holding.execute("lock table counts_minute in access exclusive mode")
        counted.a_send()
        counted.flush()
        behind = "select jsonb_build_array(lag, lags) from stream_status where lag > 0"
        lag, lags = wait_until("the lag", lambda: query_value(job.database, behind), job)
    assert sum(records for partitions in lags.values() for records in partitions.values()) == lag
    assert set(lags) <= {topic.name for topic in chain_topics()}
    wait_until("no lag", lambda: query_value(job.database, "select lags = '{}' and lag = 0 from stream_status"), job)
    assert query_value(job.database, "select input_rate >= 0 from stream_status")

    for _ in range(2):
        counted.a_send_of_the_minimal_producer(schema, coming)
        counted.a_send(times=2)
    await_watermark(job, counted.flush())
    assert_is_a_plain_count(job.database, counted)
    assert_views_are_sums_of_the_counts(job.database)

    # Records that Postgres rejects are quarantined; all others are counted.
    with psycopg.connect(job.database) as connection:
        connection.execute("alter table counts_minute add check (club_id <> 666)")
        connection.execute("alter table sends add check (club_id <> 667)")
    for club_id in (666, 667):
        counted.put_refused(club_id)
    counted.a_send(times=2)
    await_watermark(job, counted.flush())
    assert_is_a_plain_count(job.database, counted)
    assert query_value(job.database, "select count(*) from quarantine where reason = 'unstorable'") == 2
    counted.allow_refused()

    job.process.send_signal(signal.SIGTERM)
    assert job.process.wait(WAIT_S) == 0
    assert query_value(job.database, "select state from stream_status") == "stopped"


@pytest.mark.nightly
def test_damaged_tables_are_restored_during_the_stream(
    start_job: StartJob, counted: CountedTopics, tmp_path: Path
) -> None:
    job = start_job(**as_the_pages_say(tmp_path))
    for _ in range(3):
        counted.a_send(times=2)
    await_watermark(job, counted.flush())
    with psycopg.connect(job.database) as connection:
        connection.execute("update counts_minute set count_total = count_total + 1 where club_id = 0")
        connection.execute("delete from counts_hour where club_id = 1")
        connection.execute("insert into counts_day values (date_trunc('day', now()), 77, 'x', 'push', 'sent', 5)")
        connection.execute("delete from send_totals where status = 'sent'")
        connection.execute("delete from send_states where channel = 'email'")
        connection.execute("update sends set chunks = chunks + 3")
        connection.execute("update not_sent set total = 2 * total")
    recomputed = recompute(job, "--swap", "--check-topics")
    assert recomputed.returncode == 1, recomputed.stderr
    assert "counts_day: served" in recomputed.stdout
    assert "0 positions differ between archive and topics" in recomputed.stdout
    counted.a_send(times=2)
    await_watermark(job, counted.flush())
    assert_is_a_plain_count(job.database, counted)
    assert_views_are_sums_of_the_counts(job.database)


@pytest.mark.guarantee("metrics_job.available_now")
def test_available_now_run_counts_and_ends(start_job: StartJob, counted: CountedTopics, database: str) -> None:
    for _ in range(3):
        counted.a_send(times=2)
    moment = counted.flush()
    job = start_job("--available-now")
    assert job.process.wait(WAIT_S) == 0, job.log.read_text()[-3000:]
    assert query_value(database, "select extract(epoch from watermark) from stream_watermark") > moment
    assert query_value(database, "select state from stream_status") == "stopped"
    assert_is_a_plain_count(database, counted)


@pytest.mark.kills(guard="metrics.available_now_watermark")
def test_available_now_run_advances_to_its_start(
    counted: CountedTopics, stack: Stack, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The topics get a record as soon as the query has begun, which has nothing to read."""
    settings = Settings(
        bootstrap_servers=stack.config.kafka_bootstrap,
        registry_url=stack.config.registry_url,
        database_url=database,
        categories_table="none",
    )
    ends = Broker(settings.bootstrap_servers).ends(topic_names()).end
    with psycopg.connect(database) as connection, connection.cursor() as cursor:
        rows = [(topic, partition, end) for (topic, partition), end in ends.items()]
        cursor.executemany("insert into stream_offsets values (%s, %s, %s)", rows)
    moment = counted.flush()
    query = MagicMock(isActive=False, lastProgress=None, exception=lambda: None)

    def start() -> MagicMock:
        counted.a_send()
        counted.flush()
        return query

    lanes = MagicMock()
    stream = lanes.return_value.rows.return_value.writeStream.foreachBatch.return_value
    stream.option.return_value.trigger.return_value.start = start
    monkeypatch.setattr("spark_metrics.job.Lanes", lanes)
    for name in ("spark_session", "kafka_records", "facts", "no_writers"):
        monkeypatch.setattr(f"spark_metrics.job.{name}", MagicMock())
    Job(settings, available_now=True).run()
    assert query_value(database, "select extract(epoch from watermark) from stream_watermark") > moment


@pytest.mark.nightly
def test_available_now_runs_count_each_record_once(start_job: StartJob, counted: CountedTopics, database: str) -> None:
    """One run is killed, records are produced until the end of another one, which advances the watermark nevertheless,
    and the last run has nothing to read.
    """

    def start() -> JobProcess:
        return start_job("--available-now", SPARK_MAX_OFFSETS_PER_TRIGGER="20")

    for _ in range(20):
        counted.a_send(times=2)
    counted.put_poison()
    moment = counted.flush()
    killed = start()
    wait_until("the first batch", lambda: query_value(database, "select true from stream_offsets limit 1"), killed)
    killed.kill()
    running = start()
    wait_until("a query", lambda: query_value(database, "select state from stream_status") == "running", running)
    until = time.monotonic() + WAIT_S
    while running.process.poll() is None and time.monotonic() < until:
        counted.a_send()
        counted.flush()
        with suppress(subprocess.TimeoutExpired):
            running.process.wait(PRODUCED_EVERY_S)
    assert running.process.returncode == 0, running.log.read_text()[-3000:]
    assert query_value(database, "select extract(epoch from watermark) from stream_watermark") > moment
    watermarks = []
    for _ in range(2):
        moment = counted.flush()
        job = start_job("--available-now")
        assert job.process.wait(WAIT_S) == 0, job.log.read_text()[-3000:]
        watermarks.append(query_value(database, "select extract(epoch from watermark) from stream_watermark"))
        assert watermarks[-1] > moment
        assert_is_a_plain_count(database, counted)
    assert watermarks[0] < watermarks[1], "it advances without a record"
    recomputed = recompute(job, "--check-topics")
    assert recomputed.returncode == 0, recomputed.stderr
    assert "0 positions differ between archive and topics" in recomputed.stdout


@pytest.mark.parametrize(
    ("offset", "topic_id"),
    [(1_000_000, None), (0, "AAAAAAAAAAAAAAAAAAAAAQ")],
    ids=["they are shorter", "they were made later"],
)
def test_topics_other_than_the_counted_ones_stop_the_job(
    database: str,
    counted: CountedTopics,
    stack: Stack,
    monkeypatch: pytest.MonkeyPatch,
    offset: int,
    topic_id: str | None,
) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("insert into stream_offsets values ('outcome', 0, %s)", [offset])
        if topic_id:
            connection.execute("insert into stream_topics values ('outcome', %s)", [topic_id])
    monkeypatch.setattr("spark_metrics.job.spark_session", MagicMock())
    settings = Settings(
        bootstrap_servers=stack.config.kafka_bootstrap,
        registry_url=stack.config.registry_url,
        database_url=database,
        categories_table="none",
    )
    with pytest.raises(Stop, match="these are not the topics that were counted"):
        Job(settings).run()


@pytest.mark.nightly
def test_second_job_takes_over_and_the_first_one_ends(start_job: StartJob, counted: CountedTopics) -> None:
    first = start_job()
    await_watermark(first, counted.flush())
    second = start_job()
    epoch = "select epoch from stream_status where state = 'running'"
    wait_until("the second job", lambda: query_value(second.database, epoch) == 2, second)
    counted.a_send()
    await_watermark(second, counted.flush())
    assert first.process.wait(WAIT_S) == 1
    assert "another driver has taken the stream over" in first.log.read_text().splitlines()[-1]
    assert second.process.poll() is None
    assert_is_a_plain_count(second.database, counted)


@pytest.mark.nightly
def test_unreachable_kafka_ends_the_job(start_job: StartJob, counted: CountedTopics) -> None:
    job = start_job(SPARK_WAIT_S="1", KAFKA_BOOTSTRAP_SERVERS="127.0.0.1:1")
    assert job.process.wait(WAIT_S) == 1
    assert "the servers stayed down for 1 s: Kafka does not answer" in job.log.read_text()


@pytest.mark.nightly
@pytest.mark.kills(guard="metrics.read_committed")
def test_aborted_transaction_is_not_counted(
    start_job: StartJob, counted: CountedTopics, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job reads only committed records: aborted ones change neither the counts nor the lag."""
    producer = Producer(
        {"bootstrap.servers": stack.config.kafka_bootstrap, "transactional.id": "a monolith", "log_level": 0}
    )
    producer.init_transactions(WAIT_S)
    taken_back = CountedTopics(stack.config, counted.schema_ids)
    for each in (counted, taken_back):
        monkeypatch.setattr(each, "producer", producer)
    job = start_job()
    producer.begin_transaction()
    counted.a_send(times=2)
    producer.commit_transaction()
    producer.begin_transaction()
    taken_back.a_send()
    taken_back.put_poison()
    producer.flush(WAIT_S)
    producer.abort_transaction()
    await_watermark(job, time.time())
    assert_is_a_plain_count(job.database, counted)

    # Records of an open transaction are not counted, and the watermark stays before them.
    producer.begin_transaction()
    counted.a_send()
    written = counted.flush()
    wait_until("the lag", lambda: query_value(job.database, "select lag > 0 from stream_status"), job)
    assert query_value(job.database, "select extract(epoch from watermark) from stream_watermark") < written
    producer.commit_transaction()
    await_watermark(job, time.time())
    assert_is_a_plain_count(job.database, counted)
    recomputed = recompute(job, "--check-topics")
    assert recomputed.stdout == "0 differing rows\n0 positions differ between archive and topics\n", recomputed.stderr
