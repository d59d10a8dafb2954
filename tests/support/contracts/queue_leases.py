"""The tests that every store of queue leases must pass, in memory and real."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from functions.preference_checker.broadcast_queues import BroadcastQueues, QueueLease, QueueLeases, QueueLeaseStore
from masscomm.clock import SystemClock
from masscomm.domain.lanes import Lane

NOW = 1_700_000_000_000


def lease(club_id: int, renewed_ms: int = NOW) -> QueueLease:
    return QueueLease(club_id=club_id, renewed_ms=renewed_ms)


class QueueLeaseStoreContract:
    """Subclasses define the fixture `store`, an empty store."""

    def test_stored_leases_are_read_until_replaced(self, store: QueueLeaseStore) -> None:
        assert store.read() == QueueLeases()
        first = {Lane.BULK: lease(7), Lane.BULK_3: lease(-8, 0)}
        assert store.replace(0, first, NOW)
        assert store.read() == QueueLeases(version=1, by_lane=first)
        assert store.replace(1, {Lane.BULK_2: lease(2**62)}, NOW)
        assert store.read() == QueueLeases(version=2, by_lane={Lane.BULK_2: lease(2**62)})

    def test_write_based_on_an_old_version_changes_nothing(self, store: QueueLeaseStore) -> None:
        assert store.replace(0, {Lane.BULK: lease(7)}, NOW)
        assert not store.replace(0, {Lane.BULK: lease(8)}, NOW)
        assert not store.replace(2, {Lane.BULK: lease(8)}, NOW)
        assert store.read() == QueueLeases(version=1, by_lane={Lane.BULK: lease(7)})

    def test_one_of_concurrent_replacements_succeeds(self, store: QueueLeaseStore) -> None:
        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(lambda club_id: store.replace(0, {Lane.BULK: lease(club_id)}, NOW), range(1, 9))) == 1
        assert store.read().version == 1

    def test_tenants_that_begin_concurrently_get_separate_queues(self, store: QueueLeaseStore) -> None:
        both_have_read = Barrier(2, timeout=20)

        class StoreWithBarrier:
            """A store whose first read returns once both tenants have read."""

            def __init__(self) -> None:
                self.met = False

            def read(self) -> QueueLeases:
                found = store.read()
                if not self.met:
                    self.met = True
                    both_have_read.wait()
                return found

            def replace(self, version: int, leases: Mapping[Lane, QueueLease], now_ms: int) -> bool:
                return store.replace(version, leases, now_ms)

        with ThreadPoolExecutor(2) as pool:
            queues = list(
                pool.map(lambda club_id: BroadcastQueues(StoreWithBarrier()).of(club_id, SystemClock()), (1, 2))
            )
        assert sorted(queues) == [Lane.BULK, Lane.BULK_2]
        assert {lane: found.club_id for lane, found in store.read().by_lane.items()} == {queues[0]: 1, queues[1]: 2}
