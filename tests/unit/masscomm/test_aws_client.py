"""Our AWS client sends the same requests as botocore and raises the same errors."""

import json
import socket
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qsl

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionClosedError,
    EndpointConnectionError,
    NoCredentialsError,
    ReadTimeoutError,
)

from masscomm.aws.client import DynamoDb, SnsEndpointCalls
from masscomm.aws.request import Limits
from masscomm.errors import Stop
from tests.support.contracts.provider import SesAsBoto3
from tests.support.servers.answering_server import AnsweringServer, answering
from tests.support.servers.http_server import Asked

OURS: dict[str, Any] = {"dynamodb": DynamoDb, "sesv2": SesAsBoto3, "sns": SnsEndpointCalls}
ONCE = Limits(connect_s=1, read_s=2)


def read(request: Asked) -> tuple[Any, ...]:
    kind = (request.headers.get("content-type") or "").partition(";")[0]
    form = kind == "application/x-www-form-urlencoded"
    said: Any = sorted(parse_qsl(request.body.decode(), keep_blank_values=True)) if form else json.loads(request.body)
    return request.path, kind, request.headers.get("x-amz-target"), said


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[AnsweringServer]:
    with answering(read) as made:
        for name, value in {
            "AWS_ENDPOINT_URL": made.url,
            "AWS_REGION": "eu-central-1",
            "AWS_DEFAULT_REGION": "eu-central-1",
            "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_SESSION_TOKEN": "token",
        }.items():
            monkeypatch.setenv(name, value)
        yield made


def _theirs(service: Any) -> Any:
    return boto3.client(service, config=Config(retries={"total_max_attempts": 1, "mode": "standard"}))


KEY = {"record_id": {"S": "ä"}, "part": {"S": "slice#0"}}
CALLS: list[tuple[str, Callable[[Any], Any], bytes]] = [
    (
        "dynamodb",
        lambda client: client.put_item(
            TableName="t",
            Item={**KEY, "value": {"B": b"\0\xff"}, "n": {"N": "5"}},
            ConditionExpression="attribute_not_exists(part)",
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        ),
        b"{}",
    ),
    (
        "dynamodb",
        lambda client: client.get_item(TableName="t", Key=KEY, ConsistentRead=True),
        b'{"Item": {"value": {"B": "AP8="}, "B": {"S": "a"}}}',
    ),
    (
        "dynamodb",
        lambda client: client.batch_get_item(RequestItems={"t": {"Keys": [KEY], "ConsistentRead": True}}),
        b'{"Responses": {"t": [{"value": {"B": "AP8="}}]}, "UnprocessedKeys": {}}',
    ),
    (
        "dynamodb",
        lambda client: client.update_item(
            TableName="t",
            Key=KEY,
            UpdateExpression="SET #owner = :owner",
            ExpressionAttributeNames={"#owner": "owner"},
            ExpressionAttributeValues={":owner": {"S": "me"}},
            ReturnValues="ALL_OLD",
        ),
        b'{"Attributes": {"owner": {"S": "you"}}}',
    ),
    (
        "dynamodb",
        lambda client: client.transact_write_items(
            TransactItems=[{"Put": {"TableName": "t", "Item": {**KEY, "value": {"B": b"\0"}}}}], ClientRequestToken="a"
        ),
        b"{}",
    ),
    ("dynamodb", lambda client: client.delete_item(TableName="t", Key=KEY), b"{}"),
    ("dynamodb", lambda client: client.query(TableName="t", KeyConditionExpression="a = b"), b'{"Items": []}'),
    (
        "sesv2",
        lambda client: client.send_email(
            Destination={"ToAddresses": ["b@example.com"]},
            Content={"Raw": {"Data": b"Subject: x\r\n\r\n\xff"}},
            ConfigurationSetName="set",
            TenantName="club-7",
        ),
        b'{"MessageId": "m"}',
    ),
    (
        "sns",
        lambda client: client.create_platform_endpoint(
            PlatformApplicationArn="arn:a", Token="t &ä", Attributes={"Enabled": "true"}
        ),
        b"<R><CreatePlatformEndpointResult><EndpointArn>arn:e</EndpointArn></CreatePlatformEndpointResult></R>",
    ),
    (
        "sns",
        lambda client: client.set_endpoint_attributes(
            EndpointArn="arn:e", Attributes={"Token": "t", "Enabled": "true"}
        ),
        b"<R><ResponseMetadata><RequestId>r</RequestId></ResponseMetadata></R>",
    ),
]


