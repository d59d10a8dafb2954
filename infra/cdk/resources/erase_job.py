"""Creates the job that erases one person: an EMR Serverless application whose runs an operator starts.

It is a separate application, because keep_job cancels other runs in the application of the streaming job.
"""

from collections.abc import Iterable, Mapping

from aws_cdk import ArnFormat, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.cdk.config import Environment
from infra.cdk.profiles import ADDRESSES, ERASURE
from infra.cdk.resources.before_removal import stopped_before_removal
from infra.cdk.resources.findings import explain
from infra.cdk.resources.network import Place
from infra.cdk.resources.spark_application import spark_application
from infra.cdk.resources.spark_run import SparkRun

# The actions that masscomm/stores/delayed_records/dynamodb.py, ops/erasure/item_tables.py and personal_events.py use.
_TABLE_ACTIONS = ("BatchWriteItem", "DeleteItem", "GetItem", "PutItem", "Query", "Scan", "UpdateItem")
# Retentions in days that AWS or buckets.py determine (docs/personal-data.md).
_DYNAMODB_RECOVERY_DAYS, _OPENSEARCH_SNAPSHOT_DAYS, _ARCHIVE_VERSION_DAYS = 35, 14, 30


class EraseJob(Construct):
    """The EMR application, and the Systems Manager parameter /PREFIX/erase-job with a StartJobRun request that
    infra.erase completes.

    Attributes:
        application: The EMR application.
        role: The role with which a run executes.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        environment: Environment,
        key: kms.IKey,
        place: Place,
        archive: s3.IBucket,
        tables: Mapping[str, dynamodb.ITable],
        applications: Iterable[str],
        variables: Mapping[str, str],
        statements: Iterable[iam.PolicyStatement],
        other_runs: int,
    ) -> None:
        super().__init__(scope, "erase")
        name = f"{environment.prefix}-{ERASURE}"
        self.application = application = spark_application(
            self,
            environment=environment,
            name=name,
            place=place,
            # A person can be erased while each of the other runs has all its workers.
            workers=(1 + other_runs) * (1 + environment.spark.executors),
            idle_minutes=5,
        )
        stopped_before_removal(self, application, environment=environment, key=key)
        endpoints = [f"{arn.replace(':app/', ':endpoint/')}/*" for arn in applications]
        run = SparkRun(
            self,
            environment=environment,
            key=key,
            archive=archive,
            name=ERASURE,
            packages=("masscomm", "schemas", "spark_metrics", "ops/erasure"),
            entries={"entry": "ops/erasure/__main__.py"},
            variables=variables,
            # The request of a run has 8 kB at most, and executors use no table.
            driver_variables={
                **{f"{name.upper()}_TABLE": table.table_name for name, table in tables.items()},
                "ERASURE_BACKUPS": _backups(environment),
            },
            statements=[
                *statements,
                iam.PolicyStatement(
                    actions=[f"dynamodb:{action}" for action in _TABLE_ACTIONS],
                    resources=[table.table_arn for table in tables.values()],
                ),
                iam.PolicyStatement(actions=["sns:DeleteEndpoint"], resources=endpoints),
                iam.PolicyStatement(
                    actions=["secretsmanager:GetSecretValue"], resources=[self._addresses(environment)]
                ),
            ],
            # The role name is fixed, because a role mapping inside the OpenSearch domain contains it.
            role_name=f"{environment.global_prefix}-{ERASURE}",
        )
        self.role = run.role
        run.store_request(
            application,
            parameter="erase-job",
            description="what infra.erase starts, without the person",
            entry="entry",
            name=name,
        )
        self._explain(environment, endpoints)

    def _addresses(self, environment: Environment) -> str:
        """Return the secrets in which infra.erase passes addresses on; AWS ends their ARNs."""
        return Stack.of(self).format_arn(
            service="secretsmanager",
            resource="secret",
            resource_name=f"{environment.prefix}/{ADDRESSES}/*",
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )

    def _explain(self, environment: Environment, endpoints: list[str]) -> None:
        stack = Stack.of(self)
        explain(
            self.role,
            "infra.erase makes a secret for each run",
            f"IAM5[Resource::arn:aws:secretsmanager:{stack.region}:<AWS::AccountId>:secret:{environment.prefix}/{ADDRESSES}/*]",
        )
        names = [arn.split(":endpoint/")[1] for arn in endpoints]
        explain(
            self.role,
            "an application has an endpoint for each device",
            *(f"IAM5[Resource::arn:aws:sns:{stack.region}:<AWS::AccountId>:endpoint/{name}]" for name in names),
        )


def _backups(environment: Environment) -> str:
    """Return the retention of backups and logs in days, in the form of ERASURE_BACKUPS (ops/erasure/__main__.py)."""
    days = {
        "database-backups": environment.database.backup_days,
        "dynamodb-recovery": _DYNAMODB_RECOVERY_DAYS,
        "opensearch-snapshots": _OPENSEARCH_SNAPSHOT_DAYS,
        "logs": environment.log_days,
        "traces": 30,
    }
    if environment.protected:
        days["archive-versions"] = _ARCHIVE_VERSION_DAYS
    return ",".join(f"{name}={number}" for name, number in days.items())
