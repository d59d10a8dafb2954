"""The delivery ledger stores the results of each delivery record, so that a redelivery continues after the last
recorded slice (recipients whose results are recorded together).

For each delivery record there is a short lease, which belongs to the invocation that processes the record. For each
slice there are the results of its recipients: the status, and the result of each provider call. A lease separates two
live invocations, but it cannot stop a provider call that has begun. So duplicates are bounded, not excluded
(docs/internals/guarantees.md).
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Protocol

from masscomm.clock import Clock
from masscomm.domain.call_results import CallResult, RecipientResult, accepted_before_delay
from masscomm.domain.ids import ERASED_USER
from masscomm.domain.outcomes import SENT
from masscomm.domain.preferences import Decision
from masscomm.domain.records import DeliveryRequested
from masscomm.domain.statuses import Reason, Status
from masscomm.errors import MasscommError, Retry
from masscomm.observability import metrics
from masscomm.observability.metric_names import LEASE_LOSSES


@dataclass(frozen=True, kw_only=True)
class Lease:
    """The lease of a delivery record, acquired by this invocation.

    Attributes:
        valid_until: The end of the lease by Clock.monotonic.
        fresh: Whether it is the first lease of the record, so that no slice can be recorded.
    """

    valid_until: float
    fresh: bool = False


@dataclass(frozen=True, kw_only=True)
class LeasedElsewhere:
    """Another invocation has the lease, for free_in_s more seconds unless it extends the lease."""

    free_in_s: float


class SliceConflict(Retry):
    """Another invocation recorded this slice at the same time; its results count."""


class DeliveryLedger(Protocol):
    """The interface of the delivery ledger. Each function environment has one instance, which owns its leases. Any
    thread may call its methods.

    Every method raises Retry (down, slow, throttled) or Stop (no table, or access denied).
    """

    def acquire(self, record_id: str) -> Lease | LeasedElsewhere:
        """Acquire the lease of a record if it is free, has expired, or already belongs to this environment."""
        ...

    def acquire_all(self, record_ids: Sequence[str]) -> dict[str, Lease | LeasedElsewhere | MasscommError]:
        """Acquire the leases of many records under the conditions of `acquire`. If one fails, only its record's answer
        is an error.

        If each record has never had a lease, this takes one round trip for each 100 records.
        """
        ...

    def renew(self, record_id: str) -> Lease | None:
        """Extend the lease; return None if another environment has acquired it."""
        ...

    def release(self, record_id: str) -> None:
        """Release the lease; no effect if another environment has it."""
        ...

    def results(self, record_id: str) -> list[RecipientResult]:
        """Return every recorded result by the recipient's position in the send; if a position has two results, the
        first recorded one.
        """
        ...

    def record(self, record_id: str, results: Sequence[RecipientResult]) -> None:
        """Record the results of a slice, which must not be empty. Repeating the call changes nothing.

        No lease is needed: a published message is a fact, and recording it early avoids duplicates. Also raises
        SliceConflict.
        """
        ...

    def record_all(
        self, slices: Mapping[str, Sequence[RecipientResult]]
    ) -> dict[str, SliceConflict | MasscommError | None]:
        """Record one slice of each of many records; return each record's error, or None if its slice was recorded.

        If no slice conflicts or needs several items, this takes one round trip for each 100 records and 4 MB.
        """
        ...


class RenewingLease:
    """A lease that is extended while it is in use. Thread-safe."""

    def __init__(self, ledger: DeliveryLedger, clock: Clock, record_id: str, lease: Lease) -> None:
        self._ledger = ledger
        self._clock = clock
        self._record_id = record_id
        self._valid_until = lease.valid_until
        self._lost = False
        self._lock = threading.Lock()

    def remaining_s(self) -> float:
        """Return the seconds for which the lease is certainly valid; 0 if another environment has acquired it."""
        return 0.0 if self._lost else max(0.0, self._valid_until - self._clock.monotonic())

    def is_short(self, needed_s: float) -> bool:
        """Return whether the lease, as far as is known, still belongs to this environment but ends in less than
        needed_s seconds.
        """
        return not self._lost and self.remaining_s() < needed_s

    def renew(self) -> None:
        """Extend the lease; it stays unchanged if the ledger does not respond."""
        with self._lock:
            try:
                lease = self._ledger.renew(self._record_id)
            except MasscommError:
                return
            if lease is None:
                self._lost = True
                metrics.add(LEASE_LOSSES)
            else:
                self._valid_until = lease.valid_until


def to_document(results: Sequence[RecipientResult]) -> dict[str, Any]:
    """Return a slice as plain JSON: each distinct decision once, the recipients in columns."""
    distinct = list(dict.fromkeys(entry.decision for entry in results))
    places = {decision: place for place, decision in enumerate(distinct)}
    delayed = any(entry.retry_at_ms is not None for entry in results)
    return {
        "decisions": [
            [
                *(decision.status, decision.reason, decision.layer, decision.rule),
                *(decision.settings_version, decision.settings_changed_at),
            ]
            for decision in distinct
        ],
        "positions": [entry.position for entry in results],
        "user_ids": [entry.user_id for entry in results],
        "decision": [places[entry.decision] for entry in results],
        "answers": [[[a.target, a.message_id, a.error] for a in entry.call_results] for entry in results],
        **({"again_ms": [entry.retry_at_ms for entry in results]} if delayed else {}),
    }


def from_document(document: dict[str, Any]) -> list[RecipientResult]:
    """Return the slice in a document that to_document made."""
    decisions = [
        Decision(
            Status(status),
            None if reason is None else Reason(reason),
            layer,
            rule,
            version,
            settings_changed_at=changed_at,
        )
        for status, reason, layer, rule, version, changed_at, *_ in document["decisions"]
    ]
    retry_times = document.get("again_ms") or [None] * len(document["positions"])
    columns = zip(
        document["positions"], document["user_ids"], document["decision"], document["answers"], retry_times, strict=True
    )
    return [
        RecipientResult(
            position=position,
            user_id=user_id,
            decision=decisions[place],
            call_results=tuple(CallResult(target=t, message_id=m, error=e) for t, m, e, *_ in calls),
            retry_at_ms=retry_at_ms,
        )
        for position, user_id, place, calls, retry_at_ms in columns
    ]


def results_for_recipients(delivery: DeliveryRequested, recorded: Sequence[RecipientResult]) -> list[RecipientResult]:
    """Return the recorded results without those about other users, which occur if a producer reuses an id.

    A result that was recorded for an erased user still counts.
    """
    users = dict(zip(delivery.positions, delivery.user_ids, strict=True))
    return [entry for entry in recorded if entry.user_id in (users.get(entry.position, entry.user_id), ERASED_USER)]


def final_results(
    delivery: DeliveryRequested, recorded: Sequence[RecipientResult], decision: Decision
) -> dict[int, RecipientResult]:
    """Return, by position, the recorded result, or else `decision`, for a record that is not retried.

    A delayed recipient is omitted, because the retry record leads to an outcome.
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
    """Return one result for each position: the one that was recorded first.

    Args:
        slices: Groups of results that were recorded together, each with the time of its recording in ms.
    """
    found: dict[int, RecipientResult] = {}
    for _, entries in sorted(slices, key=itemgetter(0)):
        for entry in entries:
            found.setdefault(entry.position, entry)
    return [found[position] for position in sorted(found)]
