"""Own documents on the real OpenSearch and broker: the topic has each write before it is acknowledged, and a sweep adds
those that a crash left out.
"""

import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import astuple
from typing import Any
from uuid import uuid4

import pytest
from aws_lambda_powertools import Logger

from functions.device_registrar.device_states import OpenSearchDeviceStates
from functions.device_registrar.endpoints import InMemoryEndpoints
from functions.device_registrar.token_holders import OpenSearchTokenHolders
from functions.scheduler.publish_documents import PublishDocuments
from local.devstack.config import StackConfig
from local.devstack.provision import create_indices, create_topics, register_schemas
from masscomm.clock import FixedClock
from masscomm.directory import own_documents
from masscomm.directory.bulk_writes import ChangedDocument, write_changed
from masscomm.directory.client import NotFoundError
from masscomm.directory.document_publisher import OpenSearchDocumentPublisher, produce
from masscomm.directory.generations import InMemoryCreationTimes
from masscomm.directory.own_document_index import OpenSearchOwnDocumentIndices, document_id
from masscomm.directory.own_documents import INDICES, DocumentKey, OwnDocument, Version
from masscomm.domain.preference_changes import ERASURE, PreferenceChanges, Wish
from masscomm.domain.preference_changes import INDEX as PREFERENCES
from masscomm.domain.suppressions import INDEX as SUPPRESSIONS
from masscomm.domain.time_limits import DOCUMENTS_SETTLED_S
from masscomm.errors import Retry
from masscomm.kafka.avro import Codec, HttpSchemaRegistry
from masscomm.kafka.producer import KafkaProducer
from masscomm.kafka.topic_reading import TopicReader, read_topic
from masscomm.kafka.topics import DIRECTORY_DOCUMENT, chain_topics
from ops.own_document_rebuild import published_documents, restore
from tests.support.contracts.own_document_index import Made, OwnDocumentIndicesContract, changes, suppression
from tests.support.harness.chain import NOW
from tests.support.harness.device_registrar import environment_of
from tests.support.inputs.debezium_records import row
from tests.support.servers.opensearch_client import TestClient


@pytest.fixture
def client(cluster: str) -> Iterator[TestClient]:
    """Return a client of a server with empty indices of own documents."""
    client = TestClient(cluster)
    client.indices.delete(index=",".join(INDICES), ignore_unavailable=True)
    create_indices(cluster, "g1")
    for index in INDICES:
        with suppress(NotFoundError):
            client.request("DELETE", f"directory_state/_doc/{document_id(index)}")
    yield client
    client.close()


class OpenSearchMade:
    def __init__(self, client: TestClient) -> None:
        self.client = client
        self.indices = OpenSearchOwnDocumentIndices(client)

    def put(self, key: DocumentKey, source: Mapping[str, Any], *, after: Version | None = None) -> Version | None:
        place = None if after is None else (after.seq_no, after.primary_term)
        document = ChangedDocument(index=key.index, id=key.id, after=place, source=source)
        if write_changed(self.client, [document]) != [None]:
            return None
        found = self.client.get(index=key.index, id=key.id)
        return Version(found["_primary_term"], found["_seq_no"])


class TestOpenSearchOwnDocumentIndices(OwnDocumentIndicesContract):
    @pytest.fixture
    def made(self, client: TestClient) -> Made:
        return OpenSearchMade(client)

    def test_index_that_is_created_again_has_another_history(self, client: TestClient, cluster: str) -> None:
        indices = OpenSearchOwnDocumentIndices(client)
        before = indices.position("suppressions")
        client.indices.delete(index="suppressions")
        create_indices(cluster, "g1")
        assert indices.position("suppressions").history_id != before.history_id
        assert indices.position("suppressions").seq_no == -1

    def test_absent_index_is_an_error(self, client: TestClient) -> None:
        client.indices.delete(index="suppressions")
        with pytest.raises(Retry):
            OpenSearchOwnDocumentIndices(client).position("suppressions")


class Published:
    def __init__(self, client: TestClient, kafka: StackConfig, registry: StackConfig) -> None:
        self.client = client
        self.bootstrap = kafka.kafka_bootstrap
        own = [each for each in chain_topics() if each.name == DIRECTORY_DOCUMENT]
        create_topics(self.bootstrap, own)
        # Other tests read this topic, too.
        register_schemas(registry.registry_url, own)
        self.codec = Codec(HttpSchemaRegistry(registry.registry_url))
        self.producer = KafkaProducer(self.bootstrap)
        self.publisher = OpenSearchDocumentPublisher(client, self.codec, self.producer)

    def records(self, index: str, id_: str) -> list[OwnDocument | None]:
        """Return the records of a document; None for a removal."""
        key = DocumentKey(index, id_)
        found = [
            own_documents.decoded(each.key(), each.value(), self.codec)
            for each in read_topic(self.bootstrap, DIRECTORY_DOCUMENT)
            if each.key() == key.encoded()
        ]
        return [each if isinstance(each, OwnDocument) else None for each in found]

    def stored(self, index: str, id_: str) -> OwnDocument:
        found = self.client.get(index=index, id=id_)
        version = Version(found["_primary_term"], found["_seq_no"])
        return OwnDocument(key=DocumentKey(index, id_), version=version, source=found["_source"])


