"""A send as its register knows it: which send it is, its controls, and the expansion of its audience.

Times are in milliseconds since the epoch.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import blake2b
from typing import NamedTuple, Self

from masscomm.domain.ids import DIGEST_SENDS
from masscomm.domain.kept_messages import KeptMessage
from masscomm.domain.limits import SEND_ID_PATTERN
from masscomm.domain.local_times import first_ms
from masscomm.domain.time_limits import CONTROLLED_SENDS_KEPT_S, MESSAGES_KEPT_S, PAUSE_LIMIT_S, REGISTERED_SENDS_KEPT_S
from masscomm.errors import Retry

_SEND_ID = re.compile(SEND_ID_PATTERN)


class SendKey(NamedTuple):
    """Identifies a send: the tenant and the send's id."""

    club_id: int
    send_id: str

    @property
    def is_valid(self) -> bool:
        """Return whether a send can have this id. Other ids occur only in hostile records, and are not looked up."""
        return _SEND_ID.fullmatch(self.send_id) is not None

    @property
    def text(self) -> str:
        """Return the key as text: `<club_id>#<send_id>`."""
        return f"{self.club_id}#{self.send_id}"

    @classmethod
    def of_text(cls, text: str) -> "SendKey":
        """Return the key in a text. Raises ValueError."""
        club_id, _, send_id = text.partition("#")
        return cls(int(club_id), send_id)


class Source(StrEnum):
    """How a send was requested."""

    REST = "rest"
    KAFKA = "kafka"


@dataclass(frozen=True, kw_only=True)
class SendControl:
    """The control of a send. The default is the control of a send that was never controlled."""

    send: SendKey
    # The time of the first request to cancel the send, which is never withdrawn.
    cancelled_at_ms: int | None = None
    # The number of notifications that were counted as published at that time; None if it was unknown.
    published_before: int | None = None
    # The beginning of the present pause; None if the send is not paused.
    paused_at_ms: int | None = None
    # The end of the last pause.
    resumed_at_ms: int | None = None
    # The send_at that replaces the one in the send's records.
    send_at_ms: int | None = None
    # The pace that replaces the send's own, and the revision of the control that has set it.
    per_minute: int | None = None
    pace_revision: int = 0
    # The number of changes of this control.
    revision: int = 0
    # Why the stored item cannot be read; None if it can. The send is neither continued nor ended then.
    fault: str | None = None

    @property
    def cancelled(self) -> bool:
        """Return whether a request cancelled the send."""
        return self.cancelled_at_ms is not None

    def check_readable(self) -> None:
        """Raise Retry if the stored item cannot be read, except for a cancelled send, which nothing continues."""
        if self.fault is not None and not self.cancelled:  # guard: send_controls.unreadable
            raise Retry(f"the item of a send is malformed: {self.fault}")

    def is_cancelled(self, now_ms: int) -> bool:
        """Return whether the send is cancelled. A pause that has reached its limit cancels the send, too: a control is
        not kept for ever, and the send must not continue by itself. Raises Retry if the control cannot be read.
        """
        self.check_readable()
        return self.cancelled or (self.paused_at_ms is not None and now_ms >= self._pause_limit_ms)

    def is_paused(self, now_ms: int) -> bool:
        """Return whether the send is paused. Raises Retry if the control cannot be read."""
        return not self.is_cancelled(now_ms) and self.paused_at_ms is not None

    def held_until_ms(self, expires_at: int | None, now_ms: int) -> int:
        """Return the time at which a held record of the paused send is released even if the send is not resumed, so
        that it expires or is cancelled.
        """
        limit_ms = self._pause_limit_ms if expires_at is None else min(expires_at, self._pause_limit_ms)
        # The clock of the scheduler, which released the record at its limit, may be ahead of this one. The minute makes
        # the next copy another one than the released copy, which the scheduler is about to delete.
        return max(limit_ms, now_ms + 60_000)

    @property
    def _pause_limit_ms(self) -> int:
        return (self.paused_at_ms or 0) + PAUSE_LIMIT_S * 1000


@dataclass(frozen=True, kw_only=True)
class Expansion:
    """The end of the expansion of an audience."""

    # The number of recorded chunks.
    chunks: int
    users: int
    # The number of notifications: users on channels.
    requested: int
    ended_at_ms: int
    # Why the audience could not be expanded; None if it was.
    error: str | None = None
    # Whether the record of the failed expansion is dead-lettered, so that it can be replayed.
    can_begin_again: bool = False


