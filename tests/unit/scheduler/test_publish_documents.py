"""The sweep completes the topic of own documents, whatever a writer has left out and in whatever order it produced."""

from collections.abc import Collection

import pytest
from aws_lambda_powertools import Logger
from hypothesis import given
from hypothesis import strategies as st

from functions.scheduler.publish_documents import PublishDocuments
from masscomm.clock import FixedClock
from masscomm.directory import own_documents
from masscomm.directory.document_publisher import produce
from masscomm.directory.own_document_index import (
    PAGE,
    InMemoryOwnDocumentIndices,
    WritePosition,
    note_empty,
    unfilled,
)
from masscomm.directory.own_documents import INDICES, DocumentKey, OwnDocument
from masscomm.domain.preference_changes import ERASURE
from masscomm.domain.time_limits import DOCUMENTS_SETTLED_S
from masscomm.errors import Retry
from masscomm.kafka.avro import Codec, InMemorySchemaRegistry, own_schema
from masscomm.kafka.producer import InMemoryProducer
from masscomm.kafka.topics import DIRECTORY_DOCUMENT
from tests.support.contracts.own_document_index import LATER, Made, OwnDocumentIndicesContract, changes, suppression
from tests.support.harness.chain import NOW

DEVICE = DocumentKey("device_state", "70")
HOLDERS = DocumentKey("device_state", "token:ab")


class InMemoryMade:
    def __init__(self) -> None:
        self.indices = InMemoryOwnDocumentIndices()
        self.put = self.indices.put


class TestInMemoryOwnDocumentIndices(OwnDocumentIndicesContract):
    @pytest.fixture
    def made(self) -> Made:
        return InMemoryMade()


class Sweeps:
    def __init__(self) -> None:
        registry = InMemorySchemaRegistry()
        registry.register(f"{DIRECTORY_DOCUMENT}-value", own_schema(own_documents.SCHEMA))
        self.codec = Codec(registry)
        self.clock = FixedClock(NOW)
        self.indices = InMemoryOwnDocumentIndices()
        self.producer = InMemoryProducer()
        self.use_case = PublishDocuments(
            indices=self.indices,
            publisher=self,
            codec=self.codec,
            producer=self.producer,
            clock=self.clock,
            logger=Logger(),
        )

    def publish(self, index: str, ids: Collection[str]) -> None:
        """Publish documents as a writer does."""
        found = [self.indices.documents.get(DocumentKey(index, id_)) for id_ in ids]
        produce([each for each in found if each is not None], self.codec, self.producer)

    def sweep(self, seconds: float = 15) -> None:
        """Sweep when the writes before the last sweep are settled."""
        self.clock.advance(DOCUMENTS_SETTLED_S)
        self.use_case.sweep(lambda: seconds)

    def sweep_all(self) -> None:
        """Sweep until the writes before this call are published."""
        for _ in range(3):
            self.sweep()

    def consumed(self, *, compacted: bool = False) -> dict[DocumentKey, OwnDocument]:
        """Return the documents that a consumer of the topic has.

        Args:
            compacted: Whether Kafka has kept the last record of each key only.
        """
        records = [(key, value) for _, key, value, _ in self.producer.produced]
        kept = list(dict(records).items()) if compacted else records
        found: dict[DocumentKey, OwnDocument] = {}
        for key, value in kept:
            record = own_documents.decoded(key, value, self.codec)
            if isinstance(record, DocumentKey):
                found.pop(record, None)
            elif record.key not in found or found[record.key].version <= record.version:
                found[record.key] = record
        return found

    def stored(self) -> dict[DocumentKey, OwnDocument]:
        return {key: each for key, each in self.indices.documents.items() if key != HOLDERS}


def test_first_sweeps_publish_every_document() -> None:
    sweeps = Sweeps()
    for key, source in (suppression(1), changes(2), (DEVICE, {"enabled": True}), (HOLDERS, {"holders": ["70"]})):
        sweeps.indices.put(key, source)
    sweeps.sweep_all()
    assert sweeps.consumed() == sweeps.stored()
    assert len(sweeps.stored()) == 3


