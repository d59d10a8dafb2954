"""Computes which share of each limit a load uses, which limit it reaches first, and which limits follow."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import ceil, inf

from lab.capacity import metrics_database
from lab.capacity.plan import INPUTS, STEPS, Plan, batch_records, functions, invocation_s, recipients_a_record
from lab.capacity.quotas import QUOTAS, quota, sns_publish
from lab.capacity.service_times import VCPU_MB, ServiceTimes
from lab.capacity.workload import Workload, sizes

# A limit counts as reached above this share, because queueing delays grow quickly with a higher utilisation.
HEADROOM = 0.8
# The vCPUs of instance types. Source: the tables of the instance families; OpenSearch and RDS use EC2's sizes.
NODE_VCPUS = {"t3.small.search": 2, "t3.medium.search": 2, "r7g.large.search": 2, "r7g.xlarge.search": 4}
PARTITIONS_A_BROKER = {"kafka.t3.small": 300}
# https://docs.aws.amazon.com/AmazonRDS/latest/UserGuide/Concepts.DBInstanceClass.Summary.html
DATABASE_VCPUS = {"t4g.micro": 2, "t4g.small": 2, "t4g.medium": 2, "r7g.large": 2, "r7g.xlarge": 4, "r7g.2xlarge": 8}
BASE64 = 4 / 3
MB = 1e6

type Raise = Callable[[Plan, float], tuple[Plan, str]]


@dataclass(frozen=True, kw_only=True)
class Limit:
    """A limit and its current use."""

    name: str
    used: float  # The use and the limit, in `unit`.
    most: float
    unit: str
    # Returns a plan with a sufficient limit for a rate, and a description of the change; None if the limit is fixed.
    raised: Raise | None = None
    grows: bool = True  # Whether the use grows with the rate.

    @property
    def share(self) -> float:
        return self.used / self.most

    def met_at(self, workload: Workload) -> float:
        """Return the rate in notifications per second at which the limit is reached."""
        return workload.notifications_s / self.share if self.grows and self.used else inf


@dataclass(frozen=True, kw_only=True)
class Change:
    """A limit that was reached, and the change of the plan that raised it."""

    limit: Limit
    done: str


def limits(workload: Workload, plan: Plan, times: ServiceTimes, provider_s: float) -> list[Limit]:
    """Return every known limit."""
    return [
        *_providers(workload, plan),
        *_lambda(workload, plan, times, provider_s),
        *_stores(workload, plan, times, provider_s),
        *_kafka(workload, plan),
        *_spark(workload, plan, times),
    ]


def first(found: list[Limit]) -> Limit:
    """Return the limit with the largest used share."""
    return max(found, key=lambda limit: limit.share)


def raised_for(
    workload: Workload, plan: Plan, times: ServiceTimes, provider_s: float, *, at_most: int = 60
) -> tuple[Plan, list[Change]]:
    """Return a plan in which the load uses at most HEADROOM of each limit, and the raised limits in order.

    Raises:
        ValueError: The load reaches a limit that cannot be raised.
    """
    changes: list[Change] = []
    for _ in range(at_most):
        limit = first(limits(workload, plan, times, provider_s))
        if limit.share <= HEADROOM:
            return plan, changes
        if limit.raised is None:
            raise ValueError(
                f"{limit.name}: {limit.used:,.0f} of {limit.most:,.0f} {limit.unit}, and it cannot be raised"
            )
        plan, done = limit.raised(plan, limit.used / HEADROOM)
        changes.append(Change(limit=limit, done=done))
    raise ValueError(f"no end of limits at {workload.notifications_s:,.0f}/s")


def environments_used(step: str, workload: Workload, plan: Plan, times: ServiceTimes, provider_s: float) -> float:
    """Return the mean number of concurrent invocations with full batches, by Little's law."""
    records = batch_records(step)
    takes = invocation_s(step, records, workload, plan, times, provider_s)
    return workload.notifications_s / (records * recipients_a_record(step, workload)) * takes


def _providers(workload: Workload, plan: Plan) -> Iterator[Limit]:
    region = plan.environment.region

    yield Limit(
        name=f"SNS publishes in {region}",
        used=workload.pushes_s,
        most=plan.sns_publish,
        unit=sns_publish(region).unit,
        raised=_raised_to("sns_publish", f"Service Quotas: {{}} publishes/s in {region}"),
    )
    yield Limit(
        name="SES send rate",
        used=workload.emails_s,
        most=plan.ses_rate,
        unit=QUOTAS["ses_rate"].unit,
        raised=_raised_to("ses_rate", "SES sending limits: {} e-mails/s"),
    )


