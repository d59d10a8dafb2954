"""Creates the DynamoDB tables of schemas/dynamodb."""

import json
from importlib.resources import files
from itertools import pairwise
from typing import Any

from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kms as kms
from constructs import Construct

from infra.cdk.config import Environment
from infra.cdk.profiles import AUDIT
from infra.cdk.resources.logs import removal


def definitions() -> dict[str, Any]:
    """Return the table definitions of schemas/dynamodb by their table names there."""
    found = [json.loads(path.read_text()) for path in files("schemas").joinpath("dynamodb").iterdir()]
    return {each["table"]["TableName"]: each for each in sorted(found, key=lambda each: each["table"]["TableName"])}


class Tables(Construct):
    """The DynamoDB tables of an environment. Their names in AWS begin with the environment's prefix.

    Attributes:
        tables: The tables by their names in schemas/dynamodb.
    """

    def __init__(self, scope: Construct, *, environment: Environment, key: kms.IKey) -> None:
        super().__init__(scope, "tables")
        self.tables: dict[str, dynamodb.ITable] = {
            name: self._table(name, each, environment, key) for name, each in definitions().items()
        }
        # DynamoDB limits the tables with indices that are being created: they are created one after the other.
        indexed = [
            self.tables[name]
            for name, each in definitions().items()
            if each["table"].get(_INDICES) and name not in environment.existing.tables
        ]
        for earlier, later in pairwise(indexed):
            later.node.add_dependency(earlier)

    def _table(self, name: str, definition: Any, environment: Environment, key: kms.IKey) -> dynamodb.ITable:
        table, attributes = definition["table"], {}
        if name in environment.existing.tables:
            # infra/restore.py gives the restored table the settings of the one below.
            return dynamodb.Table.from_table_attributes(
                self,
                name,
                table_name=environment.table_name(name),
                encryption_key=key,
                global_indexes=[each["IndexName"] for each in table.get(_INDICES, ())],
            )
        for each in table["AttributeDefinitions"]:
            attributes[each["AttributeName"]] = dynamodb.Attribute(
                name=each["AttributeName"], type=_TYPES[each["AttributeType"]]
            )
        keys = {each["KeyType"]: attributes[each["AttributeName"]] for each in table["KeySchema"]}
        made = dynamodb.Table(
            self,
            name,
            table_name=environment.table_name(name),
            partition_key=keys["HASH"],
            sort_key=keys.get("RANGE"),
            billing_mode=dynamodb.BillingMode[table["BillingMode"]],
            time_to_live_attribute=definition["time_to_live"]["AttributeName"],
            encryption=dynamodb.TableEncryption.CUSTOMER_MANAGED,
            encryption_key=key,
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            deletion_protection=environment.protected,
            # For the copy of the audit log (infra/cdk/resources/audit_copy.py).
            stream=dynamodb.StreamViewType.NEW_AND_OLD_IMAGES if environment.protected and name == AUDIT else None,
            removal_policy=removal(environment),
        )
        for index in table.get(_INDICES, ()):
            keys = {each["KeyType"]: attributes[each["AttributeName"]] for each in index["KeySchema"]}
            made.add_global_secondary_index(
                index_name=index["IndexName"],
                partition_key=keys["HASH"],
                sort_key=keys.get("RANGE"),
                projection_type=dynamodb.ProjectionType[index["Projection"]["ProjectionType"]],
                non_key_attributes=index["Projection"].get("NonKeyAttributes"),
            )
        return made


_INDICES = "GlobalSecondaryIndexes"
_TYPES = {
    "S": dynamodb.AttributeType.STRING,
    "N": dynamodb.AttributeType.NUMBER,
    "B": dynamodb.AttributeType.BINARY,
}
