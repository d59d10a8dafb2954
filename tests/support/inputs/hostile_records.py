"""Records that a producer can write but no correct producer would, for every topic that a function or the job consumes.

A third is random bytes, a third valid records with mutated bytes, a third well-formed records with hostile values:
limits, foreign ids, impossible times. The same seed gives the same records.
"""

import base64
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from functions.device_registrar.endpoints import endpoint_arn
from masscomm.cdc.captured_tables import captured_tables
from masscomm.errors import MasscommError
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec, own_schema
from tests.support.inputs import debezium_records, receipt_events

NOW = 1_700_000_000_000
_DAY_MS = 86_400_000

LONGS = (
    *(-1, 0, 1, 2, 3, 7, 99, 10**9, 2**31 - 1, 2**31, 2**53, 2**63 - 1, -(2**63)),
    *(NOW, NOW - _DAY_MS, NOW + 1, NOW + 2 * _DAY_MS, NOW + 366 * _DAY_MS, NOW * 1_000_000),
    *(253_402_300_799_999, 253_402_300_800_000, -62_135_596_800_001, 8_640_000_000_000_001),
)
INTS = (-1, 0, 1, 2, 499, 500, 501, 4_999, 5_000, 2**31 - 1, -(2**31))
TEXTS = (
    *("", " ", "\x00", "a\x00b", "x" * 201, "x" * 600, "x" * 40_000, "null", "*", "../../x", "push", "email", "sms"),
    *("news", "news|x", "t-1@2", "{{ 7 * 7 }}", "{% for a in range(9999) %}", "\u202e\U0001f600", "\ufeffx", "e\u0301"),
    *("8a6e0804-2bd0-4672-b79d-d97027f9071a", "00000000-0000-0000-0000-000000000000", "not-a-uuid"),
    *("sent", "failed", "held", "delivery", "receipt", "inactive", "active", "critical", "split", "quiet_hours"),
    *("9999-12-31T23:59:59.999Z", "0001-01-01T00:00:00+14:00", "2015-02-30 00:00:00", "1e400", "-0", "\x1b[2J", "=1+1"),
)
# One half of a surrogate pair: JSON can write it as a \u escape, UTF-8 cannot encode it.
_RAW_JSON = (
    *(b"NaN", b"-Infinity", b"1e400", b"-1e400", b"9223372036854775808", b"1" * 5_000, b'"\\ud800"', b'"\xed\xa0\x80"'),
    *(b"[" * 100_000, b"[" * 200 + b"]" * 200, b'{"a":' * 150 + b"1" + b"}" * 150, b'{"a":1,"a":2}', b"", b'"\\x"'),
)


