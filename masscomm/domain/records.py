"""The records of the chain as Python values; field for field what schemas/*.avsc says."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self, cast


class AvroRecord:
    """A dataclass whose fields are an Avro record's, name for name.

    Timestamps are milliseconds since the epoch, UTC, as Avro holds them.
    """

    @classmethod
    def from_avro(cls, value: Mapping[str, Any]) -> Self:
        """The record a decoder gave, already resolved to our own schema."""
        return cls(**value)

    def to_avro(self) -> dict[str, Any]:
        """What an encoder takes; nested records become mappings, lists are not copied."""
        names = (f.name for f in fields(cast(Any, self)))
        return {name: _plain(getattr(self, name)) for name in names}


def _plain(value: Any) -> Any:
    if isinstance(value, list) and value and isinstance(value[0], AvroRecord):
        return [item.to_avro() for item in value]
    return value


@dataclass(frozen=True, kw_only=True)
class SendRequested(AvroRecord):
    """A chunk of a send; to_users by position."""

    type: str
    club_id: int
    timestamp: int
    to_users: list[int]
    send_id: str | None = None
    chunk_index: int = 0
    chunk_count: int = 1
    channels: list[str] = field(default_factory=list)
    template: str | None = None
    data: dict[str, str] = field(default_factory=dict)
    locale: str | None = None
    priority: str | None = None
    expires_at: int | None = None
    send_at: int | None = None
    collapse_key: str | None = None
    reference: str | None = None


@dataclass(frozen=True, kw_only=True)
class RecheckRequested(AvroRecord):
    """Recipients of a chunk that are to be checked (again): a part of a long chunk, or some who waited."""

    record_id: str
    parent_id: str
    why: str
    send_id: str
    chunk_index: int
    range_start: int
    range_end: int
    club_id: int
    type: str
    timestamp: int
    channels: list[str]
    template: str | None = None
    data: dict[str, str] = field(default_factory=dict)
    locale: str | None = None
    expires_at: int | None = None
    collapse_key: str | None = None
    reference: str | None = None
    waited_until: int | None = None
    waits: int = 0
    held: int = 0
    positions: list[int]
    user_ids: list[int]

    @property
    def since_ms(self) -> int:
        """When it began to be tried."""
        return max(self.timestamp, self.waited_until or 0)


@dataclass(frozen=True, kw_only=True)
class BuildRequested(AvroRecord):
    """Recipients of positions [range_start, range_end) who may be notified on one channel."""

    record_id: str
    parent_id: str
    send_id: str
    chunk_index: int
    range_start: int
    range_end: int
    club_id: int
    type: str
    timestamp: int
    channel: str
    template: str | None = None
    data: dict[str, str] = field(default_factory=dict)
    locale: str | None = None
    expires_at: int | None = None
    collapse_key: str | None = None
    reference: str | None = None
    waited_until: int | None = None
    positions: list[int]
    user_ids: list[int]

    @property
    def since_ms(self) -> int:
        """When it began to be tried."""
        return max(self.timestamp, self.waited_until or 0)


@dataclass(frozen=True, kw_only=True)
class ContentColumn(AvroRecord):
    """One field of the message for all recipients: the distinct values, and which one is whose.

    index: one a position, into values; empty where everybody has values[0].
    """

    field: str
    values: list[str]
    index: list[int]

    def value_at(self, row: int) -> str:
        """The value of the recipient in that row."""
        return self.values[self.index[row]] if self.index else self.values[0]


@dataclass(frozen=True, kw_only=True)
class Withdrawn(AvroRecord):
    """A recipient of a delivery record of whom nothing can be written any more, and what becomes of them."""

    position: int
    status: str
    reason: str | None = None
    layer: str
    rule: str | None = None


@dataclass(frozen=True, kw_only=True)
class Taken(AvroRecord):
    """A device that took a recipient's message, whose other devices are tried again; target: its id."""

    position: int
    target: str
    message_id: str


@dataclass(frozen=True, kw_only=True)
class DeliveryRequested(AvroRecord):
    """Written messages for positions [range_start, range_end) on one channel; waits: how often they have waited."""

    record_id: str
    parent_id: str
    send_id: str
    chunk_index: int
    range_start: int
    range_end: int
    club_id: int
    type: str
    timestamp: int
    built_at: int
    channel: str
    expires_at: int | None = None
    collapse_key: str | None = None
    reference: str | None = None
    waits: int = 0
    positions: list[int]
    user_ids: list[int]
    addresses: list[str]
    content: list[ContentColumn]
    withdrawn: list[Withdrawn] = field(default_factory=list)
    taken: list[Taken] = field(default_factory=list)

    @property
    def since_ms(self) -> int:
        """When it began to be tried."""
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
    """What the push provider said of a device while we published to it."""

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
    """What a provider says of one message afterwards, as it said it. tries: how often its message was looked for."""

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
class NotificationOutcome(AvroRecord):
    """What became of the recipients of positions [range_start, range_end) on one channel at one step."""

    record_id: str
    parent_id: str
    step: str
    send_id: str
    chunk_index: int
    range_start: int
    range_end: int
    club_id: int
    type: str
    channel: str
    timestamp: int
    requested_at: int
    positions: list[int]
    user_ids: list[int]
    results: list[Result]
    result_index: list[int]
    provider_message_ids: list[list[str]] = field(default_factory=list)

    @classmethod
    def from_avro(cls, value: Mapping[str, Any]) -> Self:
        return cls(**{**value, "results": [Result(**result) for result in value["results"]]})
