from typing import Any
from uuid import uuid4

import pytest

from devstack.config import StackConfig
from functions.metrics_handler.store.poll_slots import PollSlots
from functions.metrics_handler.store.poll_slots_dynamodb import DynamoDbPollSlots
from masscomm.errors import Stop
from tests.support.contracts.poll_slots import LATER, NOW, PollSlotsContract
from tests.support.servers.dynamodb_table import dynamodb, functions_client, new_table

__all__ = ["functions_client"]


class TestDynamoDbPollSlots(PollSlotsContract):
    @pytest.fixture
    def slots(self, localstack: StackConfig, functions_client: Any) -> PollSlots:
        return DynamoDbPollSlots(table=new_table(dynamodb(localstack), "open_polls"), client=functions_client)


def test_absent_poll_slots_table_is_a_stop(localstack: StackConfig) -> None:
    slots = DynamoDbPollSlots(table=f"no-{uuid4()}", client=dynamodb(localstack))
    with pytest.raises(Stop):
        slots.take("a", 1, now_ms=NOW, until_ms=LATER)
