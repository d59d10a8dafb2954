from typing import Any
from uuid import uuid4

import pytest

from local.devstack.config import StackConfig
from masscomm.errors import Stop
from masscomm.stores.request_slots.dynamodb import DynamoDbRequestSlots
from masscomm.stores.request_slots.port import Kind, RequestSlots
from tests.support.contracts.request_slots import LATER, NOW, RequestSlotsContract
from tests.support.servers.dynamodb_table import dynamodb, functions_client, new_table

__all__ = ["functions_client"]


class TestDynamoDbRequestSlots(RequestSlotsContract):
    @pytest.fixture
    def slots(self, localstack: StackConfig, functions_client: Any) -> RequestSlots:
        return DynamoDbRequestSlots(table=new_table(dynamodb(localstack), "open_polls"), client=functions_client)


def test_absent_table_of_slots_is_a_stop(localstack: StackConfig) -> None:
    slots = DynamoDbRequestSlots(table=f"no-{uuid4()}", client=dynamodb(localstack))
    with pytest.raises(Stop):
        slots.take(Kind.POLL, "a", 1, now_ms=NOW, until_ms=LATER)
