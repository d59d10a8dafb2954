from typing import Any

import pytest

from masscomm.stores.email_counts.dynamodb import DynamoDbEmailCounter
from masscomm.stores.email_counts.in_memory import InMemoryEmailCounter
from masscomm.stores.email_counts.port import EmailCounter
from tests.support.contracts.email_counts import EmailCountsContract
from tests.support.servers.dynamodb_table import new_table


class TestMotoEmailCounter(EmailCountsContract):
    @pytest.fixture
    def counter(self, moto_dynamodb: Any) -> EmailCounter:
        return DynamoDbEmailCounter(table=new_table(moto_dynamodb, "key_usage"), client=moto_dynamodb)


class TestInMemoryEmailCounter(EmailCountsContract):
    @pytest.fixture
    def counter(self) -> EmailCounter:
        return InMemoryEmailCounter()
