from typing import Any
from uuid import uuid4

import pytest

from devstack.config import StackConfig
from masscomm.errors import Stop
from masscomm.stores.cancellations import Cancellations
from masscomm.stores.cancellations_dynamodb import DynamoDbCancellations
from tests.support.contracts.cancellations import SEND, CancellationsContract
from tests.support.servers.dynamodb_table import dynamodb, functions_client, new_table

__all__ = ["functions_client"]


class TestDynamoDbCancellations(CancellationsContract):
    @pytest.fixture
    def cancellations(self, localstack: StackConfig, functions_client: Any) -> Cancellations:
        return DynamoDbCancellations(table=new_table(dynamodb(localstack), "cancelled_sends"), client=functions_client)


def test_a_table_that_does_not_exist_is_the_installations_fault(localstack: StackConfig) -> None:
    store = DynamoDbCancellations(table=f"no-{uuid4()}", client=dynamodb(localstack))
    with pytest.raises(Stop):
        store.cancelled([SEND])
