import pytest

from masscomm.stores.request_slots.in_memory import InMemoryRequestSlots
from masscomm.stores.request_slots.port import RequestSlots
from tests.support.contracts.request_slots import RequestSlotsContract


class TestInMemoryRequestSlots(RequestSlotsContract):
    @pytest.fixture
    def slots(self) -> RequestSlots:
        return InMemoryRequestSlots()
