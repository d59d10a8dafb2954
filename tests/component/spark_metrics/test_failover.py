"""Postgres fails over to a synchronous replica, which takes its address: counting goes on at once, with every id."""

import dataclasses
import random
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from local.devstack.config import StackConfig
from local.devstack.provision import create_topics, register_schemas
from local.devstack.service import RunOnce, Service
from local.devstack.services.postgres import binaries
from local.devstack.stack import Stack
from local.emulators.local import LOOPBACK
from masscomm.kafka.topics import chain_topics
from tests.support.servers.metrics_database import metrics_database
from tests.support.spark.documented import as_the_pages_say
from tests.support.spark.held_batches import held_up, install_points
from tests.support.spark.metrics_by_hand import expected_metrics
from tests.support.spark.metrics_job import await_watermark, jobs_on, query_value, wait_until
from tests.support.spark.metrics_topics import Topics
from tests.support.spark.random_sends import Producing
from tests.support.spark.served_metrics import assert_is

pytestmark = pytest.mark.nightly
REPLICA = "postgres_replica"


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    """A stack for each test, because its database is replaced."""
    config = StackConfig.on_free_ports(tmp_path / "stack")
    with Stack(config, ["kafka", "registry", "postgres"], discard=True) as running:
        create_topics(config.kafka_bootstrap, chain_topics())
        yield running


@pytest.mark.guarantee("metrics.exactly_once")
@pytest.mark.parametrize("point", ["while a lane merges", "while a lane commits", "after the lanes"])
def test_counts_are_exact_after_a_failover(point: str, stack: Stack, tmp_path: Path) -> None:
    """The primary dies in a batch; the job meets the promoted replica, and a redelivery is still recognised there."""
    config = stack.config
    producing = Producing(Topics(config, register_schemas(config.registry_url, chain_topics())), random.Random(3))  # noqa: S311
    with metrics_database(config) as database, jobs_on(config, database, tmp_path) as start:
        install_points(database)
        port = StackConfig.on_free_ports(tmp_path).ports.postgres
        start_replica(stack, port)
        job = start(**as_the_pages_say(tmp_path), SPARK_LANES="3", SPARK_GRACE_S="1")
        await_watermark(job, producing.step(12))
        counted = query_value(database, "select sum(count_total) from counts_day")
        with held_up(database, point, 3) as held:
            producing.step(12)
            wait_until(f"a batch to come {point}", held.waiting, job)
            fail_over(stack, port)
        assert query_value(database, "select pg_walfile_name(pg_current_wal_lsn())").startswith("00000002")
        assert query_value(database, "select sum(count_total) from counts_day") >= counted
        await_watermark(job, producing.last())
        expected = expected_metrics(config.kafka_bootstrap, config.registry_url)
        assert expected.repeated > 0
        assert_is(expected, database)


def start_replica(stack: Stack, port: int) -> None:
    """Start a replica of the stack's Postgres. From then on, a commit waits until the replica has it."""
    stack.known[REPLICA] = replica_of(stack.known["postgres"], stack.config, port)
    stack.restart(REPLICA)
    with psycopg.connect(stack.config.database_url("postgres"), autocommit=True) as connection:
        connection.execute("alter system set synchronous_standby_names = '*'")
        connection.execute("select pg_reload_conf()")
        replicas = "select pid from pg_stat_replication where sync_state = 'sync'"
        wait_until("the replica", lambda: connection.execute(replicas).fetchone())


def replica_of(primary: Service, config: StackConfig, port: int) -> Service:
    data = config.data(REPLICA)

    def copy(run: RunOnce) -> None:
        data.chmod(0o700)
        source = ["--host", LOOPBACK, "--port", str(config.ports.postgres), "--username", "masscomm"]
        run(
            [
                str(binaries() / "pg_basebackup"),
                *source,
                "--pgdata",
                str(data),
                "--write-recovery-conf",
                "--checkpoint",
                "fast",
            ]
        )

    def is_ready() -> bool:
        try:
            psycopg.connect(config.database_url("postgres"), port=port, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    return dataclasses.replace(
        primary,
        name=REPLICA,
        command=[str(data) if part == str(config.data("postgres")) else part for part in primary.command]
        + ["-c", f"port={port}"],
        environment={"PGPASSWORD": config.password},
        prepare=copy,
        ready=is_ready,
        after_ready=lambda: None,
        drop_root=(data, *primary.drop_root[1:]),
    )


def fail_over(stack: Stack, port: int) -> None:
    """Kill the primary, promote the replica, and give it the primary's address."""
    stack.kill("postgres")
    with psycopg.connect(stack.config.database_url("postgres"), port=port, autocommit=True) as connection:
        assert connection.execute("select pg_promote()").fetchone() == (True,)
    stack.kill(REPLICA)
    data = stack.config.data("postgres")
    data.rename(data.with_name("postgres_before"))
    stack.config.data(REPLICA).rename(data)
    stack.restart("postgres")
