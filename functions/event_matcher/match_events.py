"""Finds the endpoints of a batch of occurred events, and produces the messages for them, and the sends of rules. Events
are records of the topic `event`, rows of the monolith's outbox, and the recipients of outcomes of a club that
subscribes to them.

The messages of a batch are grouped by the range of their events' offsets and by the bucket of their endpoints. The id
of a record is derived from both, so that a redelivered batch produces the same ids, however it is cut.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from functions.event_matcher.notify import Match, Notify
from masscomm.cdc.outbox import event_in
from masscomm.chain.batch import Batch, Item
from masscomm.chain.disabled_endpoints import send_to_contact
from masscomm.chain.subscription_topic import SubscriptionSource
from masscomm.chain.waiting_messages import EVENT_BYTES
from masscomm.clock import Clock
from masscomm.decisions.event_matching import SubscriptionIndex
from masscomm.domain.events import EventType, faults, patterns_of
from masscomm.domain.ids import chunk_id, webhook_record_id
from masscomm.domain.lanes import Lane
from masscomm.domain.notification_events import events_of
from masscomm.domain.records import EventOccurred, NotificationOutcome, WebhookRequested
from masscomm.domain.subscriptions import SubscriptionKey
from masscomm.domain.webhooks import OWN_EVENT_TYPES, EndpointKey, NotificationEventType, bucket_of
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
# The patterns of subscriptions to events of notifications.
_OF_NOTIFICATIONS = frozenset(pattern for each in NotificationEventType for pattern in patterns_of(each))


class Occurred(NamedTuple):
    """A decoded event."""

    about: EventOccurred
    # The value of the event's data.
    data: Any


class Outcome(NamedTuple):
    """An outcome record, which is decoded only for a club that subscribes to its events."""

    club_id: int
    # A function that returns the record. Raises DeadLetter.
    decode: Callable[[], NotificationOutcome]


# The value of an item; None: the record is no event.
type Value = Occurred | Outcome | None


class Message(NamedTuple):
    """An event for one endpoint."""

    item: Item[Value]
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

    def decode(self, record: KafkaRecord, codec: Codec) -> Value:
        """Decode and check an event; return None for a record of the outbox that is not one. Raises DeadLetter or
        Retry.
        """
        if record.topic == topics.OUTCOME:
            club_id = codec.field("NotificationOutcome", record.value, "club_id")
            return Outcome(club_id, partial(_outcome, codec, record.value))
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

    def handle(self, batch: Batch[Value]) -> None:
        items = batch.active()
        if not items:
            return
        index = self.subscriptions.current()
        named = {item.value.about.type for item in items if isinstance(item.value, Occurred)}
        types = self.types.find(named - OWN_EVENT_TYPES)
        events: dict[int, list[EventOccurred]] = {}
        for item in items:
            batch.attempt(item, partial(_find_events, item, types, index, events))
        groups: defaultdict[Group, list[Message]] = defaultdict(list)
        notified: list[Match[Value]] = []
        for item in batch.active():
            value, place = item.value, item.record
            start = place.offset - place.offset % RANGE_SIZE
            for event in events[id(item)]:
                found = index.match(event)
                for endpoint, fields in found.items():
                    topic = topics.WEBHOOK_BATCHED if endpoint in index.batched else topics.WEBHOOK
                    group = Group(place.topic, place.partition, start, bucket_of(endpoint.id), topic)
                    groups[group].append(Message(item, event, endpoint, fields))
                metrics.add(EVENT_MESSAGES, len(found))
                if isinstance(value, Occurred):
                    if (send := send_to_contact(event, value.data)) is not None:
                        send_id = str(send.send_id)
                        batch.produce(item, topics.in_lane(topics.SEND_API, Lane.BULK), chunk_id(send_id, 0), send)
                    rules = index.rules(event)
                    notified += (
                        Match(item, event, value.data, SubscriptionKey(each.endpoint, each.id), each.notification)
                        for each in rules
                        if each.notification is not None
                    )
                    metrics.add(EVENTS_WITHOUT_ENDPOINT, not found and not rules)
        for group, messages in groups.items():
            for part in parts_of(messages):
                record = self._record(group, part)
                of_part = list({id(each.item): each.item for each in part}.values())
                batch.produce_for(of_part, group.to, str(group.bucket), record, [schema_header(WebhookRequested)])
        self.notify.produce(batch, notified)

    def dead_lettered(self, batch: Batch[Value], item: Item[Value], why: DeadLetter) -> None:
        """Do nothing: an event has no recipients, and those of an outcome have ended."""

    def _record(self, group: Group, messages: Sequence[Message]) -> WebhookRequested:
        # An outcome record is several events.
        firsts = list({id(each.about): each for each in messages}.values())
        places = {id(each.about): place for place, each in enumerate(firsts)}
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
            event_index=[places[id(each.about)] for each in messages],
            endpoint_index=[endpoints[each.endpoint] for each in messages],
            field_lists=[] if is_whole else [list(fields) for fields in lists],
            field_index=[] if is_whole else [lists[each.fields] for each in messages],
        )


def _outcome(codec: Codec, value: bytes | None) -> NotificationOutcome:
    """Return the outcome in a record. Raises DeadLetter or Retry."""
    outcome = NotificationOutcome.from_avro(codec.decode("NotificationOutcome", value))
    in_range = all(0 <= each < len(outcome.results) for each in outcome.result_index)
    if not in_range or len(outcome.user_ids) != len(outcome.result_index):
        raise DeadLetter("invalid", "an outcome whose columns do not fit together")
    return outcome


def _find_events(
    item: Item[Value],
    types: Mapping[str, EventType],
    index: SubscriptionIndex,
    found: dict[int, list[EventOccurred]],
) -> None:
    """Add the events in a record to those of the batch, by the item. Raises DeadLetter or Retry."""
    value = item.value
    found[id(item)] = events = []
    if isinstance(value, Occurred):
        # A row of the outbox is none of masscomm's events.
        is_own = item.record.topic == topics.EVENT and value.about.type in OWN_EVENT_TYPES
        if not is_own:  # guard: events.own_type
            _check(value, types)
        events.append(value.about)
    # guard: events.subscribed_outcomes
    elif value is not None and index.has(value.club_id, _OF_NOTIFICATIONS):
        events.extend(events_of(value.decode()))


def parts_of(messages: Sequence[Message]) -> Iterator[Sequence[Message]]:
    """Divide messages into parts of at most MAX_MESSAGES and MAX_BYTES. A part has each event once."""
    part: list[Message] = []
    size, event_bytes = 0, 0
    last: EventOccurred | None = None
    for message in messages:
        if message.about is not last:
            event_bytes = EVENT_BYTES + len(message.about.data.encode())
        added = _MESSAGE_BYTES + (0 if message.about is last else event_bytes)
        if part and (len(part) == MAX_MESSAGES or size + added > MAX_BYTES):  # guard: events.size_of_record
            yield part
            part, size = [], 0
            added = _MESSAGE_BYTES + event_bytes
        part.append(message)
        size, last = size + added, message.about
    if part:
        yield part


def _check(occurred: Occurred, types: Mapping[str, EventType]) -> None:
    """Check an event against its type. Raises DeadLetter."""
    event = occurred.about
    event_type = types.get(event.type)
    if event_type is None:
        raise DeadLetter("unknown_type", f"there is no event type {event.type}")  # guard: events.unknown_type
    found = misfit(event_type.schema, occurred.data)
    if found is not None:  # guard: events.misfit
        raise DeadLetter("invalid", f"data does not fit the schema of {event.type}, at {found.place}: {found.reason}")
