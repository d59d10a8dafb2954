"""Rows whose deletion was compacted away before it was consumed are deleted, and no others."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from masscomm.cdc.change_events import ChangeDecoder, MissedDelete
from masscomm.cdc.changelogs import MARK
from masscomm.domain.time_limits import MISSED_DELETE_AGE_MS
from masscomm.errors import Retry
from masscomm.kafka.event import KafkaRecord
from tests.support.harness.cdc_consumer import Consumer
from tests.support.inputs.changelogs import Changelog
from tests.support.inputs.debezium_records import record, row
from tests.support.inputs.table_histories import History, histories


def late(before: Consumer | None = None) -> Consumer:
    """Return a consumer that was away for so long that the topics have lost deletions."""
    consumer = Consumer(before)
    consumer.clock.advance(MISSED_DELETE_AGE_MS / 1_000)
    return consumer


def saved(op: str, lsn: int, name: str = "a") -> KafkaRecord:
    columns: dict[str, Any] = {"id": 1, "club_id": 1, "first_name": name, "time_zone": None}
    return row("users", op, lsn, None, columns) if op == "d" else row("users", op, lsn, columns)


def tombstone() -> KafkaRecord:
    return record("users", {"id": 1}, None)


def names(consumer: Consumer) -> list[str]:
    return [each["first_name"] for each in consumer.cluster.rows("users-g1").values()]


@pytest.mark.kills(guard="cdc.missed_delete")
@pytest.mark.parametrize("before", [[], [saved("c", 10)], [saved("c", 10), saved("u", 20)]])
@pytest.mark.parametrize("batches", ["one", "two"])
def test_tombstone_without_its_delete_deletes(before: Sequence[KafkaRecord], batches: str) -> None:
    consumer = late()
    if batches == "two":
        assert consumer.run(*before) == []
        before = []
    assert consumer.run(*before, tombstone()) == []
    assert names(consumer) == []


@pytest.mark.parametrize("op", ["c", "u"])
def test_row_inserted_again_stays(op: str) -> None:
    consumer = late()
    consumer.run(saved("c", 10))
    assert consumer.run(tombstone(), saved(op, 30, "new")) == []
    assert names(consumer) == ["new"]


def test_repeated_insert_after_a_tombstone_stays() -> None:
    """Debezium has repeated a delete and an insert that are already known, and the delete was compacted away."""
    consumer = late()
    consumer.run(saved("c", 30, "new"))
    assert consumer.run(tombstone()) == []
    assert consumer.run(saved("c", 30, "new")) == []
    assert names(consumer) == ["new"]


@pytest.mark.kills(guard="cdc.young_tombstone")
def test_young_tombstone_deletes_no_row() -> None:
    """Its delete is in the topic, so it was consumed, here before a restart. The row was inserted again."""
    consumer = Consumer()
    consumer.run(saved("c", 30, "new"), saved("d", 20))
    assert Consumer(consumer).run(tombstone()) == []
    assert names(consumer) == ["new"]


@pytest.mark.kills(guard="cdc.delete_before_tombstone")
def test_tombstone_after_its_repeated_delete_deletes_no_row() -> None:
    consumer = late()
    consumer.run(saved("c", 30, "new"))
    assert consumer.run(saved("d", 20), tombstone()) == []
    assert names(consumer) == ["new"]


@pytest.mark.kills(guard="cdc.consumed_before")
def test_old_record_that_was_consumed_before_is_ignored() -> None:
    consumer = late()
    first, deleted, again = saved("c", 10), tombstone(), saved("c", 30, "new")

    def consumed(*records: KafkaRecord) -> None:
        assert consumer.run(*records) == []
        consumer.progress.committed = {deleted.topic: {0: records[-1].offset + 1}}

    consumed(first)
    consumed(deleted)
    assert consumer.run(first) == []
    assert names(consumer) == []
    consumed(again)
    assert consumer.run(deleted) == []
    assert names(consumer) == ["new"]


@pytest.mark.kills(guard="cdc.row_after_missed_delete")
def test_row_inserted_again_waits_for_the_tombstone() -> None:
    """If only the tombstone were redelivered, it would delete the new row."""
    consumer = late()
    consumer.run(saved("c", 10))
    mget = consumer.cluster.mget

    def busy(**_: Any) -> Any:
        return {"docs": [{"_index": "users-g1", "_id": "1", "error": "no shard"}]}

    consumer.cluster.mget = busy  # type: ignore[method-assign]
    batch = [tombstone(), saved("c", 30, "new")]
    assert consumer.run(*batch) == [each.offset for each in batch]
    consumer.cluster.mget = mget  # type: ignore[method-assign]
    assert consumer.run(*batch) == []
    assert names(consumer) == ["new"]


def test_old_records_wait_for_the_consumed_offsets() -> None:
    consumer = late()

    def down() -> Any:
        raise Retry("Kafka is down")

    consumer.progress.committed_offsets = down  # type: ignore[method-assign]
    old = saved("c", 10)
    assert consumer.run(old) == [old.offset]


def test_mark_of_a_changelog_deletes_no_row() -> None:
    consumer = late()
    assert consumer.run(tombstone()._replace(key=MARK)) == []
    assert consumer.producer.produced == []


def test_tombstone_without_the_key_of_a_row_is_dead_lettered() -> None:
    consumer = late()
    assert consumer.run(tombstone()._replace(key=b'{"id": "x"}')) == []
    assert [dict(headers)["masscomm.reason"] for *_, headers in consumer.producer.produced] == [b"undecodable"]


class TwoTables:
    """Decodes each tombstone of users as one of users and of user_settings, which derive from the same table."""

    def __init__(self, decoder: ChangeDecoder) -> None:
        self._decoder = decoder

    def decode(self, record: KafkaRecord) -> MissedDelete:
        change = self._decoder.decode(record)
        assert isinstance(change, MissedDelete)
        return replace(change, tables=("users", "user_settings"))


def test_missed_delete_deletes_the_rows_of_each_table(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = late()
    settings = {"user_id": 1, "channels": None, "categories": None, "quiet_hours": None}
    consumer.run(saved("c", 10), row("user_settings", "c", 11, settings, key="user_id"))
    monkeypatch.setattr(consumer.use_case, "_decoder", TwoTables(ChangeDecoder("g1", clock=consumer.clock)))
    assert consumer.run(tombstone()) == []
    assert consumer.cluster.rows("users-g1") == consumer.cluster.rows("user_settings-g1") == {}


@pytest.mark.kills(guard="preferences.missed_delete")
def test_missed_delete_of_settings_keeps_their_version() -> None:
    """A change of preferences that the deleted row had does not apply again."""
    consumer = late()
    columns = {"user_id": 1, "channels": None, "categories": None, "quiet_hours": None, "preference_version": 7}
    consumer.run(row("user_settings", "c", 10, columns, key="user_id"))
    deleted = record("user_settings", {"user_id": 1}, None)
    assert consumer.run(deleted) == []
    mark = {"deleted": True, "deleted_at_ms": deleted.timestamp_ms, "preference_version": 7}
    assert consumer.cluster.documents["user_settings-g1", "1"] == (10, mark)


@pytest.mark.guarantee("directory.converges_from_compacted_topics")
@given(history=histories(), seed=st.integers())
@settings(max_examples=200, deadline=None)
def test_compacted_topic_converges_under_redelivery(history: History, seed: int) -> None:
    """The topic is compacted while it is consumed. Writes fail, and batches are delivered again, also out of order."""
    chance = random.Random(seed)  # noqa: S311
    topic, consumer, position = Changelog(history, chance), late(), 0
    batches: list[list[KafkaRecord]] = []
    while batch := topic.read(position, chance.randint(1, 6)):
        consumer = Consumer(consumer) if chance.random() < 0.3 else consumer
        if chance.random() < 0.3:
            consumer.cluster.refuse["users-g1", str(chance.randint(1, 4))] = (429, "busy")
        failed = consumer.run(*batch)
        consumer.cluster.refuse.clear()
        if failed:
            # Either only the failed records come again, or all from the first one.
            only_failed = chance.random() < 0.5
            again = [each for each in batch if each.offset in failed or (not only_failed and each.offset > failed[0])]
            assert consumer.run(*again) == []
        batches.append(batch)
        if chance.random() < 0.8:
            position = batch[-1].offset + 1
            consumer.progress.committed = {topic.topic: {0: position}}
        if chance.random() < 0.5:
            topic.compact()
        if chance.random() < 0.3:
            assert consumer.run(*chance.choice(batches)) == []
    assert {number: each["first_name"] for number, each in consumer.cluster.rows("users-g1").items()} == history.table
