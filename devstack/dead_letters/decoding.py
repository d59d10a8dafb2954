"""What a dead letter says, as far as it can be read now."""

import base64
import json
from dataclasses import dataclass
from functools import cache
from typing import Any

from devstack.dead_letters.letters import DeadLetter
from masscomm.errors import MasscommError
from masscomm.topics import chain_topics
from masscomm.wire import Codec


@dataclass(frozen=True, kw_only=True)
class Payload:
    """The record as a mapping, or why it cannot be read and its bytes in base64."""

    value: dict[str, Any] | None = None
    error: str | None = None
    base64: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        if self.value is not None:
            return {"payload": self.value}
        return {"payload": None, "payload_error": self.error, "payload_base64": self.base64}


@cache
def _schemas() -> dict[str, str]:
    return {topic.name: topic.schema for topic in chain_topics() if topic.schema is not None}


def payload_of(letter: DeadLetter, codec: Codec) -> Payload:
    """The letter's value: Avro by the schema of its source topic, JSON where the topic has none."""
    try:
        schema = _schemas().get(letter.topic)
        if schema is not None:
            return Payload(value=codec.decode(schema, letter.value))
        value = json.loads(letter.value or b"")
        return Payload(value=value if isinstance(value, dict) else {"value": value})
    except (MasscommError, ValueError) as error:
        return Payload(error=str(error), base64=base64.b64encode(letter.value or b"").decode())
