"""The records on masscomm's Kafka topics, as dataclasses with the fields of schemas/*.avsc."""

from collections.abc import Iterable, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Self

from masscomm.domain.ids import derived_id
from masscomm.domain.limits import FIELDS_OF_SEND

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class AvroRecord:
    """A dataclass with the same field names as an Avro record.

    Timestamps are milliseconds since the epoch, UTC, as in Avro.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @classmethod
    def from_avro(cls, value: Mapping[str, Any]) -> Self:
        """Return the record for a decoded Avro value, which must have been resolved to our own schema."""
        return made(cls, value)

    def to_avro(self) -> dict[str, Any]:
        """Return the value to encode in Avro. Nested records become mappings; lists are not copied."""
        values = dict(vars(self))
        for name, value in values.items():
            if type(value) is list and value and isinstance(value[0], AvroRecord):
                values[name] = [item.to_avro() for item in value]
            elif isinstance(value, AvroRecord):
                values[name] = value.to_avro()
        return values


def made[R: AvroRecord](kind: type[R], values: Mapping[str, Any]) -> R:
    """Return kind(**values).

    A frozen dataclass assigns each field by a call of object.__setattr__. Setting all fields at once takes a quarter of
    the time.
    """
    if values.keys() != kind.__dataclass_fields__.keys():
        return kind(**values)  # It adds the defaults, or raises TypeError.
    record = object.__new__(kind)
    vars(record).update(values)
    return record


def assembled[R: AvroRecord](kind: type[R], *parts: "DataclassInstance") -> R:
    """Return a record of class `kind` with the fields of the given parts. If two parts have a field, the later
    part's value is used.

    Each part is a dataclass of its own, so that the type checker finds wrong fields.
    """
    values: dict[str, Any] = {}
    for part in parts:
        kinds: tuple[Any, Any] = type(part), kind
        values_of_part = vars(part)
        for name in _shared_fields(*kinds):
            values[name] = values_of_part[name]
    return made(kind, values)


@cache
def _shared_fields(one: Any, other: Any) -> tuple[str, ...]:
    names = {each.name for each in fields(other)}
    return tuple(each.name for each in fields(one) if each.name in names)


@dataclass(frozen=True, kw_only=True)
class OwnFields[R: AvroRecord](AvroRecord):
    """The fields of a record of class R that are not copied from another record."""

    def added_to(self, kind: type[R], *parts: "DataclassInstance") -> R:
        """Return the record with these fields and the fields of the parts."""
        return assembled(kind, *parts, self)


@dataclass(frozen=True, kw_only=True)
class SendFields(AvroRecord):
    """The fields of a send that every record before and including delivery contains.

    A new field of a send needs one line here (or in ContentFields if delivery does not need it), its limit in
    masscomm.domain.limits, and the schemas.
    """

    club_id: int
    # The category of the send, such as news.
    type: str
    # The time at which the send was requested.
    timestamp: int
    # The template's type, if it differs from the category; delivery and outcomes have it for the metrics.
    template: str | None = None
    locale: str | None = None
    expires_at: int | None = None
    collapse_key: str | None = None
    reference: str | None = None
    # The options of its pushes, as JSON (masscomm.domain.push_options).
    push: str | None = None
    # The object that its recipients must follow (masscomm.domain.memberships).
    follows: str | None = None


@dataclass(frozen=True, kw_only=True)
class ContentFields(SendFields):
    """The fields of a send that every record before and including the builder's input contains. Delivery records
    have the rendered messages instead.
    """

    data: dict[str, str] = field(default_factory=dict)
    # Position as text → the variables of this recipient, which replace those of data.
    recipient_data: dict[str, dict[str, str]] = field(default_factory=dict)
    # How the notifications are collected, if the send says so itself: a masscomm.domain.digests.Digest as JSON.
    digest: str | None = None
    # Of the message of a digest: what its template sees of the members, as JSON.
    collected: str | None = None

    def data_of(self, position: int) -> dict[str, str]:
        """Return the variables of one recipient alone."""
        return self.recipient_data.get(str(position), _NO_DATA)


_NO_DATA: dict[str, str] = {}


def of_positions(recipient_data: dict[str, dict[str, str]], positions: Iterable[int]) -> dict[str, dict[str, str]]:
    """Return the variables of the recipients at some positions."""
    if not recipient_data:
        return recipient_data
    names = map(str, positions)
    return {name: recipient_data[name] for name in names if name in recipient_data}


# The names of the fields that are copied into each derived record until the messages are rendered.
CARRIED = tuple(each.name for each in fields(ContentFields))
# The category is omitted, because its name has a separate limit.
COPIED_TEXTS = tuple(name for name in CARRIED if name != "type")
# The size in UTF-8 of all the texts above in one record, if each has its maximum length.
MAX_COPIED_BYTES = sum(FIELDS_OF_SEND[name].max_bytes for name in COPIED_TEXTS)  # guard: limits.copied_fields


@dataclass(frozen=True, kw_only=True)
class SendRequested(ContentFields):
    """One chunk of a send. A recipient's position is the index in to_users."""

    to_users: list[int]
    send_id: str | None = None
    chunk_index: int = 0
    chunk_count: int = 1
    channels: list[str] = field(default_factory=list)
    priority: str | None = None
    send_at: int | None = None
    # The principal that requested the send over REST: the id of its API key.
    principal: str | None = None
    # Instead of send_at, a date and time in each recipient's own time zone (masscomm.domain.local_times).
    send_at_local: str | None = None
    # Whether it was requested with a test key.
    is_test: bool = False
    # The pace (masscomm.domain.pace): the most recipients a minute, or the time over which they are spread.
    per_minute: int | None = None
    spread_over_ms: int | None = None
    # The channels that wait for the one before them, as JSON (masscomm.domain.fallbacks).
    fallbacks: str | None = None


