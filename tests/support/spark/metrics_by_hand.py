"""The expected metrics of the topics' records, counted by plain Python without Spark, SQL or spark_metrics.

A record is counted at its first position, an unreadable record is quarantined, and statuses are merged by rank.
"""

import io
import json
import struct
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import fastavro
import httpx
from confluent_kafka import Consumer, Message, TopicPartition

from masscomm.domain import ids
from masscomm.domain.categories import resolve_channels
from masscomm.domain.lanes import Lane
from masscomm.domain.latencies import bin_of
from masscomm.domain.statuses import RANK, Status
from masscomm.kafka.topics import in_lane

DAY_MS, FAR_FUTURE_MS = 86_400_000, 3_600_000
KINDS = {
    in_lane(name, lane): kind
    for name, kind in {
        "send.monolith": "send",
        "send.api": "send",
        "delivery": "delivery",
        "outcome": "outcome",
        "device_status": "device_status",
    }.items()
    for lane in Lane
}

# (send id, chunk index, channel, position)
type Notification = tuple[str, int, str, int]


@dataclass
class ExpectedMetrics:
    """The expected rows of the metrics tables.

    Attributes:
        counts: by (at_ms, club_id, type, channel, measure).
        by_template: by (day in ms, club_id, template, locale, measure).
        reasons: by (hour in ms, club_id, type, channel, status, reason), of results with a reason.
        latencies: by (at_ms, type, channel, measure, bin), of outcomes with the time at which they were due.
        log: (user_id, at_ms, send_id, channel, club_id, type, status, reason).
        sent: the final status of each notification.
        repeated: number of repeated records in the topics.
    """

    counts: Counter[tuple[int, int, str, str, str]] = field(default_factory=Counter)
    requested: Counter[tuple[str, str]] = field(default_factory=Counter)
    final_results: dict[Notification, tuple[Status, str]] = field(default_factory=dict)
    log: Counter[tuple[int, int, str, str, int, str, str, str]] = field(default_factory=Counter)
    quarantined: set[tuple[str, int, int]] = field(default_factory=set)
    by_template: Counter[tuple[int, int, str, str, str]] = field(default_factory=Counter)
    latencies: Counter[tuple[int, str, str, str, int]] = field(default_factory=Counter)
    reasons: Counter[tuple[int, int, str, str, str, str]] = field(default_factory=Counter)
    repeated: int = 0

    def buckets(self, step_ms: int) -> dict[tuple[int, int, str, str, str], int]:
        """Notifications by (bucket, club_id, type, channel, measure)."""
        sums: Counter[tuple[int, int, str, str, str]] = Counter()
        for (at_ms, club_id, category, channel, measure), n in self.counts.items():
            sums[at_ms // step_ms * step_ms, club_id, category, channel, measure] += n
        return dict(+sums)

    def latency_buckets(self, step_ms: int) -> dict[tuple[int, str, str, str, int], int]:
        """Notifications by (bucket, type, channel, measure, bin)."""
        sums: Counter[tuple[int, str, str, str, int]] = Counter()
        for (at_ms, category, channel, measure, number), n in self.latencies.items():
            sums[at_ms // step_ms * step_ms, category, channel, measure, number] += n
        return dict(sums)

    def totals(self) -> Counter[tuple[str, str, str, str]]:
        """Notifications by (send_id, channel, status, reason)."""
        return Counter((send, channel, *result) for (send, _, channel, _), result in self.final_results.items())

    def count(self, kind: str, message: Message, value: dict[str, Any]) -> None:
        if kind == "send":
            self._send(value, send_id_of(message, value))
            return
        if kind == "device_status":
            labels = {"type": "devices", "template": None, "locale": None}
            self._count(value | labels, value["timestamp"], "push", f"device_{value['status']}", 1)
            return
        club_id, category, channel = value["club_id"], value["type"], value["channel"]
        if kind == "delivery":
            self._count(value, value["built_at"], channel, "queued", len(value["positions"]))
            return
        at_ms, send_id = value["timestamp"], value["send_id"]
        for result in value["results"]:
            self._count(value, at_ms, channel, result["status"], result["count"])
            if result["reason"] is not None:
                hour = at_ms // 3_600_000 * 3_600_000
                self.reasons[hour, club_id, category, channel, result["status"], result["reason"]] += result["count"]
            if result["status"] in ("sent", "delivered") and value.get("due_at") is not None:
                number = bin_of(at_ms - value["due_at"])
                self.latencies[at_ms, category, channel, result["status"], number] += result["count"]
        for position, user_id, index in zip(value["positions"], value["user_ids"], value["result_index"], strict=True):
            status, reason = Status(value["results"][index]["status"]), value["results"][index]["reason"] or ""
            self.log[user_id, at_ms, send_id, channel, club_id, category, status, reason] += 1
            key = send_id, value["chunk_index"], channel, position
            if key not in self.final_results or RANK[status] > RANK[self.final_results[key][0]]:
                self.final_results[key] = status, reason

    def _send(self, value: dict[str, Any], send_id: str) -> None:
        users = value["to_users"]
        for channel in resolve_channels(value["type"], value["channels"], value["club_id"], value["timestamp"]):
            self._count(value, value["timestamp"], channel, "requested", len(set(users)))
            self._count(value, value["timestamp"], channel, "duplicate", len(users) - len(set(users)))
            self.requested[send_id, channel] += len(set(users))

    def _count(self, value: dict[str, Any], at_ms: int, channel: str, measure: str, n: int) -> None:
        self.counts[at_ms, value["club_id"], value["type"], channel, measure] += n
        template, locale = value.get("template") or value["type"], value.get("locale") or ""
        self.by_template[at_ms // DAY_MS * DAY_MS, value["club_id"], template, locale, measure] += n


def send_id_of(message: Message, value: dict[str, Any]) -> str:
    """Return the send's id, or the id derived from its source position."""
    return value["send_id"] or ids.send_id_of_record(
        message.topic() or "", message.partition() or 0, message.offset() or 0, message.timestamp()[1]
    )


def expected_metrics(bootstrap_servers: str, registry_url: str) -> ExpectedMetrics:
    """Compute the metrics of all records that are in the topics now."""
    found, seen = ExpectedMetrics(), set()
    schemas: dict[int, Any] = {}
    for message in sorted(_messages(bootstrap_servers), key=lambda m: (m.topic(), m.partition(), m.offset())):
        kind = KINDS[message.topic() or ""]
        source_position = message.topic() or "", message.partition() or 0, message.offset() or 0
        value = _decoded(message.value(), schemas, registry_url)
        if value is None:
            found.quarantined.add(source_position)
            continue
        at_ms = value["built_at"] if kind == "delivery" else value["timestamp"]
        age_ms = message.timestamp()[1] - at_ms
        if age_ms < -FAR_FUTURE_MS or (kind != "delivery" and age_ms > 40 * DAY_MS):
            found.quarantined.add(source_position)
            continue
        key = kind, value.get("record_id") or ids.chunk_id(send_id_of(message, value), value["chunk_index"])
        if key in seen:
            found.repeated += 1
            continue
        seen.add(key)
        found.count(kind, message, value)
    return found


def _decoded(value: bytes | str | None, schemas: dict[int, Any], registry_url: str) -> dict[str, Any] | None:
    if not isinstance(value, bytes) or len(value) < 5 or value[0] != 0:
        return None
    (schema_id,) = struct.unpack(">I", value[1:5])
    if schema_id not in schemas:
        answer = httpx.get(f"{registry_url}/schemas/ids/{schema_id}")
        written = _plain(json.loads(answer.json()["schema"])) if answer.is_success else None
        schemas[schema_id] = fastavro.parse_schema(written) if written else None
    if schemas[schema_id] is None:
        return None
    try:
        decoded = fastavro.schemaless_reader(io.BytesIO(value[5:]), schemas[schema_id], None, return_record_name=False)
    except (EOFError, ValueError, IndexError, UnicodeDecodeError):
        return None
    return decoded if isinstance(decoded, dict) else None


def _plain(schema: Any) -> Any:
    """Decode without logical types, so that a timestamp is a number of milliseconds."""
    if isinstance(schema, dict):
        return {name: _plain(value) for name, value in schema.items() if name != "logicalType"}
    return [_plain(part) for part in schema] if isinstance(schema, list) else schema


def _messages(bootstrap_servers: str) -> list[Message]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap_servers, "group.id": "by hand", "enable.auto.commit": False, "log_level": 0}
    )
    try:
        listed = consumer.list_topics(timeout=10).topics
        partitions = [TopicPartition(name, p, 0) for name in KINDS for p in listed[name].partitions]
        remaining = {
            (partition.topic, partition.partition): consumer.get_watermark_offsets(partition)[1]
            for partition in partitions
        }
        consumer.assign(partitions)
        found: list[Message] = []
        while missing := sum(remaining.values()) - len(found):
            # Request only as many records as exist, because consume() would wait for more until its time-out.
            for message in consumer.consume(min(500, missing), timeout=5):
                assert message.error() is None, message.error()
                found.append(message)
        return found
    finally:
        consumer.close()
