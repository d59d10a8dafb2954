"""The delivery ledger's contract without a server, for unit tests; the DynamoDB ledger passes the same tests."""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from masscomm.clock import Clock
from masscomm.domain.ids import is_record_id
from masscomm.errors import DeadLetter
from masscomm.stores.delivery_ledger import (
    CLOCK_SKEW_S,
    LEASE_S,
    Lease,
    LeasedElsewhere,
    RecipientResult,
    SliceConflict,
    first_results,
)


@dataclass
class LedgerTable:
    """The table that several ledgers share."""

    # Record id → (owner, until in ms).
    leases: dict[str, tuple[str, float]] = field(default_factory=dict)
    # Record id → first position → (recorded in ms, slice).
    slices: dict[str, dict[int, tuple[int, list[RecipientResult]]]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)


class InMemoryDeliveryLedger:
    """A ledger in dictionaries.

    fail: called before each method with its name; its result is raised. calls: the number of calls of each method, for
    tests of round trips.
    """

    def __init__(self, *, clock: Clock, owner: str = "owner", table: LedgerTable | None = None) -> None:
        self.table = table or LedgerTable()
        self.fail: Callable[[str], Exception | None] = lambda _method: None
        self.calls: Counter[str] = Counter()
        self._clock = clock
        self._owner = owner

    def acquire(self, record_id: str) -> Lease | LeasedElsewhere:
        self._called("acquire")
        if not is_record_id(record_id):
            raise DeadLetter("invalid", "the record's id is no key")
        with self.table.lock:
            lease = self.table.leases.get(record_id)
            if lease is not None and lease[0] != self._owner:
                free_in_s = lease[1] / 1000 + CLOCK_SKEW_S - self._clock.now_ms() / 1000
                if free_in_s > 0:
                    return LeasedElsewhere(free_in_s=free_in_s)
            return self._leased(record_id, fresh=lease is None)

    def renew(self, record_id: str) -> Lease | None:
        self._called("renew")
        with self.table.lock:
            return self._leased(record_id) if self._is_ours(record_id) else None

    def release(self, record_id: str) -> None:
        self._called("release")
        with self.table.lock:
            if self._is_ours(record_id):
                self.table.leases[record_id] = (self._owner, 0)

    def results(self, record_id: str) -> list[RecipientResult]:
        self._called("results")
        with self.table.lock:
            return first_results(list(self.table.slices.get(record_id, {}).values()))

    def record(self, record_id: str, results: Sequence[RecipientResult]) -> None:
        self._called("record")
        with self.table.lock:
            slices = self.table.slices.setdefault(record_id, {})
            entry = slices.setdefault(results[0].position, (self._clock.now_ms(), list(results)))
            if entry[1] != list(results):
                raise SliceConflict(f"positions from {results[0].position} were recorded by another invocation")

    def _leased(self, record_id: str, *, fresh: bool = False) -> Lease:
        self.table.leases[record_id] = (self._owner, self._clock.now_ms() + LEASE_S * 1000)
        return Lease(valid_until=self._clock.monotonic() + LEASE_S, fresh=fresh)

    def _is_ours(self, record_id: str) -> bool:
        return self.table.leases.get(record_id, ("",))[0] == self._owner

    def _called(self, method: str) -> None:
        self.calls[method] += 1
        error = self.fail(method)
        if error is not None:
            raise error