@pytest.mark.parametrize(("service", "call", "answer"), CALLS)
def test_request_and_answer_equal_botocores(
    server: AnsweringServer, service: str, call: Callable[[Any], Any], answer: bytes
) -> None:
    server.answers = [(200, answer)]
    theirs, ours = call(_theirs(service)), call(OURS[service](ONCE))
    of_theirs, of_ours = server.asked
    assert of_ours == of_theirs
    theirs.pop("ResponseMetadata")
    assert ours == theirs
    scopes = [text.partition("Credential=")[2].partition(",")[0].split("/", 2)[2] for text in server.authorizations]
    assert scopes[0] == scopes[1]


DYNAMODB_ERROR = b'{"__type": "com.amazonaws.dynamodb.v20120810#%s", "message": "m", "Item": {"b": {"B": "AP8="}}}'


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        (400, DYNAMODB_ERROR % b"ConditionalCheckFailedException"),
        (400, DYNAMODB_ERROR % b"ResourceNotFoundException"),
        (500, DYNAMODB_ERROR % b"InternalServerError"),
        (503, b"<html>"),
    ],
)
def test_refusal_raises_botocores_error(server: AnsweringServer, status: int, answer: bytes) -> None:
    server.answers = [(status, answer)]
    said = []
    for client in (_theirs("dynamodb"), DynamoDb(ONCE)):
        with pytest.raises(ClientError) as refused:
            client.get_item(TableName="t", Key=KEY)
        response: Any = refused.value.response
        item = response.get("Item") if b"Conditional" in answer else None
        said.append((response["Error"]["Code"], response["Error"].get("Message", ""), item))
    if answer != b"<html>":
        assert said[0] == said[1]
    assert str(said[1][0]) in (str(said[0][0]), str(status))


def test_refusal_of_sns_raises_botocores_error(server: AnsweringServer) -> None:
    server.answers = [
        (404, b"<R><Error><Type>Sender</Type><Code>NotFound</Code><Message>a &lt; b</Message></Error></R>")
    ]
    said = []
    for client in (_theirs("sns"), SnsEndpointCalls(ONCE)):
        with pytest.raises(ClientError) as refused:
            client.set_endpoint_attributes(EndpointArn="arn:e", Attributes={})
        response: Any = refused.value.response
        error = response["Error"]
        said.append((error["Code"], error["Message"], response["ResponseMetadata"]["HTTPStatusCode"]))
    assert said[0] == said[1] == ("NotFound", "a < b", 404)


def test_cancelled_transaction_has_botocores_reasons(server: AnsweringServer) -> None:
    kind = "com.amazonaws.dynamodb.v20120810#TransactionCanceledException"
    reasons = [{"Code": "None"}, {"Code": "ConditionalCheckFailed", "Message": "m", "Item": {"b": {"B": "AP8="}}}]
    server.answers = [(400, json.dumps({"__type": kind, "Message": "m", "CancellationReasons": reasons}).encode())]
    said = []
    for client in (_theirs("dynamodb"), DynamoDb(ONCE)):
        with pytest.raises(ClientError) as refused:
            client.transact_write_items(TransactItems=[{}], ClientRequestToken="a")
        response: Any = refused.value.response
        said.append((response["Error"], response["CancellationReasons"]))
    assert said[0] == said[1]
    assert said[1][1][1]["Item"] == {"b": {"B": b"\0\xff"}}


