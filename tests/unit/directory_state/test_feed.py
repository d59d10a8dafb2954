"""The store converges to the monolith's tables, from whole and from compacted topics."""

import random
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from directory_state.feed import Applier
from directory_state.generations import answering, state_of
from directory_state.store import Store, prepare, source_of
from masscomm.cdc.changelogs import MARK
from masscomm.directory import documents
from masscomm.directory.own_documents import SCHEMA, DocumentKey, OwnDocument, Version
from masscomm.domain.time_limits import DATABASE_CLOCK_STEP_MS, DIRECTORY_STATE_AGE_MS
from masscomm.kafka.avro import Codec, InMemorySchemaRegistry, own_schema
from masscomm.kafka.event import KafkaRecord
from masscomm.kafka.topics import DIRECTORY_DOCUMENT
from masscomm.observability import logs
from tests.support.harness.cdc_consumer import Consumer
from tests.support.inputs.changelogs import Changelog
from tests.support.inputs.debezium_records import heartbeat, notification, record, row, truncate
from tests.support.inputs.table_histories import History, histories

REGISTRY = InMemorySchemaRegistry()
REGISTRY.register(f"{DIRECTORY_DOCUMENT}-value", own_schema(SCHEMA))
CODEC = Codec(REGISTRY)


class Feed:
    """A store, and what applies records to it."""

    def __init__(self, folder: Path) -> None:
        prepare(folder, generations=["g1", "g2"], topic_ids={}, now_ms=0)
        self.store = Store(folder, writes=True)
        self.applier = Applier(["g1", "g2"], CODEC, logs.logger("directory_state"))

    def apply(self, *records: KafkaRecord) -> None:
        steps = [(each, self.applier.prepare(each)) for each in records]
        with self.store.writing() as writer:
            for each, step in steps:
                self.applier.apply(writer, each, step)

    def restart(self) -> None:
        self.applier = Applier(["g1", "g2"], CODEC, logs.logger("directory_state"))

    def rows(self, index: str = "users-g1") -> dict[str, Any]:
        """Return the sources of the documents that are not deleted, by id."""
        with self.store.reading() as reader:
            found = {str(number): source_of(value) for number, value in reader.rows(index, after=-(2**63))}
        return {number: source for number, source in found.items() if not source.get("deleted")}

    def endpoint(self, device_id: int) -> str | None:
        """Return the endpoint of a device, as a look-up computes it."""
        with self.store.reading() as reader:
            (found,), (states,) = (
                reader.values("devices-g1", [device_id]),
                reader.values("device_state", [str(device_id)]),
            )
        assert found is not None
        known = {} if states is None else source_of(states)
        return documents.device(device_id, source_of(found), known, generation="g1").endpoint_arn

    def content(self) -> bytes:
        """Return the stored values of the device and its states."""
        with self.store.reading() as reader:
            return b"".join(filter(None, (*reader.values("devices-g1", [7]), *reader.values("device_state", ["7"]))))

    def answering(self) -> tuple[str | None, str]:
        with self.store.reading() as reader:
            return answering(reader, ["g1", "g2"])


@pytest.fixture
def feed(tmp_path: Path) -> Iterator[Feed]:
    made = Feed(tmp_path / "state")
    yield made
    made.store.close()


def user(number: int, name: str = "a") -> dict[str, Any]:
    return {"id": number, "club_id": 1, "first_name": name, "time_zone": None}


def tombstone(number: int) -> KafkaRecord:
    return record("users", {"id": number}, None)


def device(token: str | None) -> dict[str, Any]:
    return {"id": 7, "user_id": 1, "platform": "gcm", "token": token, "active": True}


def device_state(token: str, **further: Any) -> dict[str, Any]:
    state = {"token": token, "endpoint_arn": f"arn:aws:sns:r:1:endpoint/GCM/app/{token}", "enabled": True}
    return {**state, "generation": "g1", "row_version": 1, **further}


