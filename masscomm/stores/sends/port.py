"""The register of sends: which send an id belongs to, its controls, and the expansion of its audience.

Each send is one item, which every batch reads. The message of a send, its parts and the chunks of an expanded audience
are items of their own. A change of a send that webhooks report is announced in the transaction that stores it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from masscomm.domain.fallbacks import FallbackState
from masscomm.domain.kept_messages import KeptMessage
from masscomm.domain.pace import PaceBook
from masscomm.domain.records import BuildRequested, DeliveryRequested, RecheckRequested
from masscomm.domain.sends import Expansion, Part, Send, SendControl, SendKey
from masscomm.errors import MasscommError, Retry

# The attempts to store a change while other requests change the same send.
_CHANGE_ATTEMPTS = 5


def send_of(record: RecheckRequested | BuildRequested | DeliveryRequested) -> SendKey:
    """Return the identification of the send that a record belongs to."""
    return SendKey(record.club_id, record.send_id)


@dataclass(frozen=True, kw_only=True)
class ExpandedChunk:
    """Users of an audience, in ascending order of their ids. There may be none: then only `up_to` is of interest."""

    user_ids: Sequence[int]
    # The users of the club with ids up to this one are in this chunk and those before it, or not in the audience.
    up_to: int
    # The number of users in the chunks before.
    users_before: int

    @property
    def users(self) -> int:
        """Return the number of users in this chunk and those before it."""
        return self.users_before + len(self.user_ids)


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far an expansion has come, as it is recorded after Kafka has acknowledged its records."""

    # The share of the present record: those before it have handed on the rest.
    share: int = 0
    # The number of recorded chunks that are produced or have no users, and that of the records produced for them.
    chunks: int = 0
    records: int = 0
    # The number of records of the whole send; None: they have not been counted.
    record_count: int | None = None

    def after(self, chunk: ExpandedChunk) -> "Progress":
        """Return the progress after the next chunk."""
        return replace(self, chunks=self.chunks + 1, records=self.records + bool(chunk.user_ids))


class Announcement(NamedTuple):
    """A send that has changed, until the function that finds the events of webhooks has examined it."""

    send: SendKey
    changed_at_ms: int


class Position(NamedTuple):
    """A position among the changes of counts: the transaction in Postgres and the send of the last examined one."""

    transaction: int
    send_id: str


class Sends(Protocol):
    """The interface of the register. Methods raise Retry (down, slow) or Stop (no table, no permission). An item whose
    time has passed is absent.
    """

    def read(self, keys: Iterable[SendKey]) -> Mapping[SendKey, Send]:
        """Return the sends that exist, in one consistent read for up to 100. A send of another tenant is absent.
        The control of one that cannot be read has a fault.
        """
        ...

    def controls(self, keys: Iterable[SendKey]) -> Mapping[SendKey, SendControl]:
        """Return the control of each of the given sends, read as in `read`."""
        ...

    def find(self, send_id: str) -> Send | None:
        """Return the send with this id, of any tenant; None if there is none. Raises Retry if it cannot be read."""
        ...

    def register(self, sends: Iterable[Send]) -> Mapping[str, Send | MasscommError]:
        """Record sends whose ids are free, each together with its message. Return by id the recorded send, which may be
        another one, or an error.
        """
        ...

    def message(self, key: SendKey) -> KeptMessage | None:
        """Return the message of a send; None if none is kept, or if it is another tenant's."""
        ...

    def part(self, send_id: str, index: int) -> Part | None:
        """Return a registered part of a send."""
        ...

    def add_part(self, send: Send, before: Send | None, index: int, part: Part) -> bool:
        """Record a part, and the send with this part; with the first part its message, too. Return False if `before` is
        not the stored send any more.
        """
        ...

    def mark_produced(self, send: Send, index: int) -> None:
        """Record that the broker has all records of a part."""
        ...

    def change(self, send: Send, before: Send) -> bool:
        """Store a changed control, and announce it. Return False if the control has changed since `before` was read,
        or the id belongs to another tenant.
        """
        ...

    def end_expansion(self, send: Send, before: Send) -> bool:
        """Store the end of an expansion, or with None that it begins again, and announce it. Return False if the
        expansion or the control has changed since `before` was read.
        """
        ...

    def record(self, send: Send, index: int, chunk: ExpandedChunk) -> ExpandedChunk:
        """Record a chunk unless one with this index is recorded. Return the recorded one."""
        ...

    def last(self, send_id: str) -> tuple[int, ExpandedChunk] | None:
        """Return the last recorded chunk with its index; None if there is none."""
        ...

    def chunks(self, send_id: str, first: int, end: int) -> Iterator[ExpandedChunk]:
        """Yield the recorded chunks from index `first` to before `end`, in order."""
        ...

    def records(self, send_id: str, ended: Expansion) -> int:
        """Return the number of recorded chunks that have users."""
        ...

    def progress(self, send_id: str) -> Progress:
        """Return the progress of an expansion."""
        ...

    def advance(self, send: Send, progress: Progress) -> None:
        """Record the progress of an expansion."""
        ...

    def pace(self, key: SendKey) -> PaceBook:
        """Return the state of the pace of a send. It is empty before recipients are released, and for another tenant's
        send.
        """
        ...

    def set_pace(self, send: Send, book: PaceBook, before: PaceBook) -> bool:
        """Store the state of the pace of a send. Return False if it has changed since `before` was read, or belongs to
        another tenant.
        """
        ...

    def fallback(self, key: SendKey, record_id: str) -> FallbackState:
        """Return the state of the recipients of a waiting record. It is empty before the first change, and for
        another tenant's send.
        """
        ...

    def set_fallback(self, key: SendKey, record_id: str, state: FallbackState) -> bool:
        """Store the state of the recipients of a waiting record. Return False if it has changed since `state`
        was read, or belongs to another tenant.
        """
        ...

    def listed(self, club_id: int, *, start_ms: int, before_ms: int) -> Iterator[Send]:
        """Yield the listed sends of a club that were requested in [start, before), the latest first."""
        ...

    def announce(self, send: SendKey) -> None:
        """Announce a send without a change."""
        ...

    def announced(self) -> Iterator[Announcement]:
        """Yield the sends that have changed."""
        ...

    def forget(self, announcement: Announcement) -> None:
        """Remove an announcement, unless the send has changed again."""
        ...

    def position(self) -> Position | None:
        """Return the position up to which the changes of counts are examined; None before the first one."""
        ...

    def move(self, position: Position) -> None:
        """Store the position."""
        ...


