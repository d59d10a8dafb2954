from typing import Any

import pytest

from local.devstack.config import StackConfig
from masscomm.stores.email_counts.dynamodb import DynamoDbEmailCounter
from masscomm.stores.email_counts.port import EmailCounter
from tests.support.contracts.email_counts import EmailCountsContract
from tests.support.servers.dynamodb_table import dynamodb, functions_client, new_table

__all__ = ["functions_client"]


class TestDynamoDbEmailCounter(EmailCountsContract):
    @pytest.fixture
    def counter(self, localstack: StackConfig, functions_client: Any) -> EmailCounter:
        return DynamoDbEmailCounter(table=new_table(dynamodb(localstack), "key_usage"), client=functions_client)
