"""The consumer applies change events in order of version, handles each item's result, and switches generations."""

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from masscomm.cdc.change_events import ChangeDecoder, RowsChanged, rows_of
from masscomm.domain.time_limits import DATABASE_CLOCK_STEP_MS, GENERATION_LAG_MS
from masscomm.errors import Retry
from masscomm.kafka.event import KafkaRecord
from tests.support.fakes.opensearch import FakeOpenSearch
from tests.support.harness.cdc_consumer import Consumer
from tests.support.inputs.debezium_records import heartbeat, notification, record, row, truncate
from tests.support.inputs.table_histories import History, histories

TABLES = ("users", "user_settings", "devices", "notification_templates")


def user(number: int, name: str = "a") -> dict[str, Any]:
    return {"id": number, "club_id": 1, "first_name": name, "time_zone": None}


def test_streamed_row_wins_over_the_snapshot_for_any_lsns() -> None:
    consumer = Consumer()
    consumer.run(row("users", "u", 50, user(1, "streamed")))
    consumer.run(row("users", "r", 900, user(1, "snapshot")))
    assert consumer.cluster.rows("users-g1")["1"]["first_name"] == "streamed"


def test_row_is_written_once_a_batch_by_its_newest_change() -> None:
    consumer = Consumer()
    assert consumer.run(*(row("users", "u", lsn, user(1, str(lsn))) for lsn in (30, 10, 40, 20))) == []
    assert consumer.cluster.bulk_requests == 1
    assert consumer.cluster.rows("users-g1")["1"]["first_name"] == "40"
    assert consumer.run(row("users", "u", 35, user(1, "old"))) == []
    assert consumer.cluster.rows("users-g1")["1"]["first_name"] == "40"


class TwoTables:
    """Decodes each row of the topic of users as a row of users and of user_settings."""

    def __init__(self, decoder: ChangeDecoder) -> None:
        self._decoder = decoder

    def decode(self, record: KafkaRecord) -> RowsChanged:
        (row,) = rows_of(self._decoder.decode(record))
        return RowsChanged(rows=(row, replace(row, table="user_settings")))