def _lambda(workload: Workload, plan: Plan, times: ServiceTimes, provider_s: float) -> Iterator[Limit]:
    used = {step: environments_used(step, workload, plan, times, provider_s) for step in STEPS}
    records = sizes(workload).records
    for step in STEPS:
        yield Limit(
            name=f"{step}: invocations at a time",
            used=used[step],
            most=plan.environments(step),
            unit="one a partition, five a poller",
            raised=_more_environments(step),
        )
        bytes_s = records[INPUTS[step]] * workload.notifications_s / recipients_a_record(step, workload)
        yield Limit(
            name=f"{step}: pollers' throughput",
            used=bytes_s / MB,
            most=quota("poller_mb_s") * min(plan.pollers[step], plan.partitions[step]),
            unit="MB/s",
            raised=_more_pollers(step),
        )
        takes = invocation_s(step, batch_records(step), workload, plan, times, provider_s)
        yield Limit(
            name=f"{step}: time of a full batch",
            used=takes,
            most=functions()[step].timeout_s,
            unit="s",
            raised=_more_memory(step),
            grows=False,
        )
        yield Limit(
            name=f"{step}: size of a full batch",
            used=batch_records(step) * records[INPUTS[step]] * BASE64 / MB,
            most=quota("payload_mb"),
            unit="MB",
            grows=False,
        )

    yield Limit(
        name="Lambda: invocations of the account",
        used=sum(used.values()),
        most=plan.lambda_concurrency,
        unit="at a time",
        raised=_raised_to("lambda_concurrency", "Service Quotas: {} invocations at a time"),
    )
    yield Limit(
        name="Lambda: environments from nothing in 10 s",
        used=max(used.values()),
        most=quota("lambda_environments_10s"),
        unit="of one function",
    )


def _raised_to(field: str, done: str) -> Raise:
    """Return a change of a field of the plan to the needed value, rounded up; {} in `done` is the value."""

    def raised(plan: Plan, needed: float) -> tuple[Plan, str]:
        wanted = _round_up(needed)
        return replace(plan, **{field: wanted}), done.format(f"{wanted:,.0f}")  # type: ignore[arg-type]

    return raised


def _more_environments(step: str) -> Raise:
    def raised(plan: Plan, needed: float) -> tuple[Plan, str]:
        if plan.memory_mb[step] < VCPU_MB:
            return _more_memory(step)(plan, needed)
        if quota("invocations_a_poller") * plan.pollers[step] < plan.partitions[step]:
            pollers = ceil(needed / quota("invocations_a_poller"))
            return plan.with_pollers(step, pollers), f"{pollers} pollers for {step}"
        partitions = _multiple(needed, plan.brokers)
        return (
            plan.with_partitions(step, partitions),
            f"{partitions} partitions for {INPUTS[step]}",
        )

    return raised


def _more_memory(step: str) -> Raise:
    def raised(plan: Plan, _needed: float) -> tuple[Plan, str]:
        if plan.memory_mb[step] >= VCPU_MB:
            raise ValueError(f"{step} has a whole vCPU: make its batches smaller")
        return plan.with_memory(step, VCPU_MB), f"{VCPU_MB:,} MB, a whole vCPU, for {step}"

    return raised


def _more_pollers(step: str) -> Raise:
    def raised(plan: Plan, needed: float) -> tuple[Plan, str]:
        pollers = ceil(needed / quota("poller_mb_s"))
        more = plan.with_pollers(step, max(pollers, plan.pollers[step]))
        if more.partitions[step] < pollers:
            more = more.with_partitions(step, _multiple(pollers, plan.brokers))
        return more, f"{pollers} pollers for {step}, and as many partitions"

    return raised


def look_ups_s(workload: Workload, times: ServiceTimes) -> tuple[float, float]:
    """Return OpenSearch's processor seconds a second for documents by id, and for searches of devices."""
    rate, allowed = workload.notifications_s, workload.notifications_s * workload.allowed
    # The preference checker reads users and user settings, the builder reads users, and delivery reads user settings
    # and devices.
    documents = (2 * rate + 2 * allowed + 4 * workload.critical_s) * times.document_s
    return documents, (allowed * (1 - workload.email) + workload.critical_s) * times.devices_s


def _stores(workload: Workload, plan: Plan, times: ServiceTimes, provider_s: float) -> Iterator[Limit]:
    node = plan.environment.opensearch.instance_type
    spent = sum(look_ups_s(workload, times))

    def more_nodes(plan: Plan, needed: float) -> tuple[Plan, str]:
        nodes = ceil(needed / NODE_VCPUS[node])
        zones = len(plan.environment.zones)
        if nodes <= plan.data_nodes:
            return (
                replace(plan, copies=plan.data_nodes),
                f"a copy of each index on every one of {plan.data_nodes} data nodes (auto_expand_replicas)",
            )
        nodes = _multiple(nodes, zones)
        return replace(plan, data_nodes=nodes, copies=nodes), f"{nodes} data nodes with a copy each"

    yield Limit(
        name="OpenSearch: processors of the nodes that hold a copy",
        used=spent,
        most=NODE_VCPUS[node] * min(plan.data_nodes, plan.copies),
        unit="vCPUs",
        raised=more_nodes,
    )
    yield Limit(
        name="DynamoDB: writes to the delivery ledger",
        used=ledger_units_s(workload, times),
        most=plan.table_writes,
        unit="write units/s",
        raised=_more_writes,
    )
    slice_s = times.slice_s(times.slice_size * workload.calls_a_recipient, provider_s, plan.memory_mb["delivery"])
    yield Limit(
        name="DynamoDB: writes to one record's partition",
        used=sizes(workload).ledger_units / slice_s,
        most=quota("dynamodb_partition_writes"),
        unit="write units/s",
        grows=False,
    )
    yield Limit(
        name="RDS: processors of the metrics database",
        used=metrics_database.vcpus(single_s=workload.critical_s, recipients_s=workload.notifications_s),
        most=DATABASE_VCPUS[plan.database],
        unit="vCPUs",
        raised=_larger_database,
    )


