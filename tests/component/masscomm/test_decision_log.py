from typing import Any
from uuid import uuid4

import pytest

from local.devstack.config import StackConfig
from masscomm.clock import FixedClock
from masscomm.errors import Stop
from masscomm.stores.decision_log.dynamodb import DynamoDbDecisionLog
from masscomm.stores.decision_log.port import DecisionLog
from tests.support.contracts.decision_log import DecisionLogContract
from tests.support.servers.dynamodb_table import dynamodb, functions_client, new_table

__all__ = ["functions_client"]


class TestDynamoDbDecisionLog(DecisionLogContract):
    @pytest.fixture
    def log(self, localstack: StackConfig, functions_client: Any) -> DecisionLog:
        table = new_table(dynamodb(localstack), "decisions")
        return DynamoDbDecisionLog(clock=FixedClock(), table=table, client=functions_client)

    def test_absent_table_stops_the_function(self, localstack: StackConfig) -> None:
        client = dynamodb(localstack)
        with pytest.raises(Stop):
            DynamoDbDecisionLog(clock=FixedClock(), table=f"no-{uuid4()}", client=client).put_if_absent("r", b"x")
