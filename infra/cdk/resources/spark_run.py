"""Creates the common parts of runs on EMR Serverless: their code, their role, their log, and the request that starts
them.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from aws_cdk import Stack
from aws_cdk import aws_emrserverless as emr
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_s3_assets as assets
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from infra.cdk.code import ROOT, job_dependencies, staged_sources
from infra.cdk.config import Environment
from infra.cdk.resources.findings import explain
from infra.cdk.resources.logs import log_group

# Iceberg and AWS' SDK for it are those of the tests. No page confirms where emr-spark-8.0.0 has its own:
# https://docs.aws.amazon.com/emr/latest/ReleaseGuide/emr-spark800-release.html
_JARS = ("spark", "msk_iam", "iceberg_aws")
# The part of a worker's memory outside of its JVM's heap: Python workers, and buffers of the network and of Iceberg. By
# default, it is a tenth of the heap: https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/app-behavior.html
_OVERHEAD_GB = 2
# The options equal those in spark_metrics/common/session.py, which has their reasons; a test compares them.
_JVM_OPTIONS = (
    "-Dorg.apache.avro.limits.collectionItems.maxLength=1100000"
    " -Dorg.apache.avro.limits.bytes.maxLength=2200000"
    " -Dorg.apache.avro.limits.string.maxLength=2200000"
    " -Dorg.apache.avro.fastread=true"
)
RECORDS = "records"


class SparkRun:
    """The parts of a run, in the construct that has the run.

    Attributes:
        entries: The modules that a run may start, by name.
        role: The role with which a run executes.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        environment: Environment,
        key: kms.IKey,
        archive: s3.IBucket | None,
        name: str,
        packages: tuple[str, ...] = ("masscomm", "schemas", "spark_metrics"),
        event_sources: str | None = None,
        entries: Mapping[str, str],
        variables: Mapping[str, str],
        driver_variables: Mapping[str, str] = MappingProxyType({}),
        statements: Iterable[iam.PolicyStatement],
        role_name: str | None = None,
    ) -> None:
        self._scope, self._environment = scope, environment
        self._log = log_group(scope, "log", environment=environment, key=key, name=f"/{environment.prefix}/{name}")
        self.entries = {each: assets.Asset(scope, each, path=str(ROOT / path)) for each, path in entries.items()}
        sources = assets.Asset(scope, "sources", path=str(staged_sources(packages, event_sources)))
        dependencies = assets.Asset(scope, "dependencies", path=str(job_dependencies()))
        jars = [assets.Asset(scope, path.name, path=str(path)) for path in shipped_jars()]
        self._parameters = _parameters(environment, sources, dependencies, jars, variables, driver_variables)
        stack = Stack.of(scope)
        self.role = iam.Role(
            scope,
            "role",
            role_name=role_name,
            assumed_by=iam.ServicePrincipal(
                "emr-serverless.amazonaws.com", conditions={"StringEquals": {"aws:SourceAccount": stack.account}}
            ),
        )
        for statement in [
            *statements,
            *([] if archive is None else _archive_statements(archive)),
            iam.PolicyStatement(actions=["s3:ListBucket"], resources=[sources.bucket.bucket_arn]),
            iam.PolicyStatement(
                actions=["s3:GetObject"],
                resources=[
                    each.bucket.arn_for_objects(each.s3_object_key)
                    for each in [*self.entries.values(), sources, dependencies, *jars]
                ],
            ),
            iam.PolicyStatement(actions=["kms:Decrypt", "kms:GenerateDataKey"], resources=[key.key_arn]),
            iam.PolicyStatement(
                actions=["logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"],
                resources=[self._log.log_group_arn],
            ),
            iam.PolicyStatement(
                actions=["logs:DescribeLogGroups"],
                resources=[f"arn:{stack.partition}:logs:{stack.region}:{stack.account}:*"],
            ),
        ]:
            self.role.add_to_policy(statement)
        if archive is not None:
            bucket = Stack.of(archive).resolve(Stack.of(archive).export_value(archive.bucket_arn))["Fn::ImportValue"]
            explain(self.role, "the archive is many files in this folder", f"IAM5[Resource::{bucket}/{RECORDS}/*]")
        explain(
            self.role,
            "EMR finds the log group in the list of the account's log groups",
            f"IAM5[Resource::arn:aws:logs:{stack.region}:<AWS::AccountId>:*]",
        )

    @property
    def permission(self) -> iam.PolicyStatement:
        """The permission to start a run with this role."""
        return iam.PolicyStatement(
            actions=["iam:PassRole"],
            resources=[self.role.role_arn],
            conditions={"StringLike": {"iam:PassedToService": "emr-serverless.amazonaws.com"}},
        )

    def store_request(
        self,
        application: emr.CfnApplication,
        *,
        parameter: str,
        description: str,
        entry: str | None,
        arguments: Sequence[str] = (),
        **fields: Any,
    ) -> ssm.StringParameter:
        """Return a parameter with the StartJobRun request.

        Args:
            application: The application of the run.
            parameter: The parameter's name below /PREFIX.
            description: The parameter's description.
            entry: The name of the module that a run starts, or None if it is added to the request at the start.
            arguments: The arguments of the module.
            fields: Further fields of the request.
        """
        request = {
            "applicationId": application.attr_application_id,
            "executionRoleArn": self.role.role_arn,
            "mode": "BATCH",
            "executionTimeoutMinutes": 720,
            "jobDriver": {
                "sparkSubmit": {
                    "entryPoint": "" if entry is None else self.entries[entry].s3_object_url,
                    **({"entryPointArguments": list(arguments)} if arguments else {}),
                    "sparkSubmitParameters": self._parameters,
                }
            },
            "configurationOverrides": {
                "monitoringConfiguration": {
                    "managedPersistenceMonitoringConfiguration": {"enabled": False},
                    # The log group itself has a key. If the key were given here, the run and its starter would need
                    # permissions for it.
                    "cloudWatchLoggingConfiguration": {"enabled": True, "logGroupName": self._log.log_group_name},
                }
            },
        }
        return ssm.StringParameter(
            self._scope,
            "request",
            parameter_name=f"/{self._environment.prefix}/{parameter}",
            description=description,
            string_value=Stack.of(self._scope).to_json_string(request | fields),
            tier=ssm.ParameterTier.ADVANCED,
        )


def _archive_statements(archive: s3.IBucket) -> list[iam.PolicyStatement]:
    return [
        iam.PolicyStatement(
            actions=["s3:DeleteObject", "s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload"],
            resources=[archive.arn_for_objects(f"{RECORDS}/*")],
        ),
        iam.PolicyStatement(actions=["s3:ListBucket"], resources=[archive.bucket_arn]),
    ]


def shipped_jars() -> list[Path]:
    """Return the jars that a job needs in addition to those of EMR."""
    jars = ROOT / ".devstack" / "jars"
    return [path for module in _JARS for path in sorted((jars / module).glob("*.jar"))]


def _parameters(
    environment: Environment,
    sources: assets.Asset,
    dependencies: assets.Asset,
    jars: list[assets.Asset],
    variables: Mapping[str, str],
    driver_variables: Mapping[str, str],
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
    options |= {f"spark.emr-serverless.driverEnv.{name}": value for name, value in driver_variables.items()}
    return " ".join(
        f'--conf {name}="{value}"' if " " in str(value) else f"--conf {name}={value}" for name, value in options.items()
    )