def own_document(id_: str, source: dict[str, Any], seq_no: int = 1) -> KafkaRecord:
    key = DocumentKey("device_state", id_)
    document = OwnDocument(key=key, version=Version(1, seq_no), source=source)
    return KafkaRecord(DIRECTORY_DOCUMENT, 0, seq_no, 1, key.encoded(), document.encoded(CODEC))


@pytest.mark.kills(guard="directory_state.tokens")
@pytest.mark.kills(guard="directory_state.tokens_of_states")
def test_store_has_no_tokens(feed: Feed) -> None:
    """A device still gets the endpoint of its own token, and of no other one."""
    later = device_state("Token-B", generation="g2", endpoint_arn=None)
    feed.apply(row("devices", "c", 10, device("Token-A")), own_document("7", device_state("Token-A", others=[later])))
    assert feed.endpoint(7) == "arn:aws:sns:r:1:endpoint/GCM/app/Token-A"
    assert b"Token-B" not in feed.content()
    assert b'"Token-A"' not in feed.content()
    feed.apply(row("devices", "u", 20, device("Token-B")))
    assert feed.endpoint(7) is None
    feed.apply(own_document("7", device_state("Token-B"), 2))
    assert feed.endpoint(7) == "arn:aws:sns:r:1:endpoint/GCM/app/Token-B"
    feed.apply(row("devices", "u", 30, device(None)))
    assert feed.endpoint(7) is None


@pytest.mark.guarantee("directory.converges")
@given(history=histories(), seed=st.integers())
@settings(max_examples=60, deadline=None)
def test_any_order_of_changes_converges_as_in_opensearch(history: History, seed: int) -> None:
    consumer = Consumer()
    with TemporaryDirectory() as folder:
        feed = Feed(Path(folder, "state"))
        for batch in history.deliveries(random.Random(seed)):  # noqa: S311
            feed.apply(*batch)
            assert consumer.run(*batch) == []
        assert {number: each["first_name"] for number, each in feed.rows().items()} == history.table
        assert feed.rows() == consumer.cluster.rows("users-g1")
        feed.store.close()


@pytest.mark.guarantee("directory_state.converges")
@given(history=histories(), seed=st.integers())
@settings(max_examples=100, deadline=None)
def test_compacted_topic_converges_after_any_absence(history: History, seed: int) -> None:
    """The topic is compacted while a feeder reads it, which restarts."""
    chance = random.Random(seed)  # noqa: S311
    topic = Changelog(history, chance)
    with TemporaryDirectory() as folder:
        feed = Feed(Path(folder, "state"))
        position = 0
        while batch := topic.read(position, chance.randint(1, 3)):
            feed.apply(*batch)
            position = batch[-1].offset + 1
            if chance.random() < 0.3:
                topic.compact()
            if chance.random() < 0.3:
                feed.restart()
        assert {number: each["first_name"] for number, each in feed.rows().items()} == history.table
        feed.store.close()


@pytest.mark.kills(guard="directory_state.missed_delete")
def test_tombstone_of_a_later_delete_deletes(feed: Feed) -> None:
    """The first delete has lost its tombstone, and the second tombstone its delete."""
    feed.apply(row("users", "d", 10, None, user(1)), row("users", "c", 20, user(1)), tombstone(1))
    assert feed.rows() == {}


def test_tombstone_of_a_repeated_delete_hides_no_new_row(feed: Feed) -> None:
    feed.apply(row("users", "c", 10, user(1)), row("users", "d", 20, None, user(1)), tombstone(1))
    feed.apply(row("users", "c", 30, user(1, "new")))
    feed.apply(row("users", "d", 20, None, user(1)), tombstone(1))
    assert feed.rows()["1"]["first_name"] == "new"


@pytest.mark.parametrize(
    ("last", "reason"),
    [
        (truncate("users", 70), "truncated"),
        (notification("STARTED", "b"), "snapshot b after a"),
        (heartbeat(5, str(1_700_000_000 + DATABASE_CLOCK_STEP_MS)), "write-ahead log fell"),
    ],
)
def test_rows_that_cannot_be_right_are_not_answered(feed: Feed, last: KafkaRecord, reason: str) -> None:
    assert feed.answering()[0] is None
    feed.apply(notification("STARTED"), heartbeat(50, "1700000000"), notification("COMPLETED"))
    assert feed.answering() == ("g1", "")
    feed.apply(last)
    assert feed.answering()[0] is None
    assert reason in feed.answering()[1]