@dataclass(frozen=True, kw_only=True)
class HostileRecord:
    """A record produced to a topic; value None is a tombstone."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Seed:
    """A valid record: as Avro (schema, value), or as JSON."""

    document: Any
    schema: str | None = None
    key: Any = None


def hostile_records(
    topic: str, count: int, *, codec: Codec, seed: int = 0, generation: str = "g1", counted: bool = False
) -> Iterator[HostileRecord]:
    """Generate hostile records for a topic.

    Args:
        topic: The topic's name in Kafka.
        count: The number of records.
        codec: Encodes with the schema ids of the consumers' registry.
        seed: The same seed gives the same records.
        generation: The snapshot generation of the topics of change data capture.
        counted: Whether records have ids that the metrics job accepts (UUIDs).
    """
    chance = random.Random(f"{topic}/{seed}")  # noqa: S311

    def valid() -> Seed:
        seed = _valid(chance, topic, generation, codec)
        if counted and "record_id" in seed.document:
            seed.document["record_id"] = str(UUID(seed.document["record_id"]))
        return seed

    kinds: Sequence[Callable[[], HostileRecord]] = (
        lambda: _random_bytes(chance, topic),
        lambda: _mutated(chance, topic, valid(), codec),
        lambda: _well_formed(chance, topic, valid(), codec),
    )
    for number in range(count):
        yield kinds[number % len(kinds)]()


def _random_bytes(chance: random.Random, topic: str) -> HostileRecord:
    value: bytes | None = chance.randbytes(chance.choice((0, 1, 4, 5, 6, 20, 200)))
    if chance.random() < 0.5:
        schema_id = chance.choice((0, 1, 2, 3, 2**31 - 1, 2**31, 2**32 - 1, chance.getrandbits(32)))
        value = b"\x00" + schema_id.to_bytes(4, "big") + (value or b"")
    if chance.random() < 0.05:
        value = None
    return HostileRecord(topic=topic, key=_any_key(chance), value=value, headers=_any_headers(chance))


def _mutated(chance: random.Random, topic: str, seed: Seed, codec: Codec) -> HostileRecord:
    key, value = _key(seed), _encoded(codec, topic, seed)
    if chance.random() < 0.1 and key:
        key = _with_mutations(chance, key)
    return HostileRecord(topic=topic, key=key, value=_with_mutations(chance, value), headers=_any_headers(chance))


def _with_mutations(chance: random.Random, value: bytes) -> bytes:
    changed = bytearray(value)
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        place = chance.randrange(len(changed) or 1)
        match chance.randrange(5):
            case 0 if changed:
                changed[place] = chance.randrange(256)
            case 1 if changed:
                changed[place] ^= 1 << chance.randrange(8)
            case 2:
                del changed[place : place + chance.choice((1, 1, 4, 50))]
            case 3:
                changed[place:place] = chance.randbytes(chance.choice((1, 4)))
            case _:
                changed[place:place] = changed[place : place + 10]
    return bytes(changed)


def _well_formed(chance: random.Random, topic: str, seed: Seed, codec: Codec) -> HostileRecord:
    if seed.schema is not None:
        schema = own_schema(seed.schema)
        document = dict(seed.document)
        for field in chance.sample(schema["fields"], k=chance.choice((1, 1, 2, 3))):
            document[field["name"]] = _hostile(chance, field["type"], document.get(field["name"]))
        value = codec.encode(topic, seed.schema, document)
        return HostileRecord(topic=topic, key=_any_key(chance), value=value, headers=_any_headers(chance))
    raw: dict[str, bytes] = {}
    document = _hostile_json(chance, seed.document, raw)
    value = json.dumps(document, ensure_ascii=chance.random() < 0.5).encode()
    for mark, text in raw.items():
        value = value.replace(f'"{mark}"'.encode(), text)
    key = _key(seed)
    if chance.random() < 0.1:
        key = json.dumps(_hostile_json(chance, seed.key, {})).encode()
    return HostileRecord(topic=topic, key=key, value=value, headers=_any_headers(chance))


def _hostile(chance: random.Random, kind: Any, now: Any) -> Any:
    """Return a random value of an Avro type. now: the value of the valid record."""
    if isinstance(kind, list):
        return None if chance.random() < 0.3 else _hostile(chance, kind[1], now)
    if isinstance(kind, dict):
        match kind["type"]:
            case "array":
                return _hostile_list(chance, kind["items"], list(now or ()))
            case "map":
                return {
                    chance.choice(TEXTS): _hostile(chance, kind["values"], None)
                    for _ in range(chance.choice((0, 1, 5)))
                }
            case "record":
                fields = {field["name"]: field["type"] for field in kind["fields"]}
                known = dict(now or {name: _plain(of) for name, of in fields.items()})
                name = chance.choice(sorted(fields))
                return known | {name: _hostile(chance, fields[name], known.get(name))}
        kind = kind["type"]
    return chance.choice({"long": LONGS, "int": INTS, "string": TEXTS, "boolean": (True, False)}[kind])


def _hostile_list(chance: random.Random, kind: Any, items: list[Any]) -> list[Any]:
    match chance.randrange(5):
        case 0:
            return []
        case 1:
            return items[:-1]
        case 2:
            return items + items
        case 3:
            return [*items[::-1], _hostile(chance, kind, None)]
    return [_hostile(chance, kind, item) if chance.random() < 0.3 else item for item in items]


def _plain(kind: Any) -> Any:
    if isinstance(kind, list):
        return None
    if isinstance(kind, dict):
        return {"array": [], "map": {}}.get(kind["type"], 0)
    return "" if kind == "string" else 0


def _hostile_json(chance: random.Random, document: Any, raw: dict[str, bytes]) -> Any:
    """Replace some leaves or branches of a document. raw: placeholder → bytes that json.dumps cannot write."""
    return _replaced(chance, document, raw, rate=chance.choice((1, 1, 2, 4)) / _nodes(document))


def _nodes(document: Any) -> int:
    children = document.values() if isinstance(document, dict) else document if isinstance(document, list) else ()
    return 1 + sum(map(_nodes, children))


def _replaced(chance: random.Random, document: Any, raw: dict[str, bytes], *, rate: float) -> Any:
    if chance.random() < rate:
        match chance.randrange(4):
            case 0:
                mark = f"<<{len(raw)}>>"
                raw[mark] = chance.choice(_RAW_JSON)
                if isinstance(document, str) and document.startswith("{"):  # Debezium writes jsonb as text
                    return raw.pop(mark).decode(errors="replace")
                return mark
            case 1:
                return chance.choice((*LONGS, -1.5, 1e308, True, False, None))
            case 2:
                return chance.choice(TEXTS)
            case _:
                return chance.choice(([], {}, [[]], {"": {}}, [document]))
    if isinstance(document, dict):
        kept = {name: value for name, value in document.items() if chance.random() > rate / 4}
        return {name: _replaced(chance, value, raw, rate=rate) for name, value in kept.items()}
    if isinstance(document, list):
        return [_replaced(chance, value, raw, rate=rate) for value in document]
    return document


def _any_key(chance: random.Random) -> bytes | None:
    return chance.choice((None, b"", b"\xff\x00", b'{"id":1}', b'{"id":"x"}', b"[" * 5_000))


def _any_headers(chance: random.Random) -> tuple[tuple[str, bytes], ...]:
    if chance.random() < 0.8:
        return ()
    names = (
        *("masscomm.source.topic", "masscomm.source.partition", "masscomm.source.offset", "masscomm.source.timestamp"),
        *("masscomm.returned", "masscomm.crashed", "masscomm.replayed", "traceparent", "tracestate", ""),
    )
    values = (b"", b"0", b"-1", b"9" * 5_000, b"\xff\xfe", b"send.monolith", b"00-" + b"0" * 32, "\u00b2".encode())
    return tuple((name, chance.choice(values)) for name in names if chance.random() < 0.7)


def _key(seed: Seed) -> bytes | None:
    return b"key" if seed.schema is not None else None if seed.key is None else json.dumps(seed.key).encode()


def _encoded(codec: Codec, topic: str, seed: Seed) -> bytes:
    if seed.schema is None:
        return json.dumps(seed.document).encode()
    return codec.encode(topic, seed.schema, seed.document)


# --- valid records ----------------------------------------------------------------------------------------------------


def _valid(chance: random.Random, topic: str, generation: str, codec: Codec) -> Seed:
    if topic == topics.ON_FAILURE:
        return Seed(document=_given_up(chance, generation, codec))
    cdc = {
        topics.cdc_topic(name, generation): name for name in (*captured_tables(), "outbox", "notification", "heartbeat")
    }
    if topic in cdc:
        record = chance.choice(_CHANGES[cdc[topic]])
        return Seed(document=json.loads(record.value or b"null"), key=json.loads(record.key or b"null"))
    (schema,) = {each.schema for each in topics.chain_topics() if each.name == topic}
    if schema is None:
        raise ValueError(f"no records are known of {topic}")
    return Seed(document=_avro(chance, schema), schema=schema)


def _avro(chance: random.Random, schema: str) -> dict[str, Any]:
    users = [1, 2, 3]
    send: dict[str, Any] = {
        "type": "news",
        "club_id": 7,
        "timestamp": NOW,
        "send_id": chance.choice(("8a6e0804-2bd0-4672-b79d-d97027f9071a", str(chance.getrandbits(64)))),
        "chunk_index": 0,
        "collapse_key": None,
        "push": chance.choice((None, '{"silent":true}')),
        "per_minute": chance.choice((None, None, 1)),
        "spread_over_ms": None,
        "reference": None,
        "expires_at": None,
    }
    record_id = f"{chance.getrandbits(128):032x}"
    part: dict[str, Any] = {
        **send,
        "record_id": record_id,
        "parent_id": "22222222-2222-5222-8222-222222222222",
        "range_start": 0,
        "range_end": 500,
        "positions": [0, 1, 2],
        "user_ids": users,
    }
    texts: dict[str, Any] = {"template": None, "data": {"headline": "Win"}, "locale": "de", "waited_until": None}
    whole: dict[str, Any] = {**send, "to_users": users, "chunk_count": 1, "channels": ["push"], "send_at": None} | {
        "template": None,
        "data": {"headline": "Win"},
        "locale": None,
        "priority": None,
    }
    match schema:
        case "SendRequested":
            return whole
        case "AudienceRequested":
            audience = {"where": {"field": "locale", "is": "de"}, "except_users": [2]}
            return {name: send[name] for name in ("send_id", "club_id", "timestamp")} | {
                "chunk_size": 2,
                "audience": _half_hostile(chance, audience),
                "send": _half_hostile(chance, whole | {"to_users": []}),
                "key_id": chance.choice((None, "k")),
                "recipients_a_day": chance.choice((None, 100)),
                "share": chance.choice((0, 1, -1)),
            }
        case "RecheckRequested":
            return part | texts | {"why": "split", "channels": ["push"], "waits": 0, "held": 0}
        case "BuildRequested":
            return part | texts | {"channel": "push"}
        case "DeliveryRequested":
            columns = [{"field": name, "values": ["Hello"], "index": []} for name in ("title", "body")]
            return part | {
                "built_at": NOW,
                "channel": chance.choice(("push", "email")),
                "waits": 0,
                "addresses": [],
                "content": columns,
                "withdrawn": [],
                "taken": [],
            }
        case "NotificationOutcome":
            return part | {
                "step": "delivery",
                "channel": "push",
                "requested_at": NOW,
                "results": [{"status": "sent", "reason": None, "count": 3, "layer": "provider", "rule": None}],
                "result_index": [0, 0, 0],
                "provider_message_ids": [["m"], ["n", "o"], []],
            }
        case "ReceiptReceived":
            return {"record_id": record_id, "body": _receipt(chance), "received_at": NOW, "tries": 0}
        case "WebhookOutcome":
            return {
                "record_id": record_id,
                "timestamp": NOW,
                "endpoints": ["ep_7_a"],
                "types": ["match.finished"],
                "endpoint_index": [0, 0],
                "type_index": [0, 0],
                "message_id": ["evt_1", "evt_2"],
                "event_id": ["1", "2"],
                "club_id": [7, 7],
                "status": ["delivered", "retried"],
                "attempt": [1, 1],
                "http_status": [200, None],
                "duration_ms": [12, 3_000],
                "at_ms": [NOW - 20, NOW - 3_010],
                "error": ["", "no answer"],
            }
        case "DeviceStatusChanged":
            device = {
                "device_id": 1,
                "user_id": 1,
                "club_id": 7,
                "platform": "gcm",
                "endpoint_arn": endpoint_arn("gcm", "a"),
            }
            return {**device, "record_id": record_id, "status": "inactive", "reason": None, "timestamp": NOW} | {
                "send_id": send["send_id"]
            }
        case "EventOccurred":
            return _event(chance)
        case "WebhookRequested":
            events = [_event(chance), _event(chance)]
            return {"record_id": record_id, "bucket": 1, "partition": 0, "range_start": 0, "range_end": 256} | {
                "timestamp": NOW,
                "events": events,
                "offsets": [0, 1],
                "produced_at": [NOW, NOW],
                "endpoints": [_ENDPOINT, "ep_8_aaaaaaaaaaaaaaaaaaaa"],
                "event_index": [0, 0, 1],
                "endpoint_index": [0, 1, 0],
            }
        case "SubscriptionChanged":
            return {
                "subscription_id": f"sub_{chance.randrange(9)}",
                "endpoint_id": _ENDPOINT,
                "types": ["match.*"],
                "club_ids": chance.choice((None, [7])),
                "units": chance.choice(([], ["100/7"])),
                "filter": _half_hostile(chance, {"kind": ["league"]}),
                "revision": 1,
            }
    raise ValueError(schema)


_ENDPOINT = "ep_7_aaaaaaaaaaaaaaaaaaaa"


def _event(chance: random.Random) -> dict[str, Any]:
    return {
        "event_id": f"e{chance.getrandbits(32)}",
        "type": "match.goal",
        "club_id": 7,
        "unit": chance.choice((None, "100/7")),
        "key": None,
        "occurred_at": NOW,
        "data": _half_hostile(chance, {"kind": "league", "minute": 90}),
    }


def _receipt(chance: random.Random) -> str:
    """Return a receipt's JSON text for a field of an Avro record; every second text is hostile."""
    document: Any = chance.choice(
        (
            receipt_events.PUSHED,
            receipt_events.PUSH_FAILED,
            receipt_events.SMS_TAKEN,
            receipt_events.SMS_FAILED,
            receipt_events.APPLICATION_EVENT,
        )
    )
    return _half_hostile(chance, document)


