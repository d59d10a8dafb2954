"""Own documents are produced as OpenSearch returns them, and acknowledged by Kafka before the method returns."""

import json
from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest

from masscomm.directory import own_documents
from masscomm.directory.client import ConnectionError, OpenSearch
from masscomm.directory.document_publisher import OpenSearchDocumentPublisher, produce
from masscomm.directory.own_documents import DocumentKey, OwnDocument, Version
from masscomm.errors import DeadLetter, Retry
from masscomm.kafka.avro import Codec, InMemorySchemaRegistry, own_schema
from masscomm.kafka.producer import InMemoryProducer
from masscomm.kafka.topics import DIRECTORY_DOCUMENT

STORED = {"70": {"_primary_term": 3, "_seq_no": 9, "_source": {"enabled": True}}}


class Client:
    """A client with the documents of STORED, or with one answer."""

    def __init__(self, answer: Callable[[Any], Any] | None = None) -> None:
        self.requests: list[list[str]] = []
        self._answer = answer or (lambda ids: {"docs": [_document(id_, STORED.get(id_)) for id_ in ids]})

    def mget(self, *, index: str, body: Mapping[str, Any]) -> Any:
        self.requests.append(list(body["ids"]))
        return self._answer(list(body["ids"]))


def _document(id_: str, found: Mapping[str, Any] | None) -> dict[str, Any]:
    return {"_index": "device_state", "_id": id_, "found": found is not None, **(found or {})}


class Published:
    def __init__(self, client: Client | None = None) -> None:
        self.client = client or Client()
        registry = InMemorySchemaRegistry()
        registry.register(f"{DIRECTORY_DOCUMENT}-value", own_schema(own_documents.SCHEMA))
        self.codec = Codec(registry)
        self.producer = InMemoryProducer()
        self.publisher = OpenSearchDocumentPublisher(cast(OpenSearch, self.client), self.codec, self.producer)

    def records(self) -> list[OwnDocument | DocumentKey]:
        assert {topic for topic, *_ in self.producer.produced} <= {DIRECTORY_DOCUMENT}
        return [own_documents.decoded(key, value, self.codec) for _, key, value, _ in self.producer.produced]


def test_existing_documents_are_produced_with_their_versions() -> None:
    published = Published()
    published.publisher.publish("device_state", {"70", "71"})
    assert published.records() == [
        OwnDocument(key=DocumentKey("device_state", "70"), version=Version(3, 9), source={"enabled": True})
    ]


def test_holders_of_a_token_are_not_produced() -> None:
    published = Published(Client(lambda ids: {"docs": [_document(id_, STORED["70"]) for id_ in ids]}))
    published.publisher.publish("device_state", {"token:ab"})
    assert published.records() == []


def test_nothing_to_publish_costs_no_request() -> None:
    published = Published()
    published.publisher.publish("device_state", [])
    assert (published.client.requests, published.producer.flushes) == ([], 0)


def test_many_documents_are_read_in_several_requests() -> None:
    published = Published()
    published.publisher.publish("device_state", [str(number) for number in range(1_001)])
    assert [len(ids) for ids in published.client.requests] == [1_000, 1]


@pytest.mark.kills(guard="own_documents.acknowledged")
def test_record_that_kafka_has_not_taken_is_an_error() -> None:
    published = Published()
    published.producer.fail = lambda _topic, _value: Retry("down")
    with pytest.raises(Retry):
        published.publisher.publish("device_state", ["70"])


def test_document_that_kafka_never_takes_stops_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    published = Published()
    published.producer.fail = lambda _topic, value: (
        DeadLetter("too_large", "refused") if b"big" in (value or b"") else None
    )
    documents = [
        OwnDocument(key=DocumentKey("suppressions", name), version=Version(1, 1), source={"name": name})
        for name in ("big", "small")
    ]
    produce(documents, published.codec, published.producer)
    assert published.records() == documents[1:]
    line = json.loads(capsys.readouterr().out.splitlines()[0])
    assert (line["store"], line["key"]) == ("suppressions", {"id": "big"})


@pytest.mark.parametrize(
    "answer",
    [
        {"docs": []},
        {"docs": [_document("71", None)]},
        {"docs": [{"_index": "device_state", "_id": "70", "error": {"type": "no_shard_available_action_exception"}}]},
        "a proxy's page",
    ],
)
def test_incomplete_answer_publishes_nothing(answer: Any) -> None:
    published = Published(Client(lambda _ids: answer))
    with pytest.raises(Retry):
        published.publisher.publish("device_state", ["70"])
    assert published.records() == []


def test_opensearch_that_is_away_is_an_error() -> None:
    def away(_ids: list[str]) -> Any:
        raise ConnectionError("refused")

    with pytest.raises(Retry):
        Published(Client(away)).publisher.publish("device_state", ["70"])
