from typing import Any

import pytest

from local.devstack.config import StackConfig
from masscomm.stores.expansions import Expansions
from masscomm.stores.expansions_dynamodb import DynamoDbExpansions
from tests.support.contracts.expansions import ConcurrentExpansionsContract, ExpansionsContract
from tests.support.servers.dynamodb_table import dynamodb, functions_client, new_table

__all__ = ["functions_client"]


class TestDynamoDbExpansions(ExpansionsContract, ConcurrentExpansionsContract):
    @pytest.fixture
    def expansions(self, localstack: StackConfig, functions_client: Any) -> Expansions:
        return DynamoDbExpansions(table=new_table(dynamodb(localstack), "audience_expansions"), client=functions_client)
