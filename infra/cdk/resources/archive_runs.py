"""Creates the daily runs on the archive: maintenance, and the recomputation of the day before; and the retention of the
metrics database.
"""

from collections.abc import Iterable, Mapping

from aws_cdk import aws_emrserverless as emr
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.cdk.config import Environment
from infra.cdk.resources.handler import Handler
from infra.cdk.resources.spark_run import SparkRun

# The hours of each daily run after the first one, by its module of spark_metrics.
HOURS = {"retention": 0, "maintenance": 1, "recompute": 3}


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
        run = SparkRun(
            self,
            environment=environment,
            key=key,
            archive=archive,
            name="archive-runs",
            entries={name: f"spark_metrics/{name}.py" for name in HOURS},
            variables=variables,
            statements=statements,
        )
        parameter = run.store_request(
            application,
            parameter="archive-runs",
            description="what start_run starts, without the entry point",
            entry=None,
            name=f"{environment.prefix}-archive",
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
                run.permission,
            ],
        )
        self.starter = starter.function
        spark = environment.spark
        arguments = {
            "retention": [
                "--recipient-log-days",
                str(spark.recipient_log_days),
                *_volume(environment),
                *spark.retention,
            ],
            "maintenance": ["--keep-days", str(spark.archive_days)],
            "recompute": ["--day-before"],
        }
        for name, hour in HOURS.items():
            events.Rule(
                self,
                f"daily-{name}",
                schedule=events.Schedule.cron(minute="30", hour=str(spark.daily_runs_hour + hour)),
                targets=[
                    targets.LambdaFunction(
                        starter.function,
                        event=events.RuleTargetInput.from_object(
                            {"name": name, "entryPoint": run.entries[name].s3_object_url, "arguments": arguments[name]}
                        ),
                    )
                ],
            )


def _volume(environment: Environment) -> list[str]:
    """Return the argument with the largest volume of the metrics database; that of an existing one is unknown."""
    if environment.existing.postgres is not None:
        return []
    return ["--volume-gib", str(environment.database.max_volume_gb)]
