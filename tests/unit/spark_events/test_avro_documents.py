"""Avro values of other systems are decoded to values of JSON; a schema that can end the process is refused."""

import io
import json
import uuid
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from masscomm.errors import DeadLetter
from masscomm.kafka.avro import InMemorySchemaRegistry
from masscomm.kafka.avro_documents import AvroDocuments


def record(*fields: dict[str, Any], name: str = "Order") -> dict[str, Any]:
    return {"type": "record", "name": name, "namespace": "shop", "fields": list(fields)}


def encoded(schema: Any, value: Any) -> tuple[AvroDocuments, bytes]:
    registry = InMemorySchemaRegistry()
    schema_id = registry.register("orders-value", schema)
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(schema), value)
    return AvroDocuments(registry), b"\0" + schema_id.to_bytes(4, "big") + buffer.getvalue()


def decoded(schema: Any, value: Any) -> dict[str, Any]:
    documents, data = encoded(schema, value)
    return documents.decode(data)


def test_values_without_a_type_in_json_become_texts() -> None:
    logical = {
        "at": ({"type": "long", "logicalType": "timestamp-micros"}, datetime(2026, 11, 29, 12, tzinfo=UTC)),
        "day": ({"type": "int", "logicalType": "date"}, date(2026, 11, 29)),
        "price": ({"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}, Decimal("19.90")),
        "id": ({"type": "string", "logicalType": "uuid"}, uuid.UUID(int=7)),
        "raw": ("bytes", b"\xff"),
        "lines": ({"type": "array", "items": {"type": "map", "values": ["null", "bytes"]}}, [{"a": b"x", "b": None}]),
    }
    schema = record(*({"name": name, "type": kind} for name, (kind, _) in logical.items()))
    found = decoded(schema, {name: value for name, (_, value) in logical.items()})
    assert json.loads(json.dumps(found)) == {
        "at": "2026-11-29T12:00:00+00:00",
        "day": "2026-11-29",
        "price": "19.90",
        "id": str(uuid.UUID(int=7)),
        "raw": "/w==",
        "lines": [{"a": "eA==", "b": None}],
    }


@pytest.mark.kills(guard="own_topics.recursive_schema")
def test_recursive_schema_is_refused() -> None:
    """A deeply nested value of a megabyte overflows the stack of the process."""
    chain = record({"name": "next", "type": ["null", "shop.Order"]})
    documents, data = encoded(chain, {"next": None})
    with pytest.raises(DeadLetter, match=r"shop\.Order contains itself"):
        documents.decode(data)


@pytest.mark.kills(guard="own_topics.items_without_bytes")
@pytest.mark.parametrize(
    "items",
    [
        "null",
        record({"name": "none", "type": "null"}, name="Empty"),
        {"type": "fixed", "name": "Nothing", "size": 0},
    ],
)
def test_array_of_items_without_bytes_is_refused(items: Any) -> None:
    """Five bytes could claim a billion items."""
    documents, data = encoded(record({"name": "all", "type": {"type": "array", "items": items}}), {"all": []})
    with pytest.raises(DeadLetter, match="items without bytes"):
        documents.decode(data)


def test_named_type_may_be_used_twice() -> None:
    line = record({"name": "sku", "type": "string"}, name="Line")
    schema = record({"name": "first", "type": line}, {"name": "last", "type": ["null", "Line"]})
    value = {"first": {"sku": "a"}, "last": {"sku": "b"}}
    assert decoded(schema, value) == value


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (None, "undecodable"),
        (b"", "undecodable"),
        (b"{}", "undecodable"),
        (b"\0\0\0\0\1", "undecodable"),
        (b"\0\0\0\0\1\x02a\x00", "undecodable"),
        (b"\0\0\0\0\1\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "undecodable"),
        (b"\0\0\0\0\0", "undecodable"),
        (b"\0\0\0\0\2\x02a", "unknown_schema"),
    ],
)
def test_undecodable_value_is_dead_lettered(data: bytes | None, reason: str) -> None:
    registry = InMemorySchemaRegistry()
    registry.register("outcome-value", record({"name": "kind", "type": "string"}))
    with pytest.raises(DeadLetter) as refused:
        AvroDocuments(registry).decode(data)
    assert refused.value.reason == reason


def test_schema_that_is_no_record_is_refused() -> None:
    documents, data = encoded({"type": "array", "items": "string"}, ["a"])
    with pytest.raises(DeadLetter, match="is not a record"):
        documents.decode(data)
