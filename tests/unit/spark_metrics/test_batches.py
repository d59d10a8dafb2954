"""A batch is counted again after temporary errors, with new schemas, and without the records that Postgres rejects."""

import gc
import weakref
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from unittest.mock import MagicMock

import psycopg
import pytest
from pyspark.sql import DataFrame, SparkSession

from masscomm.clock import FixedClock
from masscomm.domain import categories
from masscomm.errors import Retry, Stop
from masscomm.kafka.avro import KNOWN_SUBJECT, InMemorySchemaRegistry, own_schema
from masscomm.stores.categories.in_memory import InMemoryCategories
from masscomm.stores.categories.known import KnownCategories
from spark_metrics.common.waiting import DependencyWaiter
from spark_metrics.counting import batches
from spark_metrics.counting.batches import BatchCounter, NewPlan
from spark_metrics.counting.lane_merge import LaneResult, Plan
from spark_metrics.counting.lanes import Lanes
from spark_metrics.counting.sink import Merged, PostgresSink
from spark_metrics.counting.writers import KnownWriters
from tests.support.categories import put_version
from tests.support.spark.session import ToFrame

MERGED = Merged(records=1, refused=0, quarantined=0, replayed=0)
PLAN = Plan(database_url="", epoch=1, lanes=2, counted_at=datetime(2026, 11, 21, tzinfo=UTC), tables=None, kinds={})

type Step = Callable[..., Merged]


class Steps:
    """Stands in for count_batch: each call takes the next step, and the last step again at the end."""

    def __init__(self, *steps: Step) -> None:
        self.steps = list(steps)
        self.calls: list[dict[str, Any]] = []

    def __call__(self, records: DataFrame, _lanes: object, _plan: Plan, **arguments: Any) -> Merged:
        self.calls.append(arguments)
        step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        return step(records, **arguments)


def succeed(_: DataFrame, **__: Any) -> Merged:
    return MERGED


def failing(error: Exception) -> Step:
    def fail(_: DataFrame, **__: Any) -> Merged:
        raise error

    return fail


@pytest.fixture
def registry() -> InMemorySchemaRegistry:
    registry = InMemorySchemaRegistry()
    registry.register(KNOWN_SUBJECT, own_schema("NotificationOutcome"))
    return registry


@pytest.fixture
def counter(spark: SparkSession, registry: InMemorySchemaRegistry, monkeypatch: pytest.MonkeyPatch) -> BatchCounter:
    wait = DependencyWaiter(wait_s=60)
    monkeypatch.setattr(wait, "pause", lambda: False)
    writers = KnownWriters(registry, lambda _: True)
    sink = PostgresSink("")
    monkeypatch.setattr(sink, "begin", lambda _: PLAN)
    return BatchCounter(
        sink, Lanes(spark, 2), writers, wait, categories=categories.category_table(), refresh=lambda: None
    )


@pytest.fixture
def records(kafka_frame: ToFrame) -> DataFrame:
    frame = kafka_frame([{"topic": "outcome", "offset": offset, "value": b"x"} for offset in range(5)])
    return frame.withColumnRenamed("offset", "kafka_offset")


