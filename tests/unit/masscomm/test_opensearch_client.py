"""Our client sends the same requests as opensearch-py and treats each response in the same way."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import opensearchpy
import pytest

from masscomm.directory import client as ours
from tests.support.servers.answering_server import AnsweringServer, answering
from tests.support.servers.http_server import Asked


def read(request: Asked) -> tuple[Any, ...]:
    parts = urlsplit(request.path)
    kind = (request.headers.get("content-type") or "").partition(";")[0]
    documents = [json.loads(line) for line in request.body.splitlines()]
    return request.command, parts.path, sorted(parse_qsl(parts.query)), documents, kind


@pytest.fixture
def server() -> Iterator[AnsweringServer]:
    with answering(read) as made:
        yield made


CALLS: list[Callable[[Any], Any]] = [
    lambda client: client.mget(body={"docs": [{"_index": "users", "_id": "ä/1"}]}),
    lambda client: client.mget(index="device_state", body={"ids": ["1"]}),
    lambda client: client.search(index="devices", body={"size": 1}, allow_partial_search_results=False),
    lambda client: client.bulk(body=b'{"index":{}}\n{"a":"\xc3\xa4"}\n'),
    lambda client: client.get(index="directory_state", id="generation-g 1/2?a#b%20"),
    lambda client: client.index(index="i", id="1", body={"a": 1}, params={"op_type": "create"}),
    lambda client: client.index(index="i", id="1", body={"a": 1}, params={"if_seq_no": 3, "if_primary_term": 1}),
    lambda client: client.delete_by_query(index="m", body={"query": {}}, params={"conflicts": "proceed"}),
    lambda client: client.indices.refresh(index="a,b-g1"),
    lambda client: client.indices.get_alias(name="users,devices"),
    lambda client: client.indices.update_aliases(body={"actions": []}),
]


@pytest.mark.parametrize("call", CALLS)
def test_request_equals_that_of_opensearch_py(server: AnsweringServer, call: Callable[[Any], Any]) -> None:
    theirs = opensearchpy.OpenSearch(hosts=[server.url])
    call(theirs)
    theirs.close()
    client = ours.OpenSearch(server.url)
    call(client)
    client.close()
    (of_theirs, of_ours) = server.asked
    assert of_ours[:4] == of_theirs[:4]
    assert of_ours[4] in (of_theirs[4], "application/x-ndjson") if of_ours[3] else True


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 429, 500, 503])
@pytest.mark.parametrize(
    "answer",
    [b'{"error": {"type": "index_closed_exception"}}', b'{"error": "alias missing"}', b'{"found": false}', b"<html>"],
)
def test_refusal_has_the_fields_that_opensearch_py_gives_it(
    server: AnsweringServer, status: int, answer: bytes
) -> None:
    server.answers = [(status, answer)]
    theirs = opensearchpy.OpenSearch(hosts=[server.url], max_retries=0)
    with pytest.raises(opensearchpy.TransportError) as of_theirs:
        theirs.get(index="i", id="1")
    theirs.close()
    client = ours.OpenSearch(server.url)
    with pytest.raises(ours.TransportError) as of_ours:
        client.get(index="i", id="1")
    client.close()
    assert of_ours.value.status_code == of_theirs.value.status_code
    if answer.startswith(b"{"):
        assert of_ours.value.info == of_theirs.value.info
    if b"error" in answer:
        assert of_ours.value.error == of_theirs.value.error
    named = {400: "TransportError", 429: "TransportError", 500: "TransportError", 503: "TransportError"}
    assert type(of_ours.value).__name__ == named.get(status, type(of_theirs.value).__name__)


def test_missing_and_truncated_responses_are_errors(server: AnsweringServer) -> None:
    server.answers = [(200, b'{"half":')]
    client = ours.OpenSearch(server.url)
    with pytest.raises(ours.SerializationError):
        client.bulk(body=b"{}\n{}\n")
    client.close()
    with pytest.raises(ours.ConnectionError):
        ours.OpenSearch("http://127.0.0.1:9", timeout_s=1).get(index="i", id="1")


def test_signer_gets_the_request_as_it_is_sent(server: AnsweringServer) -> None:
    signed: list[tuple[str, str, Any, Any]] = []

    def auth(method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> dict[str, str]:
        signed.append((method, url, headers, body))
        return {**headers, "x-signed": "1"}

    client = ours.OpenSearch(server.url, auth=auth)
    client.search(index="a,b", body={"size": 1}, allow_partial_search_results=False)
    client.close()
    url = f"{server.url}/a,b/_search?allow_partial_search_results=false"
    assert signed == [("POST", url, {"content-type": "application/json"}, b'{"size":1}')]


@pytest.mark.parametrize(
    "answer", [{"name": "ä\u2028\x00"}, {"name": "\ud83d"}, {"lsn": 2**63 - 1}, {"lsn": -(2**63)}, {"rate": 0.1}, []]
)
def test_answer_is_parsed_as_by_json(server: AnsweringServer, answer: object) -> None:
    """A document with half of a surrogate pair, is still read."""
    server.answers = [(200, json.dumps(answer).encode())]
    client = ours.OpenSearch(server.url)
    assert client.get(index="i", id="1") == answer
    client.close()
