"""The list of disabled devices in memory keeps the contract."""

import pytest

from masscomm.directory.disabled_devices import InMemoryDisabledDevices
from tests.support.contracts.disabled_devices import DisabledDevicesContract, Made


class TestInMemoryDisabledDevices(DisabledDevicesContract):
    @pytest.fixture
    def made(self) -> Made:
        return InMemoryDisabledDevices
