"""The table of all alarms: name, runbook, description, metric and threshold."""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import batched, product

from aws_cdk import aws_cloudwatch as cloudwatch

from functions.catalogue import FunctionEntry
from infra.cdk.config import Environment
from infra.cdk.resources.alarms import HOUR, MINUTE, Watch, metric, ours
from infra.cdk.resources.databases import Database
from infra.cdk.resources.rest_api import STAGE
from infra.cdk.stacks.api import ApiStack
from infra.cdk.stacks.cdc import CdcStack
from infra.cdk.stacks.data import DataStack
from infra.cdk.stacks.external_data import ExternalDataStack
from infra.cdk.stacks.functions import FunctionsStack
from infra.cdk.stacks.metrics import MetricsStack
from infra.cdk.stacks.registry import RegistryStack
from masscomm.domain.lanes import Lane
from masscomm.domain.statuses import Status
from masscomm.kafka.topics import lane_of
from masscomm.observability.metric_names import (
    CHANGE_DATA_AGE,
    DAILY_RUNS,
    DEAD_LETTER_BURSTS,
    DUPLICATES_REFUSED,
    JOB_RUNNING,
    JOB_STARTS,
    LEASE_LOSSES,
    METRICS_AGE,
    METRICS_ARCHIVE_AGE,
    METRICS_DIFFERENCES,
    NAMESPACE,
    OLDEST_DUE,
    POLLS_UNCOUNTED,
    PROVIDER_CALLS,
    PROVIDER_ERRORS,
    PROVIDER_THROTTLES,
    RECIPIENTS,
    RECORDS_QUARANTINED,
    UNREADABLE_ITEMS,
    WEBHOOK_ENDPOINTS_DISABLED,
    WEBHOOK_OLDEST_DUE,
)

type Data = DataStack | ExternalDataStack

_GIB = 1024**3
# The maximum number of metrics in an alarm's expression; CloudWatch refuses more.
METRICS_AN_ALARM = 10
# The alarm thresholds for the age of the oldest record that waits for a function, in seconds.
_CRITICAL_LAG_S, _CHANGES_LAG_S, _SMALL_LAG_S, _BULK_LAG_S = 30, 120, 120, 900
_OF_CHANGES = ("cdc_consumer", "device_registrar")
# The alarm thresholds of bounces and complaints: SES reviews an account at 5 % bounces or 0.1 % complaints.
_BOUNCES, _COMPLAINTS = 0.03, 0.0008
# The alarm thresholds in seconds for the age of the directory in OpenSearch, the age of the metrics, and the lateness
# of delayed records.
_CHANGES_STALE_S, _METRICS_STALE_S, _OVERDUE_S = 120, 300, 300
# The hours without a completed daily run after which an alarm triggers.
_RUN_MISSED_H = 26
# An alarm triggers when the streaming job is started this many times in an hour.
_STARTS_AN_HOUR = 3
# The alarm threshold for the age of the archive in seconds. Kafka keeps its records for three days.
_ARCHIVE_STALE_S = 3600


def of_functions(functions: FunctionsStack) -> Iterator[Watch]:
    """Return alarms on errors, throttles and durations of each function, and on events in its dead-letter queue."""
    for name, each in functions.functions.items():
        figure = partial(metric, "AWS/Lambda", dimensions={"FunctionName": each.name})
        errors, slow, throttles = figure("Errors", "Sum"), figure("Duration", "Maximum"), figure("Throttles", "Sum")
        limit_ms = each.entry.timeout_s * 1000
        subject = f"Invocations of {name}"
        yield Watch(f"{name}-errors", "function-errors", f"{subject} end in errors.", errors, 5, most=3)
        yield Watch(f"{name}-throttled", "throttles", f"{subject} are throttled.", throttles, 1, most=3)
        yield Watch(
            f"{name}-slow",
            "function-errors",
            f"{subject} come close to their time limit.",
            slow,
            0.9 * limit_ms,
            most=3,
        )
    for name, queue in functions.missed.items():
        runbook, description = (
            ("receipts", f"Delivery statuses from SNS or SES do not reach {name}.")
            if functions.functions[name].entry.schedule_s is None
            else ("schedule", f"Scheduled invocations of {name} fail.")
        )
        there = metric("AWS/SQS", "ApproximateNumberOfMessagesVisible", "Maximum", {"QueueName": queue.queue_name})
        yield Watch(f"{name}-missed", runbook, description, there, 1, periods=1)


