"""Writers' schemas are learned once, and only if they can be used."""

from masscomm.wire import InMemorySchemaRegistry, own_schema
from spark_metrics.writers import KnownWriters


def test_a_schema_is_learned_once() -> None:
    registry = InMemorySchemaRegistry()
    schema_id = registry.register("send.api-value", own_schema("SendRequested"))
    writers = KnownWriters(registry, lambda _: True)
    assert writers.learn([("send", schema_id)]) == (1, set())
    assert writers.learn([("send", schema_id)]) == (0, set())
    assert list(writers.known["send"]) == [schema_id]
    assert not writers.known["outcome"]


def test_what_the_registry_does_not_know_is_refused_and_asked_again() -> None:
    registry = InMemorySchemaRegistry()
    writers = KnownWriters(registry, lambda _: True)
    assert writers.learn([("send", 1)]) == (0, {("send", 1)})
    registry.register("send.api-value", own_schema("SendRequested"))
    assert writers.learn([("send", 1)]) == (1, set())


def test_a_schema_that_spark_cannot_use_never_reaches_a_plan() -> None:
    registry = InMemorySchemaRegistry()
    schema_id = registry.register("send.api-value", own_schema("SendRequested"))
    writers = KnownWriters(registry, lambda _: False)
    assert writers.learn([("send", schema_id)]) == (0, {("send", schema_id)})
    assert not writers.known["send"]