def _half_hostile(chance: random.Random, document: Any) -> str:
    """Return a document as JSON text for a field of an Avro record; every second text is hostile."""
    if chance.random() < 0.5:
        return json.dumps(document)
    raw: dict[str, bytes] = {}
    text = json.dumps(_hostile_json(chance, document, raw))
    for mark, value in raw.items():
        text = text.replace(f'"{mark}"', value.decode(errors="replace"))
    return text


def _given_up(chance: random.Random, generation: str, codec: Codec) -> Mapping[str, Any]:
    """Return an on-failure record, sometimes of a record that is hostile itself."""
    topic = chance.choice(("send.monolith", "send.api.critical", "build", "delivery.critical", "recheck.small"))
    seed = _valid(chance, topic, generation, codec)
    failed = _well_formed(chance, topic, seed, codec).value if chance.random() < 0.2 else _encoded(codec, topic, seed)
    inner = {
        "topic": topic,
        "partition": 0,
        "offset": 5,
        "timestamp": NOW,
        "timestampType": "CREATE_TIME",
        "key": base64.b64encode(b"k").decode(),
        "value": base64.b64encode(failed or b"").decode(),
        "headers": [{"masscomm.returned": [49]}],
    }
    return {
        "requestContext": {"requestId": "r", "condition": "RetryAttemptsExhausted", "approximateInvokeCount": 3},
        "responseContext": {"statusCode": 200, "executedVersion": "$LATEST", "functionError": None},
        "version": "1.0",
        "timestamp": "2023-11-14T22:13:20.000Z",
        "KafkaBatchInfo": {"batchSize": 1, "recordsInfo": {f"{topic}-0": {"firstRecordOffset": "5"}}},
        "payload": {"eventSource": "aws:kafka", "bootstrapServers": "b:9092", "records": {f"{topic}-0": [inner]}},
    }


