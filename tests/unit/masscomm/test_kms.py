"""Data keys are requested as boto3 does, and what is sealed under them opens for its context only."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest

from masscomm.aws.kms import KeyRefused, KmsDataKeys
from masscomm.aws.sealed_secrets import NotOpened, SecretBox
from masscomm.errors import Retry, Stop
from tests.support.contracts.data_keys import DataKeysContract
from tests.support.fakes.data_keys import InMemoryDataKeys
from tests.support.servers.answering_server import AnsweringServer, answering
from tests.support.servers.http_server import Asked

KEY, CONTEXT = "alias/secrets", {"purpose": "webhook-authentication", "endpoint": "ep_7"}
ANSWER = {"Plaintext": base64.b64encode(b"p" * 32).decode(), "CiphertextBlob": base64.b64encode(b"c").decode()}


class TestInMemoryDataKeys(DataKeysContract):
    @pytest.fixture
    def keys(self) -> InMemoryDataKeys:
        return InMemoryDataKeys()


def _read(request: Asked) -> Any:
    headers = {name: request.headers.get(name) for name in ("content-type", "x-amz-target")}
    return request.command, request.path, headers, json.loads(request.body)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[AnsweringServer]:
    with answering(_read) as made:
        monkeypatch.setenv("AWS_ENDPOINT_URL", made.url)
        monkeypatch.setenv("AWS_REGION", "eu-central-1")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        yield made


def test_requests_are_boto3s(server: AnsweringServer) -> None:
    server.answers = [(200, json.dumps(ANSWER).encode())]
    keys = KmsDataKeys(KEY)
    assert keys.new(CONTEXT) == (b"p" * 32, b"c")
    assert keys.decrypt(b"c", CONTEXT) == b"p" * 32
    client = boto3.client("kms", region_name="eu-central-1", endpoint_url=server.url)
    client.generate_data_key(KeyId=KEY, KeySpec="AES_256", EncryptionContext=CONTEXT)
    client.decrypt(KeyId=KEY, CiphertextBlob=b"c", EncryptionContext=CONTEXT)
    assert server.asked[:2] == server.asked[2:]
    scopes = {each.partition(", SignedHeaders")[0].partition("/")[2] for each in server.authorizations}
    assert len(scopes) == 1
    assert scopes.pop().endswith("/eu-central-1/kms/aws4_request")


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ((400, b'{"__type": "InvalidCiphertextException"}'), KeyRefused),
        ((400, b'{"__type": "IncorrectKeyException"}'), KeyRefused),
        ((400, b'{"__type": "NotFoundException"}'), Stop),
        ((400, b'{"__type": "DisabledException"}'), Stop),
        ((400, b'{"__type": "AccessDeniedException"}'), Stop),
        ((400, b'{"__type": "ThrottlingException"}'), Retry),
        ((400, b'{"__type": "KMSInvalidStateException"}'), Retry),
        ((500, b'{"__type": "KMSInternalException"}'), Retry),
        ((502, b"<html>"), Retry),
        ((200, b'{"Plaintext": 1}'), Retry),
        ((200, b"{}"), Retry),
        (None, Retry),
    ],
)
def test_refusal_stops_and_an_outage_is_retried(
    server: AnsweringServer, answer: tuple[int, bytes] | None, error: type[Exception]
) -> None:
    server.answers = [answer]
    with pytest.raises(error):
        KmsDataKeys(KEY).decrypt(b"c", CONTEXT)


def test_sealed_secrets_open_for_their_context() -> None:
    box = SecretBox(InMemoryDataKeys())
    sealed = box.seal({"token": "abc"}, CONTEXT)
    assert b"abc" not in sealed
    assert box.seal({"token": "abc"}, CONTEXT) != sealed
    opened = box.open(sealed, CONTEXT)
    assert opened.values == {"token": "abc"}
    assert "abc" not in repr(opened)
    with pytest.raises(NotOpened):
        box.open(sealed, {**CONTEXT, "endpoint": "ep_8"})


@pytest.mark.parametrize("place", [0, 5, -40, -1])
def test_damaged_secrets_do_not_open(place: int) -> None:
    box = SecretBox(InMemoryDataKeys())
    sealed = bytearray(box.seal({"token": "abc"}, CONTEXT))
    sealed[place] ^= 1
    with pytest.raises(NotOpened):
        box.open(bytes(sealed), CONTEXT)


@pytest.mark.parametrize("sealed", [b"", b"\x00", b"\x00\x01a", b"\xff" * 30])
def test_bytes_that_are_not_sealed_do_not_open(sealed: bytes) -> None:
    with pytest.raises(NotOpened):
        SecretBox(InMemoryDataKeys()).open(sealed, CONTEXT)
