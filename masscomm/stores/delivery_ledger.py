"""The delivery ledger: results of each delivery record, so that a redelivery continues after the last recorded slice.

For each delivery record there is a short lease (which invocation works on it) and, for each slice of its recipients,
their results: the status, and the result of each provider call. A lease keeps two live invocations apart; it cannot
stop a provider call that has begun: duplicates are bounded, not excluded (docs/guarantees.md).
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

# Duration of a lease: a redelivery after a crash waits that long, and no provider call may outlive it.
LEASE_S = 12.0
# Largest clock skew of two functions.
CLOCK_SKEW_S = 1.0
# Longer than the delivery topics keep a record (72 h): a replay without its results publishes again.
KEPT_S = 7 * 86_400
# A lease's item is kept longer than the record's slices: a record without that item has no slices.
LEASE_KEPT_S = KEPT_S + 86_400
# The form of the ids of a slice's retry records: derived from the parent, the delay reason and the range alone.
_IDS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    """The result of one provider call.

    target: the device's id, or `email`; error: the class of the error, where the provider returned no id.
    """

    target: str
    message_id: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipientResult:
    """One recipient's result: the decision and the calls it is based on. The first recorded result counts.

    retry_at_ms: for a delayed recipient, when (ms since the epoch) their retry record is released; that record has
    slices of its own. numbered: whether the id of the retry record counts the delays, as in items of the previous form.
    """

    position: int
    user_id: int
    decision: Decision
    call_results: tuple[CallResult, ...] = ()
    retry_at_ms: int | None = None
    numbered: bool = False

    @property
    def message_ids(self) -> tuple[str, ...]:
        """The provider's ids, one for each accepted call."""
        return tuple(call.message_id for call in self.call_results if call.message_id is not None)


@dataclass(frozen=True, kw_only=True)
class Lease:
    """This invocation has the lease. valid_until: by Clock.monotonic; fresh: the first lease, so no slice is
    recorded."""

    valid_until: float
    fresh: bool = False


@dataclass(frozen=True, kw_only=True)
class LeasedElsewhere:
    """Another invocation has the lease, for free_in_s more seconds unless it renews."""

    free_in_s: float


class SliceConflict(Retry):
    """Another invocation recorded this slice at the same time: its results count."""


class DeliveryLedger(Protocol):
    """One for each function environment, which is the owner of its leases. Every method may be called from any thread.

    Errors of each: Retry (down, slow, throttled), Stop (no table, or access denied).
    """

    def acquire(self, record_id: str) -> Lease | LeasedElsewhere:
        """Acquire the lease if it is free, has expired, or belongs to this environment."""
        ...

    def renew(self, record_id: str) -> Lease | None:
        """Extend the lease; None if another environment has acquired it."""
        ...

    def release(self, record_id: str) -> None:
        """Release the lease; no effect if another environment has it."""
        ...

    def results(self, record_id: str) -> list[RecipientResult]:
        """Return every recorded result, by position; of two results of a position, the first recorded."""
        ...

    def record(self, record_id: str, results: Sequence[RecipientResult]) -> None:
        """Record a slice's results; it must not be empty. Repeating the call changes nothing.

        No lease is needed: a publication is a fact, and early recording avoids duplicates. Errors: SliceConflict too.
        """
        ...


class RenewingLease:
    """A lease in use: renewed when little of it remains. Thread-safe."""

    def __init__(self, ledger: DeliveryLedger, clock: Clock, record_id: str, lease: Lease) -> None:
        self._ledger = ledger
        self._clock = clock
        self._record_id = record_id
        self._valid_until = lease.valid_until
        self._lost = False
        self._lock = threading.Lock()

    def remaining_s(self, needed_s: float) -> float:
        """The seconds for which the lease is certainly valid, renewed if they are fewer than needed_s.

        0 if another environment has acquired it; the rest of the old lease if the ledger does not respond.
        """
        with self._lock:
            if not self._lost and self._remaining_s() < needed_s:
                self._renew()
            return 0.0 if self._lost else max(0.0, self._remaining_s())

    def _remaining_s(self) -> float:
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


def to_document(results: Sequence[RecipientResult]) -> dict[str, Any]:
    """Return a slice as plain JSON: each distinct decision once, recipients in columns."""
    distinct = list(dict.fromkeys(entry.decision for entry in results))
    places = {decision: place for place, decision in enumerate(distinct)}
    delayed = any(entry.retry_at_ms is not None for entry in results)
    return {
        "decisions": [
            [decision.status, decision.reason, decision.layer, decision.rule, decision.settings_version]
            for decision in distinct
        ],
        "positions": [entry.position for entry in results],
        "user_ids": [entry.user_id for entry in results],
        "decision": [places[entry.decision] for entry in results],
        "answers": [[[a.target, a.message_id, a.error] for a in entry.call_results] for entry in results],
        **({"again_ms": [entry.retry_at_ms for entry in results], "ids": _IDS} if delayed else {}),
    }


def from_document(document: dict[str, Any]) -> list[RecipientResult]:
    """Return the slice of a document of to_document."""
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
        RecipientResult(
            position=position,
            user_id=user_id,
            decision=decisions[place],
            call_results=tuple(CallResult(target=t, message_id=m, error=e) for t, m, e in calls),
            retry_at_ms=retry_at_ms,
            numbered=numbered and retry_at_ms is not None,
        )
        for position, user_id, place, calls, retry_at_ms in columns
    ]


def accepted_before_delay(delivery: DeliveryRequested) -> dict[int, tuple[CallResult, ...]]:
    """By position: the calls that succeeded before the record was delayed for other devices."""
    found: dict[int, tuple[CallResult, ...]] = {}
    for entry in delivery.taken:
        call = CallResult(target=entry.target, message_id=entry.message_id)
        found[entry.position] = (*found.get(entry.position, ()), call)
    return found


def results_for_recipients(delivery: DeliveryRequested, recorded: Sequence[RecipientResult]) -> list[RecipientResult]:
    """The results without those about other users, which a producer's reused id can have recorded.

    A result of an erased user counts as the recipient's.
    """
    users = dict(zip(delivery.positions, delivery.user_ids, strict=True))
    return [entry for entry in recorded if entry.user_id in (users.get(entry.position, entry.user_id), ERASED_USER)]


def final_results(
    delivery: DeliveryRequested, recorded: Sequence[RecipientResult], decision: Decision
) -> dict[int, RecipientResult]:
    """By position: the recorded result, or else `decision`, for a record that is not retried.

    A delayed recipient has an outcome through their retry record.
    """
    found = {entry.position: entry for entry in results_for_recipients(delivery, recorded)}
    taken = accepted_before_delay(delivery)
    for position, user_id in zip(delivery.positions, delivery.user_ids, strict=True):
        calls = taken.get(position, ())
        last = RecipientResult(
            position=position, user_id=user_id, decision=SENT if calls else decision, call_results=calls
        )
        found.setdefault(position, last)
    return found


def first_results(slices: Sequence[tuple[int, list[RecipientResult]]]) -> list[RecipientResult]:
    """Return one result for each position, the first recorded. slices: each with the time of its recording (ms)."""
    found: dict[int, RecipientResult] = {}
    for _, entries in sorted(slices, key=itemgetter(0)):
        for entry in entries:
            found.setdefault(entry.position, entry)
    return [found[position] for position in sorted(found)]
