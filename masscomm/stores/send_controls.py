"""The controls of sends: cancelled, paused, moved to another time. The functions read them once for each batch, before
they decide about recipients.

A control is stored under the tenant and the send, so that it has no effect on a send of another tenant. Of several
requests to cancel a send the first is recorded; it is never withdrawn.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import NamedTuple, Protocol

from masscomm.domain.records import BuildRequested, DeliveryRequested, RecheckRequested
from masscomm.domain.send_controls import SendControl, SendKey
from masscomm.domain.time_limits import ACCEPTED_SENDS_KEPT_S, CANCELLATIONS_KEPT_S
from masscomm.errors import Retry
from masscomm.observability.unreadable_items import UnreadableItem

# The attempts to store a change while other requests change the same control.
_CHANGE_ATTEMPTS = 5


def send_of(record: RecheckRequested | BuildRequested | DeliveryRequested) -> SendKey:
    """Return the identification of the send that a record belongs to."""
    return SendKey(record.club_id, record.send_id)


@dataclass(frozen=True, kw_only=True)
class Cancellation:
    send: SendKey
    # The time of the first request to cancel the send, in milliseconds since the epoch.
    requested_at_ms: int
    # The number of notifications that were counted as published at that time.
    published_before: int

    @property
    def expires_at(self) -> int:
        """Return the time at which the cancellation is no longer needed, in seconds since the epoch."""
        return self.requested_at_ms // 1000 + CANCELLATIONS_KEPT_S


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


@dataclass(frozen=True, kw_only=True)
class NamedSend:
    """The requests of a send over REST whose id the caller chose."""

    # The number of recipients in each of the send's records.
    chunk_size: int
    part_count: int
    parts: Mapping[int, Part]


@dataclass(frozen=True, kw_only=True)
class AcceptedSend:
    """A send that send_handler has accepted, for requests about it before metrics have counted it; or a send by Kafka,
    of which only the content is known.
    """

    send: SendKey
    accepted_at_ms: int
    # Of a send with a send_at_local, the time at which the last clocks show it.
    send_at_ms: int | None = None
    # None also if an earlier version recorded the send.
    send_at_local: str | None = None
    expires_at_ms: int | None = None
    # The category; None if an earlier version recorded the send.
    type: str | None = None
    # The number of distinct users; None for a send to an audience, whose users are not known yet.
    users: int | None = None
    channels: tuple[str, ...] = ()
    # The caller's own id of the send.
    reference: str | None = None
    # Whether it was requested with a test key, which reaches simulator recipients only.
    is_test: bool = False
    # The digest of the content of the send (masscomm.domain.send_content); None if an earlier version recorded it.
    content: str | None = None
    # Whether the send came by Kafka, under an id that its producer chose.
    by_kafka: bool = False
    # None: no caller of the REST API chose the id.
    named: NamedSend | None = None

    @property
    def is_to_audience(self) -> bool:
        return self.type is not None and self.users is None

    def is_same(self, other: "AcceptedSend") -> bool:
        """Return whether this stored send can be the other one: the same tenant, source, mode and content."""
        own, others = ((each.send, each.by_kafka, each.is_test) for each in (self, other))
        return own == others and self.content in (None, other.content)  # guard: named_sends.content_of_chunks

    @property
    def expires_at(self) -> int:
        """Return the time at which the entry is no longer needed, in seconds since the epoch."""
        return max(self.accepted_at_ms, self.send_at_ms or 0) // 1000 + ACCEPTED_SENDS_KEPT_S


class SendControls(Protocol):
    """The interface of the store of controls. Methods raise Retry (down, slow) or Stop (no table, no permission)."""

    def read(self, sends: Iterable[SendKey]) -> Mapping[SendKey, SendControl]:
        """Return the control of each of the given sends, in one consistent read for up to 50 sends."""
        ...

    def read_with_registered(
        self, sends: Iterable[SendKey], send_ids: Iterable[str]
    ) -> tuple[Mapping[SendKey, SendControl], Mapping[str, AcceptedSend | UnreadableItem]]:
        """Return the control of each of the given sends, and those of the accepted sends with the given ids that exist,
        in one consistent read for up to 100 keys: a send has two, an id one. An item that cannot be read concerns its
        send alone.
        """
        ...

    def find(self, send: SendKey) -> Cancellation | None:
        """Return the cancellation of a send; None if it is not cancelled."""
        ...

    def record(self, cancellation: Cancellation) -> Cancellation:
        """Record a cancellation unless the send already has one. Return the recorded one."""
        ...

    def replace(self, control: SendControl, *, now_ms: int) -> bool:
        """Store a control in the place of the previous revision. Return False if that is not the stored one.

        The field `cancelled` is not stored: `record` does this.
        """
        ...

    def accept(self, sends: Sequence[AcceptedSend]) -> None:
        """Record accepted sends, except for those whose ids are already recorded. If it raises an error, some of the
        sends may be recorded.
        """
        ...

    def accepted(self, send_id: str) -> AcceptedSend | None:
        """Return the send with this id that send_handler has accepted; None if it is unknown, or came by Kafka."""
        ...

    def registered(self, send_id: str) -> AcceptedSend | None:
        """Return the send with this id, over REST or by Kafka; None if it is unknown."""
        ...

    def register(self, send: AcceptedSend) -> AcceptedSend:
        """Record a send unless one is recorded under its id. Return the recorded one."""
        ...

    def add_part(self, send: AcceptedSend, index: int, part: Part, *, users: int | None) -> bool:
        """Record a further part of a registered send, and the users of all its parts. Return False if `send` is not
        the stored one any more.
        """
        ...


class OtherSend(Exception):
    """The id belongs to another send, or the part has other recipients."""


def place_part(
    controls: SendControls, wanted: AcceptedSend, index: int, digest: str, chunks_of: Callable[[int], int]
) -> tuple[AcceptedSend, Part]:
    """Register a part of a send whose id the caller chose. Return the send and the part, which are the same for each
    repetition. A send of which only some parts are registered has the users of these parts.

    Args:
        controls: The store.
        wanted: The send, with `named` and no parts.
        index: The index of the part.
        digest: The digest of the part's recipients.
        chunks_of: Returns the number of the part's records for a number of recipients in each of them.

    Raises:
        OtherSend: The id belongs to another send, or the part has other recipients.
        Retry: Other requests keep registering parts.
    """
    for _ in range(_CHANGE_ATTEMPTS):
        stored = controls.register(wanted)
        named = check_part(stored, wanted, index, digest)
        if (part := named.parts.get(index)) is not None:
            return stored, part
        first, chunks = sum(each.chunks for each in named.parts.values()), chunks_of(named.chunk_size)
        is_last = len(named.parts) + 1 == named.part_count
        # guard: named_sends.whole_with_its_last_part
        part = Part(digest, first, chunks, first + chunks + (0 if is_last else 1))
        before = stored.users if named.parts else 0
        users = None if wanted.users is None else (before or 0) + wanted.users
        if controls.add_part(stored, index, part, users=users):
            return stored, part
    raise Retry("other requests keep registering parts of the send")


def check_part(stored: AcceptedSend, wanted: AcceptedSend, index: int, digest: str) -> NamedSend:
    """Return the parts of the send that is stored under the id of a part. Raises OtherSend as `place_part`."""
    named, own = stored.named, wanted.named
    if named is None or own is None or not stored.is_same(wanted):  # guard: named_sends.other_send
        raise OtherSend(wanted.send.send_id)
    # guard: named_sends.other_content
    if (named.part_count, stored.expires_at_ms) != (own.part_count, wanted.expires_at_ms):
        raise OtherSend(wanted.send.send_id)
    part = named.parts.get(index)
    if part is not None and part.digest != digest:  # guard: named_sends.other_recipients
        raise OtherSend(wanted.send.send_id)
    return named


def over_rest(send: AcceptedSend | None) -> AcceptedSend | None:
    """Return the send if it was requested over REST. Of a send by Kafka, only the content is known."""
    return None if send is None or send.by_kafka else send  # guard: sends.registered_by_kafka


def accepted_of(controls: SendControls, send: SendKey) -> AcceptedSend | None:
    """Return what send_handler recorded about a send; None if it came by Kafka, or is older than some days."""
    return of_send(controls.accepted(send.send_id), send)


def of_send(accepted: AcceptedSend | UnreadableItem | None, send: SendKey) -> AcceptedSend | None:
    """Return the accepted send; None if it is another tenant's send with the same id, or cannot be read."""
    if not isinstance(accepted, AcceptedSend):
        return None
    return accepted if accepted.send == send else None  # guard: tenancy.accepted_send