class Part(NamedTuple):
    """A request of a send whose id the caller chose."""

    # The digest of its recipients.
    digest: str
    # Its first record, and the number of its records.
    first_chunk: int
    chunks: int
    # The number of the send's records: exact in the part that was accepted last. In an earlier one it is more than were
    # known then, so that the send does not count as whole.
    chunk_count: int
    # Whether the broker has all of its records.
    is_produced: bool = False


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The requests of a send whose id a caller of the REST API chose."""

    # The number of requests, and those that are registered with the number of their records.
    count: int
    registered: int = 0
    chunks: int = 0
    # The number of recipients in each of the send's records.
    chunk_size: int


@dataclass(frozen=True, kw_only=True)
class Send:
    """A send in the register."""

    key: SendKey
    # How it was requested; None if only its control is known.
    source: Source | None = None
    requested_at_ms: int = 0
    # Whether it was requested with a test key, which reaches simulator recipients only.
    is_test: bool = False
    # Who requested it over REST: the id of the API key.
    principal: str | None = None
    # The digest of its content (masscomm.domain.send_content), and of the recipients if it has one record.
    content: str | None = None
    recipients: str | None = None
    # The number of its records, as far as known.
    chunks: int | None = None
    # The category.
    type: str | None = None
    # The number of distinct users; None if it is not known.
    users: int | None = None
    channels: tuple[str, ...] = ()
    # The requester's own id of the send.
    reference: str | None = None
    # Of a send with a send_at_local, the time at which the last clocks show it.
    send_at_ms: int | None = None
    send_at_local: str | None = None
    expires_at_ms: int | None = None
    # The pace of the send.
    per_minute: int | None = None
    spread_over_ms: int | None = None
    # The conditions of its channels, as JSON (masscomm.domain.fallbacks).
    fallbacks: str | None = None
    # None: no caller of the REST API chose the id.
    parts: Parts | None = None
    is_to_audience: bool = False
    # None: the audience is not expanded yet.
    expansion: Expansion | None = None
    # Why its message is not kept: a value of NotKept, or one of a later version. None: it is kept, or the send was
    # registered by a version that kept none.
    not_kept: str | None = None
    # Its message, until the send is registered: it is an item of its own, which few readers need.
    message: KeptMessage | None = field(default=None, compare=False)
    control: SendControl = field(default=None)  # type: ignore[assignment]  # replaced in __post_init__

    def __post_init__(self) -> None:
        if self.control is None:
            object.__setattr__(self, "control", SendControl(send=self.key))

    @property
    def is_known(self) -> bool:
        """Return whether more than its control is known."""
        return self.source is not None

    @property
    def is_listed(self) -> bool:
        """Return whether the register lists the send: it is large, in parts, scheduled, to an audience, with a pace or
        controlled. Others would heat the key of their tenant, and a throttled index throttles all writes.
        """
        return (
            self.is_to_audience
            or self.control.revision > 0
            or self.send_at_ms is not None
            or self.is_paced
            or (self.users or 0) > SMALL_SEND
            or (self.chunks or 1) > 1
            or (self.parts is not None and self.parts.count > 1)
        )

    @property
    def is_paced(self) -> bool:
        """Return whether the send has a pace."""
        return self.per_minute is not None or self.spread_over_ms is not None

    @property
    def begins_at_ms(self) -> int:
        """Return the time at which the send begins."""
        moved_to, first = self.control.send_at_ms, first_ms(self.send_at_local or "")
        times = (self.requested_at_ms, moved_to or first or self.send_at_ms)
        return max(each for each in times if each is not None)

    def waits(self, now_ms: int) -> bool:
        """Return whether no recipient is notified yet, because the time of the send lies ahead."""
        moved_to = self.control.send_at_ms
        if moved_to is not None or self.send_at_local is None:
            send_at_ms = self.send_at_ms if moved_to is None else moved_to
        else:
            send_at_ms = first_ms(self.send_at_local)
        return send_at_ms is not None and now_ms < send_at_ms

    def is_same(self, other: "Send") -> bool:
        """Return whether this stored send can be the other one: the same tenant, source, mode and content."""
        if not self.is_known:
            return self.key == other.key
        own, others = ((each.key, each.source, each.is_test, each.content) for each in (self, other))
        return own == others and self.recipients in (None, other.recipients)  # guard: sends.same_send

    def of(self, key: SendKey) -> Self | None:
        """Return the send; None if it is another tenant's send with the same id."""
        return self if self.key == key else None  # guard: tenancy.registered_send

    def kept_until(self, now_ms: int) -> int:
        """Return the time until which a send that is written now is kept, in seconds since the epoch."""
        # Dead letters, pauses and delays come back later, and a control that is absent was never set.
        kept_s = CONTROLLED_SENDS_KEPT_S if self.control.revision else REGISTERED_SENDS_KEPT_S
        return -(-max(now_ms, self._latest_ms) // 1000) + kept_s

    def is_forgotten(self, now_ms: int) -> bool:
        """Return whether the counts of the send, if it has none, were deleted: it would have been counted by now. An
        audience without users has no counts.
        """
        has_users = not self.is_to_audience or (self.expansion is not None and self.expansion.requested > 0)
        return has_users and self._latest_ms + REGISTERED_SENDS_KEPT_S * 1000 < now_ms

    @property
    def _latest_ms(self) -> int:
        times = (self.requested_at_ms, self.send_at_ms, self.control.send_at_ms, self.expires_at_ms)
        return max(each for each in times if each is not None)

    def message_kept_until(self, written_ms: int) -> int:
        """Return the time until which a message that is written at a time is kept, in seconds since the epoch. A send
        that is moved later does not change it.
        """
        return -(-max(written_ms, self.requested_at_ms, self.send_at_ms or 0) // 1000) + MESSAGES_KEPT_S


class Origin(StrEnum):
    """What made a send."""

    REQUEST = "request"
    DIGEST = "digest"


def origin_of(send_id: str) -> Origin:
    """Return what made the send with this id."""
    return Origin.DIGEST if send_id.startswith(DIGEST_SENDS) else Origin.REQUEST


# The largest number of recipients of a small send.
SMALL_SEND = 100


def controlled(send: Send, **changes: int | None) -> Send:
    """Return the send with a changed control, of the next revision."""
    changed = replace(send.control, **changes)  # type: ignore[arg-type]
    return replace(send, control=replace(changed, revision=send.control.revision + 1))


def digest_of_users(user_ids: Iterable[int]) -> str:
    """Return a digest of recipients."""
    return blake2b(str(list(user_ids)).encode(), digest_size=8).hexdigest()
