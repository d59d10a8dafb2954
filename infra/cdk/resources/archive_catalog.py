"""Creates the Glue database of the archive's Iceberg table, and the permissions of its writers."""

from aws_cdk import Stack
from aws_cdk import aws_glue as glue
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.cdk.config import Environment

TABLES = ("records", "uncounted")


class ArchiveCatalog(Construct):
    """A Glue database; the streaming job creates the tables in it.

    Attributes:
        variables: The settings of the jobs that use the tables.
        statements: The permissions to create, read and commit to the tables, none to delete them. A commit is an
            UpdateTable (https://iceberg.apache.org/docs/latest/aws/#glue-catalog).
    """

    def __init__(self, scope: Construct, *, environment: Environment, archive: s3.IBucket, folder: str) -> None:
        super().__init__(scope, "archive")
        stack = Stack.of(self)
        # Spark's SQL has no unquoted names with hyphens.
        name = environment.prefix.replace("-", "_")
        glue.CfnDatabase(
            self,
            "database",
            catalog_id=stack.account,
            database_input=glue.CfnDatabase.DatabaseInputProperty(
                name=name, description="the archive of the metrics", location_uri=archive.s3_url_for_object(folder)
            ),
        )
        self.variables = {"SPARK_ARCHIVE_CATALOG": "glue", "SPARK_ARCHIVE_DATABASE": name}
        resources = [("catalog", None), ("database", name), *[("table", f"{name}/{table}") for table in TABLES]]
        self.statements = [
            iam.PolicyStatement(
                actions=["glue:CreateTable", "glue:GetDatabase", "glue:GetTable", "glue:UpdateTable"],
                resources=[
                    stack.format_arn(service="glue", resource=kind, resource_name=resource)
                    for kind, resource in resources
                ],
            )
        ]
