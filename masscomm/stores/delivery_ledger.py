"""What delivery has done, kept outside the function: a redelivered record goes on where the last one stopped.

For each delivery record there is a short lease (who works on it) and, for each slice of its recipients, what was
decided: the status, and what each device or address answered. A lease keeps two invocations apart while both are alive;
it cannot stop a provider call that is on its way: duplicates are bounded and not excluded (docs/guarantees.md).
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Protocol

from masscomm.clock import Clock
from masscomm.domain.ids import ERASED_USER
from masscomm.domain.outcomes import SENT
from masscomm.domain.preferences import Decision
from masscomm.domain.records import DeliveryRequested
from masscomm.domain.statuses import Reason, Status
from masscomm.errors import Retry
from masscomm.observability import metrics
from masscomm.observability.metric_names import LEASE_LOSSES

# How long a lease lasts: whoever comes after a crash waits for so long, and no provider call may outlive it.
LEASE_S = 12.0
# What the clocks of two functions may differ by.
CLOCK_SKEW_S = 1.0
# Longer than the delivery topics keep a record (72 h): what is forgotten is published again when it is replayed.
KEPT_S = 7 * 86_400
# A lease is kept longer than the slices it stands for: a record without a lease is known to have none.
LEASE_KEPT_S = KEPT_S + 86_400
# How a slice's delayed records get their ids: by the parent and the range alone.
_IDS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one provider call came to. target: the device's id, or `email`; error: its class, where it gave no id."""

    target: str
    message_id: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """One recipient's first and only decision, with the answers it rests on.

    retry_at_ms: for a delayed recipient, when (ms since the epoch) their retry record is released; it has a slice of
    its own. numbered: whether the id of the retry record counts the delays, as in items of the previous form.
    """

    position: int
    user_id: int
    decision: Decision
    answers: tuple[Answer, ...] = ()
    retry_at_ms: int | None = None
    numbered: bool = False

    @property
    def message_ids(self) -> tuple[str, ...]:
        """The provider's ids: one a call that was taken."""
        return tuple(answer.message_id for answer in self.answers if answer.message_id is not None)


@dataclass(frozen=True, kw_only=True)
class Lease:
    """A record is ours. valid_until: by Clock.monotonic; fresh: nobody had it before, so nothing is recorded of it."""

    valid_until: float
    fresh: bool = False


@dataclass(frozen=True, kw_only=True)
class Held:
    """A record is somebody else's, for free_in_s more seconds unless they renew."""

    free_in_s: float


class Conflict(Retry):
    """Somebody else recorded this slice at the same time: their decisions stand."""


class DeliveryLedger(Protocol):
    """One for each function environment, which is the owner of its leases. Every method may be called from any thread.

    Errors of each: Retry (down, slow, throttled), Stop (there is no table, or it refuses us).
    """

    def acquire(self, record_id: str) -> Lease | Held:
        """Take the lease where it is free, has run out, or is ours already."""
        ...

    def renew(self, record_id: str) -> Lease | None:
        """Our lease for longer; None where it has become another's."""
        ...

    def release(self, record_id: str) -> None:
        """Let the next one have it at once; nothing where it is not ours."""
        ...

    def decided(self, record_id: str) -> list[Decided]:
        """Everything recorded, by position; of two decisions for a position the one recorded first."""
        ...

    def record(self, record_id: str, decided: Sequence[Decided]) -> None:
        """Keep a slice's decisions; it must not be empty. Doing it again changes nothing.

        It needs no lease: what was published is a fact, and the sooner it is known the fewer get it twice.
        Errors: Conflict too.
        """
        ...


class KeptLease:
    """A lease while it is worked under: renewed when little of it is left. Thread-safe."""

    def __init__(self, ledger: DeliveryLedger, clock: Clock, record_id: str, lease: Lease) -> None:
        self._ledger = ledger
        self._clock = clock
        self._record_id = record_id
        self._valid_until = lease.valid_until
        self._lost = False
        self._lock = threading.Lock()

    def remaining_s(self, needed_s: float) -> float:
        """The seconds for which the record is surely ours, renewed where they are fewer than needed_s.

        0 where it has become another's; what was left, where the ledger does not answer.
        """
        with self._lock:
            if not self._lost and self._left() < needed_s:
                self._renew()
            return 0.0 if self._lost else max(0.0, self._left())

    def _left(self) -> float:
        return self._valid_until - self._clock.monotonic()

    def _renew(self) -> None:
        try:
            lease = self._ledger.renew(self._record_id)
        except Retry:
            return
        if lease is None:
            self._lost = True
            metrics.add(LEASE_LOSSES)
        else:
            self._valid_until = lease.valid_until


