"""The delivery ledger in memory, for unit tests; it passes the same contract tests as the one in DynamoDB."""

import json
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from masscomm.aws.dynamodb import PART_BYTES
from masscomm.clock import Clock
from masscomm.domain.call_results import RecipientResult
from masscomm.domain.ids import is_record_id
from masscomm.domain.time_limits import CLOCK_SKEW_S, LEASE_S
from masscomm.errors import DeadLetter, MasscommError
from masscomm.stores.delivery_ledger.port import Lease, LeasedElsewhere, SliceConflict, first_results, to_document
from masscomm.stores.transactions import write_all

# The size in bytes of an item's keys and other attributes.
_ATTRIBUTES = 200


@dataclass
class LedgerTable:
    """The storage that several in-memory ledgers share, as several functions share a table."""

    # Record id → (owner of the lease, end of the lease in ms).
    leases: dict[str, tuple[str, float]] = field(default_factory=dict)
    # Record id → first position of a slice → (time of recording in ms, the slice's results).
    slices: dict[str, dict[int, tuple[int, list[RecipientResult]]]] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)


class InMemoryDeliveryLedger:
    """A delivery ledger in dictionaries.

    Attributes:
        fail: A function that is called before each method with the method's name; the error that it returns is raised.
        calls: The number of calls of each method, for tests that count round trips.
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
            raise DeadLetter("invalid", "the record's id is not a valid key")
        with self.table.lock:
            is_fresh = record_id not in self.table.leases
            return self._elsewhere(record_id) or self._leased(record_id, fresh=is_fresh)

    def acquire_all(self, record_ids: Sequence[str]) -> dict[str, Lease | LeasedElsewhere | MasscommError]:
        sizes = {each: len(each.encode()) + _ATTRIBUTES if is_record_id(each) else None for each in record_ids}
        return write_all(
            sizes,
            transact=self._acquire_together,
            alone=self.acquire,
        )

    def _acquire_together(self, record_ids: Sequence[str]) -> dict[str, Callable[[], Lease | LeasedElsewhere]]:
        self._called("acquire_all")
        with self.table.lock:
            failed = [each for each in record_ids if each in self.table.leases]
            if not failed:
                leases = [self._leased(record_id, fresh=True) for record_id in record_ids]
                return dict.fromkeys(record_ids, lambda: leases[0])
            return {each: partial(self._next_lease, each) for each in failed}

    def _next_lease(self, record_id: str) -> Lease | LeasedElsewhere:
        """Answer for a stored lease; another request is made only to acquire it."""
        return self._elsewhere(record_id) or self.acquire(record_id)

    def _elsewhere(self, record_id: str) -> LeasedElsewhere | None:
        return self._leased_elsewhere(record_id)

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
        self._recorded(record_id, results)

    def record_all(
        self, slices: Mapping[str, Sequence[RecipientResult]]
    ) -> dict[str, SliceConflict | MasscommError | None]:
        return write_all(
            {record_id: self._size(record_id, results) for record_id, results in slices.items()},
            transact=partial(self._record_together, slices),
            alone=lambda record_id: self.record(record_id, slices[record_id]),
        )

    def _record_together(
        self, slices: Mapping[str, Sequence[RecipientResult]], record_ids: Sequence[str]
    ) -> dict[str, Callable[[], None]]:
        self._called("record_all")
        with self.table.lock:
            failed = [each for each in record_ids if slices[each][0].position in self.table.slices.get(each, {})]
            for record_id in () if failed else record_ids:
                self._recorded(record_id, slices[record_id])
            return {each: partial(self._recorded, each, slices[each]) for each in failed or record_ids}

    def _recorded(self, record_id: str, results: Sequence[RecipientResult]) -> None:
        with self.table.lock:
            slices = self.table.slices.setdefault(record_id, {})
            entry = slices.setdefault(results[0].position, (self._clock.now_ms(), list(results)))
        if entry[1] != list(results):
            raise SliceConflict(f"positions from {results[0].position} were recorded by another invocation")

    @staticmethod
    def _size(record_id: str, results: Sequence[RecipientResult]) -> int | None:
        text = json.dumps(to_document(results), separators=(",", ":"))
        return (
            len(text) + len(record_id.encode()) + _ATTRIBUTES
            if is_record_id(record_id) and len(text) <= PART_BYTES
            else None
        )

    def _leased_elsewhere(self, record_id: str) -> LeasedElsewhere | None:
        owner, until_ms = self.table.leases.get(record_id, (self._owner, 0))
        free_in_s = until_ms / 1000 + CLOCK_SKEW_S - self._clock.now_ms() / 1000
        return LeasedElsewhere(free_in_s=free_in_s) if owner != self._owner and free_in_s > 0 else None

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
