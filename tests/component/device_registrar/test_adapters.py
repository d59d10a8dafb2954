import fcntl
from collections.abc import Callable, Iterator
from uuid import uuid4

import boto3
import pytest
from botocore.stub import Stubber
from mypy_boto3_sns import SNSClient

from devstack.config import StackConfig
from devstack.provision import create_indices
from functions.device_registrar.device_states import OpenSearchDeviceStates
from functions.device_registrar.endpoints import InvalidToken, SnsEndpoints
from masscomm.errors import Retry, Stop
from tests.support.contracts.device_registrar import DeviceStatesContract, Enabled, EndpointsContract
from tests.support.servers.opensearch_client import TestClient


def sns(url: str | None = None) -> SNSClient:
    return boto3.client(
        "sns", region_name="us-east-1", endpoint_url=url, aws_access_key_id="test", aws_secret_access_key="test"
    )


class TestSnsEndpoints(EndpointsContract):
    @pytest.fixture
    def client(self, localstack: StackConfig) -> SNSClient:
        return sns(localstack.aws_url)

    @pytest.fixture
    def endpoints(self, client: SNSClient) -> SnsEndpoints:
        made = {
            platform.lower(): client.create_platform_application(
                Name=f"t{uuid4().hex}",
                Platform=platform,
                Attributes={"PlatformCredential": "x", "PlatformPrincipal": "x"},
            )["PlatformApplicationArn"]
            for platform in ("GCM", "APNS")
        }
        return SnsEndpoints(made, connections=4, client=client)

    @pytest.fixture
    def token(self) -> str:
        return uuid4().hex

    @pytest.fixture
    def enabled(self, client: SNSClient) -> Enabled:
        def ask(arn: str) -> bool | None:
            try:
                return client.get_endpoint_attributes(EndpointArn=arn)["Attributes"]["Enabled"] == "true"
            except client.exceptions.NotFoundException:
                return None

        return ask

    @pytest.fixture
    def disable(self, client: SNSClient) -> Callable[[str], None]:
        return lambda arn: client.set_endpoint_attributes(EndpointArn=arn, Attributes={"Enabled": "false"}) and None


@pytest.mark.guarantee("sns_answer.access_refused")
@pytest.mark.parametrize(
    ("code", "message", "status", "expected"),
    [
        ("Throttling", "Rate exceeded", 400, Retry),
        ("InternalError", "broken", 500, Retry),
        (
            "InvalidParameter",
            "Invalid parameter: Token Reason: iOS device tokens must be hexadecimal",
            400,
            InvalidToken,
        ),
        ("AuthorizationError", "no", 403, Stop),
        ("NotFound", "PlatformApplication does not exist", 404, Stop),
    ],
)
def test_sns_refusal_has_its_documented_meaning(
    code: str, message: str, status: int, expected: type[Exception]
) -> None:
    client = sns()
    with Stubber(client) as answers:
        answers.add_client_error("create_platform_endpoint", code, message, status)
        with pytest.raises(expected):
            SnsEndpoints({"gcm": "arn:app"}, connections=1, client=client).register("gcm", "t")


def test_endpoint_with_other_attributes_is_read_from_refusal() -> None:
    client = sns()
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
        assert SnsEndpoints({"gcm": "arn:app"}, connections=1, client=client).register("gcm", "t") == arn
        answers.assert_no_pending_responses()


class TestOpenSearchDeviceStates(DeviceStatesContract):
    @pytest.fixture
    def states(self, opensearch: StackConfig) -> Iterator[OpenSearchDeviceStates]:
        with (opensearch.state_dir / "directory.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            client = TestClient(opensearch.opensearch_url)
            client.indices.delete(index="device_state", ignore_unavailable=True)
            create_indices(opensearch.opensearch_url, "g1")
            yield OpenSearchDeviceStates(client)
            client.close()
