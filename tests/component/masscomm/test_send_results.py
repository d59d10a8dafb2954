from typing import Any

import pytest

from local.devstack.config import StackConfig
from masscomm.clock import FixedClock
from masscomm.stores.send_results.dynamodb import DynamoDbSendResults
from masscomm.stores.send_results.port import SendResults
from tests.support.contracts.send_results import NOW, SendResultsContract
from tests.support.servers.dynamodb_table import dynamodb, functions_client, new_table

__all__ = ["functions_client"]


class TestDynamoDbSendResults(SendResultsContract):
    @pytest.fixture
    def clock(self) -> FixedClock:
        return FixedClock(NOW)

    @pytest.fixture
    def results(self, clock: FixedClock, localstack: StackConfig, functions_client: Any) -> SendResults:
        table = new_table(dynamodb(localstack), "sends")
        return DynamoDbSendResults(table=table, client=functions_client, clock=clock)
