import pytest

from masscomm.stores.request_slots import InMemoryRequestSlots, RequestSlots
from tests.support.contracts.request_slots import RequestSlotsContract


class TestInMemoryRequestSlots(RequestSlotsContract):
    @pytest.fixture
    def slots(self) -> RequestSlots:
        return InMemoryRequestSlots()