def of_helpers(api: ApiStack, data: Data, metrics: MetricsStack | None) -> Iterator[Watch]:
    """Return alarms on errors of the functions that only the deployment uses.

    Args:
        metrics: The stack of the streaming job; None without a streaming job.
    """
    helpers = {"authorizer": api.authorizer.function}
    if data.audit_copy is not None:
        helpers["copy-audit"] = data.audit_copy.copier
    if metrics is not None:
        helpers["keep-job"] = metrics.job.keeper
        helpers["start-run"] = metrics.runs.starter
    for name, function in helpers.items():
        errors = metric("AWS/Lambda", "Errors", "Sum", {"FunctionName": function.function_name})
        yield Watch(f"{name}-errors", "function-errors", f"Invocations of {name} end in errors.", errors, 5, most=3)


def of_event_sources(functions: FunctionsStack, data: Data) -> Iterator[Watch]:
    """Return alarms on the lag of each function's topics, and on records that event source mappings dropped."""
    for name, sources in functions.event_sources.items():
        for topic, group in sources.groups.items():
            seconds = longest_lag_s(functions.functions[name].entry, topic)
            description = f"Records of {topic} wait for {name} for more than {seconds} s."
            yield Watch(
                f"{name}-lag-{topic}", "consumer-lag", description, lag(data, group=group, topic=topic), seconds, most=3
            )
        description = f"Records for {name} were dropped without reaching an on-failure destination."
        for part, mappings in enumerate(batched(sources.mappings.values(), METRICS_AN_ALARM, strict=False), 1):
            dropped = {
                f"d{number}": metric(
                    "AWS/Lambda", "DroppedEventCount", "Sum", {"EventSourceMappingUUID": mapping.attr_id}
                )
                for number, mapping in enumerate(mappings)
            }
            of = cloudwatch.MathExpression(
                expression="SUM(METRICS())", using_metrics=dropped, label="dropped", period=MINUTE
            )
            suffix = "" if part == 1 else f"-{part}"
            yield Watch(f"{name}-dropped{suffix}", "records-dropped", description, of, 1, periods=1)


def of_records(environment: Environment, functions: FunctionsStack) -> Iterator[Watch]:
    """Return alarms on dead letters of each function, and on ratios of delivery's counters, which are 0 without
    traffic.
    """
    for package in sorted({each.entry.package for each in functions.functions.values() if each.entry.event_source}):
        bursts = ours(environment, DEAD_LETTER_BURSTS, package)
        yield Watch(
            f"{package}-dead-letters", "dead-letters", f"{package} dead-letters many records.", bursts, 1, periods=1
        )
    yield _failed(environment)
    sent = RECIPIENTS[Status.SENT]
    shares = [
        ("duplicates", "duplicates", "Redeliveries exceed 5 % of sent notifications.", DUPLICATES_REFUSED, sent, 0.05),
        ("leases-lost", "duplicates", "Environments lose leases during delivery.", LEASE_LOSSES, sent, 0.001),
    ]
    faults = (("throttles", "throttles", PROVIDER_THROTTLES), ("errors", "fails", PROVIDER_ERRORS))
    for (channel, calls), (kind, verb, counts) in product(PROVIDER_CALLS.items(), faults):
        description = f"The provider of {channel} {verb} 20 % of calls."
        shares.append((f"{channel}-provider-{kind}", "provider-errors", description, counts[channel], calls, 0.2))
    for name, runbook, description, part, whole, threshold in shares:
        used = {each: ours(environment, of, "delivery") for each, of in (("part", part), ("whole", whole))}
        share = cloudwatch.MathExpression(
            expression="IF(whole > 0, part / whole, 0)", using_metrics=used, label=name, period=MINUTE
        )
        yield Watch(name, runbook, description, share, threshold)


