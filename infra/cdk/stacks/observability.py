"""Alarms and the dashboard."""

from collections.abc import Iterable
from dataclasses import dataclass

from aws_cdk import Stack
from aws_cdk import aws_budgets as budgets
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from functions.catalogue import FunctionEntry
from infra.cdk.resources.alarms import MINUTE, Alarms, metric, ours
from infra.cdk.resources.databases import Database
from infra.cdk.resources.rest_api import STAGE
from infra.cdk.settings import Environment
from infra.cdk.stacks.api import ApiStack
from infra.cdk.stacks.cdc import CdcStack
from infra.cdk.stacks.data import DataStack
from infra.cdk.stacks.functions import FunctionsStack
from infra.cdk.stacks.given_data import GivenDataStack
from infra.cdk.stacks.metrics import MetricsStack
from infra.cdk.stacks.network import NetworkStack
from infra.cdk.stacks.registry import RegistryStack
from masscomm.metric_names import (
    CHANGE_DATA_AGE,
    DEAD_LETTER_BURSTS,
    DEAD_LETTERS,
    DUPLICATES_REFUSED,
    JOB_RUNNING,
    LEASE_LOSSES,
    METRICS_AGE,
    NAMESPACE,
    OLDEST_DUE,
    PROVIDER_CALLS,
    PROVIDER_ERRORS,
    PROVIDER_THROTTLES,
    RECIPIENTS,
)
from masscomm.statuses import Status
from masscomm.topics import Lane, lane_of

_GIB = 1024**3
# How old the oldest record that waits for a function may be, in seconds, before somebody is called.
_CRITICAL_LAG_S, _CHANGES_LAG_S, _SMALL_LAG_S, _BULK_LAG_S = 30, 120, 120, 900
_OF_CHANGES = ("cdc_consumer", "device_registrar")
# AWS puts an account under review at 5 % bounces and .1 % complaints.
_BOUNCES, _COMPLAINTS = 0.03, 0.0008
# How far what is read may be behind what is, in seconds, before somebody is called.
_CHANGES_STALE_S, _METRICS_STALE_S, _OVERDUE_S = 120, 300, 300


@dataclass(frozen=True, kw_only=True)
class ServerStacks:
    """The stacks of servers that are not given."""

    data: DataStack
    registry: RegistryStack
    cdc: CdcStack
    metrics: MetricsStack


