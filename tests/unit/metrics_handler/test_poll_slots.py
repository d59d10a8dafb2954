import pytest

from functions.metrics_handler.store.poll_slots import InMemoryPollSlots, PollSlots
from tests.support.contracts.poll_slots import PollSlotsContract


class TestInMemoryPollSlots(PollSlotsContract):
    @pytest.fixture
    def slots(self) -> PollSlots:
        return InMemoryPollSlots()