@dataclass(frozen=True, kw_only=True)
class AudienceRequested(AvroRecord):
    """A send to an audience."""

    send_id: str
    club_id: int
    timestamp: int
    chunk_size: int
    # The audience, as JSON.
    audience: str
    # A SendRequested without recipients, as JSON.
    send: str
    # The API key with a limit of recipients a day, and the limit; None: nothing is counted.
    key_id: str | None = None
    recipients_a_day: int | None = None
    # The number of records before this one that expanded a share of the audience and handed the rest on.
    share: int = 0
    # The time of a scheduled send before which its users are not sought, unless it is moved; None: at once.
    expand_at: int | None = None
    # The occurrence of a schedule that makes the send, as JSON; None: a send was requested. The fields `audience` and
    # `send` are empty then.
    schedule: str | None = None


@dataclass(frozen=True, kw_only=True)
class DerivedRecord(AvroRecord):
    """The recipients at some of the positions [range_start, range_end) of a chunk (one record of a send); positions
    and user_ids are in ascending order of position.
    """

    record_id: str
    parent_id: str
    send_id: str
    chunk_index: int
    range_start: int
    range_end: int
    positions: list[int]
    user_ids: list[int]

    def derive[R: ChannelRecord](
        self,
        kind: type[R],
        step: str,
        channel: str,
        span: tuple[int, int],
        positions: list[int],
        user_ids: list[int],
        own: OwnFields[R] | None = None,
    ) -> R:
        """Return the record that a processing step derives from this one, for some recipients on a channel.

        Args:
            kind: The class of the new record. Fields that both classes have are copied.
            step: The name of the processing step. The new id is derived from this record's id, the step, the channel
                and the range.
            channel: The channel of the new record.
            span: The range of positions [start, end) that the new record covers.
            positions: The positions of its recipients.
            user_ids: The users at these positions.
            own: The fields of the new record that are not copied.
        """
        start, end = span
        recipients = ChannelRecord(
            record_id=derived_id(self.record_id, step, channel, start, end),
            parent_id=self.record_id,
            send_id=self.send_id,
            chunk_index=self.chunk_index,
            range_start=start,
            range_end=end,
            channel=channel,
            positions=positions,
            user_ids=user_ids,
        )
        record = assembled(kind, self, recipients) if own is None else own.added_to(kind, self, recipients)
        if isinstance(record, ContentFields) and record.recipient_data:  # guard: templates.own_recipients_data
            return replace(record, recipient_data=of_positions(record.recipient_data, positions))
        return record