def _failed(environment: Environment) -> Watch:
    """Return the share of failed and expired notifications among those sent, failed or expired."""
    lost = [(of, function) for of in (Status.FAILED, Status.EXPIRED) for function in RECIPIENTS[of].emitted_by]
    used = {f"lost{number}": ours(environment, RECIPIENTS[of], function) for number, (of, function) in enumerate(lost)}
    share = cloudwatch.MathExpression(
        expression='IF(SUM(METRICS()) > 0, SUM(METRICS("lost")) / SUM(METRICS()), 0)',
        using_metrics=used | {"sent": ours(environment, RECIPIENTS[Status.SENT], "delivery")},
        label="failed",
        period=MINUTE,
    )
    return Watch("failed", "failed-notifications", "One notification in five fails or expires.", share, 0.2)


def of_freshness(environment: Environment, *, counts: bool) -> Iterator[Watch]:
    """Return alarms on the age of the directory in OpenSearch, of delayed records and of metrics. Missing data
    triggers these alarms, too.

    Args:
        environment: The environment, which determines the dimensions of the metrics.
        counts: Whether the environment has a streaming job.
    """
    changes = ours(environment, CHANGE_DATA_AGE, "cdc_consumer", "Maximum")
    description = f"The directory is more than {_CHANGES_STALE_S} s behind the monolith's tables."
    yield Watch(
        "changes-stale", "change-data-capture", description, changes, _CHANGES_STALE_S, missing_data_alarms=True
    )
    overdue = ours(environment, OLDEST_DUE, "scheduler", "Maximum")
    description = f"Delayed records are released more than {_OVERDUE_S} s late."
    yield Watch("waiting-overdue", "schedule", description, overdue, _OVERDUE_S, missing_data_alarms=True)
    webhooks = ours(environment, WEBHOOK_OLDEST_DUE, "webhook_delivery", "Maximum")
    description = f"Webhooks are attempted more than {_OVERDUE_S} s late."
    yield Watch("webhooks-overdue", "webhooks", description, webhooks, _OVERDUE_S, missing_data_alarms=True)
    disabled = ours(environment, WEBHOOK_ENDPOINTS_DISABLED, "webhook_delivery")
    yield Watch("webhooks-disabled", "webhooks", "An endpoint of webhooks was disabled.", disabled, 1)
    for function in UNREADABLE_ITEMS.emitted_by:
        items = ours(environment, UNREADABLE_ITEMS, function)
        description = f"Sweeps of {function} skip stored items that they cannot read."
        yield Watch(f"{function}-unreadable", "unreadable-items", description, items, 1)
    if counts:
        counted = ours(environment, METRICS_AGE, "spark_metrics", "Maximum")
        description = f"The served metrics are more than {_METRICS_STALE_S} s old."
        yield Watch("metrics-stale", "streaming-job", description, counted, _METRICS_STALE_S, missing_data_alarms=True)
        archived = ours(environment, METRICS_ARCHIVE_AGE, "spark_metrics", "Maximum")
        description = f"The archive is more than {_ARCHIVE_STALE_S} s behind the topics."
        yield Watch("archive-stale", "archive", description, archived, _ARCHIVE_STALE_S)
        differing = ours(environment, METRICS_DIFFERENCES, "spark_metrics", "Maximum")
        description = "Served metrics of the day before differ from the archive."
        yield Watch("metrics-differ", "archive", description, differing, 1, periods=1)
        quarantined = ours(environment, RECORDS_QUARANTINED, "spark_metrics")
        description = "The metrics job cannot count some records, and has quarantined them."
        yield Watch("metrics-quarantined", "quarantine", description, quarantined, 1, periods=1)
        for module, runs in DAILY_RUNS.items():
            completed = ours(environment, runs, "spark_metrics", period=HOUR)
            description = f"The daily run of spark_metrics.{module} was not completed within {_RUN_MISSED_H} hours."
            yield Watch(
                f"{module}-missed",
                "daily-runs",
                description,
                completed,
                1,
                periods=_RUN_MISSED_H,
                below=True,
                missing_data_alarms=True,
            )