def to_document(decided: Sequence[Decided]) -> dict[str, Any]:
    """A slice as plain JSON: each distinct decision once, recipients in columns."""
    distinct = list(dict.fromkeys(entry.decision for entry in decided))
    places = {decision: place for place, decision in enumerate(distinct)}
    delayed = any(entry.retry_at_ms is not None for entry in decided)
    return {
        "decisions": [
            [decision.status, decision.reason, decision.layer, decision.rule, decision.settings_version]
            for decision in distinct
        ],
        "positions": [entry.position for entry in decided],
        "user_ids": [entry.user_id for entry in decided],
        "decision": [places[entry.decision] for entry in decided],
        "answers": [[[a.target, a.message_id, a.error] for a in entry.answers] for entry in decided],
        **({"again_ms": [entry.retry_at_ms for entry in decided], "ids": _IDS} if delayed else {}),
    }


def from_document(document: dict[str, Any]) -> list[Decided]:
    """The slice that to_document wrote."""
    decisions = [
        Decision(Status(status), None if reason is None else Reason(reason), layer, rule, version)
        for status, reason, layer, rule, version in document["decisions"]
    ]
    retry_times = document.get("again_ms") or [None] * len(document["positions"])
    numbered = document.get("ids") != _IDS
    columns = zip(
        document["positions"], document["user_ids"], document["decision"], document["answers"], retry_times, strict=True
    )
    return [
        Decided(
            position=position,
            user_id=user_id,
            decision=decisions[place],
            answers=tuple(Answer(target=t, message_id=m, error=e) for t, m, e in answers),
            retry_at_ms=retry_at_ms,
            numbered=numbered and retry_at_ms is not None,
        )
        for position, user_id, place, answers, retry_at_ms in columns
    ]


def taken_before(delivery: DeliveryRequested) -> dict[int, tuple[Answer, ...]]:
    """By position: the answers of devices that took the message before the record waited for the others."""
    found: dict[int, tuple[Answer, ...]] = {}
    for entry in delivery.taken:
        answer = Answer(target=entry.target, message_id=entry.message_id)
        found[entry.position] = (*found.get(entry.position, ()), answer)
    return found


def recorded_of(delivery: DeliveryRequested, recorded: Sequence[Decided]) -> list[Decided]:
    """The decisions but for those about other users at the record's positions, which may be recorded under its id.

    A user who was erased since is no other.
    """
    users = dict(zip(delivery.positions, delivery.user_ids, strict=True))
    return [entry for entry in recorded if entry.user_id in (users.get(entry.position, entry.user_id), ERASED_USER)]


def ended(delivery: DeliveryRequested, recorded: Sequence[Decided], decision: Decision) -> dict[int, Decided]:
    """By position: what becomes of everybody where nothing more is tried: what is recorded of them, or else that.

    Whoever waits in a record of their own is told of there.
    """
    found = {entry.position: entry for entry in recorded_of(delivery, recorded)}
    taken = taken_before(delivery)
    for position, user_id in zip(delivery.positions, delivery.user_ids, strict=True):
        answers = taken.get(position, ())
        last = Decided(position=position, user_id=user_id, decision=SENT if answers else decision, answers=answers)
        found.setdefault(position, last)
    return found


def first_decisions(slices: Sequence[tuple[int, list[Decided]]]) -> list[Decided]:
    """Slices, each with when it was recorded (ms), as one decision a position: the first."""
    found: dict[int, Decided] = {}
    for _, entries in sorted(slices, key=itemgetter(0)):
        for entry in entries:
            found.setdefault(entry.position, entry)
    return [found[position] for position in sorted(found)]
