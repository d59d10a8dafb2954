"""Converts the records of a send or of one notification to the steps of a trace (the history that `masscomm trace`
shows).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Message

from cli.tracing.steps import Asked, Kind, Step
from masscomm.domain.ids import chunk_id, send_id_of_record
from masscomm.errors import DeadLetter
from masscomm.kafka import dead_letters, topics
from masscomm.kafka.dead_letters import original_position
from masscomm.kafka.event import KafkaRecord
from masscomm.observability import traces

# The function that produces each kind of record, unless the scheduler released the record or the record names its
# function.
_WRITERS = {
    "RecheckRequested": "preference_checker",
    "BuildRequested": "preference_checker",
    "DeliveryRequested": "builder",
    "DeviceStatusChanged": "delivery",
}
_RELEASED = "masscomm.released"


@dataclass(frozen=True, kw_only=True)
class Read:
    """A decoded record."""

    position: str
    at_ms: int
    topic: str
    schema: str
    value: Mapping[str, Any]  # The fields of the record; `send_id` is set even if the record has none.
    headers: tuple[tuple[str, bytes], ...]

    def header(self, name: str) -> str | None:
        """Return the last header with this name as text; None if there is none."""
        found = dict(self.headers).get(name)
        return None if found is None else found.decode(errors="replace")


def headers_of(message: Message) -> tuple[tuple[str, bytes], ...]:
    """Return the headers with their values as bytes."""
    pairs: Any = message.headers() or []
    return tuple((name, value.encode() if isinstance(value, str) else value or b"") for name, value in pairs)


def read(
    message: Message, *, topic: str, schema: str, value: Mapping[str, Any], headers: tuple[tuple[str, bytes], ...]
) -> Read:
    """Return the record with its fields. A chunk of a send without an id gets the id that the functions derive for
    it.
    """
    partition, offset = message.partition(), message.offset()
    if partition is None or offset is None:
        raise ValueError(f"a record of {topic} without its place")
    record = KafkaRecord(
        topic=topic, partition=partition, offset=offset, timestamp_ms=message.timestamp()[1], headers=headers
    )
    if schema == "SendRequested":
        try:
            send_id = value["send_id"] or send_id_of_record(*original_position(record))
        except DeadLetter:
            # No id can be derived, because the headers with the source position are invalid.
            send_id = None
        value = {**value, "send_id": send_id}
        if send_id is not None:
            value["record_id"] = chunk_id(send_id, value["chunk_index"])
    return Read(
        position=record.source_position,
        at_ms=record.timestamp_ms,
        topic=topic,
        schema=schema,
        value=value,
        headers=headers,
    )


def step(found: Read, asked: Asked) -> Step:
    """Return the record as a step of the history that `masscomm trace` shows."""
    value = found.value
    context = traces.of_headers(found.headers)
    details = {
        "record_id": value.get("record_id"),
        "parent_id": value.get("parent_id"),
        "trace_id": context.trace_id if context else None,
        "made_by_span": context.span_id if context else None,
    }
    if found.topic == topics.DEAD_LETTER:
        reason, error = (found.header(name) or "" for name in (dead_letters.REASON, dead_letters.ERROR))
        description, function = f"dead-lettered: {reason}: {error}", found.header(dead_letters.FUNCTION) or "?"
    else:
        description, function = _description(found, asked), _function(found)
    if letter := found.header(dead_letters.REPLAYED):
        description += f"; replayed from {letter}"
    return Step(
        at_ms=found.at_ms,
        kind=Kind.RECORD,
        where=found.position,
        function=function,
        description=description,
        details=details,
    )


def _function(found: Read) -> str:
    if found.header(_RELEASED) is not None:
        return "scheduler"
    if found.schema == "SendRequested":
        return "send_handler" if found.topic.startswith(topics.SEND_API) else "monolith"
    if found.schema == "NotificationOutcome":
        step_of = str(found.value["step"])
        return {"preference": "preference_checker", "build": "builder", "receipt": "receipts"}.get(step_of, step_of)
    return _WRITERS.get(found.schema, "?")


def _description(found: Read, asked: Asked) -> str:
    value = found.value
    if found.schema == "NotificationOutcome":
        return _outcome(value, asked)
    if found.schema == "SendRequested":
        which = f"chunk {value['chunk_index'] + 1} of {value['chunk_count']}"
        users = _number(len(value["to_users"]), "user")
        return f"send requested: {which}, {users}, category {value['type']}, club {value['club_id']}"
    if found.schema == "DeviceStatusChanged":
        return f"device {value['device_id']} of user {value['user_id']} is {value['status']}: {value['reason']}"
    waited = found.header(_RELEASED)
    label = {
        "RecheckRequested": "preferences to check",
        "BuildRequested": "messages to write",
        "DeliveryRequested": "messages to deliver",
    }.get(found.schema, found.schema)
    channel = f" by {value['channel']}" if "channel" in value else ""
    after = f", after waiting ({waited})" if waited else ""
    return f"{label}{channel}: {_number(len(value.get('user_ids', ())), 'recipient')}{after}"


def _number(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _outcome(value: Mapping[str, Any], asked: Asked) -> str:
    if asked.user_id is None:
        results = ", ".join(f"{_result(result)} {result['count']}" for result in value["results"])
        return f"{value['channel']}: {results}"
    row = value["user_ids"].index(asked.user_id)
    result = value["results"][value["result_index"][row]]
    decided = " ".join(part for part in (result.get("layer"), result.get("rule")) if part)
    messages = value["provider_message_ids"][row] if value["provider_message_ids"] else []
    return _result(result) + (f" by {decided}" if decided else "") + (f": {', '.join(messages)}" if messages else "")


def _result(result: Mapping[str, Any]) -> str:
    return f"{result['status']} ({result['reason']})" if result.get("reason") else str(result["status"])
