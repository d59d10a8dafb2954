"""Kill the job, its Python workers or Postgres at every step of a batch; the metrics must still equal a group-by.

Each start is without a checkpoint. The records are random: sends, redeliveries, late and reordered records, poison.
Triggers wait at each step for a lock that the test holds, so that the kill happens exactly there.

MASSCOMM_METRICS_SEEDS   the seeds, as 1,2,7-9; one fixed seed without it
MASSCOMM_METRICS_SENDS   sends produced before each fault, 12 without it
"""

import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import psutil
import psycopg
import pytest

from devstack.config import StackConfig
from devstack.provision import create_topics, register_schemas
from devstack.stack import Stack
from masscomm.domain import ids
from masscomm.domain.categories import resolve_channels
from masscomm.kafka.topics import chain_topics
from spark_metrics.sql import read_sql
from tests.support.servers.metrics_database import metrics_database
from tests.support.spark.documented import as_the_pages_say
from tests.support.spark.metrics_by_hand import ExpectedMetrics, expected_metrics
from tests.support.spark.metrics_job import Job, await_watermark, jobs_on, query_value, recompute, wait_until
from tests.support.spark.metrics_topics import Topics

# Step of a batch → event of the trigger that stops it. A constraint trigger stops the commit itself.
POINTS = {
    "while a lane merges": "before insert on sends",
    "before a lane commits": "before insert on lane_offsets",
    "while a lane commits": "after insert or update on lane_offsets",
    "after the lanes": "before insert on stream_offsets",
    "during the commit": "after insert or update on stream_offsets",
}
# One lane waits before its first statement, and the others are merged.
BETWEEN_LANES = "between the lanes"
HOLD = """
create function hold_up() returns trigger language plpgsql as $$
begin
    perform pg_advisory_xact_lock_shared(tg_argv[0]::bigint);
    return null;
end $$
"""
# For "after the commit" the driver dies during the commit, which the server then completes.
DRIVER_DIES = [BETWEEN_LANES, "after the commit"]
# Faults of Postgres or of a worker that run without --nightly too.
EACH_TIME = [
    *((point, "Postgres") for point in ("while a lane commits", BETWEEN_LANES)),
    *((point, "a worker") for point in ("while a lane merges", BETWEEN_LANES)),
]
# Further points at which the driver dies; they run with --nightly only, because starting a driver takes longest.
DRIVER_DIES_NIGHTLY = [*POINTS, BETWEEN_LANES, BETWEEN_LANES]


# How long the other lanes of a batch merge nothing before the batch is taken for one of a single lane.
ONE_LANE_S = 15.0


def chosen_seeds() -> list[int]:
    seeds: list[int] = []
    for part in os.environ.get("MASSCOMM_METRICS_SEEDS", "20261121").split(","):
        first, _, last = part.partition("-")
        seeds += range(int(first), int(last or first) + 1)
    return seeds


