"""Creates the Glue databases of the archives' Iceberg tables, and the permissions of the last one's writers."""

from aws_cdk import Stack
from aws_cdk import aws_glue as glue
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.cdk.config import Environment

TABLES = ("records", "uncounted")


class ArchiveCatalog(Construct):
    """A Glue database for each archive; the streaming job creates the tables in the last one. Former ones stay.

    Args:
        folder: The folder of the first archive, which has those of the others.

    Attributes:
        folder: The folder of the last archive.
        variables: The settings of the jobs that use the tables.
        statements: The permissions to create, read and commit to the tables, none to delete them. A commit is an
            UpdateTable (https://iceberg.apache.org/docs/latest/aws/#glue-catalog).
    """

    def __init__(self, scope: Construct, *, environment: Environment, archive: s3.IBucket, folder: str) -> None:
        super().__init__(scope, "archive")
        stack = Stack.of(self)
        # Spark's SQL has no unquoted names with hyphens.
        name, self.folder = environment.prefix.replace("-", "_"), folder
        for number in range(1, environment.spark.archive + 1):
            if number > 1:
                name, self.folder = f"{environment.prefix.replace('-', '_')}_{number}", f"{folder}/{number}"
            glue.CfnDatabase(
                self,
                "database" if number == 1 else f"database-{number}",
                catalog_id=stack.account,
                database_input=glue.CfnDatabase.DatabaseInputProperty(
                    name=name,
                    description="the archive of the metrics",
                    location_uri=archive.s3_url_for_object(self.folder),
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
