"""A permanent error of OpenSearch dead-letters one document, or is a fault of the installation."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from local.devstack.config import StackConfig
from masscomm.directory.bulk_writes import VersionedDocument, connect, write
from masscomm.directory.client import OpenSearch, TransportError
from masscomm.errors import DeadLetter, Retry


@pytest.fixture
def client(opensearch: StackConfig) -> OpenSearch:
    return connect(opensearch.opensearch_url)


@pytest.fixture
def index(client: OpenSearch) -> Iterator[str]:
    name = f"test-{uuid4()}"
    fields = {"at": {"type": "date", "format": "epoch_millis"}, "n": {"type": "long"}, "text": {"type": "keyword"}}
    client.request("PUT", name, {"mappings": {"dynamic": "strict", "properties": fields}})
    yield name
    client.request("DELETE", name)


def document(index: str, name: str, *, version: int = 1, **source: Any) -> VersionedDocument:
    return VersionedDocument(index=index, id=name, version=version, source=source)


@pytest.mark.guarantee("opensearch_answer.refused_document")
def test_refused_document_fails_alone(client: OpenSearch, index: str) -> None:
    good = [document(index, str(n), n=n) for n in range(5)]
    bad = [
        document(index, "x" * 513),  # OpenSearch rejects the whole request for an id of more than 512 bytes
        document(index, "negative", version=-5),
        document(index, "range", n=2**63),
        document(index, "type", n="seven"),
        document(index, "date", at="yesterday"),
        document(index, "unmapped", another=1),
        document(index, "immense", text="ü" * 20_000),  # Lucene rejects terms of more than 32,766 bytes
    ]
    fates = write(client, [good[0], *bad[:3], *good[1:4], *bad[3:], good[4]])
    refused = [fate for fate in fates if fate is not None]
    assert [type(fate) for fate in refused] == [DeadLetter] * len(bad)
    assert {fate.reason for fate in refused if isinstance(fate, DeadLetter)} == {"unmappable"}
    assert [fates.index(fate) for fate in refused] == [1, 2, 3, 7, 8, 9, 10]


@pytest.mark.guarantee("opensearch_answer.no_index")
def test_absent_index_is_a_retry(client: OpenSearch, index: str) -> None:
    fates = write(client, [document("absent", "1", n=1), document(index, "1", n=1)])
    assert [type(fate) for fate in fates] == [Retry, type(None)]


@pytest.mark.guarantee("opensearch_answer.index_takes_no_writes")
def test_index_that_blocks_writes_is_a_retry(client: OpenSearch, index: str) -> None:
    client.request("PUT", f"{index}/_settings", {"index.blocks.write": True})
    assert [type(fate) for fate in write(client, [document(index, "1", n=1)])] == [Retry]


@pytest.mark.guarantee("opensearch_answer.index_takes_no_writes")
def test_closed_index_is_a_retry_for_its_documents(client: OpenSearch, index: str) -> None:
    other = f"test-{uuid4()}"
    client.request("PUT", other)
    client.request("POST", f"{index}/_close")
    fates = write(client, [document(index, "1", n=1), document(other, "1", n=1)])
    client.request("DELETE", other)
    assert [type(fate) for fate in fates] == [Retry, type(None)]


@pytest.mark.guarantee("opensearch_answer.unknown_address")
def test_wrong_address_dead_letters_no_document(opensearch: StackConfig, index: str) -> None:
    """A wrong path also gets a response with 400, but no document must be dead-lettered."""
    wrong = connect(f"{opensearch.opensearch_url}/another/path/that/is/none")
    with pytest.raises(TransportError) as caught:
        write(wrong, [document(index, "1", n=1)])
    assert caught.value.status_code == 400


@pytest.mark.guarantee("opensearch_answer.older_version")
def test_older_version_is_ignored_without_an_error(client: OpenSearch, index: str) -> None:
    assert write(client, [document(index, "1", version=9, n=1)]) == [None]
    assert write(client, [document(index, "1", version=8, n=2)]) == [None]
