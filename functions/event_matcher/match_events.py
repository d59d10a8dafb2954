"""Finds the endpoints of a batch of occurred events, and produces the messages for them, and the sends of rules. Events
are records of the topic `event`, and rows of the monolith's outbox.

The messages of a batch are grouped by the range of their events' offsets and by the bucket of their endpoints. The id
of a record is derived from both, so that a redelivered batch produces the same ids, however it is cut.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from functions.event_matcher.notify import Match, Notify
from masscomm.cdc.outbox import event_in
from masscomm.chain.batch import Batch, Item
from masscomm.chain.subscription_topic import SubscriptionSource
from masscomm.chain.waiting_messages import EVENT_BYTES
from masscomm.clock import Clock
from masscomm.domain.events import EventType, faults
from masscomm.domain.ids import webhook_record_id
from masscomm.domain.records import EventOccurred, WebhookRequested
from masscomm.domain.webhooks import OWN_EVENT_TYPES, EndpointKey, bucket_of
from masscomm.errors import DeadLetter
from masscomm.json_reader import InvalidJson, read_json
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec
from masscomm.kafka.bundled_schema import schema_header
from masscomm.kafka.event import KafkaRecord
from masscomm.observability import metrics
from masscomm.observability.metric_names import EVENT_MESSAGES, EVENTS_WITHOUT_ENDPOINT
from masscomm.stores.event_types.checks import KnownTypes, misfit

# The number of offsets of a range: events of one range and one bucket share a record.
RANGE_SIZE = 256
# The limits of a record. The size is that of data, texts and columns, before Avro and compression.
MAX_MESSAGES, MAX_BYTES = 500, 700_000
# The bytes of a message in the columns.
_MESSAGE_BYTES = 8


class Occurred(NamedTuple):
    """A decoded event."""

    about: EventOccurred
    # The value of the event's data.
    data: Any


class Message(NamedTuple):
    """An event for one endpoint."""

    item: Item[Occurred | None]
    about: EventOccurred
    endpoint: EndpointKey
    # The paths in data that the endpoint receives; empty: all data.
    fields: tuple[str, ...]


class Group(NamedTuple):
    """The messages that share a record, unless it would be too large."""

    topic: str
    partition: int
    range_start: int
    bucket: int
    # The topic of the messages.
    to: str


@dataclass(frozen=True, kw_only=True)
class MatchEvents:
    """The use case of the event_matcher function. Each function environment has one instance."""

    subscriptions: SubscriptionSource
    types: KnownTypes
    notify: Notify
    clock: Clock

    def decode(self, record: KafkaRecord, codec: Codec) -> Occurred | None:
        """Decode and check an event; return None for a record of the outbox that is not one. Raises DeadLetter or
        Retry.
        """
        if record.topic == topics.EVENT:
            event = EventOccurred.from_avro(codec.decode("EventOccurred", record.value))
        elif (found := event_in(record)) is not None:
            event = found
        else:
            return None
        if (fault := next(faults(event), None)) is not None:
            raise DeadLetter("invalid", f"no event: {fault[0]} {fault[1]}")
        try:
            data = read_json(event.data)
        except InvalidJson as error:
            raise DeadLetter("invalid", f"no event: data is not JSON: {error}") from error
        if not isinstance(data, dict):
            raise DeadLetter("invalid", "no event: data must be a JSON object")
        return Occurred(event, data)

    def handle(self, batch: Batch[Occurred | None]) -> None:
        items = _events(batch)
        if not items:
            return
        index = self.subscriptions.current()
        types = self.types.find({occurred.about.type for _, occurred in items} - OWN_EVENT_TYPES)
        groups: defaultdict[Group, list[Message]] = defaultdict(list)
        notified: list[Match[Occurred | None]] = []
        for item, occurred in items:
            batch.attempt(item, partial(_check, occurred, types, is_own=_is_own(item, occurred)))
        for item, (event, data) in _events(batch):
            found = index.match(event)
            start = item.record.offset - item.record.offset % RANGE_SIZE
            for endpoint, fields in found.items():
                place, topic = item.record, topics.WEBHOOK_BATCHED if endpoint in index.batched else topics.WEBHOOK
                group = Group(place.topic, place.partition, start, bucket_of(endpoint.id), topic)
                groups[group].append(Message(item, event, endpoint, fields))
            rules = [(each.id, each.notification) for each in index.rules(event) if each.notification]
            notified += (Match(item, event, data, *rule) for rule in rules)
            metrics.add(EVENT_MESSAGES, len(found))
            metrics.add(EVENTS_WITHOUT_ENDPOINT, not found and not rules)
        for group, messages in groups.items():
            for part in parts_of(messages):
                record = self._record(group, part)
                of_part = list({id(each.item): each.item for each in part}.values())
                batch.produce_for(of_part, group.to, str(group.bucket), record, [schema_header(WebhookRequested)])
        self.notify.produce(batch, notified)

    def dead_lettered(self, batch: Batch[Occurred | None], item: Item[Occurred | None], why: DeadLetter) -> None:
        """Do nothing: an event has no recipients."""

    def _record(self, group: Group, messages: Sequence[Message]) -> WebhookRequested:
        firsts = list({each.item.record.offset: each for each in messages}.values())
        places = {each.item.record.offset: place for place, each in enumerate(firsts)}
        endpoints = {
            endpoint: place for place, endpoint in enumerate(dict.fromkeys(each.endpoint for each in messages))
        }
        end = group.range_start + RANGE_SIZE
        lists = {fields: place for place, fields in enumerate(dict.fromkeys(each.fields for each in messages))}
        is_whole = lists.keys() == {()}
        return WebhookRequested(
            record_id=webhook_record_id(group.topic, group.partition, group.range_start, end, group.bucket),
            bucket=group.bucket,
            partition=group.partition,
            range_start=group.range_start,
            range_end=end,
            timestamp=self.clock.now_ms(),
            events=[each.about for each in firsts],
            offsets=[each.item.record.offset for each in firsts],
            produced_at=[each.item.record.timestamp_ms for each in firsts],
            endpoints=[endpoint.id for endpoint in endpoints],
            event_index=[places[each.item.record.offset] for each in messages],
            endpoint_index=[endpoints[each.endpoint] for each in messages],
            field_lists=[] if is_whole else [list(fields) for fields in lists],
            field_index=[] if is_whole else [lists[each.fields] for each in messages],
        )


def _events(batch: Batch[Occurred | None]) -> list[tuple[Item[Occurred | None], Occurred]]:
    """Return the items of a batch that are events and have not failed, each with its event."""
    return [(item, item.value) for item in batch.active() if item.value is not None]


def parts_of(messages: Sequence[Message]) -> Iterator[Sequence[Message]]:
    """Divide messages into parts of at most MAX_MESSAGES and MAX_BYTES. A part has each event once."""
    part: list[Message] = []
    size, event_bytes, last = 0, 0, None
    for message in messages:
        if message.item is not last:
            event_bytes = EVENT_BYTES + len(message.about.data.encode())
        added = _MESSAGE_BYTES + (0 if message.item is last else event_bytes)
        if part and (len(part) == MAX_MESSAGES or size + added > MAX_BYTES):  # guard: events.size_of_record
            yield part
            part, size = [], 0
            added = _MESSAGE_BYTES + event_bytes
        part.append(message)
        size, last = size + added, message.item
    if part:
        yield part


def _is_own(item: Item[Occurred | None], occurred: Occurred) -> bool:
    """Return whether an event is one of masscomm: a row of the outbox never is."""
    return occurred.about.type in OWN_EVENT_TYPES and item.record.topic == topics.EVENT


def _check(occurred: Occurred, types: Mapping[str, EventType], *, is_own: bool) -> None:
    """Check an event against its type. Raises DeadLetter."""
    if is_own:  # guard: events.own_type
        return
    event = occurred.about
    event_type = types.get(event.type)
    if event_type is None:
        raise DeadLetter("unknown_type", f"there is no event type {event.type}")  # guard: events.unknown_type
    found = misfit(event_type.schema, occurred.data)
    if found is not None:  # guard: events.misfit
        raise DeadLetter("invalid", f"data does not fit the schema of {event.type}, at {found.place}: {found.reason}")