class OtherSend(Exception):
    """The id belongs to another send, or the part has other recipients."""


class FoundPart(NamedTuple):
    """The registered send and part of the id of a part; None: there is none."""

    send: Send | None
    part: Part | None


def find_part(sends: Sends, wanted: Send, index: int, digest: str) -> FoundPart:
    """Return the send and the part that are registered under the id of a part. Raises OtherSend as `place_part`."""
    send_id = wanted.key.send_id
    if (stored := sends.find(send_id)) is None:
        return FoundPart(None, None)
    parts, own, part = stored.parts, wanted.parts, sends.part(send_id, index)
    if parts is None or own is None or not stored.is_same(wanted):  # guard: named_sends.other_send
        raise OtherSend(send_id)
    # guard: named_sends.other_content
    if (parts.count, stored.expires_at_ms) != (own.count, wanted.expires_at_ms):
        raise OtherSend(send_id)
    if part is not None and part.digest != digest:  # guard: named_sends.other_recipients
        raise OtherSend(send_id)
    return FoundPart(stored, part)


def place_part(
    sends: Sends,
    wanted: Send,
    index: int,
    digest: str,
    chunks_of: Callable[[int], int],
    found: FoundPart | None = None,
) -> tuple[Send, Part]:
    """Register a part of a send whose id the caller chose. Return the send and the part, which are the same for each
    repetition. A send of which only some parts are registered has the users of these parts.

    Args:
        sends: The register.
        wanted: The send, with `parts` of which none is registered.
        index: The index of the part.
        digest: The digest of the part's recipients.
        chunks_of: Returns the number of the part's records for a number of recipients in each of them.
        found: What `find_part` returned for them; None: it is read.

    Raises:
        OtherSend: The id belongs to another send, or the part has other recipients.
        Retry: Other requests keep registering parts.
    """
    for _ in range(_CHANGE_ATTEMPTS):
        before, part = found or find_part(sends, wanted, index, digest)
        send = before or replace(wanted, users=None if wanted.users is None else 0)
        if (parts := send.parts) is None:
            raise OtherSend(wanted.key.send_id)
        if part is not None:
            return send, part
        first, chunks = parts.chunks, chunks_of(parts.chunk_size)
        is_last = parts.registered + 1 == parts.count
        # guard: named_sends.whole_with_its_last_part
        part = Part(digest, first, chunks, first + chunks + (0 if is_last else 1))
        send = replace(
            send,
            users=None if wanted.users is None else (send.users or 0) + wanted.users,
            chunks=part.chunk_count,
            parts=replace(parts, registered=parts.registered + 1, chunks=first + chunks),
        )
        if sends.add_part(send, before, index, part):
            return send, part
        found = None  # Another request has registered a part meanwhile.
    raise Retry("other requests keep registering parts of the send")


def change(sends: Sends, send: Send, make: Callable[[Send], Send]) -> Send:
    """Store the changed control of a send, and return the send. `make` returns the changed send, or the given one if
    nothing changes; its errors are raised. Raises Retry if other requests keep changing the control.
    """
    for _ in range(_CHANGE_ATTEMPTS):
        changed = make(send)
        if changed == send or sends.change(changed, send):
            return changed
        send = sends.find(send.key.send_id) or Send(key=send.key)
    raise Retry("other requests are changing the control of the send")
