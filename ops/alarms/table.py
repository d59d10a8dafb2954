"""The table of all alarms: name, runbook, meaning, metric and threshold."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import batched, product

from functions.catalogue import FunctionEntry
from masscomm.domain.lanes import BROADCASTS, Lane
from masscomm.domain.statuses import Status
from masscomm.kafka.topics import lane_of
from masscomm.observability.metric_names import (
    CHANGE_DATA_AGE,
    DAILY_RUNS,
    DEAD_LETTER_BURSTS,
    DUPLICATES_REFUSED,
    EMAIL_PAUSES,
    JOB_RUNNING,
    JOB_STARTS,
    LEASE_LOSSES,
    METRICS_AGE,
    METRICS_ARCHIVE_AGE,
    METRICS_DIFFERENCES,
    METRICS_DISK_DAYS,
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
    Metric,
)
from ops.alarms.rules import HOUR_S, LARGEST, LOST, MINUTE_S, RATIO, SMALLEST, TOTAL, Formula, Rule, Series, ours
from ops.alarms.series import (
    api_errors,
    api_latency,
    connector_tasks,
    controllers,
    dropped_records,
    lag,
    of_cluster,
    of_directory,
    of_function,
    offline_partitions,
    registry_tasks,
    service_tasks,
)

_GIB = 1024**3
_UNDER_MIN = "UnderMinIsrPartitionCount"
# MSK recommends a use of at most 60 % CPU, so that a broker can take the load of another one that restarts.
# https://docs.aws.amazon.com/msk/latest/developerguide/bestpractices.html#bestpractices-monitor-cpu
_IDLE_PERCENT, _BUSY_MINUTES = 40, 15
# A tenth of the credits that a t3.small keeps; it earns 24 an hour.
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/burstable-credits-baseline-concepts.html
_CPU_CREDITS = 58
# The share of a database's connections above which an alarm triggers.
_CONNECTIONS_USED = 0.8
# The maximum number of metrics in an alarm's expression; CloudWatch refuses more.
METRICS_AN_ALARM = 10
# The alarm thresholds for the age of the oldest record that waits for a function, in seconds.
_CRITICAL_LAG_S, _CHANGES_LAG_S, _SMALL_LAG_S, _BULK_LAG_S = 30, 120, 120, 900
# The functions through which each notification passes.
_CHAIN = tuple(f"{name}{lane}" for name in ("preference_checker", "builder", "delivery") for lane in ("", "-critical"))
# The periods in which invocations end in errors until an alarm triggers: a mapping in on-demand mode retries a batch
# whole, and each of its attempts that fails is an error.
_ERROR_PERIODS, _ON_DEMAND_ERROR_PERIODS = 5, 30
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
# Time to choose shorter retentions, or to raise the volume.
_DISK_DAYS = 21
_ARCHIVE_STALE_S = 3600


@dataclass(frozen=True, kw_only=True)
class Servers:
    """The servers that a deployment creates. External servers are monitored by their owner."""

    # The ids of the PostgreSQL instances, by the name of the database.
    databases: Mapping[str, str]
    # The maximum number of connections of each of them.
    connections: Mapping[str, int]
    # The names of Debezium's connectors in MSK Connect, by generation; the first one is current. Empty: they are in
    # `connect_task`.
    connectors: Mapping[str, str]
    # The dimensions of the schema registry's service; None: the registry is the organisation's.
    registry: Mapping[str, str] | None
    # The dimensions of Kafka Connect's service on Fargate; None: MSK Connect.
    connect_task: Mapping[str, str] | None = None
    # The dimensions of the service of each task of directory_state; empty: functions look up in OpenSearch.
    directory_state: Sequence[Mapping[str, str]] = ()
    # Whether ECS publishes metrics of Container Insights.
    insights: bool = True
    # The minutes between runs of the streaming job that count everything and end; None: a run has no end.
    every_minutes: int | None = None
    # The name of the streaming job's application; None: there are no metrics.
    job: str | None
    # That of the job that reads the organisation's own topics; None: there is none.
    events_job: str | None = None


@dataclass(frozen=True, kw_only=True)
class Installation:
    """The resources of an installation by the names that their metrics have as dimensions."""

    environment: str
    # The functions by their deployed names, and the dimension of each.
    entries: Mapping[str, FunctionEntry]
    functions: Mapping[str, str]
    # The functions that only a deployment has.
    helpers: Mapping[str, str]
    # The dead-letter queues of schedules and receipt triggers, by function.
    missed: Mapping[str, str]
    # The consumer group of each topic, by function.
    groups: Mapping[str, Mapping[str, str]]
    # The ids of the event source mappings, by function.
    mappings: Mapping[str, Sequence[str]]
    cluster: str
    brokers: int
    # Whether the brokers use CPU credits (t3).
    burstable_brokers: bool
    # The dimensions of the OpenSearch domain.
    directory: Mapping[str, str]
    # The names of the DynamoDB tables, by their names in schemas/dynamodb.
    tables: Mapping[str, str]
    api: str
    stage: str
    # The names of the SNS platform applications and their kinds, by platform.
    applications: Mapping[str, tuple[str, str]]
    servers: Servers | None
    # Whether the event source mappings are in on-demand mode.
    on_demand: bool = False
    # Whether there are only the alarms that no other one implies.
    few: bool = False

    def emitting(self, metric: Metric) -> list[str]:
        """Return the functions of the installation that emit a metric."""
        packages = {entry.package for entry in self.entries.values()}
        return [each for each in metric.emitted_by if each in packages]


# The runbooks of alarms that another alarm implies, about what comes of it: late data, failed notifications or dead
# letters. Each metric of an alarm is charged.
_IMPLIED = {
    *("consumer-lag", "duplicates", "function-errors", "provider-errors", "push-failures", "records-dropped"),
    *("throttles", "unreadable-items", "webhooks"),
}
# Further alarms of few that another one implies: CPU by CPU credits, and replicas by partitions without a leader, since
# one replica in sync suffices there.
_IMPLIED_ALARMS = {"kafka-cpu", "kafka-under-min-isr"}


def rules(of: Installation) -> list[Rule]:
    """Return all alarms of an installation."""
    found = [
        *_of_functions(of),
        *_of_helpers(of),
        *_of_event_sources(of),
        *_of_records(of),
        *_of_freshness(of),
        *_of_brokers(of),
        *_of_stores(of),
        *_of_api(of),
        *_of_providers(of),
    ]
    if of.servers is not None:
        found += [*_of_databases(of.servers), *_of_services(of.servers)]
    return [rule for rule in found if not of.few or _is_essential(rule, of)]


def _is_essential(rule: Rule, of: Installation) -> bool:
    """Return whether no other alarm implies this one. Records that wait for a function of the chain are seen by their
    lag alone.
    """
    lags = {
        f"{name}-lag-{topic}"
        for name in _CHAIN
        for topic in of.groups.get(name, ())
        # The further queues, for tenants that broadcast at the same time, have the functions of the first.
        if lane_of(topic) not in BROADCASTS[1:]
    }
    return rule.name in lags or not (rule.runbook in _IMPLIED or rule.name in _IMPLIED_ALARMS)


def _of_functions(of: Installation) -> Iterator[Rule]:
    """Return alarms on errors, throttles and durations of each function, and on events in its dead-letter queue."""
    for name, function in of.functions.items():
        errors, throttles = of_function(function, "Errors", "Sum"), of_function(function, "Throttles", "Sum")
        slow, limit_ms = of_function(function, "Duration", "Maximum"), of.entries[name].timeout_s * 1000
        subject = f"Invocations of {name}"
        retried = of.on_demand and of.entries[name].event_source is not None
        periods = _ON_DEMAND_ERROR_PERIODS if retried else _ERROR_PERIODS
        description = f"{subject} end in errors."
        yield Rule(f"{name}-errors", "function-errors", description, errors, 5, periods=periods, most=periods * 3 // 5)
        yield Rule(f"{name}-throttled", "throttles", f"{subject} are throttled.", throttles, 1, most=3)
        yield Rule(
            f"{name}-slow",
            "function-errors",
            f"{subject} come close to their time limit.",
            slow,
            0.9 * limit_ms,
            most=3,
        )
    for name, queue in of.missed.items():
        runbook, description = (
            ("receipts", f"Delivery statuses from SNS or SES do not reach {name}.")
            if of.entries[name].schedule_s is None
            else ("schedule", f"Scheduled invocations of {name} fail.")
        )
        there = Series(
            namespace="AWS/SQS",
            name="ApproximateNumberOfMessagesVisible",
            statistic="Maximum",
            dimensions={"QueueName": queue},
        )
        yield Rule(f"{name}-missed", runbook, description, there, 1, periods=1)


def _of_helpers(of: Installation) -> Iterator[Rule]:
    """Return alarms on errors of the functions that only a deployment has."""
    for name, function in of.helpers.items():
        errors = of_function(function, "Errors", "Sum")
        yield Rule(f"{name}-errors", "function-errors", f"Invocations of {name} end in errors.", errors, 5, most=3)


def _of_event_sources(of: Installation) -> Iterator[Rule]:
    """Return alarms on the lag of each function's topics, and on records that event source mappings dropped."""
    for name, groups in of.groups.items():
        for topic, group in groups.items():
            seconds = longest_lag_s(of.entries[name], topic)
            description = f"Records of {topic} wait for {name} for more than {seconds} s."
            waited = lag(of.cluster, group=group, topic=topic)
            yield Rule(f"{name}-lag-{topic}", "consumer-lag", description, waited, seconds, most=3)
        description = f"Records for {name} were dropped without reaching an on-failure destination."
        for part, mappings in enumerate(batched(of.mappings[name], METRICS_AN_ALARM, strict=False), 1):
            used = {f"d{number}": dropped_records(mapping) for number, mapping in enumerate(mappings)}
            dropped = Formula(operation=TOTAL, used=used, label="dropped")
            suffix = "" if part == 1 else f"-{part}"
            yield Rule(f"{name}-dropped{suffix}", "records-dropped", description, dropped, 1, periods=1)