@pytest.fixture
def published(client: TestClient, kafka: StackConfig, registry: StackConfig) -> Published:
    return Published(client, kafka, registry)


def test_topic_has_the_state_of_a_device_that_is_done(published: Published) -> None:
    device_id = uuid4().int % 2**62
    states, holders = OpenSearchDeviceStates(published.client), OpenSearchTokenHolders(published.client)
    created = InMemoryCreationTimes(g1=1, g2=2)
    invoke = environment_of(states, holders, InMemoryEndpoints(), created, published.publisher)
    columns = {"id": device_id, "user_id": 1, "platform": "gcm", "token": uuid4().hex, "active": True}
    invoke([row("devices", "c", 50, columns)])
    assert published.records("device_state", str(device_id)) == [published.stored("device_state", str(device_id))]


def test_broker_that_is_away_fails_the_writer(published: Published) -> None:
    key, source = suppression(uuid4().int)
    OpenSearchMade(published.client).put(key, source)
    with socket.socket() as bound:  # A bound socket that does not listen makes the broker unreachable.
        bound.bind(("127.0.0.1", 0))
        away = KafkaProducer(f"127.0.0.1:{bound.getsockname()[1]}", message_timeout_ms=1000)
        with pytest.raises(Retry):
            OpenSearchDocumentPublisher(published.client, published.codec, away).publish(key.index, [key.id])


def test_sweep_completes_and_removes_documents(published: Published) -> None:
    written = OpenSearchMade(published.client)
    (kept, source), (ended, ended_source) = suppression(uuid4().int), suppression(uuid4().int, 0)
    written.put(kept, source)
    written.put(ended, ended_source)
    clock = FixedClock(NOW)
    sweeps = PublishDocuments(
        indices=written.indices,
        publisher=published.publisher,
        codec=published.codec,
        producer=published.producer,
        clock=clock,
        logger=Logger(),
    )
    for _ in range(3):
        sweeps.sweep(lambda: 15)
        clock.advance(DOCUMENTS_SETTLED_S)
    assert published.records(kept.index, kept.id) == [published.stored(kept.index, kept.id)]
    assert [each is None for each in published.records(ended.index, ended.id)] == [False, True]
    found = published.client.mget(index=ended.index, body={"ids": [ended.id]})["docs"]
    assert [each["found"] for each in found] == [False]


@pytest.mark.kills(guard="rebuild.lower_versions")
@pytest.mark.kills(guard="rebuild.erased_user")
def test_lost_indices_are_filled_from_the_topic(published: Published, cluster: str) -> None:
    made, publisher = OpenSearchMade(published.client), published.publisher
    (bounced, source), (removed, removed_source) = suppression(uuid4().int), suppression(uuid4().int)
    users = [uuid4().int % 2**62 for _ in range(3)]
    for key, document in ((bounced, source), (removed, removed_source), *map(_silenced, users)):
        made.put(key, document)
        publisher.publish(key.index, [key.id])
    produce([removed], published.codec, published.producer)

    published.client.indices.delete(index=",".join(INDICES))
    create_indices(cluster, "g1")
    # Since then, one user wants no e-mail, and another one was erased.
    both, erased, untouched = users
    now = PreferenceChanges(user_id=both, club_id=7).after([Wish(None, "email", False)], None, NOW + 1, source="api")
    made.put(DocumentKey(PREFERENCES, str(both)), now.document)
    made.put(*changes(erased, ERASURE))
    with TopicReader(published.bootstrap) as reader:
        lost = list(published_documents(reader, published.codec))
    # The topic also has documents of other tests.
    written = restore(published.client, made.indices, lost, FixedClock(NOW))
    assert (written[PREFERENCES] >= 2, written[SUPPRESSIONS] >= 1) == (True, True)
    assert not restore(published.client, made.indices, lost, FixedClock(NOW))
    assert published.stored(*astuple(bounced)).source == source
    assert not _exists(published.client, removed)
    assert _silent_channels(published, both) == ["push", "email"]
    assert _silent_channels(published, untouched) == ["push"]
    assert _silent_channels(published, erased) == []
    progress = made.indices.progress(SUPPRESSIONS)
    assert progress is not None
    assert (progress.is_later_history, progress.published) == (True, -1)


def _silenced(user_id: int) -> tuple[DocumentKey, dict[str, Any]]:
    silenced = PreferenceChanges(user_id=user_id, club_id=7).after([Wish(None, "push", False)], None, NOW, source="api")
    return DocumentKey(PREFERENCES, str(user_id)), silenced.document


def _silent_channels(published: Published, user_id: int) -> list[str | None]:
    changes = PreferenceChanges.read(published.stored(PREFERENCES, str(user_id)).source).changes
    return [each.wish.channel for each in changes if isinstance(each.wish, Wish)]


def _exists(client: TestClient, key: DocumentKey) -> bool:
    return bool(client.mget(index=key.index, body={"ids": [key.id]})["docs"][0]["found"])