def of_servers(environment: Environment, data: Data, account: str) -> Iterator[Watch]:
    """Return alarms on Kafka, OpenSearch and the DynamoDB tables."""
    yield from _of_brokers(data.kafka.name, environment.kafka.brokers)
    domain = partial(metric, "AWS/ES", dimensions={"DomainName": data.directory.name, "ClientId": account})
    for name, description, of, threshold, below in (
        (
            "red",
            "An index of the directory has lost a primary shard.",
            domain("ClusterStatus.red", "Maximum"),
            1,
            False,
        ),
        ("blocked", "The directory takes no writes.", domain("ClusterIndexWritesBlocked", "Maximum"), 1, False),
        ("memory", "The directory's heap is full.", domain("JVMMemoryPressure", "Maximum"), 92, False),
        ("storage", "The directory's disks are full.", domain("FreeStorageSpace", "Minimum"), 5 * 1024, True),
    ):
        yield Watch(f"directory-{name}", "directory", description, of, threshold, below=below)
    for name, table in data.tables.items():
        refused = metric("AWS/DynamoDB", "WriteThrottleEvents", "Sum", {"TableName": table.table_name})
        description = f"DynamoDB throttles writes to {name}."
        yield Watch(f"{name}-throttled", "throttles", description, refused, 10, most=3)


def _of_brokers(cluster: str, brokers: int) -> Iterator[Watch]:
    """Return alarms on a Kafka cluster and the disks of its brokers, whose ids are 1 to `brokers`."""
    of_cluster = {"Cluster Name": cluster}
    # Each broker reports 1 if it is the controller, else 0. The average of a cluster with a controller is 1 / brokers.
    controllers = metric("AWS/Kafka", "ActiveControllerCount", "Average", of_cluster)
    yield Watch("kafka-controller", "kafka", "Kafka has no controller.", controllers, 0.9 / brokers, below=True)
    offline = metric("AWS/Kafka", "OfflinePartitionsCount", "Maximum", of_cluster)
    yield Watch("kafka-offline", "kafka", "Partitions of Kafka have no leader.", offline, 1)
    for part, ids in enumerate(batched(range(1, brokers + 1), METRICS_AN_ALARM, strict=False), 1):
        # MSK publishes the use of disks by broker only.
        used = {
            f"b{broker}": metric(
                "AWS/Kafka", "KafkaDataLogsDiskUsed", "Maximum", {**of_cluster, "Broker ID": str(broker)}
            )
            for broker in ids
        }
        fullest = cloudwatch.MathExpression(
            expression="MAX(METRICS())", using_metrics=used, label="fullest disk", period=MINUTE
        )
        suffix = "" if part == 1 else f"-{part}"
        yield Watch(f"kafka-storage{suffix}", "kafka", "A broker's disk is 80 % full.", fullest, 80)


def of_databases(databases: Iterable[Database]) -> Iterator[Watch]:
    """Return alarms on CPU and storage of the PostgreSQL databases."""
    for database in databases:
        figure = partial(metric, "AWS/RDS", dimensions={"DBInstanceIdentifier": database.instance.instance_identifier})
        subject, busy, free = f"The {database.name} database", "CPUUtilization", "FreeStorageSpace"
        yield Watch(
            f"{database.name}-database-cpu",
            "database",
            f"{subject} uses 90 % CPU.",
            figure(busy, "Average"),
            90,
            periods=15,
        )
        yield Watch(
            f"{database.name}-database-storage",
            "database",
            f"{subject} has less than 10 GiB of free storage.",
            figure(free, "Minimum"),
            10 * _GIB,
            below=True,
        )