def test_batch_is_counted_again_after_a_temporary_error(
    counter: BatchCounter, records: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = Steps(failing(psycopg.OperationalError("down")), succeed)
    monkeypatch.setattr(batches, "count_batch", steps)
    counter.count(records, 7)
    assert [call["batch_id"] for call in steps.calls] == [7, 7]
    assert counter.failure is None


def test_long_batch_that_postgres_interrupts_is_repeated(
    counter: BatchCounter, records: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit of SPARK_WAIT_S is for a server that is down, not for a batch that takes longer."""
    monkeypatch.setattr(counter._wait, "_wait_s", -1)
    steps = Steps(failing(psycopg.OperationalError("restarted")), failing(psycopg.OperationalError("again")), succeed)
    monkeypatch.setattr(batches, "count_batch", steps)
    counter.count(records, 7)
    assert len(steps.calls) == 3

    def begin(_: int) -> Plan:
        raise psycopg.OperationalError("refused")

    monkeypatch.setattr(counter._sink, "begin", begin)
    with pytest.raises(Retry, match=r"Postgres stayed down for .*: refused"):
        counter.count(records, 8)


@pytest.mark.parametrize("error", [Stop("another driver"), ValueError("a mistake")])
def test_permanent_error_ends_the_stream_and_is_stored(
    counter: BatchCounter, records: DataFrame, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(batches, "count_batch", Steps(failing(error)))
    with pytest.raises(type(error)):
        counter.count(records, 0)
    assert counter.failure is error


def test_learned_schema_ends_the_query(
    counter: BatchCounter, records: DataFrame, registry: InMemorySchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next query decodes the batch with the schema."""
    schema_id = registry.register("send.api-value", own_schema("SendRequested"))

    def learn(_: DataFrame, *, learn: Callable[..., Any], **__: Any) -> Merged:
        learn([("send", schema_id)])
        raise AssertionError("a learned schema does not end the batch")

    monkeypatch.setattr(batches, "count_batch", Steps(learn))
    with pytest.raises(NewPlan):
        counter.count(records, 0)
    assert isinstance(counter.failure, NewPlan)


@pytest.mark.kills(guard="metrics.changed_categories")
def test_changed_category_ends_the_query(
    counter: BatchCounter, records: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = Steps(succeed)
    monkeypatch.setattr(batches, "count_batch", steps)
    store = InMemoryCategories()
    known = KnownCategories(store=store, clock=FixedClock())
    known.read()
    counter._refresh, counter._categories = known.read, categories.category_table()
    counter.count(records, 0)
    put_version(store, "offers", {"channels": ["email"]})
    with pytest.raises(NewPlan):
        counter.count(records, 1)
    assert len(steps.calls) == 1, "the batch was not counted with the former categories"


class Merging:
    """Stands in for Lanes: Postgres rejects a batch until its plan finds unstorable records, or always."""

    def __init__(self, *, always: bool = False) -> None:
        self.always, self.plans = always, list[Plan]()

    def merge(self, _: DataFrame, plan: Plan) -> list[LaneResult]:
        self.plans.append(plan)
        rejected = self.always or not plan.find_unstorable
        return [LaneResult(0, rejected="out of range" if rejected else None), LaneResult(1)]


def merge(records: DataFrame, lanes: Any) -> Merged:
    sink = MagicMock(spec=PostgresSink, complete=lambda *_, **__: MERGED)
    return batches.count_batch(records, lanes, PLAN, sink=sink, learn=set)


def test_rejected_batch_is_merged_without_its_unstorable_records(records: DataFrame) -> None:
    lanes = Merging()
    assert merge(records, lanes) == MERGED
    assert [plan.find_unstorable for plan in lanes.plans] == [False, True]


def test_batch_that_no_search_makes_storable_ends_the_stream(records: DataFrame) -> None:
    lanes = Merging(always=True)
    with pytest.raises(Stop, match="out of range"):
        merge(records, lanes)
    assert len(lanes.plans) == 2


def test_denied_schema_is_refused_at_once(
    counter: BatchCounter, records: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its record is quarantined, so that the other records of the batch do not wait."""
    refused: list[set[tuple[str, int]]] = []

    def learn(_: DataFrame, *, learn: Callable[..., Any], **__: Any) -> Merged:
        refused.append(learn([("send", 99)]))
        return MERGED

    monkeypatch.setattr(batches, "count_batch", Steps(learn))
    monkeypatch.setattr(counter._wait, "pause", lambda: pytest.fail("the batch waits"))
    counter.count(records, 0)
    assert refused == [{("send", 99)}]


def test_objects_of_a_counted_batch_are_garbage_collected(
    counter: BatchCounter, records: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cycles of py4j's objects keep plans in the JVM."""
    monkeypatch.setattr(batches, "_COLLECT_EVERY_S", 0.0)
    collected: list[bool] = []

    class Cycle:
        def __init__(self) -> None:
            self.itself = self
            weakref.finalize(self, collected.append, True)

    def count(_: DataFrame, **__: Any) -> Merged:
        Cycle()
        return MERGED

    monkeypatch.setattr(batches, "count_batch", Steps(count))
    gc.disable()
    try:
        counter.count(records, 0)
    finally:
        gc.enable()
    assert collected == [True]
