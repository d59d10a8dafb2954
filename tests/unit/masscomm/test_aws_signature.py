"""Our signatures equal botocore's, over generated requests and over the bytes that a server receives.

AWS documentation, IAM user guide, "Create a signed AWS API request": the signed headers must include Host, Content-Type
if the request has one, and every x-amz-* header.
"""

import hashlib
import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from urllib.parse import quote

import boto3
import botocore.auth
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials as BotocoreCredentials

from masscomm.aws.authentication import OpenSearchSigner
from masscomm.aws.client import DynamoDb
from masscomm.aws.credentials import RoleCredentials
from masscomm.aws.request import FORM, Limits
from masscomm.aws.signature import Credentials, Scope, Signer, signature, signed_headers, string_to_sign
from masscomm.channels.sns_push import SnsPush
from masscomm.directory.client import OpenSearch
from tests.support.contracts.provider import SesAsBoto3, publish
from tests.support.servers.answering_server import AnsweringServer, answering
from tests.support.servers.http_server import Asked

ONCE = Limits(connect_s=1, read_s=5)
INPUTS = 3_000
# Characters in names, paths and queries that quoting or sorting may treat wrongly.
LETTERS = "abzAZ09-_.~ +%/?&=,;:*'()!@$#[]{}|\\^`<>\"\tä€𝄞"
PRINTABLE = "".join(map(chr, range(33, 127)))
NAMES = ["Content-Type", "X-Amz-Meta-a", "accept"]
OPERATIONS = ["PutItem", "GetItem", "UpdateItem", "DeleteItem", "Query", "Scan"]
HOSTS = [
    *("sns.eu-central-1.amazonaws.com", "email.us-east-1.amazonaws.com", "dynamodb.cn-north-1.amazonaws.com.cn"),
    *("vpc-directory.eu-central-1.es.amazonaws.com", "localhost:9200", "directory:443", "127.0.0.1:80"),
]


