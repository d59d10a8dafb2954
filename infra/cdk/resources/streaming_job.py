"""Creates a streaming job on EMR Serverless: its application, its code, and the function that keeps one run active."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from aws_cdk import Duration, Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.cdk.config import Environment
from infra.cdk.resources.before_removal import stopped_before_removal
from infra.cdk.resources.findings import explain
from infra.cdk.resources.handler import Handler
from infra.cdk.resources.network import Place
from infra.cdk.resources.spark_application import spark_application
from infra.cdk.resources.spark_run import SparkRun


@dataclass(frozen=True, kw_only=True)
class JobKind:
    """The names of a streaming job and its code."""

    # The last parts of the names of the application, the log, the parameter with the request, and the keeper.
    application: str
    log: str
    parameter: str
    keeper: str
    # The module that a run starts, and the packages that it imports.
    entry: str
    packages: tuple[str, ...]


METRICS = JobKind(
    application="metrics",
    log="spark-metrics",
    parameter="streaming-job",
    keeper="keep-job",
    entry="spark_metrics/job.py",
    packages=("masscomm", "schemas", "spark_metrics"),
)
EVENTS = JobKind(
    application="events",
    log="spark-events",
    parameter="events-job",
    keeper="keep-events-job",
    entry="spark_events/job.py",
    packages=("masscomm", "schemas", "spark_events", "spark_metrics"),
)


# The argument with which a run counts the records that there are, and ends.
AVAILABLE_NOW = "--available-now"
_ENDLESS = {
    "mode": "STREAMING",
    # No limit: by default, EMR Serverless cancels a run after twelve hours.
    "executionTimeoutMinutes": 0,
    # After five failed attempts in an hour the run ends, and keep_job starts another one.
    "retryPolicy": {"maxFailedAttemptsPerHour": 5},
}


class StreamingJob(Construct):
    """An EMR application with one run of a streaming job at a time.

    Args:
        every_minutes: The minutes between the starts of runs that end when they have counted everything; None: a run
            has no end, and another one is started as soon as it ends.

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
        place: Place,
        variables: Mapping[str, str],
        statements: Iterable[iam.PolicyStatement],
        archive: s3.IBucket | None = None,
        kind: JobKind = METRICS,
        event_sources: str | None = None,
        every_minutes: int | None = None,
    ) -> None:
        super().__init__(scope, "job")
        self.name = f"{environment.prefix}-{kind.application}"
        self.application = spark_application(
            self,
            environment=environment,
            name=self.name,
            place=place,
            # The capacity includes the driver and one spare worker, so that a new run can start before the old one has
            # ended.
            workers=environment.spark.executors + 2,
            idle_minutes=15,
        )
        run = SparkRun(
            self,
            environment=environment,
            key=key,
            archive=archive,
            name=kind.log,
            packages=kind.packages,
            event_sources=event_sources,
            entries={"entry": kind.entry},
            variables=variables,
            statements=statements,
        )
        self.role = run.role
        parameter = run.store_request(
            self.application,
            parameter=kind.parameter,
            description="what keep_job starts",
            entry="entry",
            # keep_job appends a digest of this request.
            name=environment.prefix,
            **(_ENDLESS if every_minutes is None else {"arguments": [AVAILABLE_NOW]}),
        )
        application, stack = self.application.attr_arn, Stack.of(self)
        keeper = Handler(
            self,
            module="keep_job",
            name=kind.keeper,
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
                run.permission,
            ],
        )
        self.keeper = keeper.function
        rules: dict[str, dict[str, object]] = {
            "each-minute": {"schedule": events.Schedule.rate(Duration.minutes(every_minutes or 1))}
        }
        if every_minutes is None:
            rules["state-changed"] = {
                "event_pattern": events.EventPattern(
                    source=["aws.emr-serverless"],
                    detail_type=["EMR Serverless Job Run State Change"],
                    detail={"applicationId": [self.application.attr_application_id]},
                )
            }
        stopped = stopped_before_removal(self, self.application, environment=environment, key=key)
        for name, when in rules.items():
            # A failed invocation is not retried, because the next one takes the same step.
            rule = events.Rule(self, name, targets=[targets.LambdaFunction(keeper.function, retry_attempts=0)], **when)
            # At a removal, the keeper must not start a run again.
            rule.node.add_dependency(stopped)
        explain(
            keeper,
            "run ids are assigned at the start: all runs of this application",
            f"IAM5[Resource::<{stack.get_logical_id(self.application)}.Arn>/jobruns/*]",
        )