@dataclass(frozen=True, kw_only=True)
class ChannelRecord(DerivedRecord):
    """A derived record with recipients on one channel."""

    channel: str


@dataclass(frozen=True, kw_only=True)
class RecheckFields(OwnFields["RecheckRequested"]):
    """The fields of a recheck record (recipients that are decided about again later) that a send does not have."""

    why: str
    channels: list[str]
    waited_until: int | None = None
    waits: int = 0
    held: int = 0
    # Of a send with a pace: its beginning, the number of its chunks, and of the positions of this one.
    pace_from: int | None = None
    chunk_count: int | None = None
    chunk_size: int | None = None


@dataclass(frozen=True, kw_only=True)
class RecheckRequested(RecheckFields, ContentFields, DerivedRecord):
    """Recipients of a chunk (one record of a send) that preference_checker decides about, possibly again: a part of
    a long chunk, or delayed recipients. `send_at_local` is None once the recipients have waited for it.
    """

    send_at_local: str | None = None
    per_minute: int | None = None
    spread_over_ms: int | None = None
    # Those of the send that wait still.
    fallbacks: str | None = None

    def part(self, rows: Iterable[int], **changes: Any) -> Self:
        """Return a record with only the recipients at these indices, and with the given fields changed."""
        rows = list(rows)
        positions, user_ids = [self.positions[row] for row in rows], [self.user_ids[row] for row in rows]
        own = of_positions(self.recipient_data, positions)
        return replace(self, positions=positions, user_ids=user_ids, recipient_data=own, **changes)

    @property
    def since_ms(self) -> int:
        """Return the time of the first attempt in ms since the epoch."""
        return max(self.timestamp, self.waited_until or 0)


@dataclass(frozen=True, kw_only=True)
class BuildRequested(ContentFields, ChannelRecord):
    """Recipients at positions [range_start, range_end) that may be notified on one channel; the builder renders
    their messages.
    """

    waited_until: int | None = None
    # The key of the delayed record whose recipients wait for these notifications; None: there is none.
    fallback: str | None = None

    @property
    def since_ms(self) -> int:
        """Return the time of the first attempt in ms since the epoch."""
        return max(self.timestamp, self.waited_until or 0)


@dataclass(frozen=True, kw_only=True)
class ContentColumn(AvroRecord):
    """One field of the message for all recipients, with each distinct value stored once.

    Attributes:
        index: For each recipient, the index of the value in `values`; empty if all recipients have values[0].
    """

    field: str
    values: list[str]
    index: list[int]

    def value_at(self, recipient: int) -> str:
        """Return the value of the field for the nth recipient."""
        return self.values[self.index[recipient]] if self.index else self.values[0]


@dataclass(frozen=True, kw_only=True)
class Withdrawn(AvroRecord):
    """A recipient of a delivery record whose message must not be sent any more, with the final status."""

    position: int
    status: str
    reason: str | None = None
    layer: str
    rule: str | None = None


@dataclass(frozen=True, kw_only=True)
class Taken(AvroRecord):
    """A device whose message the provider has accepted, while the recipient's other devices are retried. `target` is
    the device's id.
    """

    position: int
    target: str
    message_id: str


