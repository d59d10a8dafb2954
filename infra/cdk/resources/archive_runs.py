"""Creates the daily runs on the archive: maintenance, and the recomputation of the day before; and the retention of the
metrics database.
"""

from collections.abc import Iterable, Mapping

from aws_cdk import Stack
from aws_cdk import aws_emrserverless as emr
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_s3_assets as assets
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from infra.cdk.code import ROOT, job_dependencies, staged_sources
from infra.cdk.config import Environment
from infra.cdk.resources.findings import explain
from infra.cdk.resources.handler import Handler
from infra.cdk.resources.logs import log_group
from infra.cdk.resources.streaming_job import RECORDS, spark_jars, spark_parameters

_ROOMS = ("masscomm", "schemas", "spark_metrics")
# The hour (UTC) of each daily run, by its module of spark_metrics.
HOURS = {"retention": 1, "maintenance": 2, "recompute": 4}


class ArchiveRuns(Construct):
    """The runs start in the application of the erasing job, because keep_job cancels other runs of the streaming job's.

    Attributes:
        starter: The function that starts a run.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        environment: Environment,
        key: kms.IKey,
        application: emr.CfnApplication,
        archive: s3.IBucket,
        variables: Mapping[str, str],
        statements: Iterable[iam.PolicyStatement],
    ) -> None:
        super().__init__(scope, "runs")
        stack = Stack.of(self)
        log = log_group(self, "log", environment=environment, key=key, name=f"/{environment.prefix}/archive-runs")
        entries = {name: assets.Asset(self, name, path=str(ROOT / "spark_metrics" / f"{name}.py")) for name in HOURS}
        sources = assets.Asset(self, "sources", path=str(staged_sources(_ROOMS)))
        dependencies = assets.Asset(self, "dependencies", path=str(job_dependencies()))
        jars = spark_jars(self)
        made_of = [*entries.values(), sources, dependencies, *jars]
        role = iam.Role(
            self,
            "role",
            assumed_by=iam.ServicePrincipal(
                "emr-serverless.amazonaws.com", conditions={"StringEquals": {"aws:SourceAccount": stack.account}}
            ),
        )
        for statement in [
            *statements,
            iam.PolicyStatement(
                actions=["s3:DeleteObject", "s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload"],
                resources=[archive.arn_for_objects(f"{RECORDS}/*")],
            ),
            iam.PolicyStatement(actions=["s3:ListBucket"], resources=[archive.bucket_arn, sources.bucket.bucket_arn]),
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
            role.add_to_policy(statement)
        bucket = Stack.of(archive).resolve(Stack.of(archive).export_value(archive.bucket_arn))["Fn::ImportValue"]
        explain(role, "the archive is many files in this folder", f"IAM5[Resource::{bucket}/{RECORDS}/*]")
        explain(
            role,
            "EMR finds the log group in the list of the account's log groups",
            f"IAM5[Resource::arn:aws:logs:{stack.region}:<AWS::AccountId>:*]",
        )
        request = {
            "applicationId": application.attr_application_id,
            "name": f"{environment.prefix}-archive",
            "executionRoleArn": role.role_arn,
            "mode": "BATCH",
            "executionTimeoutMinutes": 720,
            "jobDriver": {
                "sparkSubmit": {
                    "entryPoint": "",
                    "entryPointArguments": [],
                    "sparkSubmitParameters": spark_parameters(environment, sources, dependencies, jars, variables),
                }
            },
            "configurationOverrides": {
                "monitoringConfiguration": {
                    "managedPersistenceMonitoringConfiguration": {"enabled": False},
                    "cloudWatchLoggingConfiguration": {"enabled": True, "logGroupName": log.log_group_name},
                }
            },
        }
        parameter = ssm.StringParameter(
            self,
            "request",
            parameter_name=f"/{environment.prefix}/archive-runs",
            description="what start_run starts, without the entry point",
            string_value=stack.to_json_string(request),
            tier=ssm.ParameterTier.ADVANCED,
        )
        starter = Handler(
            self,
            module="start_run",
            environment=environment,
            key=key,
            timeout_s=60,
            variables={"RUN_PARAMETER": parameter.parameter_name},
            statements=[
                iam.PolicyStatement(actions=["ssm:GetParameter"], resources=[parameter.parameter_arn]),
                iam.PolicyStatement(actions=["emr-serverless:StartJobRun"], resources=[application.attr_arn]),
                iam.PolicyStatement(
                    actions=["iam:PassRole"],
                    resources=[role.role_arn],
                    conditions={"StringLike": {"iam:PassedToService": "emr-serverless.amazonaws.com"}},
                ),
            ],
        )
        self.starter = starter.function
        spark = environment.spark
        arguments = {
            "retention": ["--recipient-log-days", str(spark.recipient_log_days), *spark.retention],
            "maintenance": ["--keep-days", str(spark.archive_days)],
            "recompute": ["--day-before"],
        }
        for name, hour in HOURS.items():
            events.Rule(
                self,
                f"daily-{name}",
                schedule=events.Schedule.cron(minute="30", hour=str(hour)),
                targets=[
                    targets.LambdaFunction(
                        starter.function,
                        event=events.RuleTargetInput.from_object(
                            {"name": name, "entryPoint": entries[name].s3_object_url, "arguments": arguments[name]}
                        ),
                    )
                ],
            )