@dataclass(frozen=True)
class Input:
    """A random request to one of the services, with its time and credentials."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes
    scope: Scope
    credentials: Credentials


def _input(seed: int) -> Input:
    draw = random.Random(seed)  # noqa: S311 - inputs of a test

    def text(letters: str, longest: int, shortest: int = 0) -> str:
        return "".join(draw.choices(letters, k=draw.randint(shortest, longest)))

    # Paths include empty and relative parts.
    parts = [draw.choice([text(LETTERS, 8), "", ".", ".."]) for _ in range(draw.randint(0, 5))]
    pairs = [(text(LETTERS, 6), text(LETTERS, 6)) for _ in range(draw.randint(0, 4))]
    query = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in pairs)
    path = "/" + "/".join(quote(part, safe=",*") for part in parts)
    body = draw.randbytes(draw.randint(0, 200))
    service = draw.choice(["sns", "ses", "dynamodb", "es", "aoss"])
    target = f"DynamoDB_20120810.{draw.choice(OPERATIONS)}"
    headers = draw.choice(
        [
            dict(FORM),
            {"content-type": "application/x-amz-json-1.0", "x-amz-target": target},
            {"content-type": "application/x-ndjson"},
            {},
            # Values contain any printable characters, with spaces inside and around them.
            {name: f"  a  {text(PRINTABLE + ' ', 30)} " for name in draw.sample(NAMES, 2)},
        ]
    )
    if service in ("es", "aoss"):
        headers["x-amz-content-sha256"] = hashlib.sha256(body).hexdigest()
    # The time is any second within fifty years, in any zone, so the local date can differ from the date in UTC.
    zone = timezone(timedelta(hours=draw.randint(-12, 14)))
    at = datetime.fromtimestamp(draw.randint(1_000_000_000, 2_600_000_000), zone)
    return Input(
        method=draw.choice(["GET", "POST", "PUT", "HEAD", "DELETE"]),
        url=f"https://{draw.choice(HOSTS)}{path}{'?' + query if query else ''}",
        headers=headers,
        body=body,
        scope=Scope(service=service, region=draw.choice(["eu-central-1", "us-east-1", "cn-north-1"]), at=at),
        credentials=Credentials(
            text("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 20, 16),
            text(PRINTABLE, 60, 1),
            draw.choice([None, text("ABCabc019+/=", 200, 1)]),
        ),
    )


def _signed_by_botocore(
    method: str, url: str, headers: Mapping[str, str], body: bytes, credentials: Credentials, scope: Scope
) -> tuple[SigV4Auth, AWSRequest]:
    """Return botocore's signer and the request that it signed at the scope's time."""
    keys = BotocoreCredentials(credentials.access_key, credentials.secret_key, credentials.token)
    signer = SigV4Auth(keys, scope.service, scope.region)
    request = AWSRequest(method=method, url=url, data=body, headers=dict(headers))
    at = scope.at.astimezone(UTC).replace(tzinfo=None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore.auth, "get_current_datetime", lambda *_args, **_kwargs: at)
        signer.add_auth(request)
    return signer, request


def test_signature_equals_botocores() -> None:
    """For generated requests, the canonical request, the string to sign, the signature and the headers are equal."""
    for seed in range(INPUTS):
        given = _input(seed)
        scope, credentials, request = given.scope, given.credentials, (given.method, given.url)
        ours = signed_headers(*request, given.headers, given.body, scope=scope, credentials=credentials)
        signer, theirs = _signed_by_botocore(*request, given.headers, given.body, credentials, scope)
        their_headers = {name.lower(): value for name, value in theirs.headers.items()}
        assert ours == their_headers, seed
        # botocore computes the canonical request from headers without Authorization.
        authorization = their_headers.pop("authorization")
        theirs.headers = AWSRequest(headers=their_headers).headers
        their_text = signer.canonical_request(theirs)
        text = Signer(*request, given.headers, scope=scope, credentials=credentials).canonical_request(given.body)
        assert text == their_text, seed
        assert string_to_sign(text, scope) == signer.string_to_sign(theirs, their_text), seed
        assert signature(string_to_sign(text, scope), scope, credentials) == authorization.rpartition("=")[2], seed
        assert _signed_names(authorization) == {"host", *their_headers}, seed


def _signed_names(authorization: str) -> set[str]:
    return set(re.findall(r"SignedHeaders=([^,]+)", authorization)[0].split(";"))


def test_signing_key_depends_on_day_region_service_and_secret() -> None:
    """The cache must not return a signing key of another day, region, service or secret."""
    at = datetime(2026, 11, 22, 23, 59, 59, tzinfo=UTC)
    made = {
        signature(
            "text", Scope(service=service, region=region, at=at + timedelta(seconds=late)), Credentials("A", secret)
        )
        for service in ("sns", "ses")
        for region in ("eu-central-1", "eu-west-1")
        for late in (0, 1)
        for secret in ("a", "b")
    }
    assert len(made) == 16


# --- on the wire ------------------------------------------------------------------------------------------------------

KEY = {"id": {"S": "ä +/"}}
XML = b"<R><PublishResult><MessageId>m</MessageId></PublishResult></R>"
JSON = b'{"Items": [], "MessageId": "m"}'
RAW = {"Destination": {"ToAddresses": ["c@d.example"]}, "Content": {"Raw": {"Data": b"\xff"}}}
OURS: dict[str, Any] = {"dynamodb": DynamoDb, "sesv2": SesAsBoto3}
# Every action of our own clients.
ACTIONS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "PutItem": ("dynamodb", lambda client: client.put_item(TableName="t", Item=KEY)),
    "GetItem": ("dynamodb", lambda client: client.get_item(TableName="t", Key=KEY)),
    "UpdateItem": ("dynamodb", lambda client: client.update_item(TableName="t", Key=KEY)),
    "DeleteItem": ("dynamodb", lambda client: client.delete_item(TableName="t", Key=KEY)),
    "TransactWriteItems": (
        "dynamodb",
        lambda client: client.transact_write_items(TransactItems=[{"Delete": {"TableName": "t", "Key": KEY}}]),
    ),
    "Query": ("dynamodb", lambda client: client.query(TableName="t", KeyConditionExpression="a = b")),
    "Scan": ("dynamodb", lambda client: list(client.get_paginator("scan").paginate(TableName="t"))),
    "SendEmail": ("sesv2", lambda client: client.send_email(**RAW)),
}


def _read(request: Asked) -> tuple[str, str, list[tuple[str, str]], bytes]:
    return (
        request.command,
        request.path,
        [(name.lower(), value) for name, value in request.headers.items()],
        request.body,
    )


@pytest.fixture(params=["a token", None])
def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[AnsweringServer]:
    with answering(_read) as made:
        for name, value in {
            "AWS_ENDPOINT_URL": made.url,
            "AWS_REGION": "eu-central-1",
            "AWS_DEFAULT_REGION": "eu-central-1",
            "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
            "AWS_SECRET_ACCESS_KEY": "secret",
        }.items():
            monkeypatch.setenv(name, value)
        if request.param:
            monkeypatch.setenv("AWS_SESSION_TOKEN", request.param)
        else:
            monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
        yield made


def _check_received(server: AnsweringServer, service: str, token: str | None) -> None:
    """Each received request has only signed headers, and the signature that botocore computes."""
    for command, path, pairs, body in server.asked:
        headers = dict(pairs)
        assert len(headers) == len(pairs)
        authorization = headers.pop("authorization")
        assert int(headers.pop("content-length", 0)) == len(body)
        assert _signed_names(authorization) == set(headers)
        at = datetime.strptime(headers.pop("x-amz-date"), "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        assert headers.pop("x-amz-security-token", None) == token
        credentials = Credentials("AKIDEXAMPLE", "secret", token)
        scope = Scope(service="ses" if service == "sesv2" else service, region="eu-central-1", at=at)
        _, theirs = _signed_by_botocore(command, server.url + path, headers, body, credentials, scope)
        assert theirs.headers["Authorization"] == authorization


@pytest.mark.guarantee("aws_requests.every_header_is_signed")
@pytest.mark.kills(guard="signatures.all_headers")
@pytest.mark.parametrize("action", ACTIONS)
def test_every_header_that_is_received_is_signed(server: AnsweringServer, action: str) -> None:
    service, call = ACTIONS[action]
    server.answers = [(200, JSON)]
    call(OURS[service](ONCE))
    assert len(server.asked) == 1
    _check_received(server, service, RoleCredentials()().token)


@pytest.mark.parametrize("action", ACTIONS)
def test_at_least_the_headers_that_boto3_signs_are_signed(server: AnsweringServer, action: str) -> None:
    """The SDK's own headers, amz-sdk-*, are excepted."""
    service, call = ACTIONS[action]
    server.answers = [(200, JSON)]
    session: Any = boto3.session.Session()
    call(session.client(service, config=Config(retries={"total_max_attempts": 1})))
    call(OURS[service](ONCE))
    theirs, ours = map(_signed_names, server.authorizations)
    assert {name for name in theirs if not name.startswith("amz-sdk-")} == ours


def test_every_header_of_a_push_is_signed(server: AnsweringServer) -> None:
    server.answers = [(200, XML)]
    publish(
        SnsPush(),
        endpoint_arn="arn:aws:sns:eu-central-1:0:endpoint/GCM/a/b",
        message='{"ä": "+ /"}',
        attributes={"a": "b"},
    )
    _check_received(server, "sns", RoleCredentials()().token)


def test_every_header_of_a_request_to_the_directory_is_signed(server: AnsweringServer) -> None:
    client = OpenSearch(server.url, auth=OpenSearchSigner("eu-central-1", RoleCredentials()))
    client.search(index="users,devices*", body={"query": {"match": {"name": "Jürgen"}}}, routing="a b/c")
    client.mget(body={"docs": [{"_index": "users", "_id": "1"}]})
    client.bulk(body=b'{"index": {}}\n{}\n')
    client.get(index="users", id="a/b c?ä")
    client.indices.refresh()
    client.close()
    assert len(server.asked) == 5
    _check_received(server, "es", RoleCredentials()().token)
