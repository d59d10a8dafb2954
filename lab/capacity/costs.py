"""Computes the costs of a million notifications, and of an environment without load.

These costs are not included: data transfer out of AWS, the monolith's side of change data capture, KMS, Secrets
Manager, X-Ray, alarms, WAF, API Gateway (one request names thousands of recipients), backups beyond the size of the
volumes, support.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

from functions.catalogue import FunctionEntry
from infra.cdk.profiles import PROFILES, Warmth
from lab.capacity.limits import environments_used, ledger_units_s
from lab.capacity.plan import INPUTS, STEPS, Plan, batch_records, functions, invocation_s, recipients_a_record
from lab.capacity.prices import HOURS_A_MONTH, price
from lab.capacity.quotas import quota
from lab.capacity.service_times import ServiceTimes
from lab.capacity.workload import Workload, sizes
from masscomm.domain.lanes import Lane
from masscomm.domain.time_limits import LEDGER_KEPT_S

MILLION = 1_000_000
GB = 1e9
DAYS_A_MONTH = HOURS_A_MONTH / 24
# The bytes that an invocation logs: Lambda's own lines (start, end, report) in JSON, and one line of the function.
LOG_BYTES_AN_INVOCATION = 1_500
# The number of interface endpoints in infra/cdk/resources/network.py; a test compares it with the synthesised template.
INTERFACE_ENDPOINTS = 12
# The number of MSK Connect units in infra/cdk/resources/connector.py.
CONNECT_UNITS = 1
DATABASE_VCPUS = {"t4g.small": 2, "t4g.medium": 2, "r7g.large": 2, "r7g.xlarge": 4}
# The share of bytes that cross zones: of three zones, two are not the zone of the partition's leader.
OTHER_ZONE = 2 / 3


@dataclass(frozen=True, kw_only=True)
class Cost:
    """One line of the bill."""

    component: str  # The resource that is charged.
    dollars: float  # The price for a million notifications, or for a month, in US dollars.


def for_a_million(workload: Workload, plan: Plan, times: ServiceTimes, provider_s: float) -> list[Cost]:
    """Return the costs that depend on use, with every batch full."""
    invocations = {step: MILLION / (batch_records(step) * recipients_a_record(step, workload)) for step in STEPS}
    gb_s = {
        step: invocations[step]
        * invocation_s(step, batch_records(step), workload, plan, times, provider_s)
        * plan.memory_mb[step]
        / 1024
        for step in STEPS
    }
    allowed = MILLION * workload.allowed
    weights = sizes(workload)
    share = MILLION / workload.notifications_s
    bulk = Workload(**{**workload.__dict__, "critical_s": 0.0})
    decisions = MILLION / workload.chunk * weights.check_units + MILLION / recipients_a_record("builder", workload) * (
        weights.build_units
    )
    written = share * ledger_units_s(bulk, times) + decisions
    kept_gb = allowed / times.slice_size * weights.ledger_bytes / GB
    through_gb = MILLION * weights.bytes_a_notification() / GB
    # The next function reads each record. The Spark job reads it too, except on the topic `build`.
    reads = 2 - weights.bytes_a_notification(INPUTS["builder"]) / weights.bytes_a_notification()
    return [
        Cost(component="push (SNS)", dollars=allowed * (1 - workload.email) * workload.devices * price("sns_push")),
        Cost(component="e-mail (SES)", dollars=allowed * workload.email * price("ses_email")),
        *(
            Cost(
                component=f"Lambda, {step}",
                dollars=gb_s[step] * price("lambda_gb_s") + invocations[step] * price("lambda_request"),
            )
            for step in STEPS
        ),
        Cost(
            component="DynamoDB",
            dollars=written * price("dynamodb_write_unit")
            + kept_gb * LEDGER_KEPT_S / 86_400 / DAYS_A_MONTH * price("dynamodb_gb_month"),
        ),
        Cost(
            component="Kafka, between zones", dollars=through_gb * (1 + reads) * OTHER_ZONE * price("between_zones_gb")
        ),
        Cost(
            component="logs",
            dollars=sum(invocations.values()) * LOG_BYTES_AN_INVOCATION / GB * price("logs_gb"),
        ),
        Cost(component="archive (S3), a year", dollars=through_gb * 12 * price("s3_gb_month")),
    ]


def a_month(plan: Plan) -> list[Cost]:
    """Return the hourly costs for a month, which are independent of the load."""
    environment = plan.environment
    kafka, search, database = environment.kafka, environment.opensearch, environment.database
    registry = environment.registry
    instances = 2 if database.multi_az else 1
    spark = environment.spark
    workers = 1 + plan.executors
    return [
        _hourly(
            "Kafka (MSK)",
            plan.brokers * price(f"msk.{kafka.instance_type}"),
            plan.brokers * kafka.volume_gb * price("msk_gb_month"),
        ),
        _hourly("change data capture (MSK Connect)", CONNECT_UNITS * price("msk_connect_hour")),
        _hourly(
            "directory (OpenSearch)",
            plan.data_nodes * price(f"opensearch.{search.instance_type}")
            + search.dedicated_masters * price(f"opensearch.{search.master_type}"),
            plan.data_nodes * search.volume_gb * price("opensearch_gb_month"),
        ),
        _hourly(
            "databases (RDS, proxy)",
            instances * (price(f"rds.{database.instance_type}") + price(f"rds.{database.registry_instance_type}"))
            + DATABASE_VCPUS[database.instance_type] * price("rds_proxy_vcpu_hour"),
            instances * database.volume_gb * 2 * price("rds_gb_month"),
        ),
        _hourly(
            "metrics (EMR Serverless)",
            workers * (spark.worker_cpu * price("emr_vcpu_hour") + spark.worker_memory_gb * price("emr_gb_hour")),
        ),
        _hourly(
            "schema registry (Fargate, load balancer)",
            registry.tasks * registry.cpu / 1024 * price("fargate_vcpu_hour")
            + registry.tasks * registry.memory_mb / 1024 * price("fargate_gb_hour")
            + price("balancer_hour"),
        ),
        _hourly("event pollers", poller_units() * price("lambda_event_poller_unit_hour")),
        _hourly(
            "functions kept warm",
            3600
            * (
                environment.provisioned * _memory_gb(Warmth.PROVISIONED) * price("lambda_provisioned_gb_s")
                + bool(environment.provisioned) * _memory_gb(Warmth.SNAPSTART) * price("lambda_snapshot_gb_s")
            ),
        ),
        _hourly("endpoints (VPC)", INTERFACE_ENDPOINTS * len(environment.zones) * price("endpoint_hour")),
    ]


def poller_units() -> int:
    """Return the event poller units of idle mappings: each has one poller, and the mappings of a lane (kind of send)
    are in one group.
    """
    return sum(ceil(mappings / quota("pollers_a_unit")) for mappings in _mappings().values())


def busy_poller_units(workload: Workload, plan: Plan, times: ServiceTimes, provider_s: float) -> int:
    """Return the event poller units of the bulk lane's group at this rate: enough for its invocations, and for its
    bytes.
    """
    records = sizes(workload).records
    pollers, mb_s = float(_mappings()[Lane.BULK]), 0.0
    for step in STEPS:
        mappings = _topics(functions()[step])
        used = environments_used(step, workload, plan, times, provider_s) / quota("invocations_a_poller")
        pollers += max(0.0, used - mappings)
        mb_s += records[INPUTS[step]] * workload.notifications_s / recipients_a_record(step, workload) / 1e6
    return max(ceil(pollers / quota("pollers_a_unit")), ceil(mb_s / quota("unit_mb_s")))


def _mappings() -> Mapping[Lane, int]:
    """Return the number of event source mappings of each lane: one for each topic of a function."""
    found: Counter[Lane] = Counter()
    for entry in functions().values():
        found[entry.lane] += _topics(entry)
    return found


def _topics(entry: FunctionEntry) -> int:
    return len(entry.event_source.topics) if entry.event_source else 0


def _memory_gb(warmth: Warmth) -> float:
    """Return the memory in GB of one environment of each function that has this protection against cold starts."""
    found = 0.0
    for entry in functions().values():
        profile = PROFILES[entry.package]
        if warmth is (profile.critical if entry.lane is Lane.CRITICAL else profile.warmth):
            found += entry.memory_mb / 1024
    return found


def _hourly(component: str, an_hour: float, a_month: float = 0.0) -> Cost:
    return Cost(component=component, dollars=an_hour * HOURS_A_MONTH + a_month)


def total(costs: Sequence[Cost]) -> float:
    return sum(cost.dollars for cost in costs)


def by_the_hour(
    workload: Workload, plan: Plan, times: ServiceTimes, provider_s: float, *, hours_a_day: float
) -> list[Cost]:
    """Return the environment's share of the cost of a million notifications, if the rate lasts for `hours_a_day`
    hours.
    """
    millions = workload.notifications_s * 3600 * hours_a_day * DAYS_A_MONTH / MILLION
    idle = ceil(_mappings()[Lane.BULK] / quota("pollers_a_unit"))
    units = busy_poller_units(workload, plan, times, provider_s) - idle
    busy = Cost(
        component="event pollers, more while it is busy",
        dollars=units * price("lambda_event_poller_unit_hour") * hours_a_day * DAYS_A_MONTH,
    )
    return [replace(cost, dollars=cost.dollars / millions) for cost in (*a_month(plan), busy)]
