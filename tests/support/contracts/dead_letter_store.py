"""The tests that every store of dead letters must pass, in memory and real."""

from collections.abc import Callable, Sequence

import pytest

from masscomm.operations.dead_letter_store import DeadLetterStore
from masscomm.operations.dead_letters import DeadLetter

# Returns a store with one dead letter for each value, at the offsets 0, 1, …; their source topic can be replayed to.
type Made = Callable[[Sequence[bytes]], DeadLetterStore]


def values(store: DeadLetterStore, *, limit: int = 10, before: int | None = None) -> list[bytes]:
    return list(store.page(lambda letter: letter.value, before=before, limit=limit, budget_s=30).rows)


def found(store: DeadLetterStore, position: str) -> DeadLetter:
    letter = store.find(position)
    assert letter is not None
    return letter


class DeadLetterStoreContract:
    """Subclasses define the fixture `made`."""

    def test_the_latest_letters_come_first(self, made: Made) -> None:
        assert values(made([b"one", b"two", b"three"])) == [b"three", b"two", b"one"]

    def test_a_topic_without_letters_has_an_empty_page(self, made: Made) -> None:
        store = made([])
        assert (values(store), store.open_count(), store.find("0@0")) == ([], 0, None)

    def test_pages_continue_before_an_offset(self, made: Made) -> None:
        store, read, before = made([b"%d" % number for number in range(5)]), list[bytes](), None
        for _ in range(3):
            page = store.page(lambda letter: letter.value, before=before, limit=2, budget_s=30)
            read += page.rows
            before = page.before
        assert (read, before) == ([b"4", b"3", b"2", b"1", b"0"], None)

    def test_only_chosen_letters_are_on_a_page(self, made: Made) -> None:
        store = made([b"a", b"b", b"a", b"b"])
        page = store.page(
            lambda letter: letter.value if letter.value == b"a" else None, before=None, limit=5, budget_s=9
        )
        assert (list(page.rows), page.before) == ([b"a", b"a"], None)

    def test_a_letter_is_found_by_its_position(self, made: Made) -> None:
        store = made([b"one", b"two"])
        assert found(store, "0@1").value == b"two"
        for position in ("0@2", "1@0", "0@-1", "0@", "", "x", "0@1 ", "0@99999999999999999999"):
            assert store.find(position) is None

    def test_a_letter_is_replayed_once(self, made: Made) -> None:
        store = made([b"one", b"two"])
        assert (store.open_count(), dict(store.marks())) == (2, {})
        assert store.replay(found(store, "0@0"), operator="ada").ok
        repeated = store.replay(found(store, "0@0"), operator="bob")
        assert (repeated.ok, "already replayed" in repeated.message) == (False, True)
        refused = store.discard(found(store, "0@0"), "over", operator="bob")
        assert (refused.ok, "already replayed" in refused.message) == (False, True)
        (mark,) = store.marks().values()
        assert [(entry["status"], entry["by"]) for entry in mark.history] == [("replayed", "ada")]
        assert store.open_count() == 1

    @pytest.mark.kills(guard="dead_letters.repeated_request")
    def test_a_repeated_request_is_executed_once(self, made: Made) -> None:
        store = made([b"one"])
        for repeated in (False, True):
            done = store.replay(found(store, "0@0"), operator="ada", request="r1")
            assert (done.ok, done.repeated) == (True, repeated)
        for request in ("r2", ""):
            assert not store.replay(found(store, "0@0"), operator="ada", request=request).ok
        (mark,) = store.marks().values()
        assert len(mark.history) == 1

    def test_a_discarded_letter_keeps_its_reason(self, made: Made) -> None:
        store = made([b"one"])
        assert store.discard(found(store, "0@0"), "over", operator="ada").ok
        assert not store.replay(found(store, "0@0"), operator="ada").ok
        assert [(entry["status"], entry["why"]) for entry in store.marks()["0@0"].history] == [("discarded", "over")]
        assert store.open_count() == 0