class ObservabilityStack(Stack):
    """alarms; every one names its runbook. servers: None where they are given, and watched where they stand."""

    def __init__(
        self,
        scope: Construct,
        *,
        environment: Environment,
        base: NetworkStack,
        data: DataStack | GivenDataStack,
        functions: FunctionsStack,
        api: ApiStack,
        servers: ServerStacks | None,
    ) -> None:
        super().__init__(scope, f"{environment.prefix}-observability", env={"region": environment.region})
        self._environment = environment
        self.alarms = Alarms(self, environment=environment, key=base.key)
        self._functions(functions)
        self._lag(functions, data)
        self._dead_letters(functions)
        self._freshness(counts=servers is not None)
        self._rates()
        self._kafka(data)
        self._directory(data)
        self._tables(data)
        if servers is not None:
            self._databases([servers.data.metrics, servers.registry.database])
            self._change_data_capture(servers.cdc)
            self._registry(servers.registry)
            self._job(servers.metrics)
        self._api(api)
        self._providers()
        self._budget()
        self._dashboard(functions, data, api)

    def _functions(self, functions: FunctionsStack) -> None:
        for name, each in functions.functions.items():
            dimensions = {"FunctionName": each.name}
            self.alarms.add(
                f"{name}-errors",
                runbook="function-errors",
                what=f"Invocations of {name} end in errors.",
                of=metric("AWS/Lambda", "Errors", "Sum", dimensions),
                threshold=5,
                most=3,
            )
            self.alarms.add(
                f"{name}-throttled",
                runbook="throttles",
                what=f"Invocations of {name} are refused for want of concurrency.",
                of=metric("AWS/Lambda", "Throttles", "Sum", dimensions),
                threshold=1,
                most=3,
            )
            self.alarms.add(
                f"{name}-slow",
                runbook="function-errors",
                what=f"Invocations of {name} come close to their time limit.",
                of=metric("AWS/Lambda", "Duration", "Maximum", dimensions),
                threshold=each.entry.timeout_s * 900,
                most=3,
            )
        for name, queue in functions.missed.items():
            scheduled = functions.functions[name].entry.schedule_s is not None
            self.alarms.add(
                f"{name}-missed",
                runbook="schedule" if scheduled else "receipts",
                what=f"{'The schedule of' if scheduled else 'What AWS tells'} {name} does not reach it.",
                of=metric("AWS/SQS", "ApproximateNumberOfMessagesVisible", "Maximum", {"QueueName": queue.queue_name}),
                threshold=1,
                minutes=1,
            )

    def _lag(self, functions: FunctionsStack, data: DataStack | GivenDataStack) -> None:
        for name, sources in functions.event_sources.items():
            for topic, group in sources.groups.items():
                seconds = _longest_lag_s(functions.functions[name].entry, topic)
                self.alarms.add(
                    f"{name}-lag-{topic}",
                    runbook="consumer-lag",
                    what=f"Records of {topic} wait for {name} for more than {seconds} s.",
                    of=metric(
                        "AWS/Kafka",
                        "EstimatedMaxTimeLag",
                        "Maximum",
                        {"Cluster Name": data.kafka.name, "Consumer Group": group, "Topic": topic},
                    ),
                    threshold=seconds,
                    most=3,
                )
            dropped = {
                f"d{number}": metric(
                    "AWS/Lambda", "DroppedEventCount", "Sum", {"EventSourceMappingUUID": mapping.attr_id}
                )
                for number, mapping in enumerate(sources.mappings.values())
            }
            self.alarms.add(
                f"{name}-dropped",
                runbook="records-dropped",
                what=f"Records for {name} were given up on and reached no destination.",
                of=cloudwatch.MathExpression(expression="SUM(METRICS())", using_metrics=dropped, label="dropped"),
                threshold=1,
                minutes=1,
            )

    def _dead_letters(self, functions: FunctionsStack) -> None:
        for package in sorted({each.entry.package for each in functions.functions.values() if each.entry.event_source}):
            self.alarms.add(
                f"{package}-dead-letters",
                runbook="dead-letters",
                what=f"{package} puts many records aside.",
                of=ours(self._environment, DEAD_LETTER_BURSTS, package),
                threshold=1,
                minutes=1,
            )

    def _freshness(self, *, counts: bool) -> None:
        """What grows old in silence: where nothing is told any more, that is an alarm, too.

        counts: whether the job that counts is ours to watch.
        """
        for name, runbook, what, of, service, seconds in (
            (
                "changes-stale",
                "change-data-capture",
                f"The directory is more than {_CHANGES_STALE_S} s behind the monolith's tables.",
                CHANGE_DATA_AGE,
                "cdc_consumer",
                _CHANGES_STALE_S,
            ),
            (
                "metrics-stale",
                "streaming-job",
                f"What is served as counted is more than {_METRICS_STALE_S} s old.",
                METRICS_AGE,
                "spark_metrics",
                _METRICS_STALE_S,
            ),
            (
                "waiting-overdue",
                "schedule",
                f"What waits is released more than {_OVERDUE_S} s late.",
                OLDEST_DUE,
                "scheduler",
                _OVERDUE_S,
            ),
        ):
            if of is METRICS_AGE and not counts:
                continue
            self.alarms.add(
                name,
                runbook=runbook,
                what=what,
                of=ours(self._environment, of, service, "Maximum"),
                threshold=seconds,
                silence_is_bad=True,
            )

    def _rates(self) -> None:
        """Shares of what delivery does; of nothing, the share is nothing."""
        sent = RECIPIENTS[Status.SENT]
        shares = [
            ("duplicates", "duplicates", "More than 5 % of what is sent came again.", DUPLICATES_REFUSED, sent, 0.05),
            ("leases-lost", "duplicates", "Records change hands while they are delivered.", LEASE_LOSSES, sent, 0.001),
        ]
        for channel, calls in PROVIDER_CALLS.items():
            throttles, errors = PROVIDER_THROTTLES[channel], PROVIDER_ERRORS[channel]
            what = f"One in five calls of the provider of {channel}"
            shares += [
                (f"{channel}-provider-throttles", "provider-errors", f"{what} is to go slower.", throttles, calls, 0.2),
                (f"{channel}-provider-errors", "provider-errors", f"{what} fails.", errors, calls, 0.2),
            ]
        for name, runbook, what, part, whole, threshold in shares:
            used = {each: ours(self._environment, of, "delivery") for each, of in (("part", part), ("whole", whole))}
            share = cloudwatch.MathExpression(
                expression="IF(whole > 0, part / whole, 0)", using_metrics=used, label=name, period=MINUTE
            )
            self.alarms.add(name, runbook=runbook, what=what, of=share, threshold=threshold)

    def _kafka(self, data: DataStack | GivenDataStack) -> None:
        cluster = {"Cluster Name": data.kafka.name}
        for name, what, figure, statistic, threshold, below in (
            ("kafka-controller", "Kafka has no controller, or several.", "ActiveControllerCount", "Average", 0.3, True),
            ("kafka-offline", "Partitions of Kafka have no leader.", "OfflinePartitionsCount", "Maximum", 1, False),
            ("kafka-storage", "A broker's disk is 80 % full.", "KafkaDataLogsDiskUsed", "Maximum", 80, False),
        ):
            self.alarms.add(
                name,
                runbook="kafka",
                what=what,
                of=metric("AWS/Kafka", figure, statistic, cluster),
                threshold=threshold,
                below=below,
            )

    def _directory(self, data: DataStack | GivenDataStack) -> None:
        domain = {"DomainName": data.directory.name, "ClientId": self.account}
        for name, what, figure, statistic, threshold, below in (
            ("red", "An index of the directory has lost a primary shard.", "ClusterStatus.red", "Maximum", 1, False),
            ("blocked", "The directory takes no writes.", "ClusterIndexWritesBlocked", "Maximum", 1, False),
            ("memory", "The directory's heap is full.", "JVMMemoryPressure", "Maximum", 92, False),
            ("storage", "The directory's disks are full.", "FreeStorageSpace", "Minimum", 5 * 1024, True),
        ):
            self.alarms.add(
                f"directory-{name}",
                runbook="directory",
                what=what,
                of=metric("AWS/ES", figure, statistic, domain),
                threshold=threshold,
                below=below,
            )

    def _databases(self, databases: Iterable[Database]) -> None:
        for database in databases:
            dimensions = {"DBInstanceIdentifier": database.instance.instance_identifier}
            self.alarms.add(
                f"{database.name}-database-cpu",
                runbook="database",
                what=f"The {database.name} database is busy.",
                of=metric("AWS/RDS", "CPUUtilization", "Average", dimensions),
                threshold=90,
                minutes=15,
            )
            self.alarms.add(
                f"{database.name}-database-storage",
                runbook="database",
                what=f"The {database.name} database has less than 10 GB left.",
                of=metric("AWS/RDS", "FreeStorageSpace", "Minimum", dimensions),
                threshold=10 * _GIB,
                below=True,
            )

    def _tables(self, data: DataStack | GivenDataStack) -> None:
        for name, table in data.tables.items():
            self.alarms.add(
                f"{name}-throttled",
                runbook="throttles",
                what=f"DynamoDB refuses writes to {name} for want of capacity.",
                of=metric("AWS/DynamoDB", "WriteThrottleEvents", "Sum", {"TableName": table.table_name}),
                threshold=10,
                most=3,
            )

    def _change_data_capture(self, cdc: CdcStack) -> None:
        self.alarms.add(
            "change-data-capture",
            runbook="change-data-capture",
            what="The connector has no running task: the directory grows stale, and sends to unknown users wait.",
            of=metric("AWS/KafkaConnect", "RunningTaskCount", "Minimum", {"ConnectorName": cdc.debezium.name}),
            threshold=1,
            below=True,
            silence_is_bad=True,
        )

    def _registry(self, registry: RegistryStack) -> None:
        service = registry.service.service
        self.alarms.add(
            "schema-registry",
            runbook="schema-registry",
            what="No task of the schema registry runs: functions that start now cannot decode.",
            of=metric(
                "ECS/ContainerInsights",
                "RunningTaskCount",
                "Minimum",
                {"ClusterName": service.cluster.cluster_name, "ServiceName": service.service_name},
            ),
            threshold=1,
            below=True,
            silence_is_bad=True,
        )

    def _job(self, metrics: MetricsStack) -> None:
        self.alarms.add(
            "streaming-job",
            runbook="streaming-job",
            what="The streaming job does not run: metrics grow stale, records wait in Kafka.",
            of=metric(NAMESPACE, JOB_RUNNING.name, "Maximum", {JOB_RUNNING.dimensions[0]: metrics.job.name}),
            threshold=1,
            minutes=10,
            below=True,
            silence_is_bad=True,
        )

    def _api(self, api: ApiStack) -> None:
        name = {"ApiName": api.rest.api.rest_api_name}
        self.alarms.add(
            "api-errors",
            runbook="api-errors",
            what="More than 2 % of the API's requests end in a 5xx.",
            of=metric("AWS/ApiGateway", "5XXError", "Average", name),
            threshold=0.02,
        )
        self.alarms.add(
            "api-slow",
            runbook="api-errors",
            what="One in a hundred requests takes more than three seconds; waiting streams are not counted.",
            of=metric(
                "AWS/ApiGateway",
                "Latency",
                "p99",
                {**name, "Stage": STAGE, "Method": "GET", "Resource": "/v1/metrics"},
            ),
            threshold=3000,
        )

    def _providers(self) -> None:
        for name, figure, threshold in (
            ("bounces", "Reputation.BounceRate", _BOUNCES),
            ("complaints", "Reputation.ComplaintRate", _COMPLAINTS),
        ):
            self.alarms.add(
                f"email-{name}",
                runbook="email-reputation",
                what=f"E-mail {name} come near the rate at which SES stops sending.",
                of=metric("AWS/SES", figure, "Average", {}),
                threshold=threshold,
                minutes=15,
                most=1,
            )
        for platform, kind in self._environment.platforms:
            application = f"{self._environment.prefix}-{platform}"
            self.alarms.add(
                f"push-failed-{platform}",
                runbook="push-failures",
                what=f"Many pushes by {kind} fail.",
                of=metric(
                    "AWS/SNS", "NumberOfNotificationsFailed", "Sum", {"Application": application, "Platform": kind}
                ),
                threshold=1000,
                most=3,
            )

    def _budget(self) -> None:
        who = budgets.CfnBudget.SubscriberProperty(subscription_type="EMAIL", address=self._environment.alarm_email)
        budgets.CfnBudget(
            self,
            "budget",
            budget=budgets.CfnBudget.BudgetDataProperty(
                budget_name=f"{self._environment.prefix}: docs/runbooks/cost.md",
                budget_type="COST",
                time_unit="MONTHLY",
                budget_limit=budgets.CfnBudget.SpendProperty(amount=self._environment.budget_usd, unit="USD"),
                cost_filters={"TagKeyValue": [f"user:environment${self._environment.name}"]},
            ),
            notifications_with_subscribers=[
                budgets.CfnBudget.NotificationWithSubscribersProperty(
                    notification=budgets.CfnBudget.NotificationProperty(
                        comparison_operator="GREATER_THAN", notification_type=kind, threshold=percent
                    ),
                    subscribers=[who],
                )
                for kind, percent in (("ACTUAL", 80), ("FORECASTED", 100))
            ],
        )

    def _dashboard(self, functions: FunctionsStack, data: DataStack | GivenDataStack, api: ApiStack) -> None:
        def lambdas(figure: str, statistic: str) -> list[cloudwatch.IMetric]:
            return [
                metric("AWS/Lambda", figure, statistic, {"FunctionName": each.name})
                for each in functions.functions.values()
            ]

        lag = [
            metric(
                "AWS/Kafka",
                "EstimatedMaxTimeLag",
                "Maximum",
                {"Cluster Name": data.kafka.name, "Consumer Group": group, "Topic": topic},
            )
            for sources in functions.event_sources.values()
            for topic, group in sources.groups.items()
        ]
        packages = sorted({each.entry.package for each in functions.functions.values()})
        dead = [ours(self._environment, DEAD_LETTERS, package) for package in packages]
        requests = [
            metric("AWS/ApiGateway", figure, "Sum", {"ApiName": api.rest.api.rest_api_name})
            for figure in ("Count", "4XXError", "5XXError")
        ]
        notifications = [
            ours(self._environment, RECIPIENTS[status], "delivery") for status in (Status.SENT, Status.FAILED)
        ]
        freshness = [
            ours(self._environment, of, service, "Maximum")
            for of, service in (
                (CHANGE_DATA_AGE, "cdc_consumer"),
                (METRICS_AGE, "spark_metrics"),
                (OLDEST_DUE, "scheduler"),
            )
        ]
        graphs = {
            "Notifications": notifications,
            "Seconds that what is read lies behind": freshness,
            "Seconds that the oldest record waits": lag,
            "Invocations": lambdas("Invocations", "Sum"),
            "Errors": lambdas("Errors", "Sum"),
            "Duration, p99 (ms)": lambdas("Duration", "p99"),
            "Concurrency": lambdas("ConcurrentExecutions", "Maximum"),
            "Dead letters": dead,
            "Requests": requests,
        }
        cloudwatch.Dashboard(
            self,
            "dashboard",
            dashboard_name=self._environment.prefix,
            widgets=[
                [cloudwatch.AlarmStatusWidget(title="Alarms", width=24, alarms=self.alarms.alarms)],
                *([cloudwatch.GraphWidget(title=title, width=24, left=left)] for title, left in graphs.items()),
            ],
        )


def _longest_lag_s(entry: FunctionEntry, topic: str) -> int:
    """How long a record may wait until somebody must know."""
    if entry.lane is Lane.CRITICAL:
        return _CRITICAL_LAG_S
    if lane_of(topic) is Lane.SMALL:
        return _SMALL_LAG_S
    return _CHANGES_LAG_S if entry.package in _OF_CHANGES else _BULK_LAG_S
