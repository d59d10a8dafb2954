"""Creates the streaming job on EMR Serverless: its application, its code, and the function that keeps one run
active.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from aws_cdk import Duration, Stack
from aws_cdk import aws_ec2 as ec2
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
from infra.cdk.resources.spark_application import spark_application

_ROOMS = ("masscomm", "schemas", "spark_metrics")
# Iceberg and AWS' SDK for it are those of the tests. No page confirms where emr-spark-8.0.0 has its own:
# https://docs.aws.amazon.com/emr/latest/ReleaseGuide/emr-spark800-release.html
_JARS = ("spark", "msk_iam", "iceberg_aws")
# The part of a worker's memory outside of its JVM's heap: Python workers, and buffers of the network and of Iceberg. By
# default, it is a tenth of the heap: https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/app-behavior.html
_OVERHEAD_GB = 2
# The options equal those in spark_metrics/session.py, which has their reasons; a test compares them.
_JVM_OPTIONS = (
    "-Dorg.apache.avro.limits.collectionItems.maxLength=1100000"
    " -Dorg.apache.avro.limits.bytes.maxLength=2200000"
    " -Dorg.apache.avro.limits.string.maxLength=2200000"
    " -Dorg.apache.avro.fastread=true"
)
RECORDS = "records"


class StreamingJob(Construct):
    """An EMR application with one run of the streaming job at a time.

    Attributes:
        name: The name of the application.
        role: The role with which a run executes.
        keeper: The function that keeps one run active.
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
        variables: Mapping[str, str],
        statements: Iterable[iam.PolicyStatement],
    ) -> None:
        super().__init__(scope, "job")
        self.name = f"{environment.prefix}-metrics"
        log = log_group(self, "log", environment=environment, key=key, name=f"/{environment.prefix}/spark-metrics")
        self.application = spark_application(
            self,
            environment=environment,
            name=self.name,
            vpc=vpc,
            subnets=subnets,
            group=group,
            # The capacity includes the driver and one spare worker, so that a new run can start before the old one has
            # ended.
            workers=environment.spark.executors + 2,
            idle_minutes=15,
        )
        entry = assets.Asset(self, "entry", path=str(ROOT / "spark_metrics" / "job.py"))
        sources = assets.Asset(self, "sources", path=str(staged_sources(_ROOMS)))
        dependencies = assets.Asset(self, "dependencies", path=str(job_dependencies()))
        jars = spark_jars(self)
        made_of = [entry, sources, dependencies, *jars]
        self.role = self._role(archive, key, made_of, log.log_group_arn, statements)
        request = {
            "applicationId": self.application.attr_application_id,
            # keep_job appends a digest of this request.
            "name": environment.prefix,
            "executionRoleArn": self.role.role_arn,
            "mode": "STREAMING",
            # No limit: by default, EMR Serverless cancels a run after twelve hours.
            "executionTimeoutMinutes": 0,
            # After five failed attempts in an hour the run ends, and keep_job starts another one.
            "retryPolicy": {"maxFailedAttemptsPerHour": 5},
            "jobDriver": {
                "sparkSubmit": {
                    "entryPoint": entry.s3_object_url,
                    "sparkSubmitParameters": spark_parameters(environment, sources, dependencies, jars, variables),
                }
            },
            "configurationOverrides": {
                "monitoringConfiguration": {
                    "managedPersistenceMonitoringConfiguration": {"enabled": False},
                    "cloudWatchLoggingConfiguration": {
                        "enabled": True,
                        # The log group itself has a key. If the key were given here, keep_job and the run would need
                        # permissions for it.
                        "logGroupName": log.log_group_name,
                    },
                }
            },
        }
        self._keeper(environment, key, request)

    def _role(
        self,
        archive: s3.IBucket,
        key: kms.IKey,
        made_of: list[assets.Asset],
        log_arn: str,
        statements: Iterable[iam.PolicyStatement],
    ) -> iam.Role:
        stack = Stack.of(self)
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
            iam.PolicyStatement(
                actions=["s3:ListBucket"], resources=[archive.bucket_arn, made_of[0].bucket.bucket_arn]
            ),
            iam.PolicyStatement(
                actions=["s3:GetObject"],
                resources=[each.bucket.arn_for_objects(each.s3_object_key) for each in made_of],
            ),
            iam.PolicyStatement(actions=["kms:Decrypt", "kms:GenerateDataKey"], resources=[key.key_arn]),
            iam.PolicyStatement(
                actions=["logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"], resources=[log_arn]
            ),
            iam.PolicyStatement(
                actions=["logs:DescribeLogGroups"],
                resources=[f"arn:{stack.partition}:logs:{stack.region}:{stack.account}:*"],
            ),
        ]:
            role.add_to_policy(statement)
        bucket = Stack.of(archive).resolve(Stack.of(archive).export_value(archive.bucket_arn))["Fn::ImportValue"]
        explain(
            role,
            "the archive is many files in this folder",
            f"IAM5[Resource::{bucket}/{RECORDS}/*]",
        )
        explain(
            role,
            "EMR finds the log group in the list of the account's log groups",
            f"IAM5[Resource::arn:aws:logs:{stack.region}:<AWS::AccountId>:*]",
        )
        return role

    def _keeper(self, environment: Environment, key: kms.IKey, request: dict[str, Any]) -> None:
        application, stack = self.application.attr_arn, Stack.of(self)
        parameter = ssm.StringParameter(
            self,
            "request",
            parameter_name=f"/{environment.prefix}/streaming-job",
            description="what keep_job starts",
            string_value=stack.to_json_string(request),
            tier=ssm.ParameterTier.ADVANCED,
        )
        keeper = Handler(
            self,
            module="keep_job",
            environment=environment,
            key=key,
            timeout_s=60,
            variables={"JOB_PARAMETER": parameter.parameter_name, "APPLICATION": self.name},
            statements=[
                iam.PolicyStatement(actions=["ssm:GetParameter"], resources=[parameter.parameter_arn]),
                iam.PolicyStatement(
                    actions=["emr-serverless:ListJobRuns", "emr-serverless:StartJobRun"], resources=[application]
                ),
                iam.PolicyStatement(actions=["emr-serverless:CancelJobRun"], resources=[f"{application}/jobruns/*"]),
                iam.PolicyStatement(
                    actions=["iam:PassRole"],
                    resources=[self.role.role_arn],
                    conditions={"StringLike": {"iam:PassedToService": "emr-serverless.amazonaws.com"}},
                ),
            ],
        )
        self.keeper = keeper.function
        rules = {
            "each-minute": {"schedule": events.Schedule.rate(Duration.minutes(1))},
            "state-changed": {
                "event_pattern": events.EventPattern(
                    source=["aws.emr-serverless"],
                    detail_type=["EMR Serverless Job Run State Change"],
                    detail={"applicationId": [self.application.attr_application_id]},
                )
            },
        }
        for name, when in rules.items():
            # A failed invocation is not retried, because the next one, a minute later, takes the same step.
            events.Rule(self, name, targets=[targets.LambdaFunction(keeper.function, retry_attempts=0)], **when)
        explain(
            keeper,
            "run ids are assigned at the start: all runs of this application",
            f"IAM5[Resource::<{stack.get_logical_id(self.application)}.Arn>/jobruns/*]",
        )


