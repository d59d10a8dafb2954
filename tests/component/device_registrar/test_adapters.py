from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest
from mypy_boto3_sns import SNSClient

from functions.device_registrar.device_states import OpenSearchDeviceStates
from functions.device_registrar.endpoints import SnsEndpoints
from functions.device_registrar.token_holders import OpenSearchTokenHolders
from local.devstack.config import StackConfig
from local.devstack.provision import create_indices
from tests.support.contracts.device_registrar import (
    DeviceStatesContract,
    Enabled,
    EndpointsContract,
    TokenHoldersContract,
)
from tests.support.servers.localstack_client import localstack_client
from tests.support.servers.opensearch_client import TestClient


class TestSnsEndpoints(EndpointsContract):
    @pytest.fixture
    def client(self, localstack: StackConfig) -> SNSClient:
        client: SNSClient = localstack_client(localstack.aws_url, "sns")
        return client

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
        return SnsEndpoints(made, client)

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