def test_topic_is_filled_when_each_document_is_published() -> None:
    sweeps = Sweeps()
    sweeps.indices.put(*suppression(1))
    sweeps.sweep()
    assert unfilled(sweeps.indices) == list(INDICES)
    sweeps.sweep(seconds=1)
    assert unfilled(sweeps.indices) == list(INDICES), "there was no time"
    sweeps.sweep()
    assert unfilled(sweeps.indices) == []
    sweeps.indices.restore("suppressions", [], "second")
    sweeps.sweep()
    assert unfilled(sweeps.indices) == ["suppressions"]


def test_new_index_is_filled_if_nothing_was_written() -> None:
    sweeps = Sweeps()
    sweeps.indices.put(*suppression(1))
    note_empty(sweeps.indices, NOW)
    assert unfilled(sweeps.indices) == ["suppressions"]
    sweeps.indices.put(*changes(1))
    note_empty(sweeps.indices, NOW)
    assert unfilled(sweeps.indices) == ["suppressions"]
    sweeps.sweep_all()
    assert unfilled(sweeps.indices) == []


def test_nothing_new_is_published_once() -> None:
    sweeps = Sweeps()
    sweeps.indices.put(*suppression(1))
    sweeps.sweep_all()
    sweeps.sweep_all()
    assert len(sweeps.producer.produced) == 1


@pytest.mark.kills(guard="own_documents.settled")
def test_recent_write_is_published_once_it_is_settled() -> None:
    """Its writer may still have to publish an earlier state of the document."""
    sweeps = Sweeps()
    sweeps.sweep_all()
    version = sweeps.indices.put(*suppression(1))
    late = sweeps.indices.documents[suppression(1)[0]]
    sweeps.indices.put(*suppression(1, LATER + 1), after=version)
    for _ in range(2):
        sweeps.use_case.sweep(lambda: 15)
    produce([late], sweeps.codec, sweeps.producer)
    sweeps.sweep_all()
    assert sweeps.consumed(compacted=True) == sweeps.stored()


def test_many_documents_are_published_in_pages() -> None:
    sweeps = Sweeps()
    for number in range(PAGE + 1):
        sweeps.indices.put(*suppression(number))
    sweeps.sweep_all()
    assert sweeps.consumed() == sweeps.stored()


def test_sweep_without_time_leaves_the_rest() -> None:
    sweeps = Sweeps()
    sweeps.indices.put(*suppression(1))
    for _ in range(3):
        sweeps.sweep(seconds=1)
    assert sweeps.producer.produced == []
    sweeps.sweep_all()
    assert sweeps.consumed() == sweeps.stored()


def test_unreachable_index_does_not_stop_the_others() -> None:
    sweeps = Sweeps()
    for key, source in (suppression(1), (DEVICE, {"enabled": True})):
        sweeps.indices.put(key, source)
    sweeps.indices.failing["suppressions"] = Retry("OpenSearch is down")
    for _ in range(3):
        with pytest.raises(Retry):
            sweeps.sweep()
    assert set(sweeps.consumed()) == {DEVICE}


def test_slow_index_leaves_no_time_for_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    sweeps, asked = Sweeps(), list[str]()
    left = iter([15.0, 15.0, 1.0])

    def position(index: str) -> WritePosition:
        asked.append(index)
        return WritePosition("first", -1)

    monkeypatch.setattr(sweeps.indices, "position", position)
    sweeps.use_case.sweep(lambda: next(left))
    assert asked == [INDICES[0]]


def test_documents_are_published_again_after_kafkas_outage() -> None:
    sweeps = Sweeps()
    sweeps.indices.put(*suppression(1))
    sweeps.sweep()
    sweeps.producer.fail = lambda _topic, _value: Retry("down")
    with pytest.raises(Retry):
        sweeps.sweep()
    sweeps.producer.fail = lambda _topic, _value: None
    sweeps.sweep()
    assert sweeps.consumed() == sweeps.stored()


