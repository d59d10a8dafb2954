"""Decodes the payload of a record, to show it."""

import base64
from dataclasses import dataclass
from functools import cache
from typing import Any

from masscomm.errors import MasscommError
from masscomm.json_reader import read_json
from masscomm.kafka.avro import Codec
from masscomm.kafka.topics import chain_topics


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
    """Return the Avro schema of each topic that has one."""
    return {topic.name: topic.schema for topic in chain_topics() if topic.schema is not None}


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
