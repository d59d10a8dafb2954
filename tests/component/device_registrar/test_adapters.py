from collections.abc import Iterator
from uuid import uuid4

import pytest
from mypy_boto3_sns import SNSClient

from functions.device_registrar.device_states import OpenSearchDeviceStates
from functions.device_registrar.endpoints import SnsEndpoints
from functions.device_registrar.token_holders import OpenSearchTokenHolders
from local.devstack.config import StackConfig
from local.devstack.provision import create_indices
from local.devstack.service import AWS_CREDENTIALS
from masscomm.aws.client import SnsEndpointCalls
from masscomm.aws.request import Limits
from tests.support.contracts.device_registrar import DeviceStatesContract, SnsEndpointsContract, TokenHoldersContract
from tests.support.servers.localstack_client import localstack_client
from tests.support.servers.opensearch_client import TestClient


class TestSnsEndpoints(SnsEndpointsContract):
    @pytest.fixture
    def client(self, localstack: StackConfig) -> SNSClient:
        client: SNSClient = localstack_client(localstack.aws_url, "sns")
        return client

    @pytest.fixture
    def endpoints(self, client: SNSClient, localstack: StackConfig, monkeypatch: pytest.MonkeyPatch) -> SnsEndpoints:
        for name, value in {**AWS_CREDENTIALS, "AWS_ENDPOINT_URL_SNS": localstack.aws_url}.items():
            monkeypatch.setenv(name, value)
        made = {
            platform.lower(): client.create_platform_application(
                Name=f"t{uuid4().hex}",
                Platform=platform,
                Attributes={"PlatformCredential": "x", "PlatformPrincipal": "x"},
            )["PlatformApplicationArn"]
            for platform in ("GCM", "APNS")
        }
        return SnsEndpoints(made, SnsEndpointCalls(Limits(connect_s=2, read_s=5)))


@pytest.fixture
def client_of_states(cluster: str) -> Iterator[TestClient]:
    """Return a client of a server whose index device_state is empty."""
    client = TestClient(cluster)
    client.indices.delete(index="device_state", ignore_unavailable=True)
    create_indices(cluster, "g1")
    yield client
    client.close()


class TestOpenSearchTokenHolders(TokenHoldersContract):
    @pytest.fixture
    def holders(self, client_of_states: TestClient) -> OpenSearchTokenHolders:
        return OpenSearchTokenHolders(client_of_states)


class TestOpenSearchDeviceStates(DeviceStatesContract):
    @pytest.fixture
    def states(self, client_of_states: TestClient) -> OpenSearchDeviceStates:
        return OpenSearchDeviceStates(client_of_states)
