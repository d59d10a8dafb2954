"""Schemas, examples, topics and records agree in their names."""

import dataclasses
import io
import json
from pathlib import Path
from typing import Any, cast

import fastavro
import pytest

import schemas
from masscomm.domain import records
from masscomm.domain.records import AvroRecord
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec, InMemorySchemaRegistry, own_schema

FOLDER = Path(next(iter(schemas.__path__)))
SCHEMAS = sorted(path.stem for path in FOLDER.glob("*.avsc"))
EXAMPLES = sorted(FOLDER.joinpath("examples").glob("*"))

# The smallest schema of a producer.
MINIMAL_SEND_SCHEMA = {
    "type": "record",
    "name": "SendRequested",
    "namespace": "masscomm",
    "fields": [
        {"name": "type", "type": "string"},
        {"name": "club_id", "type": "long"},
        {"name": "timestamp", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "to_users", "type": {"type": "array", "items": "long"}},
    ],
}


def _codec(schema: str) -> Codec:
    registry = InMemorySchemaRegistry()
    registry.register("topic-value", own_schema(schema))
    return Codec(registry)


def _record_schemas(schema: Any) -> dict[str, dict[str, Any]]:
    """Return every record in a schema by its name, nested records included."""
    if isinstance(schema, list):
        return {name: found for item in schema for name, found in _record_schemas(item).items()}
    if not isinstance(schema, dict):
        return {}
    found = {schema["name"]: schema} if schema.get("type") == "record" else {}
    inner = [field["type"] for field in schema.get("fields", [])] + [schema.get("items"), schema.get("values")]
    if isinstance(schema.get("type"), dict | list):
        inner.append(schema["type"])
    return found | _record_schemas(inner)


ALL_RECORDS = {name: found for schema in SCHEMAS for name, found in _record_schemas(own_schema(schema)).items()}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_encoded_and_decoded_by_its_schema(path: Path) -> None:
    schema, _, case = path.stem.partition(".")
    assert path.suffix == ".json"
    assert case
    example = json.loads(path.read_text())
    codec = _codec(schema)
    decoded = codec.decode(schema, codec.encode("topic", schema, example))
    assert {name: decoded[name] for name in example} == example


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_passes_through_the_record_class_unchanged(path: Path) -> None:
    schema = path.stem.partition(".")[0]
    codec = _codec(schema)
    decoded = codec.decode(schema, codec.encode("topic", schema, json.loads(path.read_text())))
    record = cast(type[AvroRecord], getattr(records, schema)).from_avro(decoded)
    assert record.to_avro() == decoded


def test_every_schema_has_an_example_and_every_example_a_schema() -> None:
    assert sorted({path.stem.partition(".")[0] for path in EXAMPLES}) == SCHEMAS


def test_schemas_are_exactly_those_of_the_topics() -> None:
    assert sorted({topic.schema for topic in topics.chain_topics() if topic.schema is not None}) == SCHEMAS


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_schema_is_named_as_its_file(name: str) -> None:
    assert (own_schema(name)["namespace"], own_schema(name)["name"]) == ("masscomm", name)


def test_send_with_the_first_four_fields_is_decoded() -> None:
    registry = InMemorySchemaRegistry()
    schema_id = registry.register("send.monolith-value", MINIMAL_SEND_SCHEMA)
    buffer = io.BytesIO()
    buffer.write(b"\0" + schema_id.to_bytes(4, "big"))
    fastavro.schemaless_writer(
        buffer,
        fastavro.parse_schema(MINIMAL_SEND_SCHEMA),
        {"type": "news", "club_id": 7, "timestamp": 1_700_000_000_000, "to_users": [1, 2]},
    )
    decoded = Codec(registry).decode("SendRequested", buffer.getvalue())
    assert records.SendRequested.from_avro(decoded) == records.SendRequested(
        type="news", club_id=7, timestamp=1_700_000_000_000, to_users=[1, 2]
    )


@pytest.mark.parametrize("name", sorted(ALL_RECORDS))
def test_the_record_class_has_the_schemas_fields_name_for_name(name: str) -> None:
    fields = [field.name for field in dataclasses.fields(getattr(records, name))]
    assert sorted(fields) == sorted(field["name"] for field in ALL_RECORDS[name]["fields"])


@pytest.mark.parametrize("name", sorted(ALL_RECORDS))
def test_a_default_of_the_record_class_is_the_schemas(name: str) -> None:
    of_schema = {field["name"]: field["default"] for field in ALL_RECORDS[name]["fields"] if "default" in field}
    of_class = {}
    for field in dataclasses.fields(getattr(records, name)):
        if field.default is not dataclasses.MISSING:
            of_class[field.name] = field.default
        elif field.default_factory is not dataclasses.MISSING:
            of_class[field.name] = field.default_factory()
    # `addresses` and `index` have a default in the schema only, because our own code must always set them.
    assert {name: of_schema.get(name, "none") for name in of_class} == of_class


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_subject_is_the_topics_value(name: str) -> None:
    using = [topic for topic in topics.chain_topics() if topic.schema == name]
    assert [topic.subject for topic in using] == [f"{topic.name}-value" for topic in using]
