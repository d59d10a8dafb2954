"""Sends the messages of a batch of webhook records to their endpoints.

A message that an endpoint accepts needs no write. One that it does not accept becomes a delivery of the store that the
sweep of webhook_delivery reads, with its attempt: retries, their schedule, the list of deliveries and the end of an
endpoint are those of every webhook. An endpoint that is failing gets no attempt from here, so that it delays no other.

The records of a batch succeed together with these writes: after a crash in between, the messages are sent again under
the same ids.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from functions.webhook_sender.gateway import Lane, WebhookGateway
from masscomm.chain.batch import Batch, Item
from masscomm.clock import Clock
from masscomm.domain.events import faults, webhook_body
from masscomm.domain.ids import event_message_id
from masscomm.domain.records import EventOccurred, WebhookRequested
from masscomm.domain.time_limits import ENDPOINTS_CACHED_S
from masscomm.domain.webhooks import Attempt, Delivery, Endpoint, EndpointKey, Event
from masscomm.errors import DeadLetter, Retry
from masscomm.http.parameters import time_of_ms
from masscomm.kafka.avro import Codec
from masscomm.kafka.bundled_schema import check_schema
from masscomm.kafka.event import KafkaRecord
from masscomm.observability import logs, metrics
from masscomm.observability.metric_names import (
    WEBHOOK_FAILURES,
    WEBHOOKS_DEFERRED,
    WEBHOOKS_DELIVERED,
    WEBHOOKS_WITHOUT_ENDPOINT,
)
from masscomm.stores.webhook_deliveries.port import WebhookDeliveries
from masscomm.stores.webhook_endpoints.port import WebhookEndpoints
from masscomm.stores.webhook_endpoints.results import EndpointResults

logger = logs.logger("webhook_sender")

# The concurrent writes of deliveries.
_THREADS = 16


class Message(NamedTuple):
    """A message of a record, for one endpoint."""

    item: Item[WebhookRequested]
    occurred: EventOccurred
    # The time of the event in RFC 3339, and that of its record in milliseconds since the epoch.
    timestamp: str
    produced_at_ms: int
    # The paths in data that are sent; empty: all data.
    fields: Sequence[str]

    def for_endpoint(self, endpoint: Endpoint) -> Event:
        """Return the event that is sent to its endpoint."""
        event = self.occurred
        return Event(
            id=event_message_id(event.club_id, event.event_id, endpoint.key.id),
            type=event.type,
            club_id=event.club_id,
            at_ms=self.produced_at_ms,
            body=webhook_body(event, endpoint.key.id, self.timestamp, endpoint.format, self.fields),
        )


@dataclass(frozen=True, kw_only=True)
class KnownEndpoints:
    """The endpoints that a function uses, read again after ENDPOINTS_CACHED_S."""

    store: WebhookEndpoints
    clock: Clock
    # Endpoint → its state (None: there is none), and the time until which it is used.
    _known: dict[EndpointKey, tuple[Endpoint | None, float]] = field(default_factory=dict)

    def find(self, keys: Iterable[EndpointKey]) -> Mapping[EndpointKey, Endpoint | None]:
        """Return the endpoints by their keys. Raises Retry or Stop."""
        now, wanted = self.clock.monotonic(), set(keys)
        unread = [key for key in wanted if self._known.get(key, (None, now))[1] <= now]
        if unread:
            found = self.store.find_all(unread)
            self._known.update({key: (found.get(key), now + ENDPOINTS_CACHED_S) for key in unread})
        return {key: self._known[key][0] for key in wanted}

    def forget(self, key: EndpointKey) -> None:
        self._known.pop(key, None)


@dataclass(frozen=True, kw_only=True)
class SendMessages:
    """The use case of the webhook_sender function. Each function environment has one instance."""

    endpoints: KnownEndpoints
    results: EndpointResults
    deliveries: WebhookDeliveries
    gateway: WebhookGateway
    clock: Clock
    pool: Executor = field(default_factory=lambda: ThreadPoolExecutor(_THREADS))

    def decode(self, record: KafkaRecord, codec: Codec) -> WebhookRequested:
        """Decode and check a record. Raises DeadLetter or Retry."""
        check_schema(record, WebhookRequested)
        request = WebhookRequested.from_avro(codec.decode("WebhookRequested", record.value))
        columns = len(request.event_index) == len(request.endpoint_index)
        columns = columns and len(request.field_index) in (0, len(request.event_index))
        of_events = len(request.events) == len(request.offsets) == len(request.produced_at)
        in_range = all(0 <= each < len(request.events) for each in request.event_index)
        in_range = in_range and all(0 <= each < len(request.endpoints) for each in request.endpoint_index)
        in_range = in_range and all(0 <= each < len(request.field_lists) for each in request.field_index)
        if not (columns and of_events and in_range):
            raise DeadLetter("invalid", "no webhook record: its columns do not fit together")
        if any(EndpointKey.of_id(each) is None for each in request.endpoints):
            raise DeadLetter("invalid", "no webhook record: an endpoint's id is none")
        for event in request.events:
            if (fault := next(faults(event), None)) is not None:  # guard: events.faults_of_messages
                raise DeadLetter("invalid", f"no webhook record: {fault[0]} {fault[1]}")
        return request

    def handle(self, batch: Batch[WebhookRequested]) -> None:
        items = batch.active()
        waiting: defaultdict[EndpointKey, list[Message]] = defaultdict(list)
        for item in items:
            batch.attempt(item, partial(_read, item, waiting))
        if not waiting:
            return
        found = self.endpoints.find(waiting)
        lanes: list[Lane] = []
        for key, messages in waiting.items():
            endpoint = found[key]
            if endpoint is None or not endpoint.enabled:
                metrics.add(WEBHOOKS_WITHOUT_ENDPOINT, len(messages))
                continue
            lanes.append(Lane(endpoint=endpoint, pending=deque(each.for_endpoint(endpoint) for each in messages)))
        # guard: events.failing_endpoint
        healthy = [each for each in lanes if each.endpoint.failing_since_ms is None]
        self.gateway.send(healthy, batch.remaining_s)
        self._settle(lanes, waiting)

    def dead_lettered(self, batch: Batch[WebhookRequested], item: Item[WebhookRequested], why: DeadLetter) -> None:
        """Do nothing: the messages of a record that cannot be read are unknown."""

    def _settle(
        self,
        lanes: Iterable[Lane],
        waiting: Mapping[EndpointKey, list[Message]],
    ) -> None:
        """Store the messages that were not accepted. An error fails the records of the endpoint's messages."""
        settled = [(lane, self.pool.submit(self._settle_lane, lane)) for lane in lanes]
        for lane, future in settled:
            metrics.add(WEBHOOKS_DELIVERED, lane.accepted)
            metrics.add(WEBHOOK_FAILURES, len(lane.failed))
            metrics.add(WEBHOOKS_DEFERRED, len(lane.failed) + len(lane.pending))
            error = lane.error or future.exception()
            if error is None:
                continue
            if not isinstance(error, Exception):
                raise error
            for message in waiting[lane.endpoint.key]:
                message.item.error = message.item.error or error

    def _settle_lane(self, lane: Lane) -> None:
        """Store the messages of an endpoint that were not accepted, and that it fails. Raises Retry or Stop."""
        if lane.error is not None:
            return
        for event, attempt in lane.failed:
            self._defer(lane.endpoint, event, attempt)
        now_ms = self.clock.now_ms()
        for event in lane.pending:
            self._defer(lane.endpoint, event, None, now_ms)
        if lane.failed:
            _, attempt = lane.failed[-1]
            self.endpoints.forget(lane.endpoint.key)
            self.results.record(lane.endpoint, attempt, tried_since_ms=attempt.at_ms)
            logger.info(
                "an event was not accepted",
                club_id=lane.endpoint.key.club_id,
                endpoint=lane.endpoint.key.id,
                messages=len(lane.failed),
                status=attempt.status,
                error=attempt.error,
            )

    def _defer(self, endpoint: Endpoint, event: Event, attempt: Attempt | None, now_ms: int = 0) -> None:
        stored = self.deliveries.record(event)
        new = Delivery(
            endpoint=endpoint.key, event_id=stored.id, event_type=stored.type, at_ms=stored.at_ms, due_ms=now_ms
        )
        # A delivery that exists is of an earlier invocation with the same record: its attempts count.
        self.deliveries.add(new if attempt is None else replace(new.after(attempt), revision=1))


def _read(item: Item[WebhookRequested], waiting: defaultdict[EndpointKey, list[Message]]) -> None:
    """Append the messages of a record to those of their endpoints."""
    request = item.value
    times = [time_of_ms(event.occurred_at) for event in request.events]
    lists = [request.field_lists[place] for place in request.field_index] or [[] for _ in request.event_index]
    for place, endpoint_place, fields in zip(request.event_index, request.endpoint_index, lists, strict=True):
        event, endpoint_id = request.events[place], request.endpoints[endpoint_place]
        key = EndpointKey.of_id(endpoint_id)
        if key is None:
            raise Retry(f"the endpoint {endpoint_id} was checked before")
        waiting[key].append(Message(item, event, times[place], request.produced_at[place], fields))
