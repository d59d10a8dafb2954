"""Stores that went back in time, and a cluster that is lost: the steps of docs/internals/restoring.md on one machine.

Each test checks its sends as a cell of the fault matrix does: no recipient is missed or reached twice, and the metrics
are exact.
"""

import dataclasses
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import psycopg
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from local.devstack.config import GENERATION, ROOT
from local.devstack.provision import create_topics
from local.devstack.recompute import run_recompute
from local.devstack.services.postgres import binaries
from masscomm.kafka.topics import chain_topics
from masscomm.stores.delayed_records.dynamodb import DynamoDbDelayStore
from masscomm.stores.delayed_records.port import TABLE
from tests.faults.generations import Generations
from tests.support.fault_stack.bench import CHAIN, Bench, Sent, sources
from tests.support.fault_stack.cell import Cell
from tests.support.fault_stack.population import CATEGORIES, CLUB
from tests.support.fault_stack.stack import FaultStack
from tests.support.servers import dynamodb_table
from tests.support.until import until

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

PAGE = ROOT / "docs" / "internals" / "restoring.md"
PEOPLE = 600
TIMEOUT_S = 180.0
# When the sends that wait are due, after the store or the cluster is replaced.
LATER_S = 60.0
NEW_ARCHIVE = "masscomm2"


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory, one_stack_at_a_time: None) -> Iterator[Bench]:
    with (
        FaultStack(tmp_path_factory.mktemp("restore")) as stack,
        Bench.on(stack, shared=PEOPLE) as made,
    ):
        made.timeout_s = TIMEOUT_S
        yield made


def run(bench: Bench, name: str, fault: Callable[[Bench], None]) -> None:
    result = bench.run(Cell(name=name, fault=lambda each, _: fault(each)))
    assert result.ok, result.describe()


# --- the delay store ---


def test_older_delay_store_loses_and_repeats_nothing(bench: Bench) -> None:
    """One send waits in the restored table and was released since; another began to wait since then."""
    run(bench, "the delay store goes back in time", _restore_the_delay_store)


def _restore_the_delay_store(bench: Bench) -> None:
    client, store = _dynamodb(bench), _delay_store(bench)
    now_ms = time.time_ns() // 1_000_000
    bench.emit(bench.shared[:100], send_at=now_ms + 8_000)
    until("the first send waits", lambda: _waiting(store) == {bench.sends[0].send_id})
    positions = _positions(bench)
    items = [item for page in client.get_paginator("scan").paginate(TableName=TABLE) for item in page["Items"]]
    released = bench.sends[0]
    later = bench.emit(bench.shared[100:200], send_at=now_ms + int(LATER_S * 1_000))
    until("the first send is delivered", lambda: bench.ended(released), TIMEOUT_S)
    until("the second send waits alone", lambda: _waiting(store) == {later.send_id})
    bench.stack.stack.kill("lambda_host")
    restored = dynamodb_table.new_table(client, TABLE)
    for item in items:
        client.put_item(TableName=restored, Item=item)
    for group, offsets in positions.items():
        _move(bench, group, offsets)
    bench.stack.variables["WAITING_TABLE"] = restored
    bench.stack.reconfigure({})


def _delay_store(bench: Bench) -> DynamoDbDelayStore:
    return DynamoDbDelayStore(client=_dynamodb(bench), table=bench.stack.variables.get("WAITING_TABLE", TABLE))


def _waiting(store: DynamoDbDelayStore) -> set[str]:
    """Return the ids of the sends in the delay store."""
    return {item.send.send_id for item in store.scan() if item.send is not None}


def _positions(bench: Bench) -> dict[str, list[TopicPartition]]:
    """Return the positions of the chain's functions by consumer group."""
    found = {}
    for group in sources(*CHAIN):
        asked = ConsumerGroupTopicPartitions(group)
        found[group] = bench.admin.client().list_consumer_group_offsets([asked])[group].result().topic_partitions
    return found


def _move(bench: Bench, group: str, offsets: list[TopicPartition]) -> None:
    """Move the positions of a group, once the broker knows that its consumers are gone."""

    def moved() -> bool:
        asked = ConsumerGroupTopicPartitions(group, offsets)
        answer = bench.admin.client().alter_consumer_group_offsets([asked])[group].result()
        return not any(each.error for each in answer.topic_partitions or ())

    until(f"{group} can be moved", moved, 90, every_s=1)


