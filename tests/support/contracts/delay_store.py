"""The tests that every delay store must pass, in memory and real."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from masscomm.domain.limits import MAX_RECORD_ID_BYTES
from masscomm.domain.sends import SendKey
from masscomm.domain.time_limits import CLAIM_S
from masscomm.observability.unreadable_items import UnreadableItem
from masscomm.stores.delayed_records.port import (
    ControlledSend,
    DelayedRecord,
    DelayStore,
    key_in,
    key_of,
    record_id_in,
    text_of_key,
)
from tests.support.harness.chain import NOW

HOUR = 3_600_000
MINUTE = 60_000


def delayed_record(due_ms: int = NOW, **values: Any) -> DelayedRecord:
    usual: dict[str, Any] = {"id": str(uuid4()), "topic": "recheck", "value": b"v", "delay_reason": "send_at"}
    return DelayedRecord(**usual | {"due_ms": due_ms} | values)


def incompressible(text: str, size: int = 900_000) -> bytes:
    return hashlib.shake_128(text.encode()).digest(size)


def due(store: DelayStore, now_ms: int) -> list[DelayedRecord | UnreadableItem]:
    return [*store.due(now_ms, critical=True), *store.due(now_ms, critical=False)]


def ids(found: Iterable[DelayedRecord | UnreadableItem]) -> list[str]:
    return [item.id for item in found if isinstance(item, DelayedRecord)]


class DelayStoreContract(ABC):
    """Subclasses define the fixture `store`, an empty delay store."""

    @abstractmethod
    def damage(self, store: Any, item: DelayedRecord) -> None:
        """Make the stored copy of a record unreadable."""

    def test_stored_record_is_due_at_its_time_and_whole(self, store: DelayStore) -> None:
        now = delayed_record(
            NOW,
            record_key="17",
            headers=(("a", b"\xff"), ("a", b""), ("\n", b"\n")),
            topic="delivery.critical",
            value=b"\n1",
        )
        later = delayed_record(NOW + 1)
        store.put(now, NOW - HOUR)
        store.put(later, NOW - HOUR)
        assert due(store, NOW - 1) == []
        assert due(store, NOW) == [now]
        assert set(ids(due(store, NOW + 1))) == {now.id, later.id}

    def test_copy_is_found_by_its_key_until_it_is_released(self, store: DelayStore) -> None:
        item = delayed_record(NOW + HOUR, value=incompressible("one"), headers=(("a", b"b"),))
        key = key_in(text_of_key(key_of(item)))
        assert (record_id_in(key), store.find(key)) == (item.id, None)
        store.put(item, NOW)
        assert store.find(key) == item
        store.done(item)
        assert store.find(key) is None
        store.put(item, NOW)
        self.damage(store, item)
        assert store.find(key) is None

    def test_records_due_during_a_long_outage_are_swept(self, store: DelayStore) -> None:
        items = [delayed_record(NOW + minutes * 60_000) for minutes in (0, 1, 60, 7 * 24 * 60)]
        for item in items:
            store.put(item, NOW)
        assert ids(due(store, NOW + 30 * 24 * HOUR)) == [item.id for item in items]

    def test_critical_copies_are_read_separately(self, store: DelayStore) -> None:
        bulk = [delayed_record(NOW + minutes * MINUTE) for minutes in range(3)]
        critical = [delayed_record(NOW + minutes * MINUTE, topic="recheck.critical") for minutes in (1, 3)]
        small = delayed_record(NOW, topic="recheck.small")
        for item in (*bulk, small, *critical):
            store.put(item, NOW)
        assert ids(store.due(NOW + HOUR, critical=True)) == [item.id for item in critical]
        assert set(ids(store.due(NOW + HOUR, critical=False))) == {item.id for item in (*bulk, small)}

    def test_record_stored_after_its_time_is_due_at_once(self, store: DelayStore) -> None:
        assert due(store, NOW) == []
        late = delayed_record(NOW - 24 * HOUR)
        store.put(late, NOW)
        assert ids(due(store, NOW)) == [late.id]

    @pytest.mark.kills(guard="delay_store.parts_of_a_copy")
    def test_repeated_put_stores_one_copy(self, store: DelayStore) -> None:
        item = delayed_record(NOW + HOUR, value=incompressible("first"))
        store.put(item, NOW)
        assert store.claim(item, NOW)
        store.put(replace(item, value=incompressible("second")), NOW + 1)
        assert not store.claim(item, NOW + 1)
        assert due(store, NOW + HOUR) == [item]

    @pytest.mark.guarantee("delay_store.copies_are_whole")
    @pytest.mark.parametrize("apart_ms", [1, MINUTE, 24 * HOUR])
    def test_put_for_another_time_each_copy_is_whole(self, store: DelayStore, apart_ms: int) -> None:
        first = delayed_record(NOW, value=incompressible("first"))
        second = replace(first, due_ms=NOW + apart_ms, value=incompressible("second"))
        store.put(first, NOW)
        store.put(second, NOW)
        assert due(store, NOW) == [first]
        assert due(store, NOW + apart_ms) == [first, second]
        assert store.claim(first, NOW)
        assert store.claim(second, NOW)
        store.done(first)
        assert due(store, NOW + apart_ms) == [second]
        store.done(second)
        assert due(store, NOW + apart_ms) == []

    def test_a_prepared_record_is_released_once_it_is_put(self, store: DelayStore) -> None:
        item = delayed_record(NOW - 1, value=incompressible("one"), headers=(("a", b"1"),), record_key="17")
        prepared = store.prepare(item, NOW)
        assert prepared.value == b""
        assert due(store, NOW + HOUR) == []
        store.put(prepared, NOW)
        assert due(store, NOW) == [replace(item, due_ms=NOW)]

    @pytest.mark.kills(guard="delay_store.put_again")
    @pytest.mark.parametrize(("topic", "times"), [("recheck", 1), ("webhook_outcome", 2)])
    def test_a_prepared_record_is_put_again(self, store: DelayStore, topic: str, times: int) -> None:
        """It is stored once, and not again after its release, except to RELEASED_AGAIN."""
        item = delayed_record(NOW, topic=topic, value=b"small")
        prepared = store.prepare(item, NOW)
        store.put_again(prepared, NOW + MINUTE)
        assert [each.value for each in due(store, NOW + MINUTE) if isinstance(each, DelayedRecord)] == [b"small"]
        for each in due(store, NOW + MINUTE):
            assert isinstance(each, DelayedRecord)
            store.done(each)
        first = store.prepare(item, NOW + HOUR)
        store.put(first, NOW + HOUR)
        store.put_again(first, NOW + HOUR + MINUTE)
        assert len(due(store, NOW + HOUR + MINUTE)) == 1
        for each in due(store, NOW + HOUR + MINUTE):
            assert isinstance(each, DelayedRecord)
            store.done(each)
        store.put_again(first, NOW + HOUR + MINUTE)
        assert len(due(store, NOW + HOUR + MINUTE)) == times - 1

    def test_copy_put_during_its_release_is_kept(self, store: DelayStore) -> None:
        """A consumer may store the record again before the sweep that released it has removed its copy."""
        item = delayed_record(NOW)
        store.put(item, NOW)
        assert store.claim(item, NOW)
        changed = replace(item, due_ms=NOW + 1_000)
        store.put(changed, NOW + 1)
        store.done(item)
        assert due(store, NOW + 1_000) == [changed]

    @pytest.mark.guarantee("delay_store.unreadable_item_is_skipped")
    def test_unreadable_copy_is_reported_and_hides_no_other(self, store: DelayStore) -> None:
        damaged, large = delayed_record(NOW), delayed_record(NOW, value=incompressible("large"))
        readable = [delayed_record(NOW) for _ in range(10)] + [delayed_record(NOW + MINUTE)]
        for item in (damaged, large, *readable):
            store.put(item, NOW)
        self.damage(store, damaged)
        self.damage(store, large)
        found = due(store, NOW + MINUTE)
        assert set(ids(found)) == {item.id for item in readable}
        named = [each for each in found if isinstance(each, UnreadableItem)]
        assert {each.key["id"].partition("#")[2] for each in named} == {damaged.id, large.id}
        assert all(each.error for each in named)

    def test_claimed_copy_is_claimable_after_the_claim_lapsed(self, store: DelayStore) -> None:
        item = delayed_record()
        store.put(item, NOW)
        assert store.claim(item, NOW)
        assert not store.claim(item, NOW + CLAIM_S * 1000 - 1)
        assert store.claim(item, NOW + CLAIM_S * 1000)

    def test_one_of_concurrent_claims_succeeds(self, store: DelayStore) -> None:
        item = delayed_record()
        store.put(item, NOW)
        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(lambda _: store.claim(item, NOW), range(8))) == 1

    def test_done_record_is_gone_and_cannot_be_claimed(self, store: DelayStore) -> None:
        item, other = delayed_record(), delayed_record()
        store.put(item, NOW)
        store.put(other, NOW)
        store.done(item)
        store.done(item)
        assert ids(due(store, NOW)) == [other.id]
        assert not store.claim(item, NOW)

    def test_record_stored_for_a_closed_minute_is_not_missed(self, store: DelayStore) -> None:
        first = delayed_record(NOW)
        store.put(first, NOW)
        store.done(first)
        assert due(store, NOW + HOUR) == []
        store.put(first, NOW + HOUR)
        assert due(store, NOW + HOUR) == [replace(first, due_ms=NOW + HOUR)]

    def test_record_of_a_writer_with_a_slow_clock_is_not_missed(self, store: DelayStore) -> None:
        first = delayed_record(NOW)
        store.put(first, NOW)
        store.done(first)
        assert due(store, NOW + 120_000) == []
        store.put(first, NOW)
        assert due(store, NOW + 120_000) == [first]

    def test_the_largest_record_and_headers_are_kept_whole(self, store: DelayStore) -> None:
        """A DynamoDB item holds 400 kB; value and headers of a Kafka record may each be larger."""
        headers = (("large", incompressible("headers", 500_000)),)
        item = delayed_record(value=incompressible("large", 1_000_000), headers=headers, id="i" * MAX_RECORD_ID_BYTES)
        store.put(item, NOW)
        assert due(store, NOW) == [item]
        store.done(item)
        assert due(store, NOW) == []

    def test_more_than_a_page_is_found(self, store: DelayStore) -> None:
        """A DynamoDB query returns at most 1 MB."""
        items = [delayed_record(value=incompressible(str(number), 300_000), id=f"{number}") for number in range(40)]
        for item in items:
            store.put(item, NOW)
        assert set(ids(due(store, NOW))) == {item.id for item in items}

    def test_copies_of_a_send_are_found_before_they_are_due(self, store: DelayStore) -> None:
        send, other = SendKey(7, "s"), SendKey(8, "s")
        waiting = delayed_record(NOW + 24 * HOUR, send=send, value=incompressible("waiting"))
        paused = delayed_record(NOW + HOUR, send=send, delay_reason="paused", topic="delivery.critical")
        for item in (waiting, paused, delayed_record(NOW, send=other), delayed_record(NOW)):
            store.put(item, NOW)
        assert sorted(ids(store.of_send(send))) == sorted([waiting.id, paused.id])
        assert list(store.of_send(send, "paused")) == [paused]
        [found] = store.of_send(send, "send_at")
        assert found == waiting
        assert isinstance(found, DelayedRecord)
        assert store.claim(found, NOW)
        store.done(found)
        assert ids(store.of_send(send)) == [paused.id]
        assert ids(due(store, NOW + 24 * HOUR)).count(waiting.id) == 0

    @pytest.mark.kills(guard="send_controls.hostile_delayed_record")
    @pytest.mark.parametrize("send_id", ["", "i" * 3_000])
    def test_a_record_of_a_hostile_send_is_stored(self, store: DelayStore, send_id: str) -> None:
        item = delayed_record(NOW, send=SendKey(7, send_id))
        store.put(item, NOW)
        assert ids(due(store, NOW)) == [item.id]

    @pytest.mark.kills(guard="send_controls.changed_again")
    def test_a_controlled_send_is_kept_until_it_is_done(self, store: DelayStore) -> None:
        """A sweep does not remove a send whose control has changed again meanwhile."""
        first, again = ControlledSend(SendKey(7, "s"), NOW), ControlledSend(SendKey(7, "s"), NOW + 1)
        other = ControlledSend(SendKey(77, "s"), NOW)
        assert list(store.controlled()) == []
        for each in (first, other, again):
            store.put_controlled(each)
        store.done_controlled(first)
        assert set(store.controlled()) == {again, other}
        store.done_controlled(again)
        store.done_controlled(again)
        assert list(store.controlled()) == [other]
        assert due(store, NOW + HOUR) == []


@pytest.mark.parametrize("item_id", ["", "é" * MAX_RECORD_ID_BYTES], ids=["empty", "long"])
def test_id_that_is_an_invalid_key_is_refused(item_id: str) -> None:
    with pytest.raises(ValueError, match="longer than"):
        delayed_record(id=item_id)
