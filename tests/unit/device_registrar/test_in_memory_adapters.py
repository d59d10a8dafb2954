from collections.abc import Callable

import pytest

from functions.device_registrar.device_states import InMemoryDeviceStates
from functions.device_registrar.endpoints import InMemoryEndpoints
from functions.device_registrar.token_holders import InMemoryTokenHolders
from tests.support.contracts.device_registrar import (
    DeviceStatesContract,
    Enabled,
    EndpointsContract,
    TokenHoldersContract,
)


class TestInMemoryEndpoints(EndpointsContract):
    @pytest.fixture
    def endpoints(self) -> InMemoryEndpoints:
        return InMemoryEndpoints()

    @pytest.fixture
    def token(self) -> str:
        return "t"

    @pytest.fixture
    def enabled(self, endpoints: InMemoryEndpoints) -> Enabled:
        return endpoints.enabled.get

    @pytest.fixture
    def disable(self, endpoints: InMemoryEndpoints) -> Callable[[str], None]:
        return lambda arn: endpoints.enabled.update({arn: False})


class TestInMemoryTokenHolders(TokenHoldersContract):
    @pytest.fixture
    def holders(self) -> InMemoryTokenHolders:
        return InMemoryTokenHolders()


class TestInMemoryDeviceStates(DeviceStatesContract):
    @pytest.fixture
    def states(self) -> InMemoryDeviceStates:
        return InMemoryDeviceStates()
