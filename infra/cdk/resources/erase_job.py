"""Creates the job that erases one person: an EMR Serverless application whose runs an operator starts.

It is a separate application, because keep_job cancels other runs in the application of the streaming job.
"""

from collections.abc import Iterable, Mapping

from aws_cdk import ArnFormat, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_s3_assets as assets
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from infra.cdk.code import ROOT, job_dependencies, staged_sources
from infra.cdk.config import Environment
from infra.cdk.profiles import ADDRESSES, ERASURE
from infra.cdk.resources.findings import explain
from infra.cdk.resources.logs import log_group
from infra.cdk.resources.spark_application import spark_application
from infra.cdk.resources.streaming_job import RECORDS, spark_jars, spark_parameters

_ROOMS = ("masscomm", "schemas", "spark_metrics", "erasure")
# The actions that masscomm/stores/delayed_records/dynamodb.py and erasure/item_tables.py use.
_TABLE_ACTIONS = ("DeleteItem", "GetItem", "PutItem", "Scan", "UpdateItem")
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
        vpc: ec2.IVpc,
        subnets: ec2.SubnetSelection,
        group: ec2.ISecurityGroup,
        archive: s3.IBucket,
        tables: Mapping[str, dynamodb.ITable],
        applications: Iterable[str],
        variables: Mapping[str, str],
        statements: Iterable[iam.PolicyStatement],
        other_runs: int,
    ) -> None:
        super().__init__(scope, "erase")
        stack, name = Stack.of(self), f"{environment.prefix}-{ERASURE}"
        log = log_group(self, "log", environment=environment, key=key, name=f"/{environment.prefix}/{ERASURE}")
        self.application = application = spark_application(
            self,
            environment=environment,
            name=name,
            vpc=vpc,
            subnets=subnets,
            group=group,
            # A person can be erased while each of the other runs has all its workers.
            workers=(1 + other_runs) * (1 + environment.spark.executors),
            idle_minutes=5,
        )
        entry = assets.Asset(self, "entry", path=str(ROOT / "erasure" / "__main__.py"))
        sources = assets.Asset(self, "sources", path=str(staged_sources(_ROOMS)))
        dependencies = assets.Asset(self, "dependencies", path=str(job_dependencies()))
        jars = spark_jars(self)
        endpoints = [f"{arn.replace(':app/', ':endpoint/')}/*" for arn in applications]
        self.role = iam.Role(
            self,
            "role",
            # The role name is fixed, because a role mapping inside the OpenSearch domain contains it.
            role_name=name,
            assumed_by=iam.ServicePrincipal(
                "emr-serverless.amazonaws.com", conditions={"StringEquals": {"aws:SourceAccount": stack.account}}
            ),
            description="erases one person from every store",
        )
        made_of = [entry, sources, dependencies, *jars]
        for statement in [
            *statements,
            iam.PolicyStatement(
                actions=[f"dynamodb:{action}" for action in _TABLE_ACTIONS],
                resources=[table.table_arn for table in tables.values()],
            ),
            iam.PolicyStatement(actions=["sns:DeleteEndpoint"], resources=endpoints),
            iam.PolicyStatement(actions=["secretsmanager:GetSecretValue"], resources=[self._addresses(environment)]),
            iam.PolicyStatement(
                actions=["s3:DeleteObject", "s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload"],
                resources=[archive.arn_for_objects(f"{RECORDS}/*")],
            ),
            iam.PolicyStatement(actions=["s3:ListBucket"], resources=[archive.bucket_arn, entry.bucket.bucket_arn]),
            iam.PolicyStatement(
                actions=["s3:GetObject"],
                resources=[each.bucket.arn_for_objects(each.s3_object_key) for each in made_of],
            ),
            iam.PolicyStatement(actions=["kms:Decrypt", "kms:GenerateDataKey"], resources=[key.key_arn]),
            iam.PolicyStatement(
                actions=["logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"],
                resources=[log.log_group_arn],
            ),
            iam.PolicyStatement(
                actions=["logs:DescribeLogGroups"],
                resources=[f"arn:{stack.partition}:logs:{stack.region}:{stack.account}:*"],
            ),
        ]:
            self.role.add_to_policy(statement)
        everywhere = {
            **variables,
            **{f"{name.upper()}_TABLE": table.table_name for name, table in tables.items()},
            "ERASURE_BACKUPS": _backups(environment),
        }
        request = {
            "applicationId": application.attr_application_id,
            "name": name,
            "executionRoleArn": self.role.role_arn,
            "mode": "BATCH",
            "executionTimeoutMinutes": 720,
            "jobDriver": {
                "sparkSubmit": {
                    "entryPoint": entry.s3_object_url,
                    "entryPointArguments": [],
                    "sparkSubmitParameters": spark_parameters(environment, sources, dependencies, jars, everywhere),
                }
            },
            "configurationOverrides": {
                "monitoringConfiguration": {
                    "managedPersistenceMonitoringConfiguration": {"enabled": False},
                    "cloudWatchLoggingConfiguration": {"enabled": True, "logGroupName": log.log_group_name},
                }
            },
        }
        ssm.StringParameter(
            self,
            "request",
            parameter_name=f"/{environment.prefix}/erase-job",
            description="what infra.erase starts, without the person",
            string_value=stack.to_json_string(request),
            tier=ssm.ParameterTier.ADVANCED,
        )
        self._explain(environment, archive, endpoints)

    def _addresses(self, environment: Environment) -> str:
        """Return the secrets in which infra.erase passes addresses on; AWS ends their ARNs."""
        return Stack.of(self).format_arn(
            service="secretsmanager",
            resource="secret",
            resource_name=f"{environment.prefix}/{ADDRESSES}/*",
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )

    def _explain(self, environment: Environment, archive: s3.IBucket, endpoints: list[str]) -> None:
        stack = Stack.of(self)
        bucket = Stack.of(archive).resolve(Stack.of(archive).export_value(archive.bucket_arn))["Fn::ImportValue"]
        explain(
            self.role,
            "the archive is many files in this folder",
            f"IAM5[Resource::{bucket}/{RECORDS}/*]",
        )
        explain(
            self.role,
            "EMR finds the log group in the list of the account's log groups",
            f"IAM5[Resource::arn:aws:logs:{stack.region}:<AWS::AccountId>:*]",
        )
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
    """Return the retention of backups and logs in days, in the form of ERASURE_BACKUPS (erasure/__main__.py)."""
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
