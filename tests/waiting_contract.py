"""What every store of waiting records does, whatever stands behind it."""

import hashlib
from dataclasses import replace
from typing import Any
from uuid import uuid4

from masscomm.waiting import CLAIM_S, Waiting, WaitingStore
from tests.chain import NOW

HOUR = 3_600_000


def waiting(due_ms: int = NOW, **values: Any) -> Waiting:
    """A record that waits."""
    usual: dict[str, Any] = {"id": str(uuid4()), "topic": "recheck", "value": b"v", "why": "send_at"}
    return Waiting(**usual | {"due_ms": due_ms} | values)


class WaitingStoreContract:
    """Subclasses give the fixture `store`, empty."""

    def test_what_is_put_is_due_in_its_time_and_whole(self, store: WaitingStore) -> None:
        now = waiting(NOW, headers=(("a", b"\xff"), ("a", b"")), topic="delivery.critical")
        later = waiting(NOW + 1)
        store.put(now, NOW - HOUR)
        store.put(later, NOW - HOUR)
        assert list(store.due(NOW - 1)) == []
        assert list(store.due(NOW)) == [now]
        assert {item.id for item in store.due(NOW + 1)} == {now.id, later.id}

    def test_nothing_is_missed_after_an_outage_of_any_length(self, store: WaitingStore) -> None:
        items = [waiting(NOW + minutes * 60_000) for minutes in (0, 1, 60, 7 * 24 * 60)]
        for item in items:
            store.put(item, NOW)
        assert {item.id for item in store.due(NOW + 30 * 24 * HOUR)} == {item.id for item in items}

    def test_what_is_put_too_late_is_due_at_once(self, store: WaitingStore) -> None:
        assert list(store.due(NOW)) == []
        late = waiting(NOW - 24 * HOUR)
        store.put(late, NOW)
        assert [item.id for item in store.due(NOW)] == [late.id]

    def test_the_same_thing_waits_once(self, store: WaitingStore) -> None:
        item = waiting(NOW + HOUR)
        store.put(item, NOW)
        assert store.claim(item, NOW)
        store.put(item, NOW + 1)
        assert not store.claim(item, NOW + 1)
        assert list(store.due(NOW + HOUR)) == [item]

    def test_one_sweep_has_it_until_its_claim_lapses(self, store: WaitingStore) -> None:
        item = waiting()
        store.put(item, NOW)
        assert store.claim(item, NOW)
        assert not store.claim(item, NOW + CLAIM_S * 1000 - 1)
        assert store.claim(item, NOW + CLAIM_S * 1000)

    def test_what_is_done_is_gone_and_cannot_be_claimed(self, store: WaitingStore) -> None:
        item, other = waiting(), waiting()
        store.put(item, NOW)
        store.put(other, NOW)
        store.done(item)
        store.done(item)
        assert [each.id for each in store.due(NOW)] == [other.id]
        assert not store.claim(item, NOW)

    def test_what_comes_too_late_for_a_minute_that_is_closed_is_not_missed(self, store: WaitingStore) -> None:
        first = waiting(NOW)
        store.put(first, NOW)
        store.done(first)
        assert list(store.due(NOW + HOUR)) == []
        store.put(first, NOW + HOUR)
        assert list(store.due(NOW + HOUR)) == [replace(first, due_ms=NOW + HOUR)]

    def test_a_writer_whose_clock_is_behind_is_not_missed(self, store: WaitingStore) -> None:
        first = waiting(NOW)
        store.put(first, NOW)
        store.done(first)
        assert list(store.due(NOW + 120_000)) == []
        store.put(first, NOW)
        assert list(store.due(NOW + 120_000)) == [first]

    def test_a_large_record_is_kept_whole(self, store: WaitingStore) -> None:
        item = waiting(value=hashlib.shake_128(b"large").digest(900_000))
        store.put(item, NOW)
        assert list(store.due(NOW)) == [item]
        store.done(item)
        assert list(store.due(NOW)) == []
