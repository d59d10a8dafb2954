from typing import Any
from uuid import uuid4

import pytest

from local.devstack.config import StackConfig
from masscomm.errors import Stop
from masscomm.stores.send_controls import SendControls
from masscomm.stores.send_controls_dynamodb import DynamoDbSendControls
from tests.support.contracts.send_control_store import SEND, SendControlsContract
from tests.support.servers.dynamodb_table import dynamodb, functions_client, new_table

__all__ = ["functions_client"]


class TestDynamoDbSendControls(SendControlsContract):
    @pytest.fixture
    def controls(self, localstack: StackConfig, functions_client: Any) -> SendControls:
        return DynamoDbSendControls(table=new_table(dynamodb(localstack), "cancelled_sends"), client=functions_client)


def test_a_table_that_does_not_exist_is_the_installations_fault(localstack: StackConfig) -> None:
    store = DynamoDbSendControls(table=f"no-{uuid4()}", client=dynamodb(localstack))
    with pytest.raises(Stop):
        store.read([SEND])
