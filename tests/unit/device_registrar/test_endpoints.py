"""SNS endpoints: the contract by boto3 on moto, SNS' error responses, and responses that are not answers."""

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.stub import Stubber
from moto import mock_aws

from functions.device_registrar.endpoints import InvalidToken, SnsEndpoints
from local.devstack.service import AWS_CREDENTIALS
from local.emulators.local import REGION
from masscomm.aws import sdk
from masscomm.aws.client import SnsEndpointCalls
from masscomm.aws.request import Limits
from masscomm.errors import Retry, Stop, Unlisted
from tests.support.contracts.device_registrar import SnsEndpointsContract
from tests.support.servers.answering_server import AnsweringServer, answering

LIMITS = Limits(connect_s=1, read_s=0.5, attempts=2)
ERROR = b'<R xmlns="a"><Error><Type>Sender</Type><Code>%s</Code><Message>a &lt; b</Message></Error></R>'
APPLICATION = "arn:aws:sns:us-east-1:000000000000:app/GCM/app"
FOUND = b"<R><CreatePlatformEndpointResult><EndpointArn>arn:e</EndpointArn></CreatePlatformEndpointResult></R>"


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in AWS_CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_REGION", REGION)


class TestMotoEndpoints(SnsEndpointsContract):
    @pytest.fixture
    def client(self) -> Iterator[Any]:
        with mock_aws():
            yield sdk.client("sns", LIMITS)

    @pytest.fixture
    def endpoints(self, client: Any) -> SnsEndpoints:
        made = {
            platform.lower(): client.create_platform_application(Name="t", Platform=platform, Attributes={})
            for platform in ("GCM", "APNS")
        }
        return SnsEndpoints({name: each["PlatformApplicationArn"] for name, each in made.items()}, client)


@pytest.mark.guarantee("sns_answer.access_refused")
@pytest.mark.guarantee("sns_answer.unlisted")
@pytest.mark.kills(guard="endpoints.unlisted_refusal")
@pytest.mark.kills(guard="endpoints.wrong_application")
@pytest.mark.parametrize(
    ("code", "message", "status", "expected"),
    [
        ("Throttling", "Rate exceeded", 400, Retry),
        ("InternalError", "broken", 500, Retry),
        ("Unheard", "broken", 503, Retry),
        ("ExpiredTokenException", "expired", 403, Retry),
        ("Unheard", "no", 400, Unlisted),
        (
            "InvalidParameter",
            "Invalid parameter: Token Reason: iOS device tokens must be hexadecimal",
            400,
            InvalidToken,
        ),
        ("AuthorizationError", "no", 403, Stop),
        ("NotFound", "PlatformApplication does not exist", 404, Stop),
        (
            "InvalidParameter",
            "Invalid parameter: PlatformApplicationArn Reason: Wrong number of slashes in relative portion of the ARN.",
            400,
            Stop,
        ),
    ],
)
def test_sns_refusal_has_its_documented_meaning(
    code: str, message: str, status: int, expected: type[Exception]
) -> None:
    client = sdk.client("sns", LIMITS)
    with Stubber(client) as answers:
        answers.add_client_error("create_platform_endpoint", code, message, status)
        with pytest.raises(expected) as caught:
            SnsEndpoints({"gcm": APPLICATION}, client).register("gcm", "t")
    assert type(caught.value) is expected


@pytest.mark.kills(guard="endpoints.application_of_platform")
@pytest.mark.parametrize("arn", [APPLICATION, "arn:aws:sns:us-east-1:000000000000:app/APNS_VOIP/app", "app"])
def test_application_of_another_platform_is_a_stop(arn: str) -> None:
    with pytest.raises(Stop, match="no platform application of apns"):
        SnsEndpoints({"apns": arn}, sdk.client("sns", LIMITS))


def test_endpoint_with_other_attributes_is_read_from_refusal() -> None:
    client = sdk.client("sns", LIMITS)
    arn = "arn:aws:sns:us-east-1:000000000000:endpoint/GCM/app/8d1c"
    with Stubber(client) as answers:
        answers.add_client_error(
            "create_platform_endpoint",
            "InvalidParameter",
            f"Invalid parameter: Token Reason: Endpoint {arn} already exists with the same Token, but different"
            " attributes.",
        )
        answers.add_response(
            "set_endpoint_attributes", {}, {"EndpointArn": arn, "Attributes": {"Token": "t", "Enabled": "true"}}
        )
        assert SnsEndpoints({"gcm": APPLICATION}, client).register("gcm", "t") == arn
        answers.assert_no_pending_responses()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[AnsweringServer]:
    with answering(lambda request: request.path) as made:
        monkeypatch.setenv("AWS_ENDPOINT_URL_SNS", made.url)
        yield made


def registered(*, attempts: int = 2) -> str:
    client = SnsEndpointCalls(Limits(connect_s=1, read_s=0.5, attempts=attempts))
    return SnsEndpoints({"gcm": APPLICATION}, client).register("gcm", "t")


@pytest.mark.parametrize(
    "answer",
    [
        None,
        (200, b"no XML"),
        (200, b"<R></R>"),
        (200, b"<R><CreatePlatformEndpointResult/></R>"),
        (400, b"<html>"),
        (503, b"<html>"),
        (429, ERROR % b"Throttled"),
    ],
    ids=["closed", "no XML", "no result", "no endpoint", "a proxy's page", "unavailable", "throttled"],
)
def test_registration_without_an_answer_is_a_retry(server: AnsweringServer, answer: tuple[int, bytes] | None) -> None:
    server.answers = [answer]
    with pytest.raises(Retry):
        registered(attempts=1)


@pytest.mark.parametrize("first", [None, (500, ERROR % b"InternalError"), (400, ERROR % b"Throttling")])
def test_transient_error_is_repeated_once(server: AnsweringServer, first: tuple[int, bytes] | None) -> None:
    server.answers = [first, (200, FOUND)]
    assert registered() == "arn:e"
    server.answers = [(500, ERROR % b"InternalError")]
    with pytest.raises(Retry):
        registered()
    assert len(server.asked) == 4


def test_refused_connection_is_a_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_SNS", "http://127.0.0.1:9")
    with pytest.raises(Retry, match="EndpointConnectionError"):
        registered(attempts=1)


def test_client_without_a_region_is_a_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(Stop, match="AWS_REGION"):
        registered()