def _of_records(of: Installation) -> Iterator[Rule]:
    """Return alarms on dead letters of each function, and on ratios of delivery's counters, which are 0 without
    traffic.
    """
    for package in sorted({each.package for each in of.entries.values() if each.event_source}):
        bursts = ours(of.environment, DEAD_LETTER_BURSTS, package)
        yield Rule(
            f"{package}-dead-letters", "dead-letters", f"{package} dead-letters many records.", bursts, 1, periods=1
        )
    yield _failed(of.environment)
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
        used = {each: ours(of.environment, counted, "delivery") for each, counted in (("part", part), ("whole", whole))}
        yield Rule(name, runbook, description, Formula(operation=RATIO, used=used, label=name), threshold)


def _failed(environment: str) -> Rule:
    """Return the share of failed and expired notifications among those sent, failed or expired."""
    lost = [(of, function) for of in (Status.FAILED, Status.EXPIRED) for function in RECIPIENTS[of].emitted_by]
    used = {f"lost{number}": ours(environment, RECIPIENTS[of], function) for number, (of, function) in enumerate(lost)}
    used |= {"sent": ours(environment, RECIPIENTS[Status.SENT], "delivery")}
    share = Formula(operation=LOST, used=used, label="failed")
    return Rule("failed", "failed-notifications", "One notification in five fails or expires.", share, 0.2)


