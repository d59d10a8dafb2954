"""Records in Debezium's format, as captured from a real connector."""

import base64
import json
from itertools import count
from typing import Any

from masscomm.kafka.event import KafkaRecord
from masscomm.kafka.topics import cdc_topic

GENERATION = "g1"
_offsets = count()


def record(
    table: str, key: Any, value: Any, generation: str = GENERATION, produced_ms: int = 1_700_000_000_000
) -> KafkaRecord:
    return KafkaRecord(
        topic=cdc_topic(table, generation),
        partition=0,
        offset=next(_offsets),
        timestamp_ms=produced_ms,
        key=None if key is None else json.dumps(key).encode(),
        value=None if value is None else json.dumps(value).encode(),
    )


def row(
    table: str,
    op: str,
    lsn: int,
    after: dict[str, Any] | None,
    before: dict[str, Any] | None = None,
    key: str = "id",
    generation: str = GENERATION,
) -> KafkaRecord:
    """Return the record of a row, from the snapshot (op r) or the stream (c, u, d)."""
    known = after or before or {}
    source = {"lsn": lsn, "ts_ms": 1_700_000_000_123, "schema": "public", "table": table, "snapshot": "false"}
    return record(
        table, {key: known[key]}, {"before": before, "after": after, "source": source, "op": op, "ts_ms": 1}, generation
    )


def truncate(table: str, lsn: int) -> KafkaRecord:
    return record(table, None, {"before": None, "after": None, "source": {"lsn": lsn, "ts_ms": 1}, "op": "t"})


def heartbeat(
    lsn: int,
    seconds: str,
    prefix: str = "masscomm.heartbeat",
    generation: str = GENERATION,
    produced_ms: int = 2_000_000_000_000,
) -> KafkaRecord:
    content = base64.b64encode(seconds.encode()).decode()
    value = {"op": "m", "source": {"lsn": lsn}, "message": {"prefix": prefix, "content": content}}
    return record("heartbeat", {"prefix": prefix}, value, generation, produced_ms)


def notification(kind: str, name: str = "a", generation: str = GENERATION) -> KafkaRecord:
    value: dict[str, Any] = {
        "id": name,
        "type": kind,
        "aggregate_type": "Initial Snapshot",
        "timestamp": 1_700_000_000_000,
    }
    if generation != GENERATION:  # the heartbeat's LSN is later than the row's
        value["timestamp"] = 1_700_000_900_000
    return record("notification", {"id": name}, value, generation)