def _larger_database(plan: Plan, needed: float) -> tuple[Plan, str]:
    fit = [kind for kind, vcpus in DATABASE_VCPUS.items() if kind.startswith("r7g") and vcpus >= needed]
    kind = fit[0] if fit else max(DATABASE_VCPUS, key=DATABASE_VCPUS.__getitem__)
    return replace(plan, database=kind), f"an instance of class {kind} for the metrics"


def _more_writes(plan: Plan, needed: float) -> tuple[Plan, str]:
    wanted = _round_up(needed)
    how = "warm throughput" if wanted <= quota("dynamodb_table_writes") else "Service Quotas"
    return replace(plan, table_writes=wanted), f"{how} of delivery_ledger: {wanted:,.0f} write units/s"


def ledger_units_s(workload: Workload, times: ServiceTimes) -> float:
    """Return the write units per second of the delivery ledger: one lease for each record, and one item for each
    slice (recipients whose results are recorded together).
    """
    per = recipients_a_record("delivery", workload)
    slices = ceil(per * workload.allowed / times.slice_size)
    return workload.notifications_s / per * (1 + slices * sizes(workload).ledger_units) + 2 * workload.critical_s


def records_s(workload: Workload) -> float:
    """Return the records per second that the metrics job counts: sends, delivery records, outcome records of two
    functions, and three records per critical send.
    """
    per = recipients_a_record("delivery", workload)
    return workload.notifications_s / workload.chunk + workload.notifications_s / per * 3 + 3 * workload.critical_s


def _kafka(workload: Workload, plan: Plan) -> Iterator[Limit]:
    kind = plan.environment.kafka.instance_type
    zones = len(plan.environment.zones)

    def more_brokers(plan: Plan, needed: float) -> tuple[Plan, str]:
        brokers = _multiple(plan.brokers * needed / (HEADROOM * most), zones)
        brokers = max(brokers, plan.brokers + zones)
        return replace(plan, brokers=brokers), f"{brokers} brokers"

    most = quota("kafka_mb_s_a_broker")
    yield Limit(
        name="MSK: written to a broker",
        used=workload.notifications_s * sizes(workload).bytes_a_notification() / MB / plan.brokers,
        most=most,
        unit="MB/s",
        raised=more_brokers,
    )
    yield Limit(
        name="MSK: partitions of a broker, replicas counted",
        used=plan.bulk_partitions / plan.brokers,
        most=PARTITIONS_A_BROKER.get(kind, quota("kafka_partitions_a_broker")),
        unit="partitions",
        raised=lambda plan, _needed: (
            replace(plan, brokers=plan.brokers + zones),
            f"{plan.brokers + zones} brokers",
        ),
        grows=False,
    )


def _spark(workload: Workload, plan: Plan, times: ServiceTimes) -> Iterator[Limit]:
    spark = plan.environment.spark
    # A notification is counted three times: when it is requested, when it is queued, and when it has its outcome.
    needed = (workload.notifications_s * (2 + workload.allowed) + 3 * workload.critical_s) / times.spark_recipients_s

    def more_executors(plan: Plan, cores: float) -> tuple[Plan, str]:
        executors = ceil(cores / spark.worker_cpu)
        return replace(plan, executors=executors), f"{executors} executors"

    yield Limit(
        name="Spark: executors' cores",
        used=needed,
        most=plan.executors * spark.worker_cpu,
        unit="vCPUs",
        raised=more_executors,
    )
    yield Limit(
        name="EMR Serverless: vCPUs of the account",
        used=(1 + plan.executors) * spark.worker_cpu,
        most=plan.emr_vcpus,
        unit="vCPUs",
        raised=_raised_to("emr_vcpus", "Service Quotas: {} vCPUs of EMR Serverless"),
        grows=False,
    )


def _multiple(value: float, of: int) -> int:
    return ceil(value / of) * of


def _round_up(value: float) -> float:
    """Return a number rounded up to two significant digits, as in a request for a higher quota."""
    step = 10 ** max(0, len(str(int(value))) - 2)
    return float(ceil(value / step) * step)
