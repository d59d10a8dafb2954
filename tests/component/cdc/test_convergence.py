"""Random histories, reordered and repeated, end with the right documents on the real OpenSearch as on the fake."""

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from functions.cdc_consumer.apply_changes import ApplyChanges
from functions.cdc_consumer.generation import Generation
from local.devstack.config import StackConfig
from local.devstack.provision import create_indices
from masscomm.cdc.progress import InMemoryCdcProgress
from masscomm.clock import SystemClock
from masscomm.kafka.event import KafkaRecord
from tests.support.harness.change_data_capture import Context, driver, event_of
from tests.support.inputs.changelogs import Changelog
from tests.support.inputs.debezium_records import GENERATION
from tests.support.inputs.table_histories import History, histories
from tests.support.servers.opensearch_client import TestClient


@pytest.fixture
def consumer(stack: StackConfig) -> Any:
    client = TestClient(stack.opensearch_url)
    generation = Generation(client, name=GENERATION, progress=InMemoryCdcProgress(), clock=SystemClock())
    yield stack.opensearch_url, client, ApplyChanges(client, generation)
    client.close()


@given(history=histories(), seed=st.integers())
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_order_of_changes_converges_to_the_table(consumer: Any, history: History, seed: int) -> None:
    url, client, use_case = consumer
    make_indices(url, client)
    for batch in history.deliveries(random.Random(seed)):  # noqa: S311
        assert run(use_case, batch) == []
    assert names(client) == history.table


@pytest.mark.nightly
@given(history=histories(), seed=st.integers())
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_compacted_topic_converges_to_the_table(consumer: Any, history: History, seed: int) -> None:
    """Deletions are compacted away while the topic is consumed."""
    url, client, use_case = consumer
    make_indices(url, client)
    chance, position = random.Random(seed), 0  # noqa: S311
    topic = Changelog(history, chance)
    while batch := topic.read(position, chance.randint(1, 2)):
        assert run(use_case, batch) == []
        position = batch[-1].offset + 1
        topic.compact()
    assert names(client) == history.table


def make_indices(url: str, client: TestClient) -> None:
    client.indices.delete(index="users-g1", ignore_unavailable=True)
    create_indices(url, GENERATION)


def names(client: TestClient) -> dict[str, str]:
    client.indices.refresh(index="users-g1")
    hits = client.search(index="users-g1", body={"size": 100})["hits"]["hits"]
    return {hit["_id"]: hit["_source"]["first_name"] for hit in hits if not hit["_source"].get("deleted")}


def run(use_case: ApplyChanges, batch: list[KafkaRecord]) -> list[Any]:
    failures: list[Any] = driver().run(event_of(batch), Context(), use_case)["batchItemFailures"]
    return failures
