"""Writer schemas are read once, and used only if they are compatible."""

import pytest

from masscomm.clock import FixedClock
from masscomm.domain.time_limits import DENIED_SCHEMA_RETRY_S
from masscomm.errors import Retry
from masscomm.kafka.avro import KNOWN_SUBJECT, InMemorySchemaRegistry, own_schema
from masscomm.kafka.denied_ids import DeniedIds
from spark_metrics.counting.writers import KnownWriters, Learned
from tests.support.inputs.other_units import with_unit


def _registry() -> InMemorySchemaRegistry:
    registry = InMemorySchemaRegistry()
    registry.register(KNOWN_SUBJECT, own_schema("NotificationOutcome"))
    return registry


def test_a_schema_is_learned_once() -> None:
    registry = _registry()
    schema_id = registry.register("send.api-value", own_schema("SendRequested"))
    writers = KnownWriters(registry, lambda _: True)
    assert writers.learn([("send", schema_id)]) == Learned(1, set())
    assert writers.learn([("send", schema_id)]) == Learned(0, set())
    assert list(writers.known["send"]) == [schema_id]
    assert not writers.known["outcome"]


@pytest.mark.kills(guard="metrics.denied_id_is_retried")
def test_denied_schema_id_is_looked_up_again_and_learned() -> None:
    registry = _registry()
    writers = KnownWriters(registry, lambda _: True, DeniedIds(clock=FixedClock()))
    assert writers.learn([("send", 2)]) == Learned(0, {("send", 2)}, asked_again=True)
    registry.register("send.api-value", own_schema("SendRequested"))
    assert writers.learn([("send", 2)]) == Learned(1, set())


def test_denied_schemas_are_refused_when_their_time_is_over() -> None:
    """All denied ids are requested once more; ids that appear later in a flood do not delay a batch again."""
    clock = FixedClock()
    writers = KnownWriters(_registry(), lambda _: True, DeniedIds(clock=clock))
    flood = [("send", schema_id) for schema_id in range(100, 3_000)]
    assert writers.learn(flood).asked_again
    clock.advance(DENIED_SCHEMA_RETRY_S)
    learned = writers.learn(flood)
    assert (learned.refused, learned.asked_again) == (set(flood), False)
    assert not writers.learn([("send", 7_000)]).asked_again


def test_a_registry_without_our_schemas_refuses_nothing() -> None:
    writers = KnownWriters(InMemorySchemaRegistry(), lambda _: True)
    with pytest.raises(Retry, match="schema 1 of send records"):
        writers.learn([("send", 1)])


def test_a_schema_that_spark_cannot_use_never_reaches_a_plan() -> None:
    registry = _registry()
    schema_id = registry.register("send.api-value", own_schema("SendRequested"))
    writers = KnownWriters(registry, lambda _: False)
    assert writers.learn([("send", schema_id)]) == Learned(0, {("send", schema_id)})
    assert not writers.known["send"]


@pytest.mark.kills(guard="metrics.local_time")
def test_a_schema_with_local_times_is_refused() -> None:
    registry = _registry()
    schema_id = registry.register("send.api-value", with_unit(own_schema("SendRequested"), "local-timestamp-millis"))
    assert KnownWriters(registry, lambda _: True).learn([("send", schema_id)]) == Learned(0, {("send", schema_id)})


@pytest.mark.kills(guard="metrics.refused_id_is_logged_once")
def test_refused_schema_id_costs_one_log_line(caplog: pytest.LogCaptureFixture) -> None:
    """It is looked up many times, by the stream and by the archive."""
    registry, clock = _registry(), FixedClock()
    stream = KnownWriters(registry, lambda _: True, DeniedIds(clock=clock))
    archive = KnownWriters(registry, lambda _: True, DeniedIds(clock=clock), quiet=True)
    for _ in range(2 * round(DENIED_SCHEMA_RETRY_S)):
        assert stream.learn([("send", 7), ("outcome", 7)]).asked_again
        assert archive.learn([("send", 7)]).asked_again
        clock.advance(0.5)
    assert not stream.learn([("send", 7)]).asked_again
    assert [record.getMessage() for record in caplog.records] == [
        "schema 7 cannot be used: the registry knows no schema with id 7"
    ]
