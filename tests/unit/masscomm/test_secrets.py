"""Secrets are read by the request that boto3 sends."""

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest

from masscomm.aws.secrets import read_secret
from masscomm.errors import Retry, Stop
from tests.support.servers.answering_server import AnsweringServer, answering
from tests.support.servers.http_server import Asked

ARN = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:keys"


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


def test_request_is_boto3s(server: AnsweringServer) -> None:
    server.answers = [(200, json.dumps({"ARN": ARN, "SecretString": "content"}).encode())]
    assert read_secret(ARN) == "content"
    client = boto3.client("secretsmanager", region_name="eu-central-1", endpoint_url=server.url)
    assert client.get_secret_value(SecretId=ARN)["SecretString"] == "content"
    assert server.asked[0] == server.asked[1]
    scopes = {each.partition(", SignedHeaders")[0].partition("/")[2] for each in server.authorizations}
    assert len(scopes) == 1
    assert scopes.pop().endswith("/eu-central-1/secretsmanager/aws4_request")


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ((400, b'{"__type": "com.amazonaws#ResourceNotFoundException"}'), Stop),
        ((400, b'{"__type": "AccessDeniedException"}'), Stop),
        ((400, b'{"__type": "ThrottlingException"}'), Retry),
        ((500, b'{"__type": "InternalServiceError"}'), Retry),
        ((502, b"<html>"), Retry),
        ((200, b'{"SecretBinary": "AA=="}'), Retry),
        (None, Retry),
    ],
)
def test_refusal_stops_and_an_outage_is_retried(
    server: AnsweringServer, answer: tuple[int, bytes] | None, error: type[Exception]
) -> None:
    server.answers = [answer]
    with pytest.raises(error):
        read_secret(ARN)
