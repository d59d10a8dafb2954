"""Records of two schema versions, as the archive's tests produce them."""

import io
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import fastavro

from masscomm.domain.ids import chunk_id, derived_id
from masscomm.kafka.avro import own_schema
from spark_metrics.counting.decode import Writers
from tests.support.spark.session import PRODUCED_MS, Record

OLD, NEW, OUTCOME, WEBHOOK_OUTCOME = 1, 2, 3, 4
NOW = datetime.fromtimestamp(PRODUCED_MS / 1000, UTC)
# A future version of the schema, with one more field and another order.
LATER = own_schema("SendRequested") | {
    "fields": [
        {"name": "campaign", "type": ["null", "string"], "default": None},
        *reversed(own_schema("SendRequested")["fields"]),
    ]
}
SCHEMAS: dict[int, Any] = {
    OLD: own_schema("SendRequested"),
    NEW: LATER,
    OUTCOME: own_schema("NotificationOutcome"),
    WEBHOOK_OUTCOME: own_schema("WebhookOutcome"),
}
WRITERS: Writers = {
    "send": {number: json.dumps(SCHEMAS[number]) for number in (OLD, NEW)},
    "outcome": {OUTCOME: json.dumps(SCHEMAS[OUTCOME])},
    "webhook_outcome": {WEBHOOK_OUTCOME: json.dumps(SCHEMAS[WEBHOOK_OUTCOME])},
}


def framed(schema_id: int, value: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(SCHEMAS[schema_id]), value)
    return b"\0" + schema_id.to_bytes(4, "big") + buffer.getvalue()


def a_send(number: int, schema_id: int = OLD, **changes: Any) -> Record:
    value = {"type": "news", "club_id": 7, "timestamp": PRODUCED_MS, "to_users": [1, 2], "send_id": f"send {number}"}
    return {"topic": "send.api", "offset": number, "value": framed(schema_id, value | changes)}


def an_outcome(
    number: int, send_id: str, club_id: int = 7, timestamp: int = PRODUCED_MS, due_at: int | None = None
) -> Record:
    parent_id = chunk_id(send_id, 0)
    value = {
        "record_id": derived_id(parent_id, "delivery", "push", 0, 2),
        "parent_id": parent_id,
        "step": "delivery",
        "send_id": send_id,
        "chunk_index": 0,
        "range_start": 0,
        "range_end": 2,
        "club_id": club_id,
        "type": "news",
        "channel": "push",
        "timestamp": timestamp,
        "requested_at": PRODUCED_MS,
        "positions": [0, 1],
        "user_ids": [1, 2],
        "results": [{"status": "sent", "count": 2}],
        "result_index": [0, 0],
        "due_at": due_at,
    }
    return {"topic": "outcome", "offset": number, "value": framed(OUTCOME, value)}


@dataclass(frozen=True, kw_only=True)
class Result:
    """The result of one webhook message."""

    message_id: str = "m"
    endpoint_id: str = "ep_7_a"
    type: str = "match.finished"
    club_id: int = 7
    status: str = "delivered"
    attempt: int = 1
    http_status: int | None = 200
    duration_ms: int = 10
    at_ms: int = PRODUCED_MS - 500
    error: str = ""


def result_columns(*results: Result) -> dict[str, Any]:
    """Return the columns of a record with the results of webhook messages."""
    endpoints = list(dict.fromkeys(each.endpoint_id for each in results))
    types = list(dict.fromkeys(each.type for each in results))
    names = ("message_id", "club_id", "status", "attempt", "http_status", "duration_ms", "at_ms", "error")
    return {
        "endpoints": endpoints,
        "types": types,
        "endpoint_index": [endpoints.index(each.endpoint_id) for each in results],
        "type_index": [types.index(each.type) for each in results],
        "event_id": [f"event of {each.message_id}" for each in results],
    } | {name: [getattr(each, name) for each in results] for name in names}


def webhook_results(number: int, *results: Result, offset: int | None = None, **changes: Any) -> Record:
    """Return a record with the results of webhook messages; records of the same number are redeliveries."""
    value = {"record_id": chunk_id(f"results {number}", 0), "timestamp": PRODUCED_MS}
    value |= result_columns(*results) | changes
    place = number if offset is None else offset
    return {"topic": "webhook_outcome", "offset": place, "value": framed(WEBHOOK_OUTCOME, value)}