def _of_freshness(of: Installation) -> Iterator[Rule]:
    """Return alarms on the age of the directory in OpenSearch, of delayed records and of metrics, if the installation
    has a streaming job. Missing data triggers these alarms, too.
    """
    environment = of.environment
    changes = ours(environment, CHANGE_DATA_AGE, "cdc_consumer", "Maximum")
    description = f"The directory is more than {_CHANGES_STALE_S} s behind the monolith's tables."
    yield Rule("changes-stale", "change-data-capture", description, changes, _CHANGES_STALE_S, missing_data_alarms=True)
    overdue = ours(environment, OLDEST_DUE, "scheduler", "Maximum")
    description = f"Delayed records are released more than {_OVERDUE_S} s late."
    yield Rule("waiting-overdue", "schedule", description, overdue, _OVERDUE_S, missing_data_alarms=True)
    for function in of.emitting(WEBHOOK_ENDPOINTS_DISABLED):
        disabled = ours(environment, WEBHOOK_ENDPOINTS_DISABLED, function)
        yield Rule(f"{function}-disabled", "webhooks", f"{function} disabled an endpoint of webhooks.", disabled, 1)
    for function in of.emitting(EMAIL_PAUSES):
        paused = ours(environment, EMAIL_PAUSES, function)
        yield Rule(f"{function}-paused-emails", "email-reputation", "The e-mails of a tenant wait.", paused, 1)
    for function in of.emitting(UNREADABLE_ITEMS):
        items = ours(environment, UNREADABLE_ITEMS, function)
        description = f"Sweeps of {function} skip stored items that they cannot read."
        yield Rule(f"{function}-unreadable", "unreadable-items", description, items, 1)
    if of.servers is not None and of.servers.job is not None:
        yield _of_metrics_age(environment, of.servers.every_minutes)
        archived = ours(environment, METRICS_ARCHIVE_AGE, "spark_metrics", "Maximum")
        description = f"The archive is more than {_ARCHIVE_STALE_S} s behind the topics."
        yield Rule("archive-stale", "archive", description, archived, _ARCHIVE_STALE_S)
        differing = ours(environment, METRICS_DIFFERENCES, "spark_metrics", "Maximum")
        description = "Served metrics of the day before differ from the archive."
        yield Rule("metrics-differ", "archive", description, differing, 1, periods=1)
        left = ours(environment, METRICS_DISK_DAYS, "spark_metrics", "Minimum")
        description = f"The metrics database fills its largest volume within {_DISK_DAYS} days."
        yield Rule("metrics-disk", "database", description, left, _DISK_DAYS, periods=1, below=True)
        quarantined = ours(environment, RECORDS_QUARANTINED, "spark_metrics")
        description = "The metrics job cannot count some records, and has quarantined them."
        yield Rule("metrics-quarantined", "quarantine", description, quarantined, 1, periods=1)
        for module, runs in DAILY_RUNS.items():
            completed = ours(environment, runs, "spark_metrics", period_s=HOUR_S)
            description = f"The daily run of spark_metrics.{module} was not completed within {_RUN_MISSED_H} hours."
            yield Rule(
                f"{module}-missed",
                "daily-runs",
                description,
                completed,
                1,
                periods=_RUN_MISSED_H,
                below=True,
                missing_data_alarms=True,
            )