def test_row_for_two_tables_is_written_to_both(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = Consumer()
    monkeypatch.setattr(consumer.use_case, "_decoder", TwoTables(ChangeDecoder("g1")))
    assert consumer.run(row("users", "u", 20, user(1, "a")), row("users", "u", 30, user(1, "b"))) == []
    assert consumer.cluster.rows("users-g1")["1"]["first_name"] == "b"
    assert consumer.cluster.rows("user_settings-g1")["1"]["first_name"] == "b"
    assert consumer.run(row("users", "d", 40, None, user(1))) == []
    assert consumer.cluster.rows("users-g1") == consumer.cluster.rows("user_settings-g1") == {}


def test_row_for_two_tables_fails_if_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = Consumer()
    monkeypatch.setattr(consumer.use_case, "_decoder", TwoTables(ChangeDecoder("g1")))
    consumer.cluster.refuse["user_settings-g1", "1"] = (400, "mapper_parsing_exception")
    assert consumer.run(row("users", "u", 20, user(1, "a"))) == []
    assert consumer.cluster.rows("users-g1")["1"]["first_name"] == "a"
    assert [topic for topic, *_ in consumer.producer.produced] == ["dead-letter"]


def test_deleted_row_stays_deleted_after_older_changes() -> None:
    consumer = Consumer()
    consumer.run(row("users", "d", 40, None, user(1)), record("users", {"id": 1}, None))
    consumer.run(row("users", "u", 30, user(1)))
    assert consumer.cluster.rows("users-g1") == {}
    assert consumer.cluster.documents["users-g1", "1"] == (40, {"deleted": True, "deleted_at_ms": 1_700_000_000_123})


def test_device_document_has_its_commit_time() -> None:
    consumer = Consumer()
    consumer.run(row("devices", "c", 40, {"id": 1, "user_id": 2, "token": "t", "platform": "gcm"}))
    assert consumer.cluster.rows("devices-g1")["1"]["changed_at_ms"] == 1_700_000_000_123


def test_refused_document_is_dead_lettered_alone() -> None:
    """OpenSearch keeps the previous version of a document whose new version it refuses."""
    consumer = Consumer()
    bad = row("users", "u", 20, user(1, "bad"))
    cluster = consumer.cluster

    class Refusing(FakeOpenSearch):
        def _write(self, place: tuple[str, str], version: int, source: dict[str, Any]) -> int:
            return 400 if source.get("first_name") == "bad" else super()._write(place, version, source)

    cluster.__class__ = Refusing
    assert consumer.run(row("users", "c", 10, user(1, "good")), bad, row("users", "c", 15, user(2, "other"))) == []
    assert {n: d["first_name"] for n, d in cluster.rows("users-g1").items()} == {"1": "good", "2": "other"}
    ((topic, key, value, headers),) = consumer.producer.produced
    assert (topic, key, value) == ("dead-letter", bad.key, bad.value)
    assert dict(headers)["masscomm.reason"] == b"unmappable"
    assert dict(headers)["masscomm.source.offset"] == str(bad.offset).encode()


@pytest.mark.kills(guard="opensearch.closed_index")
@pytest.mark.parametrize("refusal", [(429, "busy"), (503, "busy"), (400, "index_closed_exception")])
def test_transiently_refused_document_is_redelivered_alone(refusal: tuple[int, str]) -> None:
    consumer = Consumer()
    consumer.cluster.refuse["users-g1", "1"] = refusal
    busy = row("users", "c", 10, user(1))
    assert consumer.run(busy, row("users", "c", 11, user(2))) == [busy.offset]
    assert not consumer.producer.produced
    assert consumer.cluster.rows("users-g1").keys() == {"2"}


@pytest.mark.parametrize(
    "value",
    [
        b"\xff",
        b"[]",
        b"{}",
        b'{"op": "x", "source": {}}',
        b'{"op": "u", "source": {"lsn": null, "ts_ms": 1}, "after": {}}',
    ],
)
def test_malformed_envelope_is_dead_lettered_alone(value: bytes) -> None:
    consumer = Consumer()
    good = row("users", "c", 10, user(1))
    bad = KafkaRecord(topic=good.topic, partition=0, offset=10**6, timestamp_ms=1, key=b'{"id": 1}', value=value)
    assert consumer.run(bad, good) == []
    assert [dict(p[3])["masscomm.reason"] for p in consumer.producer.produced] == [b"undecodable"]
    assert consumer.cluster.rows("users-g1").keys() == {"1"}


def template(number: int, body: str, **columns: Any) -> dict[str, Any]:
    usual = {"id": number, "club_id": 7, "type": "news", "channel": "push", "locale": "en", "title": "t", "html": None}
    return usual | {"body": body} | columns


@pytest.mark.kills(guard="templates.saved_template")
@pytest.mark.parametrize("body", ["{{", "{{ usr.first_name }}", "{% set a = 1 %}", "{{ data.__class__.x }}"])
def test_template_that_cannot_be_rendered_is_dead_lettered(body: str) -> None:
    """The previous version stays in use, and the other rows of the batch are written."""
    consumer = Consumer()
    consumer.run(row("notification_templates", "c", 10, template(1, "good")))
    bad = row("notification_templates", "u", 20, template(1, body))
    assert consumer.run(bad, row("users", "c", 21, user(1))) == []
    assert consumer.cluster.rows("notification_templates-g1")["1"]["body"] == "good"
    assert consumer.cluster.rows("users-g1").keys() == {"1"}
    ((topic, key, value, headers),) = consumer.producer.produced
    assert (topic, key, value) == ("dead-letter", bad.key, bad.value)
    assert dict(headers)["masscomm.reason"] == b"invalid"
    assert dict(headers)["masscomm.error"].startswith(b"the template 1 cannot be rendered: body: ")


@pytest.mark.parametrize(
    ("url", "stored"), [("http://a", None), ("riverside://a/{{ data.b }}", "riverside://a/{{ data.b }}")]
)
def test_template_with_an_invalid_link_is_dead_lettered(url: str, stored: str | None) -> None:
    consumer = Consumer()
    assert consumer.run(row("notification_templates", "c", 10, template(1, "good", url=url))) == []
    assert consumer.cluster.rows("notification_templates-g1").get("1", {}).get("url") == stored
    assert bool(consumer.producer.produced) == (stored is None)


def test_corrected_template_in_the_same_batch_is_written() -> None:
    consumer = Consumer()
    changes = [row("notification_templates", "u", lsn, template(1, body)) for lsn, body in ((10, "{{"), (20, "good"))]
    assert consumer.run(*changes) == []
    assert consumer.cluster.rows("notification_templates-g1")["1"]["body"] == "good"
    assert len(consumer.producer.produced) == 1


def test_template_that_does_not_compile_can_be_deleted() -> None:
    consumer = Consumer()
    consumer.run(row("notification_templates", "c", 10, template(1, "good")))
    consumer.run(row("notification_templates", "d", 20, None, template(1, "{{")))
    assert consumer.cluster.rows("notification_templates-g1") == {}


def test_template_of_an_unknown_channel_is_stored() -> None:
    consumer = Consumer()
    assert consumer.run(row("notification_templates", "c", 10, template(1, "{{", channel="fax"))) == []
    assert consumer.cluster.rows("notification_templates-g1").keys() == {"1"}
    assert consumer.producer.produced == []


def test_jsonb_is_parsed_and_unmapped_columns_are_dropped() -> None:
    consumer = Consumer()
    after = {"user_id": 1, "channels": '{"push": false}', "categories": "{}", "quiet_hours": None, "secret": "x"}
    consumer.run(row("user_settings", "c", 10, after, key="user_id"))
    assert consumer.cluster.rows("user_settings-g1")["1"] == {
        "user_id": 1, "channels": {"push": False}, "categories": {}, "quiet_hours": None,
    }  # fmt: skip


def test_unchanged_large_value_is_copied_from_the_old_row() -> None:
    consumer = Consumer()
    names = {"id": 1, "club_id": 7, "type": "a", "channel": "push", "locale": "en", "title": "t"}
    after = {**names, "body": "__debezium_unavailable_value"}
    consumer.run(row("notification_templates", "u", 10, after, {**after, "body": "long"}))
    assert consumer.cluster.rows("notification_templates-g1")["1"]["body"] == "long"
    consumer.run(row("notification_templates", "u", 20, after))
    assert consumer.cluster.rows("notification_templates-g1")["1"]["body"] == "long"
    assert len(consumer.producer.produced) == 1


def test_directory_position_never_decreases() -> None:
    consumer = Consumer()
    consumer.run(heartbeat(20, "1700000002.5"), heartbeat(10, "1700000001"), heartbeat(99, "x", prefix="another's"))
    consumer.run(heartbeat(15, "1700000001.5"))
    assert consumer.cluster.documents["directory_state", "position-g1"][1] == {"lsn": 20, "ts_ms": 1_700_000_002_500}


@pytest.mark.kills(guard="directory.database_clock_ahead")
def test_position_is_no_later_than_its_record() -> None:
    """With a database's clock that is ahead, the directory would be complete before it has the latest users."""
    consumer = Consumer()
    consumer.run(heartbeat(20, "1700000600", produced_ms=1_700_000_000_040))
    assert consumer.cluster.documents["directory_state", "position-g1"][1] == {"lsn": 20, "ts_ms": 1_700_000_000_040}


def complete(consumer: Consumer) -> None:
    consumer.progress.ends = consumer.progress.committed = {"cdc.g1.public.users": {0: 5}}
    consumer.progress.lsn = 100
    consumer.run(notification("STARTED"), notification("COMPLETED", "b"), heartbeat(1, "1"))


def test_generation_is_served_once_its_snapshot_is_consumed() -> None:
    consumer = Consumer()
    consumer.progress.ends = {"cdc.g1.public.users": {0: 5, 1: 0}}
    consumer.run(notification("STARTED"), heartbeat(1, "1"))
    assert consumer.state().get("complete") is None
    consumer.run(notification("COMPLETED", "b"))
    assert "targets" not in consumer.state(), "rows may still be in Debezium's producer"
    consumer.progress.ends = {"cdc.g1.public.users": {0: 9, 1: 0}}
    consumer.progress.lsn = 100
    consumer.run(heartbeat(2, "2"))
    assert consumer.state()["targets"] == {"cdc.g1.public.users": {"0": 9, "1": 0}}
    consumer.progress.committed = {"cdc.g1.public.users": {0: 8}}
    consumer.run(heartbeat(3, "3"))
    assert not consumer.state().get("complete")
    assert consumer.cluster.aliases == {}
    consumer.progress.committed = {"cdc.g1.public.users": {0: 9}}
    consumer.run(heartbeat(4, "4"))
    assert consumer.state()["complete"] is True
    assert consumer.cluster.refreshed == ["users-g1,user_settings-g1,devices-g1,notification_templates-g1"]
    assert consumer.cluster.aliases == {table: {f"{table}-g1"} for table in TABLES}
    assert len(consumer.cluster.alias_calls) == 1, "look-ups must never see tables of two generations"


def test_interrupted_step_is_repeated() -> None:
    consumer = Consumer()
    complete(consumer)
    # the state after a crash between writing the marker of a complete snapshot and setting the aliases
    consumer.cluster.aliases.clear()
    Consumer(consumer).run(heartbeat(5, "5"))
    assert consumer.cluster.aliases == {table: {f"{table}-g1"} for table in TABLES}


@pytest.mark.kills(guard="directory.later_generation")
def test_restarted_old_generation_keeps_the_later_aliases() -> None:
    consumer = Consumer()
    complete(consumer)
    later = {"complete": True, "created_at": 1_900_000_000_000, "snapshot_completed_at": 1}
    consumer.cluster.documents["directory_state", "generation-g2"] = 0, later
    consumer.cluster.aliases = {table: {f"{table}-g2"} for table in TABLES}
    Consumer(consumer).run(heartbeat(5, "5"))
    assert consumer.cluster.aliases == {table: {f"{table}-g2"} for table in TABLES}


def test_two_generations_are_fed_each_its_own_indices() -> None:
    consumer = Consumer()
    rows = row("users", "u", 50, user(1, "old")), row("users", "r", 90, user(1, "new"), generation="g2")
    assert consumer.run(*rows, row("users", "u", 60, user(1, "older"))) == []
    assert consumer.cluster.rows("users-g1")["1"]["first_name"] == "older"
    assert consumer.cluster.rows("users-g2")["1"]["first_name"] == "new"


class Replacement:
    """A consumer of the generations g1 and g2: g2's snapshot is complete, and the aliases still point to g1."""

    def __init__(self) -> None:
        self.consumer = Consumer()
        complete(self.consumer)
        self.clock, self.progress = self.consumer.clock, self.consumer.newer
        self.clock.advance(1)
        self.consumer.run(
            notification("STARTED", "b", generation="g2"), notification("COMPLETED", "b", generation="g2")
        )

    def topics(self, *, lsn: int, end: int, committed: int) -> None:
        """Set g2's positions in Kafka: Connect's stored LSN, and the end and the committed offset of a topic."""
        self.progress.lsn = lsn
        self.progress.ends = {"cdc.g2.public.users": {0: end}}
        self.progress.committed = {"cdc.g2.public.users": {0: committed}}

    def beat(self, lsn: int, *, age_s: float = 0) -> None:
        """Consume a heartbeat that the database wrote `age_s` seconds ago."""
        written_ms = self.clock.now_ms() - int(age_s * 1000)
        self.consumer.run(heartbeat(lsn, f"{written_ms / 1000:.3f}", generation="g2"))

    @property
    def answers(self) -> str:
        (name,) = {index.rpartition("-")[2] for indices in self.consumer.cluster.aliases.values() for index in indices}
        return name


@pytest.mark.guarantee("directory.alias_moves_when_caught_up")
@pytest.mark.kills(guard="directory.generation_behind")
def test_aliases_move_to_a_generation_that_is_not_behind() -> None:
    """Look-ups use g1 until g2 has caught up: otherwise they would miss the latest opt-outs and new users."""
    newer = Replacement()
    newer.topics(lsn=100, end=9, committed=8)
    newer.beat(100)
    newer.topics(lsn=100, end=20, committed=9)
    newer.clock.advance(GENERATION_LAG_MS / 1000 + 1)
    newer.beat(101)  # the consumer has reached an end that was read too long ago
    newer.topics(lsn=101, end=20, committed=19)
    newer.beat(102)
    assert newer.answers == "g1"
    newer.topics(lsn=102, end=20, committed=20)
    newer.beat(103)
    newer.beat(104)
    assert newer.answers == "g2"
    Consumer(newer.consumer).run(heartbeat(500, "1700000009"))
    assert newer.answers == "g2"


@pytest.mark.guarantee("directory.alias_moves_when_caught_up")
@pytest.mark.kills(guard="directory.generation_streamed")
def test_aliases_wait_for_changes_not_streamed_yet() -> None:
    """After a long snapshot Debezium is hours behind the WAL, although the consumer has read every record."""
    newer = Replacement()
    newer.topics(lsn=100, end=9, committed=9)
    for lsn in range(100, 110):
        newer.topics(lsn=lsn, end=lsn, committed=lsn)
        newer.beat(lsn, age_s=3_600)
        newer.clock.advance(1)
    assert newer.answers == "g1"
    for lsn in range(110, 114):
        newer.topics(lsn=lsn, end=lsn, committed=lsn)
        newer.beat(lsn)
        newer.clock.advance(1)
    assert newer.answers == "g2"


@pytest.mark.kills(guard="directory.generation_written")
def test_aliases_wait_for_changes_debezium_has_not_written() -> None:
    """Debezium may produce a heartbeat before earlier rows, so it counts once Connect has stored a later position."""
    newer = Replacement()
    newer.topics(lsn=100, end=9, committed=9)
    for lsn in range(101, 106):
        newer.beat(lsn)
        newer.clock.advance(1)
    assert newer.answers == "g1"
    newer.topics(lsn=101, end=12, committed=11)
    newer.beat(106)
    assert newer.answers == "g1"
    newer.topics(lsn=101, end=12, committed=12)
    newer.beat(107)
    assert newer.answers == "g2"


@pytest.mark.parametrize("why", [truncate("devices", 500), notification("STARTED", "another")])
def test_event_that_needs_a_rebuild_stops_look_ups(why: KafkaRecord) -> None:
    consumer = Consumer()
    complete(consumer)
    assert consumer.run(why) == []
    assert consumer.state()["complete"] is False
    assert consumer.state()["rebuild_reason"]
    assert not any(consumer.cluster.aliases.values())
    again = Consumer(consumer)
    again.run(notification("COMPLETED", "b"), heartbeat(9, "9"))
    assert not any(consumer.cluster.aliases.values())


@pytest.mark.kills(guard="directory.other_write_ahead_log")
@pytest.mark.parametrize("restarted", [False, True])
def test_write_ahead_log_that_begins_again_needs_a_rebuild(restarted: bool) -> None:
    """After a failover without the last transactions, new rows have versions below those of the indices."""
    consumer = Consumer()
    complete(consumer)
    consumer.run(heartbeat(9_000, "1000"))
    assert consumer.run(heartbeat(8_000, "1001"), heartbeat(8_500, "900")) == []
    assert consumer.state()["complete"], "redelivered heartbeats, and those of two connectors"
    after = Consumer(consumer) if restarted else consumer
    step_s = DATABASE_CLOCK_STEP_MS // 1_000
    assert after.run(heartbeat(8_001, f"{1_001 + step_s}"), heartbeat(8_002, f"{1_002 + step_s}")) == []
    assert after.state()["rebuild_reason"] == "the write-ahead log fell from 9000 to 8002"
    assert not any(consumer.cluster.aliases.values())


def test_kafka_outage_delays_no_row() -> None:
    consumer = Consumer()
    consumer.run(notification("COMPLETED"))

    def down() -> int:
        raise Retry("Kafka is down")

    consumer.progress.acknowledged_lsn = down  # type: ignore[method-assign]
    assert consumer.run(row("users", "c", 10, user(1))) == []
    assert consumer.cluster.rows("users-g1")


@pytest.mark.guarantee("directory.converges")
@given(history=histories(), seed=st.integers())
@settings(max_examples=200)
def test_any_order_of_changes_converges_to_the_table(history: History, seed: int) -> None:
    consumer = Consumer()
    for batch in history.deliveries(random.Random(seed)):  # noqa: S311
        assert consumer.run(*batch) == []
    found = {name: doc["first_name"] for name, doc in consumer.cluster.rows("users-g1").items()}
    assert found == history.table
