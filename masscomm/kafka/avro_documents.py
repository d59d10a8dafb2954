"""Decodes Avro values of other systems, each with its writer's schema, to documents that JSON can hold."""

import base64
from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

from masscomm.errors import DeadLetter
from masscomm.kafka.avro import SchemaRegistry, read_value, schema_id_of

# The fewest bytes of a value of each primitive type.
_BYTES = {"null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "bytes": 1, "string": 1, "enum": 1}
_NAMED = ("record", "error", "enum", "fixed")


class AvroDocuments:
    """Decodes values in the Confluent wire format. A schema is requested once."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry
        self._parsed: dict[int, Any] = {}

    def decode(self, data: bytes | None) -> dict[str, Any]:
        """Return the fields of a record: times, dates and UUIDs are ISO 8601 texts, decimals are texts, and bytes are
        base64.

        Raises:
            UnknownSchema: The registry does not know the schema id yet.
            DeadLetter: The record is undecodable, or its schema cannot be used (unknown_schema).
            Retry: The registry is unavailable.
        """
        schema_id = schema_id_of(data)
        value = read_value(data or b"", schema_id, self._schema(schema_id))
        if not isinstance(value, dict):
            raise DeadLetter("undecodable", f"schema {schema_id} is not a record")
        return {name: _plain(each) for name, each in value.items()}

    def _schema(self, schema_id: int) -> Any:
        import fastavro.schema

        if schema_id not in self._parsed:
            schema = self._registry.schema_by_id(schema_id)
            try:
                parsed = fastavro.schema.parse_schema(schema)
                _check(schema)
            except Exception as error:  # The registry may have accepted a schema that fastavro refuses.
                raise DeadLetter("unknown_schema", f"schema {schema_id} cannot be used: {error!r}"[:500]) from error
            self._parsed[schema_id] = parsed
        return self._parsed[schema_id]


def _check(schema: Any) -> None:
    """Refuse schemas whose values can end a process, as fastavro's compiled reader has no limits. Raises ValueError.

    A value of a recursive schema can be nested so deeply that the stack overflows, and an array of items without bytes
    can be endless.
    """
    _fewest_bytes(schema, "", {})


def _fewest_bytes(schema: Any, namespace: str, known: dict[str, int | None]) -> int:
    """Return the fewest bytes of a value.

    Args:
        schema: A schema, or a part of one.
        namespace: The namespace of the schemas around it.
        known: The fewest bytes by full name; None for the records around this schema.
    """
    match schema:
        case list():
            return 1 + min((_fewest_bytes(each, namespace, known) for each in schema), default=0)
        case str():
            if schema in _BYTES:
                return _BYTES[schema]
            name = _full_name(schema, namespace)
            fewest = known[name]
            if fewest is None:  # guard: own_topics.recursive_schema
                raise ValueError(f"{name} contains itself")
            return fewest
    kind = schema["type"]
    if kind in _NAMED:
        name = _full_name(schema["name"], schema.get("namespace", namespace))
        inner = name.rpartition(".")[0]
        known[name] = None
        if kind in ("record", "error"):
            fewest = sum(_fewest_bytes(field["type"], inner, known) for field in schema["fields"])
        else:
            fewest = schema["size"] if kind == "fixed" else 1
        known[name] = fewest
        return fewest
    if kind == "array":
        if _fewest_bytes(schema["items"], namespace, known) == 0:  # guard: own_topics.items_without_bytes
            raise ValueError("an array has items without bytes")
        return 1
    if kind == "map":
        _fewest_bytes(schema["values"], namespace, known)
        return 1
    return _fewest_bytes(kind, namespace, known)


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _plain(value: Any) -> Any:
    match value:
        case Mapping():
            return {name: _plain(each) for name, each in value.items()}
        case list():
            return [_plain(each) for each in value]
        case bytes():
            return base64.b64encode(value).decode()
        case datetime() | date() | time():
            return value.isoformat()
        case Decimal() | UUID():
            return str(value)
    return value
