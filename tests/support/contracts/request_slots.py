"""The tests that every store of request slots must pass, in memory and real."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from masscomm.stores.request_slots.port import Kind, RequestSlots

NOW = 1_700_000_000_000
LATER = NOW + 29_000


class RequestSlotsContract:
    """Subclasses define the fixture `slots`, an empty store."""

    def test_a_key_has_as_many_slots_as_its_limit(self, slots: RequestSlots) -> None:
        taken = [slots.take(Kind.POLL, "a", 3, now_ms=NOW, until_ms=LATER) for _ in range(4)]
        assert taken[3] is None
        assert {slot.number for slot in taken if slot is not None} == {0, 1, 2}
        assert slots.take(Kind.POLL, "b", 3, now_ms=NOW, until_ms=LATER) is not None

    @pytest.mark.kills(guard="request_slots.kind")
    def test_each_kind_of_requests_has_slots_of_its_own(self, slots: RequestSlots) -> None:
        taken = [slots.take(kind, "a", 1, now_ms=NOW, until_ms=LATER) for kind in (*Kind, *Kind)]
        assert [slot is not None for slot in taken] == [True] * len(Kind) + [False] * len(Kind)

    def test_a_freed_slot_can_be_taken_again(self, slots: RequestSlots) -> None:
        first = slots.take(Kind.POLL, "a", 1, now_ms=NOW, until_ms=LATER)
        assert first is not None
        assert slots.take(Kind.POLL, "a", 1, now_ms=NOW, until_ms=LATER) is None
        slots.free(first)
        assert slots.take(Kind.POLL, "a", 1, now_ms=NOW, until_ms=LATER) is not None

    def test_slot_is_free_after_its_lease(self, slots: RequestSlots) -> None:
        """A killed environment does not free its slot, so the slot's lease must expire."""
        assert slots.take(Kind.POLL, "a", 1, now_ms=NOW, until_ms=LATER) is not None
        assert slots.take(Kind.POLL, "a", 1, now_ms=LATER - 1, until_ms=LATER + 1) is None
        assert slots.take(Kind.POLL, "a", 1, now_ms=LATER, until_ms=LATER + 29_000) is not None

    def test_a_lapsed_slot_is_not_freed_for_its_next_owner(self, slots: RequestSlots) -> None:
        old = slots.take(Kind.POLL, "a", 1, now_ms=NOW, until_ms=LATER)
        assert old is not None
        assert slots.take(Kind.POLL, "a", 1, now_ms=LATER, until_ms=LATER + 29_000) is not None
        slots.free(old)
        assert slots.take(Kind.POLL, "a", 1, now_ms=LATER, until_ms=LATER + 29_000) is None

    def test_polls_of_many_environments_share_the_limit(self, slots: RequestSlots) -> None:
        together = Barrier(8, timeout=30)

        def poll(_: int) -> bool:
            together.wait()
            return slots.take(Kind.POLL, "a", 3, now_ms=NOW, until_ms=LATER) is not None

        with ThreadPoolExecutor(8) as environments:
            assert sum(environments.map(poll, range(8))) == 3

    def test_slots_taken_before_count_towards_a_lower_limit(self, slots: RequestSlots) -> None:
        for _ in range(3):
            assert slots.take(Kind.POLL, "a", 3, now_ms=NOW, until_ms=LATER) is not None
        assert slots.take(Kind.POLL, "a", 1, now_ms=NOW, until_ms=LATER) is None
        assert slots.take(Kind.POLL, "a", 0, now_ms=NOW, until_ms=LATER) is None
