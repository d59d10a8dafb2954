"""The vocabulary of metrics, shared by the functions that emit them, the alarms and the documentation.

docs/observability.md contains it as a table, made by `python -m infra.metric_table`; a test compares them. Every metric
is in the namespace `masscomm` and has exactly its listed dimensions. A key with many values (a send, a record, a
tenant) is not a dimension, because CloudWatch bills each combination as a separate metric. In a closed vocabulary
(statuses, channels) each word has its own metric, so that an invocation needs one line. In Prometheus, on a development
machine, labels are free, and these metrics are one family with labels.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from masscomm.domain.statuses import Status

NAMESPACE = "masscomm"
# The dimensions of every function's metrics: its environment and its name (the same in both lanes).
ENVIRONMENT, SERVICE = "environment", "service"
USUAL = (ENVIRONMENT, SERVICE)
# A property of functions' metrics lines, not a dimension.
LANE = "lane"


class Unit(StrEnum):
    """CloudWatch's name of a unit."""

    COUNT = "Count"
    SECONDS = "Seconds"
    MILLISECONDS = "Milliseconds"


class Kind(StrEnum):
    """How values of one metric are aggregated."""

    COUNTER = "counter"  # the sum of the values
    DISTRIBUTION = "distribution"  # the single values, for percentiles
    GAUGE = "gauge"  # the last value


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One metric."""

    name: str
    unit: Unit
    kind: Kind
    # Its description in docs/observability.md.
    meaning: str
    # The functions that emit it, empty for all functions.
    emitted_by: tuple[str, ...] = ()
    dimensions: tuple[str, ...] = USUAL
    # Its name and labels in Prometheus, if several metrics are one family there.
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

# --- Kafka-triggered functions ----------------------------------------------------------------------------------------
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
