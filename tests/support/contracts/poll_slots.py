"""The tests that every store of poll slots must pass, in memory and real."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from functions.metrics_handler.store.poll_slots import PollSlots

NOW = 1_700_000_000_000
LATER = NOW + 29_000


class PollSlotsContract:
    """Subclasses define the fixture `slots`, an empty store."""

    def test_a_key_has_as_many_slots_as_its_limit(self, slots: PollSlots) -> None:
        taken = [slots.take("a", 3, now_ms=NOW, until_ms=LATER) for _ in range(4)]
        assert taken[3] is None
        assert {slot.number for slot in taken if slot is not None} == {0, 1, 2}
        assert slots.take("b", 3, now_ms=NOW, until_ms=LATER) is not None

    def test_a_freed_slot_can_be_taken_again(self, slots: PollSlots) -> None:
        first = slots.take("a", 1, now_ms=NOW, until_ms=LATER)
        assert first is not None
        assert slots.take("a", 1, now_ms=NOW, until_ms=LATER) is None
        slots.free(first)
        assert slots.take("a", 1, now_ms=NOW, until_ms=LATER) is not None

    def test_slot_is_free_after_its_lease(self, slots: PollSlots) -> None:
        """A killed environment does not free its slot, so the slot's lease must expire."""
        assert slots.take("a", 1, now_ms=NOW, until_ms=LATER) is not None
        assert slots.take("a", 1, now_ms=LATER - 1, until_ms=LATER + 1) is None
        assert slots.take("a", 1, now_ms=LATER, until_ms=LATER + 29_000) is not None

    def test_a_lapsed_slot_is_not_freed_for_its_next_owner(self, slots: PollSlots) -> None:
        old = slots.take("a", 1, now_ms=NOW, until_ms=LATER)
        assert old is not None
        assert slots.take("a", 1, now_ms=LATER, until_ms=LATER + 29_000) is not None
        slots.free(old)
        assert slots.take("a", 1, now_ms=LATER, until_ms=LATER + 29_000) is None

    def test_polls_of_many_environments_share_the_limit(self, slots: PollSlots) -> None:
        together = Barrier(8, timeout=30)

        def poll(_: int) -> bool:
            together.wait()
            return slots.take("a", 3, now_ms=NOW, until_ms=LATER) is not None

        with ThreadPoolExecutor(8) as environments:
            assert sum(environments.map(poll, range(8))) == 3

    def test_slots_taken_before_count_towards_a_lower_limit(self, slots: PollSlots) -> None:
        for _ in range(3):
            assert slots.take("a", 3, now_ms=NOW, until_ms=LATER) is not None
        assert slots.take("a", 1, now_ms=NOW, until_ms=LATER) is None
        assert slots.take("a", 0, now_ms=NOW, until_ms=LATER) is None
