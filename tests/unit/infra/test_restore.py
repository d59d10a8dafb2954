"""A table is restored into a new name with all its settings, and the environment's file can name it."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from aws_cdk import App, Stack
from aws_cdk import aws_kms as kms
from aws_cdk.assertions import Template
from botocore.exceptions import ClientError
from moto import mock_aws

from infra.cdk.config import ExistingConfig
from infra.cdk.examples import DEV
from infra.cdk.resources.tables import Tables, definitions
from infra.restore import restore

NEW = "masscomm-dev-waiting-202611290930"
AT = datetime(2026, 11, 29, 9, 30, tzinfo=UTC)
TAGS = [{"Key": "environment", "Value": "dev"}]


@pytest.fixture
def dynamodb(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The delay store of `dev` with an item."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "a")
    with mock_aws():
        client: Any = boto3.client("dynamodb", region_name=DEV.region)
        client.create_table(**definitions()["waiting"]["table"] | {"TableName": "masscomm-dev-waiting", "Tags": TAGS})
        client.update_continuous_backups(
            TableName="masscomm-dev-waiting", PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True}
        )
        client.put_item(TableName="masscomm-dev-waiting", Item={"due_bucket": {"S": "b"}, "id": {"S": "1"}})
        yield client


def restored(dynamodb: Any, **given: Any) -> None:
    values: dict[str, Any] = {"environment": DEV, "table": "waiting", "at": AT, "name": NEW} | given
    restore(dynamodb, pause=lambda _: None, **values)


def test_restored_table_has_the_items_and_settings(dynamodb: Any) -> None:
    """DynamoDB restores neither the time to live nor backups, tags and protection."""
    restored(dynamodb, environment=replace(DEV, protected=True))
    assert dynamodb.scan(TableName=NEW)["Count"] == 1
    table = dynamodb.describe_table(TableName=NEW)["Table"]
    assert [each["IndexName"] for each in table["GlobalSecondaryIndexes"]] == ["by_send"]
    assert table["DeletionProtectionEnabled"]
    ttl = dynamodb.describe_time_to_live(TableName=NEW)["TimeToLiveDescription"]
    assert ttl == {"TimeToLiveStatus": "ENABLED", "AttributeName": "expires_at"}
    backups = dynamodb.describe_continuous_backups(TableName=NEW)["ContinuousBackupsDescription"]
    assert backups["PointInTimeRecoveryDescription"]["PointInTimeRecoveryStatus"] == "ENABLED"
    assert dynamodb.list_tags_of_resource(ResourceArn=table["TableArn"])["Tags"] == TAGS


def test_repeated_restore_completes_the_settings(dynamodb: Any) -> None:
    """A command that was interrupted is repeated with its name."""
    dynamodb.restore_table_to_point_in_time(
        SourceTableName="masscomm-dev-waiting", TargetTableName=NEW, UseLatestRestorableTime=True
    )
    for _ in range(2):
        restored(dynamodb, at=None)
    assert dynamodb.describe_time_to_live(TableName=NEW)["TimeToLiveDescription"]["TimeToLiveStatus"] == "ENABLED"
    assert not dynamodb.describe_table(TableName=NEW)["Table"]["DeletionProtectionEnabled"]


def test_restored_table_is_the_source_of_the_next_restore(dynamodb: Any) -> None:
    restored(dynamodb)
    dynamodb.delete_table(TableName="masscomm-dev-waiting")
    environment = replace(DEV, existing=ExistingConfig(tables={"waiting": NEW}))
    restored(dynamodb, environment=environment, name=f"{NEW}-2")
    assert dynamodb.scan(TableName=f"{NEW}-2")["Count"] == 1
    with pytest.raises(ClientError, match="TableNotFoundException"):
        restored(dynamodb, name=f"{NEW}-3")


def test_deployment_uses_the_restored_table() -> None:
    stack = Stack(App(), "stack")
    environment = replace(DEV, existing=ExistingConfig(tables={"waiting": NEW}))
    tables = Tables(stack, environment=environment, key=kms.Key(stack, "key")).tables
    made = Template.from_stack(stack).find_resources("AWS::DynamoDB::Table")
    assert {each["Properties"]["TableName"] for each in made.values()} == {
        f"masscomm-dev-{name}" for name in definitions().keys() - {"waiting"}
    }
    assert stack.resolve(tables["waiting"].table_name) == NEW
    assert tables["waiting"].encryption_key is not None


@pytest.mark.parametrize(
    ("tables", "problem"),
    [({"audit_log": NEW}, "audit_log keeps its name"), ({"waitings": NEW}, "schemas/dynamodb has no waitings")],
)
def test_impossible_table_is_refused(tables: dict[str, str], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        ExistingConfig(tables=tables)
