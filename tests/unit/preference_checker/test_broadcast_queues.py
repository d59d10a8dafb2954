"""A broadcasting tenant has a queue of its own while one is free, and no fault of the store delays a broadcast."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from functions.preference_checker import broadcast_queues
from functions.preference_checker.broadcast_queues import (
    BroadcastQueues,
    InMemoryQueueLeaseStore,
    QueueLease,
    QueueLeases,
)
from masscomm.clock import FixedClock
from masscomm.domain.lanes import BROADCASTS, Lane, shared_queue
from masscomm.domain.time_limits import QUEUE_CACHED_S, QUEUE_LEASE_MS
from masscomm.errors import MasscommError, Retry, Stop
from tests.support.contracts.queue_leases import QueueLeaseStoreContract

CLUBS = range(11, 11 + len(BROADCASTS))
NEXT = CLUBS.stop


class TenantsWithQueues:
    """Environments of preference_checker with a common clock and store of queue leases."""

    def __init__(self, queues: Sequence[Lane] = BROADCASTS) -> None:
        self.clock = FixedClock()
        self.store = InMemoryQueueLeaseStore()
        self._queues = queues
        self.own = self.environment()

    def environment(self) -> BroadcastQueues:
        return BroadcastQueues(self.store, self._queues)

    def queues(self, *club_ids: int) -> list[Lane]:
        return [self.own.of(club_id, self.clock) for club_id in club_ids]


class TestInMemoryQueueLeaseStore(QueueLeaseStoreContract):
    @pytest.fixture
    def store(self) -> InMemoryQueueLeaseStore:
        return InMemoryQueueLeaseStore()


def test_each_new_tenant_takes_a_free_queue() -> None:
    tenants = TenantsWithQueues()
    assert tenants.queues(*CLUBS) == list(BROADCASTS)


@pytest.mark.parametrize("number", range(1, len(BROADCASTS)))
def test_no_tenant_takes_a_queue_without_consumers(number: int) -> None:
    """Neither a free queue, nor a shared one, nor one that a tenant leased while there were more has no consumer."""
    few = BROADCASTS[:number]
    tenants = TenantsWithQueues(few)
    earlier = {lane: QueueLease(club_id=club_id, renewed_ms=0) for lane, club_id in zip(BROADCASTS, CLUBS, strict=True)}
    tenants.store.leases = QueueLeases(version=1, by_lane=earlier)
    clubs = range(CLUBS.start, NEXT + len(BROADCASTS))
    assert set(tenants.queues(*clubs)) == set(few)
    tenants.store.failing = Retry("down")
    tenants.own = tenants.environment()
    assert set(tenants.queues(*clubs)) == set(few)


def test_broadcasting_tenant_keeps_its_queue_everywhere() -> None:
    tenants = TenantsWithQueues()
    tenants.queues(*CLUBS[:2])
    for _ in range(30):
        tenants.clock.advance(QUEUE_LEASE_MS / 2000)
        assert tenants.queues(CLUBS[1]) == [BROADCASTS[1]]
        assert tenants.environment().of(CLUBS[1], tenants.clock) == BROADCASTS[1]


def test_new_tenant_takes_the_longest_unused_queue() -> None:
    tenants = TenantsWithQueues()
    for club_id in CLUBS:
        tenants.queues(club_id)
        tenants.clock.advance(20)
    tenants.clock.advance(QUEUE_LEASE_MS / 1000)
    tenants.queues(CLUBS[0])  # the first tenant's broadcast continues, which renews the lease
    assert tenants.queues(NEXT, NEXT + 1) == [BROADCASTS[1], BROADCASTS[2]]
    assert tenants.queues(CLUBS[0]) == [BROADCASTS[0]]


@pytest.mark.guarantee("broadcast_queues.later_tenants_share")
def test_tenants_beyond_the_queues_share_without_taking_one() -> None:
    tenants = TenantsWithQueues()
    tenants.queues(*CLUBS)
    later = range(NEXT, NEXT + 8)
    assert tenants.queues(*later) == [shared_queue(club_id) for club_id in later]
    assert {tenants.queues(club_id)[0] for club_id in later} == set(BROADCASTS)
    assert {lease.club_id for lease in tenants.store.leases.by_lane.values()} == set(CLUBS)
    # The first tenant's broadcast ends: the queue is leased to the tenant that has waited longest.
    for _ in range(8):
        tenants.clock.advance(QUEUE_LEASE_MS / 6000)
        tenants.queues(*CLUBS[1:])
    assert tenants.queues(NEXT + 1) == [BROADCASTS[0]]


def test_store_is_read_and_written_rarely() -> None:
    tenants = TenantsWithQueues()
    for _ in range(1_000):
        tenants.queues(CLUBS[0])
    assert (tenants.store.calls, tenants.store.leases.version) == (2, 1)
    for _ in range(600):
        tenants.clock.advance(0.1)
        tenants.queues(CLUBS[0])
    assert tenants.store.calls <= 2 + 1.5 * 60 / QUEUE_CACHED_S
    assert tenants.store.leases.version <= 1 + 6


@pytest.mark.guarantee("broadcast_queues.store_down_keeps_queues")
@pytest.mark.parametrize("error", [Retry("down"), Stop("no table")])
def test_unreachable_store_keeps_queues_or_shares(error: MasscommError) -> None:
    tenants = TenantsWithQueues()
    shifted = CLUBS[0]  # a tenant whose leased queue is not the queue that the hash of its id selects
    assert tenants.queues(shifted) == [Lane.BULK] != [shared_queue(shifted)]
    tenants.store.failing = error
    tenants.clock.advance(2 * QUEUE_CACHED_S)
    before = tenants.store.calls
    for _ in range(50):
        assert tenants.queues(shifted, NEXT) == [Lane.BULK, shared_queue(NEXT)]
        tenants.clock.advance(1)
    assert tenants.store.calls - before == 2, "it is left alone for half a minute"
    tenants.store.failing = None
    tenants.clock.advance(60)
    assert tenants.queues(shifted, NEXT) == [Lane.BULK, Lane.BULK_2]


def test_slow_store_is_not_called_for_a_while() -> None:
    tenants = TenantsWithQueues()

    class Slow(InMemoryQueueLeaseStore):
        def read(self) -> QueueLeases:
            tenants.clock.sleep(0.4)
            return super().read()

        def replace(self, version: int, leases: Mapping[Lane, QueueLease], now_ms: int) -> bool:
            tenants.clock.sleep(0.4)
            return super().replace(version - 1 if contended else version, leases, now_ms)

    for contended in (False, True):
        store = Slow()
        queues, began = BroadcastQueues(store), tenants.clock.monotonic()
        for number in range(29):
            queue = queues.of(NEXT + number, tenants.clock)
            assert queue == (shared_queue(NEXT + number) if number or contended else Lane.BULK)
            tenants.clock.advance(1)
        assert store.calls == 2
        assert tenants.clock.monotonic() - began == pytest.approx(29.8)


def test_tenant_that_loses_each_write_shares_a_queue() -> None:
    class Contended(InMemoryQueueLeaseStore):
        def replace(self, version: int, leases: Mapping[Lane, QueueLease], now_ms: int) -> bool:
            self.leases = replace(self.leases, version=self.leases.version + 1)
            return super().replace(version, leases, now_ms)

    store = Contended()
    assert BroadcastQueues(store).of(NEXT, FixedClock()) == shared_queue(NEXT)
    assert store.calls == 6


def test_lease_from_the_future_counts_as_free() -> None:
    tenants = TenantsWithQueues()
    ahead = tenants.clock.now_ms() + 10 * QUEUE_LEASE_MS
    tenants.store.leases = QueueLeases(
        version=1, by_lane={lane: QueueLease(club_id=99, renewed_ms=ahead) for lane in BROADCASTS}
    )
    assert tenants.queues(NEXT) == [Lane.BULK]
    assert tenants.queues(99) == [Lane.BULK_2]
    assert tenants.store.leases.by_lane[Lane.BULK_2].renewed_ms == tenants.clock.now_ms()


def test_assignments_of_many_tenants_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broadcast_queues, "_MOST_TENANTS", 10)
    tenants = TenantsWithQueues()
    tenants.queues(*range(1_000))
    assert len(tenants.own._cached) <= 10
