"""The records of the chain as dataclasses with the fields of schemas/*.avsc."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any, Self, cast

from masscomm.domain.ids import derived_id


class AvroRecord:
    """A dataclass whose fields are an Avro record's, name for name.

    Timestamps are milliseconds since the epoch, UTC, as Avro holds them.
    """

    @classmethod
    def from_avro(cls, value: Mapping[str, Any]) -> Self:
        """Return the record of a decoded value, already resolved to our own schema."""
        return cls(**value)

    def to_avro(self) -> dict[str, Any]:
        """Return the value for an encoder; nested records become mappings, lists are not copied."""
        names = (f.name for f in fields(cast(Any, self)))
        return {name: _plain(getattr(self, name)) for name in names}


def _plain(value: Any) -> Any:
    if isinstance(value, list) and value and isinstance(value[0], AvroRecord):
        return [item.to_avro() for item in value]
    return value


def carry_over[R: AvroRecord](record: AvroRecord, kind: type[R], **own: Any) -> R:
    """Return a record of another kind that has `own` and each other field that both kinds have."""
    kinds: tuple[Any, Any] = type(record), kind
    return kind(**{name: getattr(record, name) for name in _shared_fields(*kinds)} | own)


@cache
def _shared_fields(one: Any, other: Any) -> tuple[str, ...]:
    names = {each.name for each in fields(other)}
    return tuple(each.name for each in fields(one) if each.name in names)


@dataclass(frozen=True, kw_only=True)
class SendFields(AvroRecord):
    """The fields of a send that each record up to delivery carries.

    A new field of a send is one line here, or in ContentFields where delivery does not need it, and the schemas.
    """

    club_id: int
    # The category.
    type: str
    # When the send was requested.
    timestamp: int
    expires_at: int | None = None
    collapse_key: str | None = None
    reference: str | None = None


@dataclass(frozen=True, kw_only=True)
class ContentFields(SendFields):
    """The fields of a send that each record up to build carries; delivery records have the messages instead."""

    template: str | None = None
    data: dict[str, str] = field(default_factory=dict)
    locale: str | None = None


# Copied into each derived record, up to the messages.
CARRIED = tuple(each.name for each in fields(ContentFields))


@dataclass(frozen=True, kw_only=True)
class SendRequested(ContentFields):
    """A chunk of a send; to_users by position."""

    to_users: list[int]
    send_id: str | None = None
    chunk_index: int = 0
    chunk_count: int = 1
    channels: list[str] = field(default_factory=list)
    priority: str | None = None
    send_at: int | None = None


@dataclass(frozen=True, kw_only=True)
class DerivedRecord(AvroRecord):
    """Recipients of positions [range_start, range_end) of a chunk: the users at some of these positions, ascending."""

    record_id: str
    parent_id: str
    send_id: str
    chunk_index: int
    range_start: int
    range_end: int
    positions: list[int]
    user_ids: list[int]

    def derive[R: DerivedRecord](
        self,
        kind: type[R],
        step: str,
        channel: str,
        span: tuple[int, int],
        positions: list[int],
        user_ids: list[int],
        /,
        **own: Any,
    ) -> R:
        """Return the record that a step derives for some recipients on a channel.

        Args:
            kind: The class of the new record. Fields that both classes have are copied unless they are in `own`.
            step: The step that derives it: its id follows from this record, the step, the channel and the span.
            channel: The channel of the new record.
            span: The positions that it covers: [start, end).
            positions: The positions of its recipients.
            user_ids: The users at these positions.
            own: The other fields of the new record.
        """
        start, end = span
        return carry_over(
            self,
            kind,
            record_id=derived_id(self.record_id, step, channel, start, end),
            parent_id=self.record_id,
            range_start=start,
            range_end=end,
            channel=channel,
            positions=positions,
            user_ids=user_ids,
            **own,
        )


@dataclass(frozen=True, kw_only=True)
class RecheckRequested(ContentFields, DerivedRecord):
    """Recipients of a chunk that preference_checker checks (again): a part of a long chunk, or delayed recipients."""

    why: str
    channels: list[str]
    waited_until: int | None = None
    waits: int = 0
    held: int = 0

    def part(self, rows: Iterable[int], **changes: Any) -> Self:
        """Return the record with the recipients at these rows, and other fields changed."""
        rows = list(rows)
        positions, user_ids = [self.positions[row] for row in rows], [self.user_ids[row] for row in rows]
        return replace(self, positions=positions, user_ids=user_ids, **changes)

    @property
    def since_ms(self) -> int:
        """The time of the first attempt (ms)."""
        return max(self.timestamp, self.waited_until or 0)


@dataclass(frozen=True, kw_only=True)
class BuildRequested(ContentFields, DerivedRecord):
    """Allowed recipients of positions [range_start, range_end) on one channel."""

    channel: str
    waited_until: int | None = None

    @property
    def since_ms(self) -> int:
        """The time of the first attempt (ms)."""
        return max(self.timestamp, self.waited_until or 0)


@dataclass(frozen=True, kw_only=True)
class ContentColumn(AvroRecord):
    """One field of the message for all recipients, each distinct value once.

    index: one for each position, into values; empty if all recipients have values[0].
    """

    field: str
    values: list[str]
    index: list[int]

    def value_at(self, recipient: int) -> str:
        """Return the value of the nth recipient."""
        return self.values[self.index[recipient]] if self.index else self.values[0]


@dataclass(frozen=True, kw_only=True)
class Withdrawn(AvroRecord):
    """A recipient of a delivery record whose message was withdrawn, with the final status."""

    position: int
    status: str
    reason: str | None = None
    layer: str
    rule: str | None = None


@dataclass(frozen=True, kw_only=True)
class Taken(AvroRecord):
    """A device whose message the provider accepted, of a recipient whose other devices are retried; target: its id."""

    position: int
    target: str
    message_id: str


@dataclass(frozen=True, kw_only=True)
class DeliveryRequested(SendFields, DerivedRecord):
    """Messages for positions [range_start, range_end) on one channel; waits: how often they were delayed."""

    built_at: int
    channel: str
    waits: int = 0
    addresses: list[str]
    content: list[ContentColumn]
    withdrawn: list[Withdrawn] = field(default_factory=list)
    taken: list[Taken] = field(default_factory=list)

    @property
    def since_ms(self) -> int:
        """The time of the first attempt (ms)."""
        return self.built_at

    @classmethod
    def from_avro(cls, value: Mapping[str, Any]) -> Self:
        parts = {
            "content": [ContentColumn(**column) for column in value["content"]],
            "withdrawn": [Withdrawn(**entry) for entry in value["withdrawn"]],
            "taken": [Taken(**entry) for entry in value["taken"]],
        }
        return cls(**{**value, **parts})


@dataclass(frozen=True, kw_only=True)
class DeviceStatusChanged(AvroRecord):
    """The push provider's response about a device during publishing."""

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
class ReceiptReceived(AvroRecord):
    """A provider's receipt for one message, unparsed. tries: how often its message was looked up."""

    record_id: str
    body: str
    received_at: int
    tries: int = 0


@dataclass(frozen=True, kw_only=True)
class Result(AvroRecord):
    """One distinct result of an outcome record; count: how many of its positions have it."""

    status: str
    reason: str | None = None
    count: int
    layer: str | None = None
    rule: str | None = None
    settings_version: int | None = None
    cdc_position: int | None = None
    staleness_ms: int | None = None


@dataclass(frozen=True, kw_only=True)
class NotificationOutcome(DerivedRecord):
    """The results of the recipients of positions [range_start, range_end) on one channel at one step."""

    step: str
    club_id: int
    type: str
    channel: str
    # When the outcome was emitted; requested_at is the send's timestamp.
    timestamp: int
    requested_at: int
    results: list[Result]
    result_index: list[int]
    provider_message_ids: list[list[str]] = field(default_factory=list)

    @classmethod
    def from_avro(cls, value: Mapping[str, Any]) -> Self:
        return cls(**{**value, "results": [Result(**result) for result in value["results"]]})
