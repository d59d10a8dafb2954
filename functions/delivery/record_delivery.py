"""The state of one delivery record whose lease this invocation has, while its recipients are published to and
recorded.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from functions.delivery.look_up import Question
from masscomm.chain.batch import Item
from masscomm.domain.records import DeliveryRequested
from masscomm.domain.time_limits import DELIVERY_RESERVE_S, LEASE_MARGIN_S, PROVIDER_CALL_S
from masscomm.stores.delivery_ledger import RecipientResult, RenewingLease

if TYPE_CHECKING:
    from asyncio import Future


@dataclass(kw_only=True, eq=False)
class RecordDelivery:
    """A delivery record in progress. Its provider calls must end while its lease and the invocation last (see
    masscomm.channels.gateway.CallScope).
    """

    item: Item[DeliveryRequested]
    question: Question
    lease: RenewingLease
    # The recorded results by the recipient's position.
    done: dict[int, RecipientResult]
    # Returns the remaining seconds of the invocation.
    invocation_s: Callable[[], float]
    # The threads in which leases are extended, because the event loop must not wait.
    pool: Executor
    # The reasons why recipients of the record are delayed.
    errors: set[str] = field(default_factory=set)
    _renewal: "Future[None] | None" = None

    @property
    def delivery(self) -> DeliveryRequested:
        return self.item.value

    @property
    def channel(self) -> str:
        return self.item.value.channel

    @property
    def log_keys(self) -> Mapping[str, Any]:
        return self.item.log_keys

    @property
    def has_failed(self) -> bool:
        """Return whether the record has failed, so that nothing more is published for it."""
        return self.item.error is not None

    @property
    def is_complete(self) -> bool:
        return self.done.keys() >= set(self.delivery.positions)

    async def remaining_s(self) -> float:
        """Return the seconds within which a provider call must end; extend a lease that is about to end."""
        if self.lease.is_short(PROVIDER_CALL_S + LEASE_MARGIN_S):
            import asyncio

            if self._renewal is None or self._renewal.done():  # Concurrent calls share one extension of the lease.
                self._renewal = asyncio.get_running_loop().run_in_executor(self.pool, self.lease.renew)
            await asyncio.shield(self._renewal)
        return self._remaining_s()

    def waiting_s(self) -> float:
        """Return the seconds for which the record may wait for its devices; extend its lease as remaining_s does."""
        if self.lease.is_short(PROVIDER_CALL_S + LEASE_MARGIN_S):
            self.lease.renew()
        return self._remaining_s()

    def _remaining_s(self) -> float:
        # guard: lease.lost_lease
        return min(self.invocation_s() - DELIVERY_RESERVE_S, self.lease.remaining_s())
