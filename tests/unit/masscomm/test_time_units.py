"""The unit of a logical type is the writer's."""

from typing import Any

import pytest

from masscomm.errors import DeadLetter
from masscomm.kafka.avro import Codec, InMemorySchemaRegistry, own_schema
from masscomm.kafka.time_units import TimeUnits, time_units
from tests.support.harness.chain import send
from tests.support.inputs.other_units import with_unit

SEND = own_schema("SendRequested")
NOW_MS = 1_700_000_000_123


def _codec(schema: dict[str, Any]) -> tuple[Codec, bytes]:
    """Return a codec that knows our schema and a writer's, and the header of the writer's records."""
    registry = InMemorySchemaRegistry()
    registry.register("send.monolith-value", SEND)
    return Codec(registry), b"\0" + registry.register("send.api-value", schema).to_bytes(4, "big")


@pytest.mark.kills(guard="registry.unit_of_the_writer")
@pytest.mark.parametrize(("unit", "per_ms"), [("timestamp-micros", 1_000), ("timestamp-nanos", 1_000_000)])
def test_finer_times_are_read_in_milliseconds(unit: str, per_ms: int) -> None:
    codec, header = _codec(with_unit(SEND, unit))
    times = {"timestamp": NOW_MS, "send_at": NOW_MS + 1, "expires_at": None}
    finer = {name: value and value * per_ms + per_ms - 1 for name, value in times.items()}
    value = header + codec.encode("send.monolith", "SendRequested", send([1, 2]).to_avro() | finer)[5:]
    assert codec.decode("SendRequested", value) == send([1, 2]).to_avro() | times


@pytest.mark.parametrize("unit", [None, "timestamp-millis"])
def test_times_of_our_unit_are_unchanged(unit: str | None) -> None:
    assert time_units(SEND, with_unit(SEND, unit)) == TimeUnits()


@pytest.mark.kills(guard="registry.local_time")
@pytest.mark.parametrize("unit", ["local-timestamp-millis", "local-timestamp-micros", "date", "time-micros"])
def test_record_with_a_local_time_is_dead_lettered(unit: str) -> None:
    codec, header = _codec(with_unit(SEND, unit))
    value = header + codec.encode("send.monolith", "SendRequested", send([1, 2]).to_avro())[5:]
    with pytest.raises(DeadLetter, match=f"timestamp is a {unit}") as refused:
        codec.decode("SendRequested", value)
    assert refused.value.reason == "unknown_schema"


def test_time_with_two_units_has_a_problem() -> None:
    both = [{"type": "long", "logicalType": f"timestamp-{unit}"} for unit in ("millis", "micros")]
    writer = {"type": "record", "name": "Send", "fields": [{"name": "send_at", "type": ["null", *both]}]}
    assert "send_at is a" in (time_units(SEND, writer).problem or "")


@pytest.mark.parametrize("writer", [{"type": "long"}, {"type": "record", "name": "Other", "fields": []}])
def test_schema_without_our_times_has_no_problem(writer: dict[str, Any]) -> None:
    assert time_units(SEND, writer) == TimeUnits()


def test_unit_of_a_nested_type_is_found() -> None:
    nested = {"type": {"type": "long", "logicalType": "timestamp-micros"}}
    writer = {"type": {"type": "record", "name": "Send", "fields": [{"name": "timestamp", "type": nested}]}}
    assert time_units(SEND, writer) == TimeUnits({"timestamp": 1_000})