@pytest.mark.parametrize(
    ("address", "error"), [(None, ConnectionClosedError), ("http://127.0.0.1:9", EndpointConnectionError)]
)
def test_missing_answer_raises_botocores_error(
    server: AnsweringServer, monkeypatch: pytest.MonkeyPatch, address: str | None, error: type[BotoCoreError]
) -> None:
    server.answers = [None]
    if address is not None:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
    for client in (_theirs("dynamodb"), DynamoDb(ONCE)):
        with pytest.raises(error):
            client.get_item(TableName="t", Key=KEY)


def test_an_answer_that_is_too_slow_is_a_read_time_out(
    monkeypatch: pytest.MonkeyPatch, server: AnsweringServer
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(ReadTimeoutError):
            DynamoDb(Limits(connect_s=1, read_s=0.1)).get_item(TableName="t", Key=KEY)


def test_only_transient_errors_are_retried(server: AnsweringServer) -> None:
    busy, ok = (400, DYNAMODB_ERROR % b"ThrottlingException"), (200, b'{"Item": {"a": {"S": "b"}}}')
    client = DynamoDb(Limits(connect_s=1, read_s=2, attempts=3))
    server.answers = [busy, None, ok]
    assert client.get_item(TableName="t", Key={}) == {"Item": {"a": {"S": "b"}}}
    assert len(server.asked) == 3
    server.answers = [(400, DYNAMODB_ERROR % b"ConditionalCheckFailedException")]
    with pytest.raises(ClientError):
        client.put_item(TableName="t", Item={})
    assert len(server.asked) == 4
    server.answers = [(500, b"{}")]
    with pytest.raises(ClientError):
        client.get_item(TableName="t", Key={})
    assert len(server.asked) == 7


@pytest.mark.parametrize("code", [b"TransactionConflictException", b"TransactionInProgressException"])
def test_write_is_repeated_after_another_transaction(server: AnsweringServer, code: bytes) -> None:
    server.answers = [(400, DYNAMODB_ERROR % code), (200, b"{}")]
    DynamoDb(Limits(connect_s=1, read_s=2, attempts=2)).put_item(TableName="t", Item={})
    assert len(server.asked) == 2


def test_all_pages_are_read(server: AnsweringServer) -> None:
    last = b'{"Items": [{"id": {"S": "1"}}], "LastEvaluatedKey": {"id": {"S": "1"}}}'
    server.answers = [(200, last), (200, b'{"Items": [{"id": {"S": "2"}}]}')]
    pages = DynamoDb(ONCE).get_paginator("query").paginate(TableName="t")
    assert [item["id"]["S"] for page in pages for item in page["Items"]] == ["1", "2"]
    assert [asked[3].get("ExclusiveStartKey") for asked in server.asked] == [None, {"id": {"S": "1"}}]


def test_without_region_or_credentials_no_request_is_sent(
    server: AnsweringServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = DynamoDb(ONCE)
    monkeypatch.setattr("masscomm.aws.credentials._of_the_sdk", _none)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(NoCredentialsError):
        client.get_item(TableName="t", Key=KEY)
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name)
    with pytest.raises(Stop, match="AWS_REGION"):
        DynamoDb(ONCE)
    assert server.asked == []


def _none() -> Any:
    raise Stop("there are no AWS credentials to sign with")


@pytest.mark.parametrize("text", ["x", "a+b c&d=e%/~*'()!;:@", "\n\t\0", "ä€𝄞", '{"a": "\\u00e4"}'])
def test_any_text_and_bytes_arrive_as_botocore_sends_them(server: AnsweringServer, text: str) -> None:
    server.answers = [(200, b'{"MessageId": "m"}')]
    for client in (_theirs("sesv2"), SesAsBoto3(ONCE)):
        client.send_email(
            Destination={"ToAddresses": ["b@example.com"]},
            Content={"Raw": {"Data": text.encode()}},
            ConfigurationSetName=text,
        )
    assert server.asked[0] == server.asked[1]