@pytest.mark.kills(guard="own_documents.removed_record_first")
def test_ended_documents_are_removed_everywhere() -> None:
    sweeps = Sweeps()
    for key, source in (suppression(1, NOW - 1), suppression(2, LATER), changes(3, ERASURE), changes(4)):
        sweeps.indices.put(key, source)
    sweeps.sweep_all()
    assert set(sweeps.stored()) == {suppression(2)[0], changes(4)[0]}
    assert sweeps.consumed() == sweeps.consumed(compacted=True) == sweeps.stored()


def test_document_stays_until_kafka_has_its_removal() -> None:
    sweeps = Sweeps()
    sweeps.indices.put(*suppression(1, 0))
    sweeps.sweep()
    sweeps.producer.fail = lambda _topic, value: Retry("down") if value is None else None
    with pytest.raises(Retry):
        sweeps.sweep()
    assert set(sweeps.stored()) == {suppression(1)[0]}


@pytest.mark.kills(guard="own_documents.changed_meanwhile")
def test_document_that_is_renewed_meanwhile_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer has published the new suppression before the record of the removal."""
    sweeps = Sweeps()
    key, ended = suppression(1, 0)
    sweeps.indices.put(key, ended)
    sweeps.sweep()
    find = sweeps.indices.ended

    def overtaken(*arguments: object, **options: object) -> object:
        found = find("suppressions", until=9, now_ms=NOW)
        if found:
            sweeps.indices.put(*suppression(1, LATER), after=found[0].version)
            sweeps.publish("suppressions", [key.id])
        return found

    monkeypatch.setattr(sweeps.indices, "ended", overtaken)
    sweeps.sweep()
    assert sweeps.consumed() == sweeps.stored()
    assert sweeps.stored()[key].source["expires_at"] == LATER


@pytest.mark.kills(guard="own_documents.another_history")
@pytest.mark.kills(guard="own_documents.lower_versions")
def test_restored_index_replaces_its_records() -> None:
    """Its documents have lower versions than their records."""
    sweeps = Sweeps()
    first = sweeps.indices.put(*suppression(1))
    saved = list(sweeps.indices.documents.values())
    sweeps.indices.put(*suppression(1, LATER + 1), after=first)
    sweeps.sweep_all()
    sweeps.indices.restore("suppressions", saved, "second")
    sweeps.sweep_all()
    assert sweeps.consumed() == sweeps.stored() == {each.key: each for each in saved}
    sweeps.indices.put(*suppression(2))
    sweeps.sweep_all()
    assert sweeps.consumed() == sweeps.stored()


# A step of the property test: a write of a document, the production of a write that was left out or is late, a sweep.
type Step = tuple[str, int]
STEPS = st.lists(
    st.tuples(st.sampled_from(["write", "end", "produce", "sweep"]), st.integers(0, 5)), min_size=1, max_size=40
)


@pytest.mark.guarantee("own_documents.topic_has_the_index")
@given(steps=STEPS)
def test_topic_has_the_index_after_any_order(steps: list[Step]) -> None:
    """Writers write concurrently, produce late or never, and end before the sweep publishes their writes."""
    sweeps = Sweeps()
    written: list[OwnDocument] = []

    def write(number: int, expires_ms: int) -> None:
        key, source = suppression(number % 3, expires_ms)
        known = sweeps.indices.documents.get(key)
        if sweeps.indices.put(key, source, after=known.version if known is not None else None) is not None:
            written.append(sweeps.indices.documents[key])

    for name, number in steps:
        match name:
            case "write":
                write(number, LATER + number)
            case "end":
                write(number, 0)
            case "produce":
                produce(written[number : number + 1], sweeps.codec, sweeps.producer)
            case _:
                # No writer is so slow that it publishes a write of two sweeps ago.
                written.clear()
                sweeps.sweep()
    sweeps.sweep_all()
    assert sweeps.consumed() == sweeps.consumed(compacted=True) == sweeps.stored()
    assert all(each.source["expires_at"] > 0 for each in sweeps.stored().values())
