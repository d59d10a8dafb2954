"""The vocabulary of metrics, shared by the functions that emit them, the alarms and the documentation.

docs/observability.md holds this as a table, made by `python -m infra.metric_table`; a test compares them. Every metric
stands in the namespace `masscomm` under the dimensions that it names and no others. What has many values (a send, a
record, a tenant) is no dimension: CloudWatch bills each combination as a metric of its own. Where a vocabulary is
closed (statuses, channels), each word has a metric, so that an invocation needs one line; where
labels cost nothing (Prometheus, here on this machine) they are labels of one family again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from masscomm.domain.statuses import Status

NAMESPACE = "masscomm"
# The dimensions of every function's metrics: its environment and its name (the same in both lanes).
ENVIRONMENT, SERVICE = "environment", "service"
USUAL = (ENVIRONMENT, SERVICE)
# Of functions, whose lines also say it, though not as a dimension.
LANE = "lane"


class Unit(StrEnum):
    """As CloudWatch names it."""

    COUNT = "Count"
    SECONDS = "Seconds"
    MILLISECONDS = "Milliseconds"


class Kind(StrEnum):
    """How values of one metric come together."""

    COUNTER = "counter"  # they add up
    DISTRIBUTION = "distribution"  # each counts for itself: percentiles are made of them
    GAUGE = "gauge"  # the last one holds


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One metric.

    emitted_by: the functions that emit it, empty for all functions; meaning: a sentence; family, labels: its name in
    Prometheus where several metrics are one there.
    """

    name: str
    unit: Unit
    kind: Kind
    meaning: str
    emitted_by: tuple[str, ...] = ()
    dimensions: tuple[str, ...] = USUAL
    family: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


def _counter(name: str, meaning: str, *emitted_by: str) -> Metric:
    return Metric(name=name, unit=Unit.COUNT, kind=Kind.COUNTER, meaning=meaning, emitted_by=emitted_by)


def _gauge(name: str, unit: Unit, meaning: str, emitted_by: str) -> Metric:
    return Metric(name=name, unit=unit, kind=Kind.GAUGE, meaning=meaning, emitted_by=(emitted_by,))


CHAIN = ("preference_checker", "builder", "delivery")
KAFKA_TRIGGERED = (*CHAIN, "cdc_consumer", "device_registrar", "receipts", "scheduler")
# Channels that have a provider of their own.
PROVIDER_CHANNELS = ("push", "email")

# --- every function ---------------------------------------------------------------------------------------------------
COLD_STARTS = _counter("ColdStarts", "first invocations of an execution environment")
DURATION = Metric(
    name="InvocationDuration",
    unit=Unit.MILLISECONDS,
    kind=Kind.DISTRIBUTION,
    meaning="from the event to the answer, the last flush included; of a Kafka-triggered function, of a whole batch",
)

# --- what is triggered by Kafka ---------------------------------------------------------------------------------------
RECORDS_IN = _counter("RecordsIn", "records received; a redelivered record is counted again", *KAFKA_TRIGGERED)
RECORDS_OUT = _counter("RecordsOut", "records that Kafka has acknowledged, dead letters left out", *KAFKA_TRIGGERED)
RECORDS_FAILED = _counter("RecordsFailed", "records to be redelivered: a dependency was down or slow", *KAFKA_TRIGGERED)
DEAD_LETTERS = _counter("DeadLetters", "records written to the dead-letter topic", *KAFKA_TRIGGERED)
DEAD_LETTER_BURSTS = _counter(
    "DeadLetterBursts",
    "invocations after which the last minute of their environment held more dead letters than DEAD_LETTER_ALARM_LIMIT",
    *KAFKA_TRIGGERED,
)

# --- notifications ----------------------------------------------------------------------------------------------------
_EMITTED_BY: Mapping[Status, tuple[str, ...]] = {
    Status.ACCEPTED: ("send_handler",),
    Status.SENT: ("delivery",),
    Status.DELIVERED: ("receipts",),
    Status.BOUNCED: ("receipts",),
}
RECIPIENTS: Mapping[Status, Metric] = {
    status: Metric(
        name=f"Recipients{status.value.capitalize()}",
        unit=Unit.COUNT,
        kind=Kind.COUNTER,
        meaning="notifications asked for over REST"
        if status is Status.ACCEPTED
        else f"notifications with the outcome {status.value}; a redelivered record counts them again",
        emitted_by=_EMITTED_BY.get(status, (*CHAIN, "scheduler")),
        family="Recipients",
        labels={"status": status.value},
    )
    for status in Status
}
DUPLICATES_REFUSED = _counter(
    "DuplicatesRefused",
    "recipients of redelivered records with results in the ledger: nothing was published twice",
    "delivery",
)
REPEATED_RECIPIENTS = _counter(
    "RepeatedRecipients",
    "users named more than once in one chunk of a send, beyond the first time",
    "preference_checker",
)

