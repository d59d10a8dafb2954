"""A tenant who broadcasts has a queue, as far as there are queues; and nothing that goes wrong holds anybody up."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from functions.preference_checker import broadcast_queues
from functions.preference_checker.broadcast_queues import (
    IN_USE_MS,
    KNOWN_S,
    BroadcastQueues,
    InMemoryUseStore,
    Use,
    Uses,
)
from masscomm.clock import FixedClock
from masscomm.domain.lanes import BROADCASTS, Lane, shared_queue
from masscomm.errors import MasscommError, Retry, Stop
from tests.support.contracts.queue_leases import UseStoreContract

CLUBS = range(11, 11 + len(BROADCASTS))
NEXT = CLUBS.stop


class Town:
    """A store, a clock, and environments of the checker."""

    def __init__(self) -> None:
        self.clock = FixedClock()
        self.store = InMemoryUseStore()
        self.own = self.environment()

    def environment(self) -> BroadcastQueues:
        return BroadcastQueues(self.store)

    def queues(self, *club_ids: int) -> list[Lane]:
        return [self.own.of(club_id, self.clock) for club_id in club_ids]


class TestInMemoryUseStore(UseStoreContract):
    @pytest.fixture
    def store(self) -> InMemoryUseStore:
        return InMemoryUseStore()


def test_each_new_tenant_takes_a_free_queue() -> None:
    town = Town()
    assert town.queues(*CLUBS) == list(BROADCASTS)


def test_broadcasting_tenant_keeps_its_queue_everywhere() -> None:
    town = Town()
    town.queues(*CLUBS[:2])
    for _ in range(30):
        town.clock.advance(IN_USE_MS / 2000)
        assert town.queues(CLUBS[1]) == [BROADCASTS[1]]
        assert town.environment().of(CLUBS[1], town.clock) == BROADCASTS[1]


def test_new_tenant_takes_the_longest_unused_queue() -> None:
    town = Town()
    for club_id in CLUBS:
        town.queues(club_id)
        town.clock.advance(20)
    town.clock.advance(IN_USE_MS / 1000)
    town.queues(CLUBS[0])  # it goes on
    assert town.queues(NEXT, NEXT + 1) == [BROADCASTS[1], BROADCASTS[2]]
    assert town.queues(CLUBS[0]) == [BROADCASTS[0]]


@pytest.mark.guarantee("broadcast_queues.later_tenants_share")
def test_tenants_beyond_the_queues_share_without_taking_one() -> None:
    town = Town()
    town.queues(*CLUBS)
    later = range(NEXT, NEXT + 8)
    assert town.queues(*later) == [shared_queue(club_id) for club_id in later]
    assert {town.queues(club_id)[0] for club_id in later} == set(BROADCASTS)
    assert {use.club_id for use in town.store.uses.of.values()} == set(CLUBS)
    # One of them is done: whoever waited longest for a queue of their own has it.
    for _ in range(8):
        town.clock.advance(IN_USE_MS / 6000)
        town.queues(*CLUBS[1:])
    assert town.queues(NEXT + 1) == [BROADCASTS[0]]


def test_store_is_read_and_written_rarely() -> None:
    town = Town()
    for _ in range(1_000):
        town.queues(CLUBS[0])
    assert (town.store.calls, town.store.uses.version) == (2, 1)
    for _ in range(600):
        town.clock.advance(0.1)
        town.queues(CLUBS[0])
    assert town.store.calls <= 2 + 1.5 * 60 / KNOWN_S
    assert town.store.uses.version <= 1 + 6


@pytest.mark.guarantee("broadcast_queues.store_down_keeps_queues")
@pytest.mark.parametrize("error", [Retry("down"), Stop("no table")])
def test_unreachable_store_keeps_queues_or_shares(error: MasscommError) -> None:
    town = Town()
    shifted = CLUBS[0]  # the first queue is theirs, and not the one they would share
    assert town.queues(shifted) == [Lane.BULK] != [shared_queue(shifted)]
    town.store.failing = error
    town.clock.advance(2 * KNOWN_S)
    before = town.store.calls
    for _ in range(50):
        assert town.queues(shifted, NEXT) == [Lane.BULK, shared_queue(NEXT)]
        town.clock.advance(1)
    assert town.store.calls - before == 2, "it is left alone for half a minute"
    town.store.failing = None
    town.clock.advance(60)
    assert town.queues(shifted, NEXT) == [Lane.BULK, Lane.BULK_2]


def test_a_store_that_takes_its_time_is_left_alone_as_well() -> None:
    town = Town()

    class Slow(InMemoryUseStore):
        def read(self) -> Uses:
            town.clock.sleep(0.4)
            return super().read()

        def replace(self, version: int, uses: Mapping[Lane, Use], now_ms: int) -> bool:
            town.clock.sleep(0.4)
            return super().replace(version - 1 if contended else version, uses, now_ms)

    for contended in (False, True):
        store = Slow()
        queues, began = BroadcastQueues(store), town.clock.monotonic()
        for number in range(29):
            queue = queues.of(NEXT + number, town.clock)
            assert queue == (shared_queue(NEXT + number) if number or contended else Lane.BULK)
            town.clock.advance(1)
        assert store.calls == 2
        assert town.clock.monotonic() - began == pytest.approx(29.8)


def test_tenant_that_loses_each_write_shares_a_queue() -> None:
    class Contended(InMemoryUseStore):
        def replace(self, version: int, uses: Mapping[Lane, Use], now_ms: int) -> bool:
            self.uses = replace(self.uses, version=self.uses.version + 1)
            return super().replace(version, uses, now_ms)

    store = Contended()
    assert BroadcastQueues(store).of(NEXT, FixedClock()) == shared_queue(NEXT)
    assert store.calls == 6


def test_a_moment_that_has_not_come_is_not_believed() -> None:
    town = Town()
    ahead = town.clock.now_ms() + 10 * IN_USE_MS
    town.store.uses = Uses(version=1, of={lane: Use(club_id=99, used_ms=ahead) for lane in BROADCASTS})
    assert town.queues(NEXT) == [Lane.BULK]
    assert town.queues(99) == [Lane.BULK_2]
    assert town.store.uses.of[Lane.BULK_2].used_ms == town.clock.now_ms()


def test_tenants_without_number_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broadcast_queues, "_MOST_TENANTS", 10)
    town = Town()
    town.queues(*range(1_000))
    assert len(town.own._known) <= 10
