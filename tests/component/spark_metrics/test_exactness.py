"""Kill the job, its Python workers or Postgres at every step of a batch; the metrics must still equal a group-by.

Each start is without a checkpoint. The records are random: sends, redeliveries, late and reordered records, poison.
Triggers wait at each step for a lock that the test holds, so that the kill happens exactly there.

MASSCOMM_METRICS_SEEDS   the seeds, as 1,2,7-9; one fixed seed without it
MASSCOMM_METRICS_SENDS   sends produced before each fault, 12 without it
"""

import os
import random
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil
import psycopg
import pytest

from local.devstack.config import StackConfig
from local.devstack.provision import create_topics, register_schemas
from local.devstack.stack import Stack
from masscomm.kafka.topics import chain_topics
from tests.support.servers.metrics_database import metrics_database
from tests.support.spark.documented import as_the_pages_say
from tests.support.spark.held_batches import BETWEEN_LANES, POINTS, Held, held_up, install_points
from tests.support.spark.metrics_by_hand import expected_metrics
from tests.support.spark.metrics_job import Job, await_watermark, jobs_on, query_value, recompute, wait_until
from tests.support.spark.metrics_topics import Topics
from tests.support.spark.random_sends import Producing
from tests.support.spark.served_metrics import assert_is

# The driver and its server die; the workers, and further points, with --nightly.
EACH_TIME = [
    (BETWEEN_LANES, "the driver"),
    ("while a lane commits", "Postgres"),
]
# For "after the commit" the driver dies during the commit, which the server then completes.
NIGHTLY = [
    ("while a lane merges", "a worker"),
    *((point, "the driver") for point in (*POINTS, "after the commit", BETWEEN_LANES, BETWEEN_LANES)),
    *((point, who) for point in (*POINTS, BETWEEN_LANES) for who in ("Postgres", "a worker")),
]


def chosen_seeds() -> list[int]:
    seeds: list[int] = []
    for part in os.environ.get("MASSCOMM_METRICS_SEEDS", "20261121").split(","):
        first, _, last = part.partition("-")
        seeds += range(int(first), int(last or first) + 1)
    return seeds


def batch_at(held: Held, producing: Producing, sends: int) -> list[int]:
    """Return the pids that wait at the point, and produce again after a batch of one lane."""
    if held.passes_batch_of_one_lane():
        producing.step(sends)
    return held.waiting()


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack for this file alone, because the job reads topics by their real names and the database is killed."""
    config = StackConfig.on_free_ports(tmp_path_factory.mktemp("exactness"))
    with Stack(config, ["kafka", "registry", "postgres"], discard=True) as running:
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
    faults = EACH_TIME + (NIGHTLY if pytestconfig.getoption("--nightly") else [])
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
        assert partly_merged > 0
        await_watermark(job, producing.last())
        # Each earlier driver ended within the grace period, so minutes become complete only now.
        producing.step(3)
        await_watermark(job, producing.last())
        expected = expected_metrics(config.kafka_bootstrap, config.registry_url)
        assert expected.repeated > 0
        assert expected.quarantined
        assert_is(expected, database)
        assert_late_records_are_revised(database)

        # test_job recomputes each time.
        if pytestconfig.getoption("--nightly"):
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


def assert_late_records_are_revised(database: str) -> None:
    with psycopg.connect(database) as connection:
        assert connection.execute("select sum(late_records) > 0 from revised_minutes").fetchone() == (True,)
