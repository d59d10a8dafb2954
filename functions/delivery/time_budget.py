"""The time budget of a delivery record: its provider calls end while its lease and the invocation last."""

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from masscomm.domain.time_limits import DELIVERY_RESERVE_S, LEASE_MARGIN_S, PROVIDER_CALL_S
from masscomm.stores.delivery_ledger.port import RenewingLease

if TYPE_CHECKING:
    from asyncio import Future


@dataclass(kw_only=True)
class TimeBudget:
    """The time budget of one record. masscomm.domain.time_limits has the durations and the rules between them."""

    lease: RenewingLease
    # Returns the remaining seconds of the invocation.
    invocation_s: Callable[[], float]
    # The threads in which leases are extended, because the event loop must not wait.
    pool: Executor
    _renewal: "Future[None] | None" = None

    async def remaining_s(self) -> float:
        """Return the seconds within which a provider call must end; extend a lease that is about to end."""
        if self._is_short():
            import asyncio

            if self._renewal is None or self._renewal.done():  # Concurrent calls share one extension of the lease.
                self._renewal = asyncio.get_running_loop().run_in_executor(self.pool, self.lease.renew)
            await asyncio.shield(self._renewal)
        return self._remaining_s()

    def waiting_s(self) -> float:
        """Return the seconds for which the record may wait for its devices; extend its lease as remaining_s does."""
        if self._is_short():
            self.lease.renew()
        return self._remaining_s()

    def _is_short(self) -> bool:
        return self.lease.is_short(PROVIDER_CALL_S + LEASE_MARGIN_S)

    def _remaining_s(self) -> float:
        # guard: lease.lost_lease
        return min(self.invocation_s() - DELIVERY_RESERVE_S, self.lease.remaining_s())
