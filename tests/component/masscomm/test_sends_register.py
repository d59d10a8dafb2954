from typing import Any
from uuid import uuid4

import pytest

from local.devstack.config import StackConfig
from masscomm.clock import FixedClock
from masscomm.errors import Stop
from masscomm.stores.sends.dynamodb import DynamoDbSends
from masscomm.stores.sends.port import Sends
from tests.support.contracts.sends import KEY, NOW, SendsContract
from tests.support.servers.dynamodb_table import dynamodb, functions_client, new_table

__all__ = ["functions_client"]


class TestDynamoDbSends(SendsContract):
    @pytest.fixture
    def clock(self) -> FixedClock:
        return FixedClock(NOW)

    @pytest.fixture
    def sends(self, clock: FixedClock, localstack: StackConfig, functions_client: Any) -> Sends:
        return DynamoDbSends(table=new_table(dynamodb(localstack), "sends"), client=functions_client, clock=clock)


def test_a_table_that_does_not_exist_is_the_installations_fault(localstack: StackConfig) -> None:
    store = DynamoDbSends(table=f"no-{uuid4()}", client=dynamodb(localstack))
    with pytest.raises(Stop):
        store.read([KEY])