@dataclass
class Producing:
    """Produces random records; some are delayed, some are redelivered later."""

    topics: Topics
    rng: random.Random
    later: list[tuple[str, bytes]] = field(default_factory=list)

    def step(self, sends: int) -> float:
        """Produce this many sends and half of the delayed records. Returns a later time, in seconds since the epoch."""
        now = int(time.time() * 1000)
        records = [record for _ in range(sends) for record in self._send(now)]
        for record in records:
            self.later += [record] * self.rng.choice([0, 0, 0, 0, 1, 2])
        held_back = [self.later.pop(self.rng.randrange(len(self.later))) for _ in range(len(self.later) // 2)]
        records += held_back
        self.rng.shuffle(records)
        kept = records[: len(records) // 10]
        self.later += kept
        for topic, value in records[len(kept) :]:
            self.topics.put(topic, value)
        for topic in ("send.api", "outcome", "delivery", "device_status"):
            self.topics.put(topic, self.rng.choice(self.topics.poison(topic)))
        return self.topics.flush()

    def last(self) -> float:
        for topic, value in self.later:
            self.topics.put(topic, value)
        self.later.clear()
        return self.topics.flush()

    def _send(self, now: int) -> Iterator[tuple[str, bytes]]:
        rng = self.rng
        lane, category = (
            rng.choice(["", ".critical"]),
            rng.choice(["news", "newsletter", "security_alert", "unheard of"]),
        )
        send_id, club_id = str(UUID(int=rng.getrandbits(128))), rng.randrange(3)
        shared: dict[str, Any] = {"send_id": send_id, "club_id": club_id, "type": category}
        shared |= {"template": rng.choice([None, 'a "quoted\\ one']), "locale": rng.choice([None, "de", "fr-CH"])}
        chunks = rng.randrange(1, 3)
        for index in range(chunks):
            users = [rng.randrange(200) for _ in range(rng.randrange(40))]
            at_ms = now - rng.choice([0, 0, 0, 90_000, 3_700_000, 90_000_000, -200_000_000])
            topic = rng.choice(["send.monolith", "send.api"]) + lane
            chunk = {"chunk_index": index, "chunk_count": chunks, "timestamp": at_ms, "to_users": users}
            yield topic, self.topics.own(topic, "SendRequested", shared | chunk)
            for channel in resolve_channels(category, [], club_id):
                yield from self._steps(shared | {"chunk_index": index, "channel": channel}, users, lane, now)

    def _steps(self, shared: dict[str, Any], users: list[int], lane: str, now: int) -> Iterator[tuple[str, bytes]]:
        """Make the functions' records of a chunk: some recipients are held or suppressed, the others are sent to."""
        rng, parent = self.rng, ids.chunk_id(shared["send_id"], shared["chunk_index"])
        at_ms = now - rng.choice([0, 0, 0, 90_000, 3_700_000, 90_000_000])
        common = shared | {"parent_id": parent, "range_start": 0, "range_end": 500}
        places = [users.index(user) for user in dict.fromkeys(users)]
        out = {
            place: rng.choice([("suppressed", "opted_out"), ("held", None)]) for place in places if rng.random() < 0.3
        }

        def outcome(step: str, said: dict[int, tuple[str, str | None]], when: int) -> tuple[str, bytes]:
            results = list(dict.fromkeys(said.values()))
            value = {
                "record_id": ids.derived_id(parent, f"outcome.{step}", shared["channel"], 0, 500),
                "step": step,
                "timestamp": when,
                "requested_at": now,
                "positions": list(said),
                "user_ids": [users[place] for place in said],
                "results": [
                    {"status": status, "reason": reason, "count": list(said.values()).count((status, reason))}
                    for status, reason in results
                ],
                "result_index": [results.index(result) for result in said.values()],
            }
            return "outcome", self.topics.own("outcome", "NotificationOutcome", common | value)

        if out:
            yield outcome("preference", out, at_ms)
        queued = [place for place in places if out.get(place, ("held",))[0] == "held"]
        if queued:
            built = {
                "record_id": ids.derived_id(parent, "delivery", shared["channel"], 0, 500),
                "timestamp": now,
                "built_at": at_ms,
                "positions": queued,
                "user_ids": [users[place] for place in queued],
                "content": [],
            }
            yield f"delivery{lane}", self.topics.own(f"delivery{lane}", "DeliveryRequested", common | built)
            endings: list[tuple[str, str | None]] = [
                ("sent", None),
                ("failed", "no_template"),
                ("suppressed", "no_device"),
            ]
            yield outcome("delivery", {place: rng.choice(endings) for place in queued}, at_ms + 1000)
            device = {
                "record_id": ids.derived_id(parent, "device_status", shared["channel"], 0, 1),
                "device_id": 1,
                "user_id": users[queued[0]],
                "platform": "gcm",
                "endpoint_arn": "arn:one",
                "status": rng.choice(["inactive", "active"]),
                "reason": None,
                "timestamp": at_ms,
                "club_id": shared["club_id"],
                "send_id": rng.choice([shared["send_id"], ""]),
            }
            yield "device_status", self.topics.own("device_status", "DeviceStatusChanged", device)


class Held:
    """Stops a batch at one point until `let_go` is called."""

    def __init__(self, database: str, point: str, lanes: int) -> None:
        self._lane = point == BETWEEN_LANES
        self._alone_since: float | None = None
        self._connection = psycopg.connect(database, autocommit=True)
        # The lock of a lane is spark_metrics.lane_merge's.
        [lock] = self._connection.execute("select hashtext(current_schema)").fetchone() or [0]
        self._key = (lock, lanes * 100_000) if self._lane else (0, list(POINTS).index(point) + 1)
        how = "select pg_advisory_lock(%s, %s)" if self._lane else "select pg_advisory_lock(%s::bigint << 32 | %s)"
        self._connection.execute(how.encode(), self._key)

    def waiting(self) -> list[int]:
        """Return the pids of the server processes that wait at the point. Between the lanes, all others have ended."""
        return [] if self._lane and not self.is_partly_merged() else self._waiting_pids()

    def _waiting_pids(self) -> list[int]:
        rows = self._connection.execute(
            "select l.pid from pg_locks as l join pg_database as d on d.oid = l.database"
            " where d.datname = current_database() and locktype = 'advisory' and classid = %s and objid = %s"
            " and not granted",
            self._key,
        )
        return [pid for (pid,) in rows]

    def passes_batch_of_one_lane(self) -> bool:
        """Let a batch pass if its other lanes have merged nothing for a while, and return whether it passes.

        The job may begin a batch with the first few records of a step, all of them in the held lane.
        """
        alone = self._lane and not self.is_partly_merged() and bool(self._waiting_pids())
        self._alone_since = (self._alone_since or time.monotonic()) if alone else None
        if self._alone_since is None or time.monotonic() - self._alone_since < ONE_LANE_S:
            return False
        self._alone_since = None
        self._connection.execute("select pg_advisory_unlock(%s, %s)", self._key)
        self._connection.execute("select pg_advisory_lock(%s, %s)", self._key)
        return True

    def is_partly_merged(self) -> bool:
        return self._connection.execute(read_sql("unfinished_batch")).fetchone() == (True,)

    def cut_off(self) -> None:
        """Terminate the waiting server processes, and so their transactions."""
        for pid in self.waiting():
            self._connection.execute("select pg_terminate_backend(%s)", [pid])
        wait_until("the held transaction to end", lambda: not self.waiting())

    def let_go(self) -> None:
        with suppress(psycopg.OperationalError):  # a killed server has already released the lock
            self._connection.execute("select pg_advisory_unlock_all()")
        self._connection.close()


def batch_at(held: Held, producing: Producing, sends: int) -> list[int]:
    """Return the pids that wait at the point, and produce again after a batch of one lane."""
    if held.passes_batch_of_one_lane():
        producing.step(sends)
    return held.waiting()


@contextmanager
def held_up(database: str, point: str, lanes: int) -> Iterator[Held]:
    held = Held(database, point, lanes)
    try:
        yield held
    finally:
        held.let_go()


def install_points(database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute(HOLD)
        for number, when in enumerate(POINTS.values(), start=1):
            deferred = when.startswith("after")
            connection.execute(
                f"create {'constraint' if deferred else ''} trigger hold_{number} {when}"
                f" {'deferrable initially deferred for each row' if deferred else 'for each statement'}"
                f" execute function hold_up('{number}')".encode()
            )


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack for this file alone, because the job reads topics by their real names and the database is killed."""
    config = StackConfig.on_free_ports(tmp_path_factory.mktemp("exactness"))
    with Stack(config, ["kafka", "registry", "postgres"]) as running:
        create_topics(config.kafka_bootstrap, chain_topics())
        yield running


@pytest.mark.guarantee("metrics.exactly_once", "metrics_job.database_down_resumes", "postgres_answer.unavailable")
@pytest.mark.parametrize("seed", chosen_seeds())
def test_metrics_equal_a_group_by_after_any_kill(
    seed: int, stack: Stack, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """The metrics stay exact because of stream_offsets, lane_offsets and the stored ids.

    Each start has another number of lanes than the one before it.
    """
    print(f"seed {seed}")  # noqa: T201
    rng = random.Random(seed)  # noqa: S311
    config = stack.config
    producing = Producing(Topics(config, register_schemas(config.registry_url, chain_topics())), rng)
    sends = int(os.environ.get("MASSCOMM_METRICS_SENDS", "12"))
    deaths = DRIVER_DIES + (DRIVER_DIES_NIGHTLY if pytestconfig.getoption("--nightly") else [])
    faults = [(point, "the driver") for point in deaths]
    if pytestconfig.getoption("--nightly"):
        faults += [(point, who) for point in (*POINTS, BETWEEN_LANES) for who in ("Postgres", "a worker")]
    else:
        faults += EACH_TIME
    rng.shuffle(faults)
    partly_merged = 0
    with metrics_database(config) as database, jobs_on(config, database, tmp_path) as start:
        install_points(database)

        def start_with_other_lanes(before: int) -> tuple[Job, int]:
            lanes = rng.choice([n for n in range(2, 6) if n != before])
            # Small batches make it likely that the killed batch is not the first of its topic.
            settings = as_the_pages_say(tmp_path) | {"SPARK_GRACE_S": "1", "SPARK_MAX_OFFSETS_PER_TRIGGER": "400"}
            return start(**settings, SPARK_LANES=str(lanes)), lanes

        job, lanes = start_with_other_lanes(0)
        for point, dies in faults:
            print(f"{dies} dies {point}")  # noqa: T201
            with held_up(database, "during the commit" if point == "after the commit" else point, lanes) as held:
                producing.step(sends)
                wait_until(f"a batch to come {point}", partial(batch_at, held, producing, sends), job)
                partly_merged += held.is_partly_merged()
                if dies == "a worker":
                    kill_workers(job)
                    continue
                if dies == "Postgres":
                    stack.kill("postgres")
                    stack.restart("postgres")
                    continue
                job.kill()
                if point == "during the commit":
                    held.cut_off()
            job, lanes = start_with_other_lanes(lanes)
        assert partly_merged >= 2
        await_watermark(job, producing.last())
        # Each earlier driver ended within the grace period, so minutes become complete only now.
        producing.step(3)
        await_watermark(job, producing.last())
        expected = expected_metrics(config.kafka_bootstrap, config.registry_url)
        assert expected.repeated > 0
        assert expected.quarantined
        assert_is(expected, database)
        assert_late_records_are_revised(database)

        recomputed = recompute(job, "--check-topics")
        assert recomputed.stdout == "0 differing rows\n0 positions differ between archive and topics\n", (
            recomputed.stderr
        )


@pytest.mark.nightly
@pytest.mark.guarantee("metrics.exactly_once")
def test_killed_executor_counts_each_record_once(stack: Stack, tmp_path: Path) -> None:
    """Two executors, each a JVM; the one whose lane waits at a point is killed there."""
    config = stack.config
    producing = Producing(Topics(config, register_schemas(config.registry_url, chain_topics())), random.Random(7))  # noqa: S311
    settings = as_the_pages_say(tmp_path) | {"SPARK_LANES": "3", "SPARK_GRACE_S": "1"}
    with metrics_database(config) as database, jobs_on(config, database, tmp_path) as start:
        install_points(database)
        job = start(
            **settings,
            SPARK_MASTER="local-cluster[2,1,1024]",
            SPARK_WORKER_DIR=str(tmp_path / "executors"),
        )
        for point in ("while a lane merges", "before a lane commits", "while a lane commits"):
            with held_up(database, point, 3) as held:
                producing.step(12)
                pids = wait_until(f"a lane {point}", held.waiting, job)
                executor_of(job, pids[0]).kill()
        await_watermark(job, producing.last())
        assert "ExecutorLostFailure" in job.log.read_text() or "Lost executor" in job.log.read_text()
        assert_is(expected_metrics(config.kafka_bootstrap, config.registry_url), database)


def executor_of(job: Job, backend: int) -> psutil.Process:
    """Return the JVM of the executor whose task has this server process."""
    port = query_value(job.database, f"select client_port from pg_stat_activity where pid = {backend:d}")  # noqa: S608
    processes = psutil.Process(job.process.pid).children(recursive=True)
    executors = [each for each in processes if "org.apache.spark.executor" in " ".join(each.cmdline())]
    assert executors, [each.cmdline()[-4:] for each in processes]
    (found,) = (executor for executor in executors if port in ports_of(executor))
    return found


def ports_of(executor: psutil.Process) -> set[int]:
    """Return the local ports of an executor's Python workers."""
    return {each.laddr.port for worker in executor.children(recursive=True) for each in worker.net_connections("tcp")}


def kill_workers(job: Job) -> None:
    """Kill the Python processes of the executor. Spark runs their tasks again."""
    for process in psutil.Process(job.process.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if "pyspark.daemon" in process.cmdline():
                process.kill()


def assert_is(expected: ExpectedMetrics, database: str) -> None:
    """Check that recompute finds no difference in the grains, the totals, the log and the quarantine."""
    with psycopg.connect(database) as connection:

        def rows(query: str) -> list[tuple[Any, ...]]:
            return connection.execute(query.encode()).fetchall()

        for grain, step_ms in (("minute", 60_000), ("hour", 3_600_000), ("day", 86_400_000)):
            served = rows(
                "select extract(epoch from bucket)::bigint * 1000, club_id, type, channel, measure, count_total"  # noqa: S608
                f" from counts_{grain}"
            )
            assert {row[:5]: row[5] for row in served} == expected.buckets(step_ms), grain
        templates = rows(
            "select extract(epoch from bucket)::bigint * 1000, club_id, template, locale, measure, total"
            " from template_days"
        )
        assert {row[:5]: row[5] for row in templates} == +expected.by_template
        totals = rows("select send_id, channel, status, reason, count_total from send_totals")
        assert {row[:4]: row[4] for row in totals} == expected.totals()
        requested = rows("select send_id, channel, requested from send_channels where requested > 0")
        assert {row[:2]: row[2] for row in requested} == +expected.requested
        log = rows(
            "select user_id, (extract(epoch from at) * 1000)::bigint, send_id, channel, club_id, type, status, reason"
            " from recipient_log"
        )
        assert Counter(log) == expected.log
        assert set(rows("select topic, partition, kafka_offset from quarantine")) == expected.quarantined


def assert_late_records_are_revised(database: str) -> None:
    with psycopg.connect(database) as connection:
        assert connection.execute("select sum(late_records) > 0 from revised_minutes").fetchone() == (True,)