def _of_metrics_age(environment: str, every_minutes: int | None) -> Rule:
    """Return the alarm on the age of the metrics. Runs on a schedule emit the age while they count; the alarm triggers
    when three of them are missed.
    """
    description = f"The served metrics are more than {_METRICS_STALE_S} s old."
    if every_minutes is None:
        counted = ours(environment, METRICS_AGE, "spark_metrics", "Maximum")
        return Rule("metrics-stale", "streaming-job", description, counted, _METRICS_STALE_S, missing_data_alarms=True)
    span_s = 3 * every_minutes * MINUTE_S
    counted = ours(environment, METRICS_AGE, "spark_metrics", "Minimum", period_s=span_s)
    description = f"No run of the streaming job has counted the newest records for {span_s // MINUTE_S} minutes."
    return Rule(
        "metrics-stale",
        "streaming-job",
        description,
        counted,
        _METRICS_STALE_S + every_minutes * MINUTE_S,
        periods=1,
        missing_data_alarms=True,
    )


def _of_brokers(of: Installation) -> Iterator[Rule]:
    """Return alarms on a Kafka cluster and its brokers, whose ids are 1 to `brokers`.

    https://docs.aws.amazon.com/msk/latest/developerguide/metrics-details.html
    """
    yield Rule("kafka-controller", "kafka", "Kafka has no controller.", controllers(of.cluster), 1, below=True)
    offline = offline_partitions(of.cluster)
    yield Rule("kafka-offline", "kafka", "Partitions of Kafka have no leader.", offline, 1)
    watched = [
        ("storage", "A broker's disk is 80 % full.", "KafkaDataLogsDiskUsed", LARGEST, 80, False),
        (
            "under-min-isr",
            "Kafka refuses writes: too few replicas are in sync.",
            _UNDER_MIN,
            LARGEST,
            1,
            False,
        ),
        (
            "cpu",
            f"A broker uses {100 - _IDLE_PERCENT} % of its CPU.",
            "CpuIdle",
            SMALLEST,
            _IDLE_PERCENT,
            True,
        ),
    ]
    if of.burstable_brokers:
        meaning = "A broker's CPU credits end: it is limited to its baseline then."
        watched.append(("credits", meaning, "CPUCreditBalance", SMALLEST, _CPU_CREDITS, True))
    for (name, meaning, figure, operation, threshold, below), (part, ids) in product(
        watched, enumerate(batched(range(1, of.brokers + 1), METRICS_AN_ALARM, strict=False), 1)
    ):
        # MSK publishes these metrics by broker only.
        statistic = "Minimum" if below else "Maximum"
        used = {f"b{each}": of_cluster(of.cluster, figure, statistic, {"Broker ID": str(each)}) for each in ids}
        worst = Formula(operation=operation, used=used, label=name)
        suffix = "" if part == 1 else f"-{part}"
        periods = _BUSY_MINUTES if figure == "CpuIdle" else 5
        yield Rule(f"kafka-{name}{suffix}", "kafka", meaning, worst, threshold, below=below, periods=periods)