def change(
    controls: SendControls, send: SendKey, make: Callable[[SendControl], SendControl], *, now_ms: int
) -> SendControl:
    """Store a changed control, and return it. `make` returns the new control, or the given one if nothing changes; its
    errors are raised. Raises Retry if other requests keep changing the control.
    """
    for _ in range(_CHANGE_ATTEMPTS):
        stored = controls.read([send])[send]
        wanted = make(stored)
        if wanted == stored:
            return stored
        wanted = replace(wanted, revision=stored.revision + 1)
        if controls.replace(wanted, now_ms=now_ms):
            return wanted
    raise Retry("other requests are changing the control of the send")


class InMemorySendControls:
    """A store of controls in dictionaries, for unit tests."""

    def __init__(self) -> None:
        self.recorded: dict[SendKey, Cancellation] = {}
        self.controls: dict[SendKey, SendControl] = {}
        self.sends: dict[str, AcceptedSend] = {}
        # An error that every call raises; None: calls succeed.
        self.failing: Exception | None = None
        # The sends of each call of `read`.
        self.reads: list[frozenset[SendKey]] = []
        self._lock = Lock()

    def read(self, sends: Iterable[SendKey]) -> Mapping[SendKey, SendControl]:
        return self.read_with_registered(sends, ())[0]

    def read_with_registered(
        self, sends: Iterable[SendKey], send_ids: Iterable[str]
    ) -> tuple[Mapping[SendKey, SendControl], Mapping[str, AcceptedSend | UnreadableItem]]:
        asked = frozenset(sends)
        self.reads.append(asked)
        self._answer()
        controls = {
            send: replace(self.controls.get(send, SendControl(send=send)), cancelled=send in self.recorded)
            for send in asked
        }
        return controls, {send_id: self.sends[send_id] for send_id in send_ids if send_id in self.sends}

    def find(self, send: SendKey) -> Cancellation | None:
        self._answer()
        return self.recorded.get(send)

    def record(self, cancellation: Cancellation) -> Cancellation:
        self._answer()
        return self.recorded.setdefault(cancellation.send, cancellation)

    def replace(self, control: SendControl, *, now_ms: int) -> bool:  # noqa: ARG002
        self._answer()
        stored = self.controls.get(control.send)
        if (0 if stored is None else stored.revision) != control.revision - 1:
            return False
        self.controls[control.send] = control
        return True

    def accept(self, sends: Sequence[AcceptedSend]) -> None:
        self._answer()
        for accepted in sends:
            self.sends.setdefault(accepted.send.send_id, accepted)

    def accepted(self, send_id: str) -> AcceptedSend | None:
        return over_rest(self.registered(send_id))

    def registered(self, send_id: str) -> AcceptedSend | None:
        self._answer()
        return self.sends.get(send_id)

    def register(self, send: AcceptedSend) -> AcceptedSend:
        self._answer()
        return self.sends.setdefault(send.send.send_id, send)

    def add_part(self, send: AcceptedSend, index: int, part: Part, *, users: int | None) -> bool:
        self._answer()
        with self._lock:
            if send.named is None or self.sends.get(send.send.send_id) != send:
                return False
            named = replace(send.named, parts={**send.named.parts, index: part})
            self.sends[send.send.send_id] = replace(send, named=named, users=users)
        return True

    def _answer(self) -> None:
        if self.failing is not None:
            raise self.failing
