"""A send shows its results while no metrics job runs: over DynamoDB, Kafka, the registry and Postgres."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from functions.preference_checker.check_preferences import CheckPreferences
from functions.sends_api.routes.results_at_once import ResultsAtOnce
from functions.sends_api.routes.send import SendRoute
from local.devstack.config import StackConfig
from masscomm.chain.batch import BatchDriver
from masscomm.chain.result_writer import ResultWriter
from masscomm.clock import FixedClock, SystemClock
from masscomm.directory.in_memory import InMemoryDirectory
from masscomm.domain.users import User, UserSettings
from masscomm.http.tenant import Clubs
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec, HttpSchemaRegistry
from masscomm.kafka.outcome_progress import InMemoryOutcomeProgress
from masscomm.kafka.producer import KafkaProducer
from masscomm.stores.decision_log.in_memory import InMemoryDecisionLog
from masscomm.stores.delayed_records.in_memory import InMemoryDelayStore
from masscomm.stores.digests.in_memory import InMemoryDigests
from masscomm.stores.frequency_caps.in_memory import InMemoryFrequencyCaps
from masscomm.stores.metrics.postgres import PostgresMetricsStore
from masscomm.stores.metrics_database import connection_pool
from masscomm.stores.send_results.dynamodb import DynamoDbSendResults
from masscomm.stores.sends.dynamodb import DynamoDbSends
from tests.support.harness.chain import Context, entry, event, failed_offsets, send
from tests.support.servers.dynamodb_table import dynamodb, functions_client, new_table
from tests.support.servers.kafka_topics import make_topic
from tests.support.servers.metrics_database import metrics_database

__all__ = ["functions_client"]


@pytest.fixture
def metrics(postgres: StackConfig) -> Iterator[PostgresMetricsStore]:
    """The tables of the metrics, into which no job counts."""
    with metrics_database(postgres) as url:
        pool = connection_pool(url)
        yield PostgresMetricsStore(pool)
        pool.close()


def test_ended_send_is_readable_without_a_job(
    kafka: StackConfig,
    registry: StackConfig,
    localstack: StackConfig,
    functions_client: Any,
    metrics: PostgresMetricsStore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(topics, "OUTCOME", make_topic(kafka.kafka_bootstrap))
    codec = Codec(HttpSchemaRegistry(registry.registry_url))
    monkeypatch.setattr(codec, "encode", lambda _topic, _name, _value: b"a record")
    table, clock = new_table(dynamodb(localstack), "sends"), FixedClock(SystemClock().now_ms())
    sends = DynamoDbSends(table=table, client=functions_client)
    results = DynamoDbSendResults(table=table, client=functions_client)
    directory = InMemoryDirectory()
    directory.put(User(user_id=1, club_id=7), User(user_id=2, club_id=7))
    directory.put(UserSettings(user_id=1, channels={"push": False}), UserSettings(user_id=2, channels={"push": False}))
    driver = BatchDriver(
        function="preference_checker",
        codec=codec,
        producer=KafkaProducer(kafka.kafka_bootstrap),
        results=ResultWriter(results=results),
    )
    use_case = CheckPreferences(
        outcome_progress=InMemoryOutcomeProgress(),
        directory=directory,
        clock=clock,
        delay_store=InMemoryDelayStore(),
        decision_log=InMemoryDecisionLog(),
        frequency_caps=InMemoryFrequencyCaps(),
        digests=InMemoryDigests(),
        sends=sends,
    )
    record = send([1, 2], send_id=str(uuid4()), channels=["push"], timestamp=clock.now_ms())
    monkeypatch.setattr(codec, "decode", lambda _name, _value: record.to_avro())
    batch = event(entry(b"a send", topic=topics.SEND_MONOLITH, timestamp=clock.now_ms()))
    assert failed_offsets(driver.run(batch, Context(clock), use_case)) == []

    route = SendRoute(metrics, sends, clock, ResultsAtOnce(metrics, results))
    answer = route.answer(str(record.send_id), {}, Clubs(frozenset({7})))
    assert (answer["status"], answer["complete"], answer["watermark"]) == ("ended", False, None)
    assert answer["totals"] is not None
    assert answer["totals"]["suppressed"] == {"opted_out": 2}
    assert answer["chunks"] == {"expected": None, "counted": 0}
    counted = SendRoute(metrics, sends, clock).answer(str(record.send_id), {}, Clubs(frozenset({7})))
    assert (counted["status"], counted["complete"]) == ("accepted", False)