# --- providers --------------------------------------------------------------------------------------------------------


def _by_channel(what: str, meaning: str, unit: Unit, kind: Kind) -> dict[str, Metric]:
    return {
        channel: Metric(
            name=f"{channel.capitalize()}{what}",
            unit=unit,
            kind=kind,
            meaning=f"{channel}: {meaning}",
            emitted_by=("delivery",),
            family=f"Provider{what}",
            labels={"channel": channel},
        )
        for channel in PROVIDER_CHANNELS
    }


PROVIDER_CALLS = _by_channel("Calls", "calls made of the provider", Unit.COUNT, Kind.COUNTER)
PROVIDER_THROTTLES = _by_channel("Throttles", "calls the provider asked to make slower", Unit.COUNT, Kind.COUNTER)
PROVIDER_ERRORS = _by_channel(
    "Errors",
    "calls that failed for the provider or the network, throttles left out",
    Unit.COUNT,
    Kind.COUNTER,
)
PROVIDER_LATENCY = _by_channel(
    "Latency",
    "how long calls took; up to a hundred of an invocation, evenly chosen",
    Unit.MILLISECONDS,
    Kind.DISTRIBUTION,
)
LEASE_LOSSES = _counter(
    "LeaseLosses",
    "records whose lease another invocation took, or with a slice recorded by another invocation",
    "delivery",
)

# --- delayed records --------------------------------------------------------------------------------------------------
RELEASED = _counter("WaitingReleased", "records released by a sweep", "scheduler")
NOT_RELEASED = _counter("WaitingNotReleased", "records that were due and that Kafka did not take", "scheduler")
BACKLOG = _gauge(
    "WaitingBacklog",
    Unit.COUNT,
    "records found due by a sweep that are still there after it, those of another sweep included",
    "scheduler",
)
OLDEST_DUE = _gauge(
    "WaitingOldestDue",
    Unit.SECONDS,
    "for how long the oldest record had been due when a sweep began; 0 where nothing was",
    "scheduler",
)
UNREADABLE = _gauge(
    "WaitingUnreadable",
    Unit.COUNT,
    "records found due by a sweep that cannot be read: they stay in the table and are not released",
    "scheduler",
)

# --- the stream of changes --------------------------------------------------------------------------------------------
POLLS_UNCOUNTED = _counter(
    "OpenPollsUncounted",
    "requests of the stream that were answered without waiting, because open polls could not be counted",
    "metrics_handler",
)

# --- freshness --------------------------------------------------------------------------------------------------------
CHANGE_DATA_AGE = _gauge(
    "ChangeDataAge",
    Unit.SECONDS,
    "how old the newest heartbeat of the monolith's database was when it was read: how stale the directory is",
    "cdc_consumer",
)
METRICS_AGE = _gauge(
    "MetricsAge",
    Unit.SECONDS,
    "how long ago the moment was up to which everything is counted",
    "spark_metrics",
)
JOB_RUNNING = Metric(
    name="JobRunning",
    unit=Unit.COUNT,
    kind=Kind.GAUGE,
    meaning="1 where the streaming job's wanted run is active, else 0",
    emitted_by=("keep_job",),
    dimensions=("application",),
)

ALL: Mapping[str, Metric] = {
    metric.name: metric
    for metric in (
        COLD_STARTS,
        DURATION,
        RECORDS_IN,
        RECORDS_OUT,
        RECORDS_FAILED,
        DEAD_LETTERS,
        DEAD_LETTER_BURSTS,
        *RECIPIENTS.values(),
        DUPLICATES_REFUSED,
        REPEATED_RECIPIENTS,
        *PROVIDER_CALLS.values(),
        *PROVIDER_THROTTLES.values(),
        *PROVIDER_ERRORS.values(),
        *PROVIDER_LATENCY.values(),
        LEASE_LOSSES,
        RELEASED,
        NOT_RELEASED,
        BACKLOG,
        OLDEST_DUE,
        UNREADABLE,
        POLLS_UNCOUNTED,
        CHANGE_DATA_AGE,
        METRICS_AGE,
        JOB_RUNNING,
    )
}
