from typing import Any
from uuid import uuid4

import pytest

from local.devstack.config import StackConfig
from masscomm.errors import Stop
from masscomm.stores.audit_log.dynamodb import DynamoDbAuditLog
from masscomm.stores.audit_log.port import AuditLog
from tests.support.contracts.audit_log import AuditLogContract, entry
from tests.support.servers.dynamodb_table import dynamodb, functions_client, new_table

__all__ = ["functions_client"]


class TestDynamoDbAuditLog(AuditLogContract):
    @pytest.fixture
    def log(self, localstack: StackConfig, functions_client: Any) -> AuditLog:
        return DynamoDbAuditLog(table=new_table(dynamodb(localstack), "audit_log"), client=functions_client)


def test_a_table_that_does_not_exist_is_the_installations_fault(localstack: StackConfig) -> None:
    with pytest.raises(Stop):
        DynamoDbAuditLog(table=f"no-{uuid4()}", client=dynamodb(localstack)).record(entry())
