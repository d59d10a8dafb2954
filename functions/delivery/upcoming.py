"""The recipients of a batch that are published to next, decided by rows that are at most a second old.

The recipients of a batch are looked up in portions: as many at once as are published to within a second. So most
recipients are looked up once, whatever the number of recipients, and yet a cancellation, a pause, an opt-out or a
change of a device has an effect on the recipients that are published to a second later.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from functions.delivery.look_up import Question
from functions.delivery.record_delivery import RecordDelivery
from masscomm.clock import Clock
from masscomm.decisions.delivery import DirectoryView, Recipient, decide
from masscomm.domain.call_results import accepted_before_delay
from masscomm.domain.records import DeliveryRequested
from masscomm.domain.sends import SendControl
from masscomm.domain.time_limits import DELIVERY_RESERVE_S, LOOK_UP_VALID_S
from masscomm.errors import Retry

type Addressed = tuple[RecordDelivery, Recipient]

# The numbers of recipients in the first and in the largest portion: 12 groups, and a batch of large records.
FIRST_PORTION, LARGEST_PORTION = 480, 2_000


@dataclass(kw_only=True)
class PortionSize:
    """The number of recipients that are looked up at once. Each function environment has one instance.

    It follows the rate at which the environment publishes: a smaller portion needs more requests, and of a larger one
    the last recipients are looked up twice.
    """

    recipients: int = FIRST_PORTION

    def ended(self, published_in_s: float) -> None:
        """Double the size if a portion was published to in less than half of the time for which it is valid."""
        if published_in_s < LOOK_UP_VALID_S / 2:
            self.recipients = min(LARGEST_PORTION, self.recipients * 2)

    def expired(self, left: int, *, at_least: int) -> None:
        """Reduce the size by the recipients of a portion that were left when it expired."""
        self.recipients = max(at_least, self.recipients - left)


class _Decided(NamedTuple):
    record: RecordDelivery
    recipient: Recipient
    # The monotonic time at which the look-up began.
    looked_up_at: float


@dataclass(kw_only=True)
class Upcoming:
    """The recipients that the records of a batch still have, in the order in which they are published to."""

    look_up: Callable[[Sequence[Question]], Sequence[DirectoryView]]
    clock: Clock
    # Returns the remaining seconds of the invocation.
    invocation_s: Callable[[], float]
    portion_size: PortionSize
    # The largest number of recipients of a group that are published to.
    group_size: int
    # Whether the recipients have waited for their rows and endpoints, and wait no longer in this invocation.
    have_waited: bool = False
    # The recipients whose rows are missing in the directory, or whose devices have no endpoint yet.
    deferred: list[Addressed] = field(default_factory=list)
    # The recipients that are not published to, because the invocation's time is used up.
    untried: list[Addressed] = field(default_factory=list)
    # The recipients to look up, by their index in the record.
    _waiting: deque[tuple[RecordDelivery, int]] = field(default_factory=deque)
    _decided: deque[_Decided] = field(default_factory=deque)
    # The number of decided recipients to publish to.
    _ready: int = 0
    _looked_up_at: float | None = None

    def begin(self, record: RecordDelivery, view: DirectoryView, looked_up_at: float, row_count: int) -> None:
        """Add the recipients of a record; the first `row_count` rows of the record were looked up."""
        rows = record.question.rows
        self.decide(record, [row for row in rows if row < row_count], view, looked_up_at)
        if record.held_by is None:
            self.add(record, [row for row in rows if row >= row_count])

    def add(self, record: RecordDelivery, rows: Iterable[int]) -> None:
        """Add recipients of a record that are looked up when their turn comes."""
        self._waiting.extend((record, row) for row in rows)

    def decide(self, record: RecordDelivery, rows: Iterable[int], view: DirectoryView, looked_up_at: float) -> None:
        """Decide about recipients that were looked up. A record whose send is paused is held; one whose control cannot
        be read fails.
        """
        if view.fault is not None:  # guard: send_controls.unreadable_delivery
            record.item.error = view.fault
            return
        now_ms = self.clock.now_ms()
        record.held_by = held_by(record.delivery, view, now_ms)
        if record.held_by is not None:
            return
        self._looked_up_at = looked_up_at
        if self.have_waited:
            view = view._replace(awaits_endpoints=False)
        for recipient in decide(record.delivery, view, rows=rows, now_ms=now_ms, was_deferred=self.have_waited):
            if recipient.deferred is None:
                self._decided.append(_Decided(record, recipient, looked_up_at))
                self._ready += recipient.decision is None
            else:
                self.deferred.append((record, recipient))

    def exceeds_a_group(self) -> bool:
        return self._ready + len(self._waiting) > self.group_size

    def groups(self) -> Iterator[list[Addressed]]:
        """Yield groups with at most `group_size` recipients to publish to.

        The recipients of a group were looked up at most LOOK_UP_VALID_S and one look-up ago.
        """
        while True:
            self._expire()
            # If most recipients are not published to, a full group would need several look-ups.
            while self._waiting and self._ready < self.group_size and not self._has_expired():
                self._look_up_portion()
            if not self._decided:
                return
            yield self._group()

    def _group(self) -> list[Addressed]:
        group: list[Addressed] = []
        published = 0
        while self._decided:
            record, recipient, _ = self._decided[0]
            publishes = recipient.decision is None
            if publishes and published == self.group_size:
                break
            self._decided.popleft()
            self._ready -= publishes
            if not record.is_stopped:
                group.append((record, recipient))
                published += publishes
        return group

    def _has_expired(self) -> bool:
        """Return whether the look-up of the next recipient is no longer valid."""
        oldest = self.clock.monotonic() - LOOK_UP_VALID_S
        return bool(self._decided) and self._decided[0].looked_up_at < oldest  # guard: delivery.look_up_expires

    def _expire(self) -> None:
        """Return the recipients whose look-up is no longer valid to those that are to be looked up."""
        expired: list[tuple[RecordDelivery, int]] = []
        while self._has_expired():
            record, recipient, _ = self._decided.popleft()
            self._ready -= recipient.decision is None
            expired.append((record, recipient.row))
        if expired:
            self.portion_size.expired(len(expired), at_least=self.group_size)
            self._waiting.extendleft(reversed(expired))

    def _look_up_portion(self) -> None:
        """Look up the next recipients. Their records fail if the directory or the store of controls does not respond:
        they are redelivered, and continue after the recipients with a recorded result.
        """
        began = self.clock.monotonic()
        if self._looked_up_at is not None:
            self.portion_size.ended(began - self._looked_up_at)
        rows: dict[RecordDelivery, list[int]] = {}
        wanted = self.portion_size.recipients
        while self._waiting and wanted:
            record, row = self._waiting.popleft()
            if not record.is_stopped:
                rows.setdefault(record, []).append(row)
                wanted -= 1
        if not rows:
            return
        if self.invocation_s() <= DELIVERY_RESERVE_S:
            # guard: delivery.untried_recipients
            for record, some in rows.items():
                self.untried += [(record, recipient) for recipient in _undecided(record.delivery, some)]
            return
        try:
            views = self.look_up([record.question._replace(rows=some) for record, some in rows.items()])
        except Retry as error:
            for record in rows:
                record.item.error = error
            return
        for (record, some), view in zip(rows.items(), views, strict=True):
            self.decide(record, some, view, began)


def _undecided(delivery: DeliveryRequested, rows: Iterable[int]) -> list[Recipient]:
    accepted = accepted_before_delay(delivery)
    return [
        Recipient(row=row, position=position, user_id=delivery.user_ids[row], accepted=accepted.get(position, ()))
        for row in rows
        for position in [delivery.positions[row]]
    ]


def held_by(delivery: DeliveryRequested, view: DirectoryView, now_ms: int) -> SendControl | None:
    """Return the control that holds the record of a paused send; None if the record is processed now."""
    if delivery.expires_at is not None and delivery.expires_at <= now_ms:
        return None
    return view.paused  # guard: send_controls.paused_delivery
