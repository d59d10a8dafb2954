"""The load of events, the measured times of event_matcher and webhook_sender, and the sizes of their records.

`python -m lab.benchmarks.events --send --write` renews event_times.json. The other inputs are assumptions: change them
in this file and run `make capacity`.
"""

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid5

from masscomm.channels.guarded_http import request_of
from masscomm.channels.public_urls import Target
from masscomm.channels.webhook_requests import signed_headers
from masscomm.domain.events import webhook_body
from masscomm.domain.ids import NAMESPACE, event_message_id
from masscomm.domain.records import AvroRecord, EventOccurred, WebhookOutcome, WebhookRequested
from masscomm.domain.signing_keys import KeySet
from masscomm.domain.webhooks import BodyFormat, Endpoint, EndpointKey
from masscomm.http.parameters import time_of_ms
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec, InMemorySchemaRegistry, own_schema

FILE = Path(__file__).with_name("event_times.json")
# The design point of the data of an event.
EVENT_BYTES = 1_000
_NOW_MS, _CLUB, _TYPE = 1_790_000_000_000, 4_711, "match.goal.scored"
_TARGET = Target(scheme="https", host="hooks.example.com", port=443, path="/masscomm")
# The keys and the other attributes of an item of the delay store.
_ITEM_BYTES = 250
_KEYS = '{"current": "1", "1": "a key of at least thirty-two bytes"}'


@dataclass(frozen=True, kw_only=True)
class EventLoad:
    """A steady load of messages to endpoints.

    Attributes:
        messages_s: The messages per second: events times the endpoints of each.
        endpoints: The endpoints, which get messages equally often.
        is_batched: Whether the requests of the endpoints may have up to `max_count` messages.
        endpoints_an_event: The number of endpoints that subscribe to an event.
        answer_s: The time after which an endpoint answers.
        round_trip_s: The network's round trip to an endpoint; a new connection takes two more of them.
        failing: The share of messages whose attempt fails.
        is_sticky: Whether an environment gets the batches of one partition, and so meets only its endpoints. Lambda
            does not promise it.
    """

    messages_s: float
    endpoints: int
    is_batched: bool = False
    endpoints_an_event: float = 1.0
    answer_s: float = 0.05
    round_trip_s: float = 0.02
    failing: float = 0.01
    is_sticky: bool = False

    @property
    def events_s(self) -> float:
        return self.messages_s / self.endpoints_an_event


@dataclass(frozen=True, kw_only=True)
class EventTimes:
    """The measured processor times in seconds."""

    # event_matcher, of an event.
    matcher_s: float
    # webhook_sender, of a message in a request with many, and of a request in addition to its messages.
    message_s: float
    request_s: float
    # The client's side of a TLS handshake with a certificate of two levels.
    handshake_s: float
    origin: str


@cache
def measured(file: Path = FILE) -> EventTimes:
    document: dict[str, Any] = json.loads(file.read_text())
    origin = f"{document.pop('command')}, {document.pop('measured_at')}, {document.pop('machine')}"
    return EventTimes(**document, origin=origin)


@dataclass(frozen=True, kw_only=True)
class EventSizes:
    """Bytes of records, stored items and requests, without compression by Kafka's producer."""

    # A record of the topic `event`.
    event: int
    # A message in a record of the topic `webhook` and of `webhook_outcome`, and of its item in the delay store.
    message: float
    result: float
    stored_result: float
    # A message that waits in the delay store.
    stored_message: float
    # A message's body, and the head of a request.
    body: int
    head: int


@cache
def event_sizes(messages_a_record: int) -> EventSizes:
    """Return the sizes of messages in records with this number of them, each about another event and endpoint."""
    events = [_event(number) for number in range(messages_a_record)]
    endpoints = [f"ep_{_CLUB}_{number:020d}" for number in range(messages_a_record)]
    ids = [event_message_id(_CLUB, event.event_id, endpoint) for event, endpoint in zip(events, endpoints, strict=True)]
    places = list(range(messages_a_record))
    webhook = _encoded(
        topics.WEBHOOK,
        WebhookRequested(
            record_id=ids[0],
            bucket=1,
            partition=1,
            range_start=0,
            range_end=256,
            timestamp=_NOW_MS,
            events=events,
            offsets=places,
            produced_at=[_NOW_MS + place for place in places],
            endpoints=endpoints,
            event_index=places,
            endpoint_index=places,
        ),
    )
    outcome = _encoded(
        topics.WEBHOOK_OUTCOME,
        WebhookOutcome(
            record_id=ids[0],
            timestamp=_NOW_MS,
            endpoints=endpoints,
            types=[_TYPE],
            endpoint_index=places,
            type_index=[0] * messages_a_record,
            message_id=[],
            event_id=[event.event_id for event in events],
            club_id=[_CLUB] * messages_a_record,
            status=["delivered"] * messages_a_record,
            attempt=[1] * messages_a_record,
            http_status=[200] * messages_a_record,
            duration_ms=[40 + place % 30 for place in places],
            at_ms=[_NOW_MS + place * 7 for place in places],
            error=[""] * messages_a_record,
        ),
    )
    endpoint = Endpoint(
        key=EndpointKey(_CLUB, endpoints[0]), url="https://hooks.example.com/masscomm", created_at_ms=1, key_id="1"
    )
    body = webhook_body(events[0], endpoints[0], time_of_ms(_NOW_MS), BodyFormat.MASSCOMM).encode()
    return EventSizes(
        event=len(_encoded(topics.EVENT, events[0])),
        message=len(webhook) / messages_a_record,
        result=len(outcome) / messages_a_record,
        stored_result=_stored(outcome) / messages_a_record,
        stored_message=_stored(webhook) / messages_a_record,
        body=len(body),
        head=len(request_of(_TARGET, b"", _headers(endpoint, ids[0], body))),
    )


def _event(number: int) -> EventOccurred:
    text = " ".join(f"{word}{number}" for word in ("kick-off", "gate", "row", "seat", "referee"))
    data = {"match": {"id": 1_000_000 + number, "minute": number % 90}, "text": text, "more": ""}
    # Half of the bytes of hexadecimal digits remain after compression, as of other data.
    digits = "".join(uuid5(NAMESPACE, f"{number} {part}").hex for part in range(EVENT_BYTES // 32))
    data["more"] = digits[: EVENT_BYTES - len(json.dumps(data))]
    return EventOccurred(
        event_id=str(uuid5(NAMESPACE, f"event {number}")),
        type=_TYPE,
        club_id=_CLUB,
        unit="100/7",
        occurred_at=_NOW_MS + number,
        data=json.dumps(data),
    )


def _headers(endpoint: Endpoint, message_id: str, body: bytes) -> Mapping[str, str]:
    return signed_headers(KeySet.read(_KEYS), endpoint, message_id=message_id, at_ms=_NOW_MS, body=body)


def _stored(value: bytes) -> int:
    """Return the bytes of the item of a record in the delay store, rounded: versions of zlib differ."""
    return round(len(zlib.compress(value)), -2) + _ITEM_BYTES


def _encoded(topic: str, record: AvroRecord) -> bytes:
    return _codec().encode(topic, type(record).__name__, record.to_avro())


@cache
def _codec() -> Codec:
    registry = InMemorySchemaRegistry()
    for topic in topics.chain_topics():
        if topic.schema is not None:
            registry.register(topic.subject, own_schema(topic.schema))
    return Codec(registry)