def shipped_jars() -> list[Path]:
    """Return the jars that a job needs in addition to those of EMR."""
    jars = ROOT / ".devstack" / "jars"
    return [path for module in _JARS for path in sorted((jars / module).glob("*.jar"))]


def spark_jars(scope: Construct) -> list[assets.Asset]:
    return [assets.Asset(scope, path.name, path=str(path)) for path in shipped_jars()]


def spark_parameters(
    environment: Environment,
    sources: assets.Asset,
    dependencies: assets.Asset,
    jars: list[assets.Asset],
    variables: Mapping[str, str],
) -> str:
    """Return the options of spark-submit: jars, archives, sizes, and the environment variables of driver and
    executors.
    """
    spark = environment.spark
    shared = {"PYSPARK_PYTHON": f"/usr/bin/{spark.python}", "PYTHONPATH": "./sources:./dependencies", **variables}
    options = {
        "spark.jars": ",".join(jar.s3_object_url for jar in jars),
        "spark.archives": f"{sources.s3_object_url}#sources,{dependencies.s3_object_url}#dependencies",
        "spark.driver.cores": spark.worker_cpu,
        "spark.driver.memory": f"{spark.worker_memory_gb - _OVERHEAD_GB}g",
        "spark.driver.memoryOverhead": f"{_OVERHEAD_GB}g",
        "spark.executor.cores": spark.worker_cpu,
        "spark.executor.memory": f"{spark.worker_memory_gb - _OVERHEAD_GB}g",
        "spark.executor.memoryOverhead": f"{_OVERHEAD_GB}g",
        # EMR Serverless begins with three executors by default, and refuses a run with fewer at most.
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.minExecutors": 1,
        "spark.dynamicAllocation.initialExecutors": spark.executors,
        "spark.dynamicAllocation.maxExecutors": spark.executors,
        "spark.sql.shuffle.partitions": spark.executors * spark.worker_cpu,
        "spark.emr-serverless.driverEnv.PYSPARK_DRIVER_PYTHON": f"/usr/bin/{spark.python}",
    }
    for prefix in ("spark.driver", "spark.executor"):
        options[f"{prefix}.extraJavaOptions"] = _JVM_OPTIONS
    for prefix in ("spark.emr-serverless.driverEnv", "spark.executorEnv"):
        options |= {f"{prefix}.{name}": value for name, value in shared.items()}
    return " ".join(
        f'--conf {name}="{value}"' if " " in str(value) else f"--conf {name}={value}" for name, value in options.items()
    )