@dataclass(frozen=True, kw_only=True)
class DeliveryFields(OwnFields["DeliveryRequested"]):
    """The fields of a delivery record that a build record does not have. `waits` is the number of delays so far."""

    built_at: int
    waits: int = 0
    addresses: list[str]
    content: list[ContentColumn]
    withdrawn: list[Withdrawn] = field(default_factory=list)
    taken: list[Taken] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class DeliveryRequested(DeliveryFields, SendFields, ChannelRecord):
    """The messages for recipients at positions [range_start, range_end) on one channel."""

    # The end of what held the recipients. Retries are counted from built_at on: quiet hours extend no deadline.
    waited_until: int | None = None
    # As in the build record.
    fallback: str | None = None

    @property
    def due_ms(self) -> int:
        """Return the time at which the messages were due in ms since the epoch (masscomm.domain.latencies)."""
        return max(self.timestamp, self.waited_until or 0)

    @property
    def since_ms(self) -> int:
        """Return the time of the first attempt in ms since the epoch."""
        return self.built_at

    @classmethod
    def from_avro(cls, value: Mapping[str, Any]) -> Self:
        parts = {
            "content": [ContentColumn.from_avro(column) for column in value["content"]],
            "withdrawn": [Withdrawn.from_avro(entry) for entry in value["withdrawn"]],
            "taken": [Taken.from_avro(entry) for entry in value["taken"]],
        }
        return made(cls, {**value, **parts})


@dataclass(frozen=True, kw_only=True)
class DeviceStatusChanged(AvroRecord):
    """The push provider's response that concerns a device's endpoint, as found during publishing."""

    record_id: str
    device_id: int
    user_id: int
    club_id: int
    platform: str
    endpoint_arn: str
    status: str
    reason: str | None = None
    timestamp: int
    send_id: str


@dataclass(frozen=True, kw_only=True)
class PreferenceChange(AvroRecord):
    """Whether a user wants a category on a channel. None stands for every category, or for every channel."""

    category: str | None = None
    channel: str | None = None
    wanted: bool
    version: int


@dataclass(frozen=True, kw_only=True)
class QuietHoursChange(AvroRecord):
    """A user's quiet hours. Without start and end the user has none."""

    start: str | None = None
    end: str | None = None
    version: int


@dataclass(frozen=True, kw_only=True)
class PreferenceChanged(AvroRecord):
    """The preferences that a user changed through masscomm and that the monolith may not have applied."""

    user_id: int
    club_id: int
    version: int
    timestamp: int
    source: str
    principal: str | None = None
    changes: list[PreferenceChange]
    # None: the user has not changed quiet hours.
    quiet_hours: QuietHoursChange | None = None

    @classmethod
    def from_avro(cls, value: Mapping[str, Any]) -> Self:
        hours = value.get("quiet_hours")
        nested = {
            "changes": [PreferenceChange.from_avro(each) for each in value["changes"]],
            "quiet_hours": None if hours is None else QuietHoursChange.from_avro(hours),
        }
        return made(cls, {**value, **nested})


@dataclass(frozen=True, kw_only=True)
class ReceiptReceived(AvroRecord):
    """A provider's unparsed receipt for one message. `tries` is the number of times that the message has been looked
    up.
    """

    record_id: str
    body: str
    received_at: int
    tries: int = 0


@dataclass(frozen=True, kw_only=True)
class Result(AvroRecord):
    """One distinct result in an outcome record. `count` is the number of recipients that have it."""

    status: str
    reason: str | None = None
    count: int
    layer: str | None = None
    rule: str | None = None
    settings_version: int | None = None
    settings_changed_at: int | None = None
    cdc_position: int | None = None
    staleness_ms: int | None = None


@dataclass(frozen=True, kw_only=True)
class OutcomeFields(OwnFields["NotificationOutcome"]):
    """The fields of an outcome record that its parent record does not have."""

    step: str
    # The time at which the outcome record was produced; requested_at is the timestamp of the send.
    timestamp: int
    requested_at: int
    results: list[Result]
    result_index: list[int]
    provider_message_ids: list[list[str]] = field(default_factory=list)
    # The time at which the messages were due (masscomm.domain.latencies), in a record of delivery or of a receipt;
    # None in one of an earlier version.
    due_at: int | None = None


@dataclass(frozen=True, kw_only=True)
class NotificationOutcome(OutcomeFields, ChannelRecord):
    """The results of the recipients at positions [range_start, range_end) on one channel after one processing step."""

    club_id: int
    type: str
    template: str | None = None
    locale: str | None = None
    # As in the build record.
    fallback: str | None = None

    @classmethod
    def from_avro(cls, value: Mapping[str, Any]) -> Self:
        return made(cls, {**value, "results": [Result.from_avro(result) for result in value["results"]]})