def _of_stores(of: Installation) -> Iterator[Rule]:
    """Return alarms on OpenSearch and the DynamoDB tables."""
    for name, description, figure, statistic, threshold, below in (
        ("red", "An index of the directory has lost a primary shard.", "ClusterStatus.red", "Maximum", 1, False),
        ("blocked", "The directory takes no writes.", "ClusterIndexWritesBlocked", "Maximum", 1, False),
        ("memory", "The directory's heap is full.", "JVMMemoryPressure", "Maximum", 92, False),
        ("storage", "The directory's disks are full.", "FreeStorageSpace", "Minimum", 5 * 1024, True),
    ):
        domain = of_directory(of.directory, figure, statistic)
        yield Rule(f"directory-{name}", "directory", description, domain, threshold, below=below)
    # Both have a value only while there is a problem.
    # https://docs.aws.amazon.com/opensearch-service/latest/developerguide/cloudwatch-alarms.html
    broken = {
        name: of_directory(of.directory, figure)
        for name, figure in (("disabled", "KMSKeyError"), ("gone", "KMSKeyInaccessible"))
    }
    description = "The key of the directory's data is disabled, or was deleted."
    yield Rule(
        "directory-key", "directory", description, Formula(operation=LARGEST, used=broken, label="key"), 1, periods=1
    )
    for name, table in of.tables.items():
        throttled = {
            kind: Series(
                namespace="AWS/DynamoDB",
                name=f"{kind.title()}ThrottleEvents",
                statistic="Sum",
                dimensions={"TableName": table},
            )
            for kind in ("read", "write")
        }
        description = f"DynamoDB throttles reads or writes of {name}."
        refused = Formula(operation=TOTAL, used=throttled, label="throttled")
        yield Rule(f"{name}-throttled", "throttles", description, refused, 10, most=3)


def _of_databases(servers: Servers) -> Iterator[Rule]:
    """Return alarms on CPU, storage and connections of the PostgreSQL databases.

    https://docs.aws.amazon.com/AmazonRDS/latest/UserGuide/rds-metrics.html
    """
    for name, instance in servers.databases.items():
        dimensions = {"DBInstanceIdentifier": instance}
        busy = Series(namespace="AWS/RDS", name="CPUUtilization", statistic="Average", dimensions=dimensions)
        free = Series(namespace="AWS/RDS", name="FreeStorageSpace", statistic="Minimum", dimensions=dimensions)
        description = f"The {name} database uses 90 % CPU."
        yield Rule(f"{name}-database-cpu", "database", description, busy, 90, periods=15)
        description = f"The {name} database has less than 10 GiB of free storage."
        yield Rule(f"{name}-database-storage", "database", description, free, 10 * _GIB, below=True)
        open_ = Series(namespace="AWS/RDS", name="DatabaseConnections", statistic="Maximum", dimensions=dimensions)
        description = f"The {name} database has {_CONNECTIONS_USED:.0%} of its connections open."
        most = _CONNECTIONS_USED * servers.connections[name]
        yield Rule(f"{name}-database-connections", "database", description, open_, most)


