import json

import pytest

from masscomm.directory import own_documents
from masscomm.directory.own_documents import DocumentKey, OwnDocument, Version
from masscomm.errors import DeadLetter
from masscomm.kafka.avro import Codec, InMemorySchemaRegistry, own_schema
from masscomm.kafka.topics import DIRECTORY_DOCUMENT

DOCUMENT = OwnDocument(
    key=DocumentKey("device_state", "70"),
    version=Version(2, 41),
    source={"token": "t\u00e4/\U0001f600", "enabled": True, "others": [{"taken_at": 2**62}], "reason": None},
)


@pytest.fixture
def codec() -> Codec:
    registry = InMemorySchemaRegistry()
    registry.register(f"{DIRECTORY_DOCUMENT}-value", own_schema(own_documents.SCHEMA))
    return Codec(registry)


def test_document_survives_its_record(codec: Codec) -> None:
    assert own_documents.decoded(b"device_state/70", DOCUMENT.encoded(codec), codec) == DOCUMENT


def test_key_of_a_document_is_that_of_its_removal(codec: Codec) -> None:
    assert DOCUMENT.key.encoded() == b"device_state/70"
    assert own_documents.decoded(b"device_state/70", None, codec) == DOCUMENT.key


def test_id_with_a_slash_stays_whole() -> None:
    key = DocumentKey("suppressions", "7-a/b")
    assert DocumentKey.decoded(key.encoded()) == key


def test_term_of_the_primary_shard_counts_before_the_number() -> None:
    writes = [Version(2, 3), Version(1, 9), Version(1, 10)]
    assert max(writes) == Version(2, 3)
    assert sorted(writes) == [Version(1, 9), Version(1, 10), Version(2, 3)]


@pytest.mark.parametrize("key", [None, b"", b"device_state", b"device_state/", b"users/7", b"\xff/7"])
def test_malformed_key_is_refused(codec: Codec, key: bytes | None) -> None:
    with pytest.raises(DeadLetter):
        own_documents.decoded(key, None, codec)


def test_record_under_another_key_is_refused(codec: Codec) -> None:
    with pytest.raises(DeadLetter, match="another document's key"):
        own_documents.decoded(b"device_state/71", DOCUMENT.encoded(codec), codec)


@pytest.mark.parametrize("text", ["", "{", json.dumps(["a"]), "7"])
def test_document_that_is_not_an_object_is_refused(codec: Codec, text: str) -> None:
    value = {"index": "suppressions", "id": "7-a", "primary_term": 1, "seq_no": 0, "document": text}
    encoded = codec.encode(DIRECTORY_DOCUMENT, own_documents.SCHEMA, value)
    with pytest.raises(DeadLetter):
        own_documents.decoded(b"suppressions/7-a", encoded, codec)


def test_holders_of_tokens_are_not_published() -> None:
    assert own_documents.is_published("device_state", "70")
    assert own_documents.is_published("suppressions", "7-ab")
    assert not own_documents.is_published("device_state", "token:ab")
    assert not own_documents.is_published("users", "7")