def of_services(cdc: CdcStack, registry: RegistryStack, metrics: MetricsStack) -> Iterator[Watch]:
    """Return alarms on the services that must always run: Debezium's connectors, the schema registry and the
    streaming job.
    """
    for number, (generation, connector) in enumerate(cdc.debezium.names.items()):
        tasks = metric("AWS/KafkaConnect", "RunningTaskCount", "Minimum", {"ConnectorName": connector})
        description = "The connector has no running task: the directory becomes stale, and sends to unknown users wait."
        name = "change-data-capture" if number == 0 else f"change-data-capture-{generation}"
        yield Watch(name, "change-data-capture", description, tasks, 1, below=True, missing_data_alarms=True)
    service = registry.service.service
    dimensions = {"ClusterName": service.cluster.cluster_name, "ServiceName": service.service_name}
    running = metric("ECS/ContainerInsights", "RunningTaskCount", "Minimum", dimensions)
    description = "No task of the schema registry runs: functions that start now cannot decode."
    yield Watch("schema-registry", "schema-registry", description, running, 1, below=True, missing_data_alarms=True)
    job = metric(NAMESPACE, JOB_RUNNING.name, "Maximum", {JOB_RUNNING.dimensions[0]: metrics.job.name})
    description = "The streaming job does not run: metrics become stale, and records wait in Kafka."
    yield Watch("streaming-job", "streaming-job", description, job, 1, periods=10, below=True, missing_data_alarms=True)
    starts = metric(NAMESPACE, JOB_STARTS.name, "Sum", {JOB_STARTS.dimensions[0]: metrics.job.name})
    description = f"The streaming job was started {_STARTS_AN_HOUR} times in an hour: it ends again and again."
    yield Watch("streaming-job-restarts", "streaming-job", description, starts, 1, periods=60, most=_STARTS_AN_HOUR)


def of_api(environment: Environment, api: ApiStack) -> Iterator[Watch]:
    """Return alarms on errors and latency of the REST API, and on long polls that cannot be counted."""
    name = {"ApiName": api.rest.api.rest_api_name}
    failing = metric("AWS/ApiGateway", "5XXError", "Average", name)
    yield Watch("api-errors", "api-errors", "More than 2 % of the API's requests end in a 5xx.", failing, 0.02)
    route = {**name, "Stage": STAGE, "Method": "GET", "Resource": "/v1/metrics"}
    description = "One in a hundred metrics requests takes more than three seconds; long polls are not included."
    yield Watch("api-slow", "api-errors", description, metric("AWS/ApiGateway", "Latency", "p99", route), 3000)
    description = "Open polls cannot be counted: long polls return at once, and dashboards repeat them at once."
    for function in POLLS_UNCOUNTED.emitted_by:
        uncounted = ours(environment, POLLS_UNCOUNTED, function)
        yield Watch(f"polls-uncounted-{function}", "throttles", description, uncounted, 10, most=3)


def of_providers(environment: Environment) -> Iterator[Watch]:
    """Return alarms on the account's reputation in SES, and on failed pushes in SNS."""
    for name, figure, threshold in (
        ("bounces", "Reputation.BounceRate", _BOUNCES),
        ("complaints", "Reputation.ComplaintRate", _COMPLAINTS),
    ):
        description = f"E-mail {name} are near the rate at which SES pauses sending."
        rate = metric("AWS/SES", figure, "Average", {})
        yield Watch(f"email-{name}", "email-reputation", description, rate, threshold, periods=15, most=1)
    for platform, kind in environment.platforms:
        dimensions = {"Application": f"{environment.prefix}-{platform}", "Platform": kind}
        failed = metric("AWS/SNS", "NumberOfNotificationsFailed", "Sum", dimensions)
        yield Watch(f"push-failed-{platform}", "push-failures", f"Many pushes by {kind} fail.", failed, 1000, most=3)


def lag(data: Data, *, group: str, topic: str) -> cloudwatch.Metric:
    """Return a metric: the seconds that the oldest record of a topic has waited for a consumer group."""
    dimensions = {"Cluster Name": data.kafka.name, "Consumer Group": group, "Topic": topic}
    return metric("AWS/Kafka", "EstimatedMaxTimeLag", "Maximum", dimensions)


def longest_lag_s(entry: FunctionEntry, topic: str) -> int:
    """Return the alarm threshold for the lag of a function's topic in seconds."""
    if entry.lane is Lane.CRITICAL:
        return _CRITICAL_LAG_S
    if lane_of(topic) is Lane.SMALL:
        return _SMALL_LAG_S
    return _CHANGES_LAG_S if entry.package in _OF_CHANGES else _BULK_LAG_S
