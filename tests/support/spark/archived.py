"""Records of two schema versions, as the archive's tests produce them."""

import io
import json
from datetime import UTC, datetime
from typing import Any

import fastavro

from masscomm.domain.ids import chunk_id, derived_id
from masscomm.kafka.avro import own_schema
from spark_metrics.counting.decode import Writers
from tests.support.spark.session import PRODUCED_MS, Record

OLD, NEW, OUTCOME = 1, 2, 3
NOW = datetime.fromtimestamp(PRODUCED_MS / 1000, UTC)
# A future version of the schema, with one more field and another order.
LATER = own_schema("SendRequested") | {
    "fields": [
        {"name": "campaign", "type": ["null", "string"], "default": None},
        *reversed(own_schema("SendRequested")["fields"]),
    ]
}
SCHEMAS: dict[int, Any] = {OLD: own_schema("SendRequested"), NEW: LATER, OUTCOME: own_schema("NotificationOutcome")}
WRITERS: Writers = {
    "send": {number: json.dumps(SCHEMAS[number]) for number in (OLD, NEW)},
    "outcome": {OUTCOME: json.dumps(SCHEMAS[OUTCOME])},
}


def framed(schema_id: int, value: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(SCHEMAS[schema_id]), value)
    return b"\0" + schema_id.to_bytes(4, "big") + buffer.getvalue()


def a_send(number: int, schema_id: int = OLD, **changes: Any) -> Record:
    value = {"type": "news", "club_id": 7, "timestamp": PRODUCED_MS, "to_users": [1, 2], "send_id": f"send {number}"}
    return {"topic": "send.api", "offset": number, "value": framed(schema_id, value | changes)}


def an_outcome(number: int, send_id: str, club_id: int = 7, timestamp: int = PRODUCED_MS) -> Record:
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
    }
    return {"topic": "outcome", "offset": number, "value": framed(OUTCOME, value)}
