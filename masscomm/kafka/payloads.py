"""Decodes the payload of a record, to show it."""

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from masscomm.errors import MasscommError
from masscomm.json_reader import read_json
from masscomm.kafka.avro import Codec, own_schema
from masscomm.kafka.topics import chain_topics

# The name of a column. Another name in a JSON record may be a value, such as a user's id.
_COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_OTHER_NAMES = "*"
_TYPES = ((bool, "boolean"), (int, "integer"), (float, "number"), (str, "text"), (bytes, "bytes"))


@dataclass(frozen=True, kw_only=True)
class Payload:
    """A decoded record; if it cannot be decoded, the error, and the bytes in base64."""

    value: dict[str, Any] | None = None
    error: str | None = None
    base64: str | None = None

    def as_dict(self) -> dict[str, Any]:
        if self.value is not None:
            return {"payload": self.value}
        return {"payload": None, "payload_error": self.error, "payload_base64": self.base64}


@cache
def schemas() -> dict[str, str]:
    """Return the name of the Avro schema of each topic that has one."""
    return {topic.name: topic.schema for topic in chain_topics() if topic.schema is not None}


@cache
def _field_names(topic: str) -> frozenset[str] | None:
    """Return the names of the fields of a topic's records, those of records within them included; None for JSON."""
    schema = schemas().get(topic)
    return None if schema is None else frozenset(_names_in(own_schema(schema)))


def _names_in(schema: Any) -> Iterator[str]:
    match schema:
        case dict():
            yield from (field["name"] for field in schema.get("fields", ()))
            yield from _names_in(list(schema.values()))
        case list():
            for each in schema:
                yield from _names_in(each)


def outline(topic: str, value: Any) -> Any:
    """Return a decoded record with types in the place of values. The keys of a map are values, too: they become `*`."""
    match value:
        case dict():
            return {_outlined_name(topic, name): outline(topic, each) for name, each in value.items()}
        case list():
            items = {json.dumps(found, sort_keys=True): found for found in (outline(topic, each) for each in value)}
            return list(items.values())
        case None:
            return None
    return next((name for kind, name in _TYPES if isinstance(value, kind)), "text")


def _outlined_name(topic: str, name: str) -> str:
    fields = _field_names(topic)
    is_name = _COLUMN.fullmatch(name) is not None if fields is None else name in fields
    return name if is_name else _OTHER_NAMES  # guard: dead_letters.keys_of_a_map


def decoded(topic: str, value: bytes | None, codec: Codec) -> dict[str, Any]:
    """Return the decoded record: with the topic's Avro schema, or as JSON if the topic has none.

    Raises:
        MasscommError, ValueError: The record cannot be decoded, or the registry does not answer (Retry).
    """
    schema = schemas().get(topic)
    if schema is not None:
        return codec.decode(schema, value)
    document = read_json(value or b"")
    return document if isinstance(document, dict) else {"value": document}


def payload_of(topic: str, value: bytes | None, codec: Codec) -> Payload:
    """Decode a record to show it; an error is part of the result."""
    try:
        return Payload(value=decoded(topic, value, codec))
    except (MasscommError, ValueError) as error:
        return Payload(error=str(error), base64=base64.b64encode(value or b"").decode())