_USER = {"id": 1, "club_id": 7, "first_name": "A", "last_name": "B", "email": "a@b.example", "phone": None} | {
    "locale": "en",
    "time_zone": "UTC",
    "created_at": "2023-11-14T22:13:20Z",
    "updated_at": "2023-11-14T22:13:20Z",
}
_SETTINGS = {"user_id": 1, "club_id": 7, "channels": '{"push": true}', "categories": '{"news": {"push": false}}'} | {
    "quiet_hours": '{"start": "22:00", "end": "07:00"}'
}
_DEVICE = {"id": 1, "user_id": 1, "platform": "gcm", "token": "a", "active": True}
_TEMPLATE = {"id": 1, "club_id": None, "type": "news", "channel": "push", "locale": "en", "title": "t", "body": "b"} | {
    "html": None,
    "url": None,
    "version": 1,
}


def _changes(table: str, columns: dict[str, Any], key: str = "id") -> list[Any]:
    return [
        debezium_records.row(table, "r", 900, columns, key=key),
        debezium_records.row(table, "u", 1_000, columns, columns, key=key),
        debezium_records.row(table, "d", 1_100, None, columns, key=key),
    ]


_OUTBOX = {
    "club_id": 7,
    "event_id": "e1",
    "type": "match.goal",
    "unit": "100/7",
    "key": None,
    "occurred_at": "2023-11-14T22:13:20.123456Z",
    "data": '{"minute": 90}',
}
_CHANGES = {
    "users": _changes("users", _USER),
    "user_settings": _changes("user_settings", _SETTINGS, key="user_id"),
    "devices": _changes("devices", _DEVICE),
    "notification_templates": _changes("notification_templates", _TEMPLATE),
    "outbox": [
        debezium_records.record(
            "outbox", {"club_id": 7, "event_id": "e1"}, {"op": op, "before": None, "after": _OUTBOX}
        )
        for op in "cru"
    ],
    "notification": [debezium_records.notification("STARTED"), debezium_records.notification("COMPLETED")],
    "heartbeat": [debezium_records.heartbeat(1_000, "1700000000.123999")],
}


def decodes(codec: Codec, schema: str, value: bytes | None) -> bool:
    """Return whether the bytes are a valid record of the schema."""
    try:
        codec.decode(schema, value)
    except MasscommError:
        return False
    return True