def _of_services(servers: Servers) -> Iterator[Rule]:
    """Return alarms on the services that must always run: Debezium's connectors, the schema registry, directory_state
    and the streaming job.
    """
    for number, (generation, connector) in enumerate(servers.connectors.items()):
        tasks = connector_tasks(connector)
        description = "The connector has no running task: the directory becomes stale, and sends to unknown users wait."
        name = "change-data-capture" if number == 0 else f"change-data-capture-{generation}"
        yield Rule(name, "change-data-capture", description, tasks, 1, below=True, missing_data_alarms=True)
    if servers.connect_task is not None:
        description = "Kafka Connect does not run: the directory becomes stale, and sends to unknown users wait."
        tasks = service_tasks(servers.connect_task)
        yield Rule(
            "change-data-capture", "change-data-capture", description, tasks, 1, below=True, missing_data_alarms=True
        )
    if servers.registry is not None:
        running = registry_tasks(servers.registry) if servers.insights else service_tasks(servers.registry)
        description = "No task of the schema registry runs: functions that start now cannot decode."
        yield Rule("schema-registry", "schema-registry", description, running, 1, below=True, missing_data_alarms=True)
    for number, dimensions in enumerate(servers.directory_state):
        description = "The task of directory_state does not run: without another one, look-ups fail, and sends wait."
        name, tasks = f"directory-state-{number}", service_tasks(dimensions)
        yield Rule(name, "directory", description, tasks, 1, below=True, missing_data_alarms=True)
    if servers.job is not None and servers.every_minutes is None:
        yield from _of_job(
            "streaming-job", servers.job, "The streaming job", "metrics become stale, and records wait in Kafka"
        )
    if servers.events_job is not None:
        waits = "records of the organisation's topics wait in Kafka"
        yield from _of_job("events-job", servers.events_job, "The events job", waits)


def _of_job(name: str, application: str, job: str, consequence: str) -> Iterator[Rule]:
    """Return alarms on a Spark streaming job that does not run, or ends again and again."""
    dimensions = {JOB_RUNNING.dimensions[0]: application}
    runs = Series(namespace=NAMESPACE, name=JOB_RUNNING.name, statistic="Maximum", dimensions=dimensions)
    description = f"{job} does not run: {consequence}."
    yield Rule(name, "streaming-job", description, runs, 1, periods=10, below=True, missing_data_alarms=True)
    starts = Series(namespace=NAMESPACE, name=JOB_STARTS.name, statistic="Sum", dimensions=dimensions)
    description = f"{job} was started {_STARTS_AN_HOUR} times in an hour: it ends again and again."
    yield Rule(f"{name}-restarts", "streaming-job", description, starts, 1, periods=60, most=_STARTS_AN_HOUR)


def _of_api(of: Installation) -> Iterator[Rule]:
    """Return alarms on errors and latency of the REST API, and on long polls that cannot be counted."""
    failing = api_errors(of.api)
    yield Rule("api-errors", "api-errors", "More than 2 % of the API's requests end in a 5xx.", failing, 0.02)
    if any("GET /v1/metrics" in entry.routes for entry in of.entries.values()):
        slow = api_latency(of.api, of.stage, "GET", "/v1/metrics")
        description = "One in a hundred metrics requests takes more than three seconds; long polls are not included."
        yield Rule("api-slow", "api-errors", description, slow, 3000)
    description = "Open polls cannot be counted: long polls return at once, and dashboards repeat them at once."
    for function in of.emitting(POLLS_UNCOUNTED):
        uncounted = ours(of.environment, POLLS_UNCOUNTED, function)
        yield Rule(f"polls-uncounted-{function}", "throttles", description, uncounted, 10, most=3)


def _of_providers(of: Installation) -> Iterator[Rule]:
    """Return alarms on the account's reputation in SES, and on failed pushes in SNS."""
    for name, figure, threshold in (
        ("bounces", "Reputation.BounceRate", _BOUNCES),
        ("complaints", "Reputation.ComplaintRate", _COMPLAINTS),
    ):
        description = f"E-mail {name} are near the rate at which SES pauses sending."
        rate = Series(namespace="AWS/SES", name=figure, statistic="Average", dimensions={})
        yield Rule(f"email-{name}", "email-reputation", description, rate, threshold, periods=15, most=1)
    for platform, (application, kind) in of.applications.items():
        dimensions = {"Application": application, "Platform": kind}
        used = {
            id: Series(namespace="AWS/SNS", name=f"NumberOfNotifications{end}", statistic="Sum", dimensions=dimensions)
            for id, end in (("lost", "Failed"), ("delivered", "Delivered"))
        }
        failed = Formula(operation=LOST, used=used, label="failed")
        yield Rule(f"push-failed-{platform}", "push-failures", f"One push in five fails ({kind}).", failed, 0.2, most=3)


def longest_lag_s(entry: FunctionEntry, topic: str) -> int:
    """Return the alarm threshold for the lag of a function's topic in seconds."""
    if entry.lane is Lane.CRITICAL:
        return _CRITICAL_LAG_S
    if lane_of(topic) is Lane.SMALL:
        return _SMALL_LAG_S
    return _CHANGES_LAG_S if entry.package in _OF_CHANGES else _BULK_LAG_S