# --- the metrics database ---


def test_older_metrics_database_counts_on_exactly(bench: Bench) -> None:
    """The job begins at the offsets in the backup, and counts the records since then again."""
    run(bench, "the metrics database goes back in time", _restore_the_metrics)
    assert run_recompute(bench.stack.config) == 0


def _restore_the_metrics(bench: Bench) -> None:
    config = bench.stack.config
    bench.await_counted(_delivered(bench, bench.shared[:100]))
    backup = config.state_dir / "metrics.backup"
    _postgres(bench, "pg_dump", "--format=custom", f"--file={backup}", config.database_url("metrics"))
    bench.await_counted(_delivered(bench, bench.shared[100:200]))
    bench.stack.stack.kill("spark")
    with psycopg.connect(config.database_url("postgres"), autocommit=True) as connection:
        connection.execute("drop database metrics with (force)")
        connection.execute("create database metrics")
    _postgres(bench, "pg_restore", "--exit-on-error", f"--dbname={config.database_url('metrics')}", str(backup))
    bench.emit(bench.shared[200:300])
    bench.stack.stack.restart("spark")


def _delivered(bench: Bench, users: Sequence[int]) -> Sent:
    sent = bench.emit(users)
    until("it is delivered", lambda: bench.ended(sent), TIMEOUT_S)
    return sent


def _postgres(bench: Bench, program: str, *arguments: str) -> None:
    subprocess.run([str(binaries() / program), *arguments], check=True, capture_output=True, timeout=TIMEOUT_S)


# --- the Kafka cluster; the last test, because the bench's earlier sends are gone with it ---


def test_lost_cluster_loses_unread_records_only(bench: Bench) -> None:
    """Earlier counts stay, waiting sends are delivered, and a send that no function has read is repeated by its id."""
    run(bench, "before the loss", _deliver_some)
    [before] = bench.sends
    status = bench.api.status(before.send_id)
    run(bench, "the Kafka cluster is lost", _lose_the_cluster)
    assert bench.api.status(before.send_id) == status


def _deliver_some(bench: Bench) -> None:
    _delivered(bench, bench.shared[:100])


def _lose_the_cluster(bench: Bench) -> None:
    config, stack = bench.stack.config, bench.stack.stack
    counted = bench.counts()["requested"]
    waiting = bench.emit(bench.shared[100:200], send_at=time.time_ns() // 1_000_000 + int(LATER_S * 1_000))
    until("its request is counted", lambda: bench.counts()["requested"] == counted + len(waiting.fates), TIMEOUT_S)
    until("it waits", lambda: waiting.send_id in _waiting(_delay_store(bench)))
    for name in ("lambda_host", "spark"):
        stack.kill(name)
    unread = bench.emit(bench.shared[200:300])
    for name in ("connect", "kafka"):
        stack.kill(name)
    shutil.rmtree(config.data("kafka"))
    config.data("kafka").mkdir()
    for name in ("kafka", "connect"):
        stack.restart(name)
    create_topics(config.kafka_bootstrap, chain_topics())
    _forget_positions(bench)
    bench.open_again()
    Generations(bench).replace("g2", ends=(GENERATION,))
    spark = stack.known["spark"]
    environment = {**spark.environment, "SPARK_ARCHIVE_DATABASE": NEW_ARCHIVE}
    stack.known["spark"] = dataclasses.replace(spark, environment=environment)
    stack.restart("spark")
    # The producer repeats the send.
    bench.emitter.send(CATEGORIES["push"], CLUB, list(unread.fates), send_id=unread.send_id)
    bench.emit(bench.shared[300:400])


def _dynamodb(bench: Bench) -> "DynamoDBClient":
    return dynamodb_table.dynamodb(bench.stack.config)


def _forget_positions(bench: Bench) -> None:
    """Execute the statements of the page."""
    [statements] = re.findall(r"^```sql\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    with psycopg.connect(bench.stack.config.database_url("metrics")) as connection:
        connection.execute(statements)
