"""The audit logs keep their contract."""

from collections.abc import Iterator

import boto3
import pytest
from moto import mock_aws

from devstack.service import AWS_CREDENTIALS
from emulators.local import REGION
from masscomm.stores.audit_log import AuditLog, InMemoryAuditLog
from masscomm.stores.audit_log_dynamodb import DynamoDbAuditLog
from tests.support.contracts.audit_log import AuditLogContract, entry
from tests.support.servers.dynamodb_table import new_table


class TestInMemoryAuditLog(AuditLogContract):
    @pytest.fixture
    def log(self) -> AuditLog:
        return InMemoryAuditLog()


class TestMotoAuditLog(AuditLogContract):
    @pytest.fixture
    def log(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[AuditLog]:
        for name, value in AWS_CREDENTIALS.items():
            monkeypatch.setenv(name, value)
        with mock_aws():
            client = boto3.client("dynamodb", region_name=REGION)
            yield DynamoDbAuditLog(table=new_table(client, "audit_log"), client=client)


def test_an_entry_is_kept_for_400_days() -> None:
    made = entry()
    assert made.expires_at - made.at_ms // 1000 == 400 * 86_400