@dataclass(frozen=True, kw_only=True)
class EventOccurred(AvroRecord):
    """An event that occurred in a system, for the endpoints that subscribe to it."""

    event_id: str
    type: str
    club_id: int
    # The path of the unit, such as 100/7; None: the event concerns the whole club.
    unit: str | None = None
    # What the event is about, such as the id of an order.
    key: str | None = None
    occurred_at: int
    # A JSON object.
    data: str


@dataclass(frozen=True, kw_only=True)
class WebhookRequested(AvroRecord):
    """Messages for the endpoints of one bucket, in columns: the message `n` has the event events[event_index[n]] for
    the endpoint endpoints[endpoint_index[n]].

    They are for events whose offset in a partition, of the topic `event` or of the outbox, is in [range_start,
    range_end). The record's id is derived from both, and a message's position in it is the offset of its event with its
    endpoint.
    """

    record_id: str
    bucket: int
    partition: int
    range_start: int
    range_end: int
    # The time at which the record was produced.
    timestamp: int
    events: list[EventOccurred]
    # The offset of each event, and the time of its record in Kafka.
    offsets: list[int]
    produced_at: list[int]
    endpoints: list[str]
    event_index: list[int]
    endpoint_index: list[int]
    # The number of attempts that have been made.
    attempt: int = 0
    # The time since which the messages are attempted or wait; 0: none was attempted.
    first_tried_at: int = 0
    # Lists of paths in data, each once, and the one of each message; an empty one, or no indices: all data is sent.
    field_lists: list[list[str]] = field(default_factory=list)
    field_index: list[int] = field(default_factory=list)

    @classmethod
    def from_avro(cls, value: Mapping[str, Any]) -> Self:
        return made(cls, {**value, "events": [EventOccurred.from_avro(each) for each in value["events"]]})


@dataclass(frozen=True, kw_only=True)
class WebhookOutcome(AvroRecord):
    """The results of attempts to send messages with events, in columns: the message `n` is for the endpoint
    endpoints[endpoint_index[n]].

    A message is identified by its endpoint, its id and its attempt, which a repetition after a crash shares.
    """

    record_id: str
    # The time at which the record was made.
    timestamp: int
    endpoints: list[str]
    types: list[str]
    endpoint_index: list[int]
    type_index: list[int]
    message_id: list[str]
    event_id: list[str]
    club_id: list[int]
    # Values of masscomm.domain.webhooks.AttemptResult.
    status: list[str]
    # The number of the attempt, from 1.
    attempt: list[int]
    # The status of the response; None: there was none.
    http_status: list[int | None]
    duration_ms: list[int]
    # The time of the attempt in milliseconds since the epoch.
    at_ms: list[int]
    # Why there was no response, or no attempt; "" otherwise.
    error: list[str]


@dataclass(frozen=True, kw_only=True)
class DirectoryDocumentChanged(AvroRecord):
    """A document that masscomm itself stores in the directory. A removed one is a record without a value."""

    index: str
    id: str
    # The position of the write in the index; the higher pair is newer.
    primary_term: int
    seq_no: int
    # The document as JSON.
    document: str


@dataclass(frozen=True, kw_only=True)
class SubscriptionChanged(AvroRecord):
    """A subscription as it is now. A deleted one is a record without a value."""

    subscription_id: str
    endpoint_id: str
    # Names of event types, or prefixes of whole parts such as match.*
    types: list[str]
    # The tenants whose events match; None: every tenant.
    club_ids: list[int] | None = None
    # The units whose events match; empty: every unit, and events without one.
    units: list[str] = field(default_factory=list)
    # The filter on data as JSON: path → values; None: every event matches.
    filter: str | None = None
    # The paths in data that are sent; empty: all data.
    fields: list[str] = field(default_factory=list)
    revision: int
    # Whether requests to the endpoint may have several messages.
    batched: bool = False
    # Of a rule whose events become notifications: the rule and its owner, as JSON. Its endpoint does not exist.
    notification: str | None = None
    # The time before which no event matches, in milliseconds since the epoch.
    since: int = 0