def test_repeated_notices_change_nothing(feed: Feed) -> None:
    notices = (notification("STARTED"), heartbeat(50, "1700000000"), notification("COMPLETED"))
    feed.apply(*notices, heartbeat(60, "1700000001"))
    with feed.store.reading() as reader:
        before = state_of(reader, "g1")
    feed.apply(*notices)
    with feed.store.reading() as reader:
        assert state_of(reader, "g1") == before


def test_new_generation_answers_once_it_is_recent(feed: Feed) -> None:
    feed.apply(notification("STARTED"), notification("COMPLETED"))
    feed.apply(notification("STARTED", "b", "g2"), notification("COMPLETED", "b", "g2"))
    assert feed.answering() == ("g1", "")


@pytest.mark.kills(guard="directory_state.whole_topic")
def test_topic_without_its_beginning_needs_a_new_generation(feed: Feed) -> None:
    feed.apply(notification("STARTED"), notification("COMPLETED"))
    with feed.store.writing() as writer:
        feed.applier.began(writer, "cdc.g1.message", 5)
        feed.applier.began(writer, "cdc.g1.users", 0)
    assert feed.answering() == ("g1", "")
    with feed.store.writing() as writer:
        feed.applier.began(writer, "cdc.g1.public.users", 5)
        feed.applier.began(writer, "cdc.g1.users", 5)
    assert "are gone" in feed.answering()[1]


def test_unreadable_record_changes_nothing(feed: Feed) -> None:
    feed.apply(row("users", "c", 10, user(1)))
    feed.apply(row("users", "u", 20, {"id": 1, "club_id": "no number"}), record("users", {"id": 1}, {"op": "?"}))
    feed.apply(record("users", {"id": 1}, None)._replace(key=MARK))
    for key in (None, {"mark": True}, {"id": "1"}, [1], {"id": 1, "other": 2}):
        feed.apply(record("users", key, None))
    assert feed.rows()["1"]["first_name"] == "a"


@pytest.mark.kills(guard="directory_state.topic_ids")
@pytest.mark.kills(guard="directory_state.age")
@pytest.mark.parametrize(
    ("topic_ids", "now_ms", "kept"),
    [
        ({"a": "1"}, 5_000, True),
        ({"a": "1", "b": "1"}, 5_000, True),
        ({"a": "2"}, 5_000, False),
        ({"a": "1"}, 1_000 + DIRECTORY_STATE_AGE_MS, False),
    ],
)
def test_store_that_cannot_be_continued_is_emptied(
    tmp_path: Path, topic_ids: dict[str, str], now_ms: int, kept: bool
) -> None:
    folder = tmp_path / "state"
    prepare(folder, generations=["g1"], topic_ids={"a": "1"}, now_ms=0)
    store = Store(folder, writes=True)
    with store.writing() as writer:
        writer.set_offset("a", 0, 7)
        writer.set_meta("fed_at/0", 1_000)
    store.close()
    prepare(folder, generations=["g1"], topic_ids=topic_ids, now_ms=now_ms)
    store = Store(folder, writes=True)
    with store.reading() as reader:
        assert reader.offset("a", 0) == (7 if kept else None)
    store.close()


def test_documents_of_former_generations_are_removed(tmp_path: Path) -> None:
    feed = Feed(tmp_path / "state")
    feed.apply(row("users", "c", 10, user(1)), row("users", "c", 10, user(1), generation="g2"))
    feed.store.close()
    prepare(tmp_path / "state", generations=["g2"], topic_ids={}, now_ms=0)
    feed.store = Store(tmp_path / "state", writes=True)
    assert (list(feed.rows("users-g1")), list(feed.rows("users-g2"))) == ([], ["1"])
    feed.store.close()
