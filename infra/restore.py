"""Restores a DynamoDB table of a deployed environment: `python -m infra.restore ENVIRONMENT TABLE --at TIME`.

TABLE is a name of schemas/dynamodb, TIME is RFC 3339; without it, the latest moment that DynamoDB can restore. The
table is restored into a new name, and gets the settings that DynamoDB does not restore. The command prints the lines of
the environment's file with which the next deployment uses the new table. docs/internals/restoring.md says which tables
may go back in time, and what to repair then. It may be repeated with the same name.

Source: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/pointintimerecovery_restores.html
"""

import argparse
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from infra.cdk.config import Environment, tables
from infra.cdk.environments import add_folder_option, environment_of
from infra.cdk.resources.tables import definitions

_POLL_S = 10.0


def restore(
    dynamodb: Any,
    environment: Environment,
    table: str,
    *,
    at: datetime | None,
    name: str,
    pause: Callable[[float], object],
) -> None:
    """Restore a table into a new name, and give it the settings of the environment's tables.

    Args:
        dynamodb: A boto3 client of DynamoDB.
        environment: The environment.
        table: The table, by its name in schemas/dynamodb.
        at: The moment; None: the latest one.
        name: The name of the restored table.
        pause: Sleeps for a number of seconds.

    Raises:
        botocore.exceptions.ClientError: A call was refused.
    """
    moment: dict[str, Any] = {"UseLatestRestorableTime": True} if at is None else {"RestoreDateTime": at}
    source = environment.table_name(table)
    if name not in _names(dynamodb):
        dynamodb.restore_table_to_point_in_time(SourceTableName=source, TargetTableName=name, **moment)
    while (restored := dynamodb.describe_table(TableName=name)["Table"])["TableStatus"] != "ACTIVE":
        pause(_POLL_S)
    ttl = dynamodb.describe_time_to_live(TableName=name)["TimeToLiveDescription"]
    if ttl["TimeToLiveStatus"] == "DISABLED":
        dynamodb.update_time_to_live(TableName=name, TimeToLiveSpecification=definitions()[table]["time_to_live"])
    dynamodb.update_continuous_backups(
        TableName=name, PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True}
    )
    arn = dynamodb.describe_table(TableName=source)["Table"]["TableArn"]
    if tags := dynamodb.list_tags_of_resource(ResourceArn=arn).get("Tags"):
        own = [each for each in tags if not each["Key"].startswith("aws:")]
        dynamodb.tag_resource(ResourceArn=restored["TableArn"], Tags=own)
    if environment.keeps_data:
        dynamodb.update_table(TableName=name, DeletionProtectionEnabled=True)


def _names(dynamodb: Any) -> set[str]:
    return {name for page in dynamodb.get_paginator("list_tables").paginate() for name in page["TableNames"]}


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise argparse.ArgumentTypeError("the time has no zone: end it with Z for UTC")
    return moment


def main() -> int:
    """Run the command and return its exit status: 1 if the table could not be restored."""
    parser = argparse.ArgumentParser(prog="python -m infra.restore", description=__doc__)
    parser.add_argument("environment")
    parser.add_argument("table", choices=sorted(tables()))
    parser.add_argument("--at", type=_moment, help="the moment, such as 2026-11-29T09:30:00Z")
    parser.add_argument("--name", help="the name of the restored table; default: with the time of the command")
    add_folder_option(parser)
    chosen = parser.parse_args()
    try:
        environment = environment_of(chosen.environment, chosen.folder)
        name = chosen.name or f"{environment.prefix}-{chosen.table}-{datetime.now(UTC):%Y%m%d%H%M}"
        session: Any = boto3.Session()
        client = session.client("dynamodb", region_name=environment.region)
        restore(client, environment, chosen.table, at=chosen.at, name=name, pause=threading.Event().wait)
    except (ValueError, BotoCoreError, ClientError) as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    print(f"existing:\n  tables:\n    {chosen.table}: {name}")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
