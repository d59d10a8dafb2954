"""The audit logs keep their contract."""

from typing import Any

import pytest

from masscomm.stores.audit_log.dynamodb import DynamoDbAuditLog
from masscomm.stores.audit_log.in_memory import InMemoryAuditLog
from masscomm.stores.audit_log.port import AuditLog
from tests.support.contracts.audit_log import AuditLogContract, entry
from tests.support.servers.dynamodb_table import new_table


class TestInMemoryAuditLog(AuditLogContract):
    @pytest.fixture
    def log(self) -> AuditLog:
        return InMemoryAuditLog()


class TestMotoAuditLog(AuditLogContract):
    @pytest.fixture
    def log(self, moto_dynamodb: Any) -> AuditLog:
        return DynamoDbAuditLog(table=new_table(moto_dynamodb, "audit_log"), client=moto_dynamodb)


def test_an_entry_is_kept_for_400_days() -> None:
    made = entry()
    assert made.expires_at - made.at_ms // 1000 == 400 * 86_400
