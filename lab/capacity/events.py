"""Computes what events need in AWS: batches, environments, connections, the first limit, and the cost of a month.

    event ─▶ event_matcher ─▶ webhook | webhook.batched ─▶ webhook_sender ─▶ endpoints
                                                                └─▶ delay store ─▶ webhook_outcome

A partition has one batch in flight. The matcher's batch grows with the load until it ends in the time in which its
events arrive, and its messages are divided among the buckets of their endpoints. The sender's batch has a number of
such records: a small record makes a small batch, and each batch waits for its slowest endpoint.

Lambda may run a partition's batches in any idle environment. Each environment then meets every endpoint, and has kept a
connection to few of them.
"""

import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from math import ceil, exp
from typing import Self

from functions.webhook_sender.gateway import CALLS
from functions.webhook_sender.storing import MAX_RESULTS
from infra.cdk.config import Environment
from lab.capacity.costs import DAYS_A_MONTH, GB, OTHER_ZONE, Cost
from lab.capacity.event_load import EventLoad, EventTimes, event_sizes
from lab.capacity.limits import HEADROOM, PARTITIONS_A_BROKER
from lab.capacity.plan import functions, pollers_of
from lab.capacity.prices import HOURS_A_MONTH, price
from lab.capacity.quotas import quota
from lab.capacity.service_times import VCPU_MB, ServiceTimes, Time
from masscomm.channels.kept_alive_http import MAX_IDLE
from masscomm.domain.time_limits import ENDPOINTS_CACHED_S, EVENT_BATCH_S, EVENT_CONNECTION_S
from masscomm.domain.webhooks import BUCKETS
from masscomm.kafka import topics
from masscomm.stores.delayed_records.port import SHARDS

# Assumed times of a request to DynamoDB, and of the requests to Kafka of a batch of event_matcher: the end of the topic
# `subscription`, and the acknowledgement of what it has produced.
DYNAMODB_S, KAFKA_S = 0.005, 0.015
# A request for endpoints names this number of them (BatchGetItem).
KEYS_A_READ = 100
# Writes of a waiting message in the delay store: its item is put, claimed and deleted; each costs as many units as it
# has kB. A record of results is apart from its item, and is put alone: it expires.
WRITES_A_DELAYED = 3
KB, MB, BASE64 = 1_024, 1e6, 4 / 3
# TLS sends about this number of bytes for a new connection.
HANDSHAKE_BYTES = 700
_MOST_RECORDS = 10_000
SECONDS_A_MONTH = DAYS_A_MONTH * 86_400

type Raise = Callable[["EventPlan", float], tuple["EventPlan", str]]


@dataclass(frozen=True, kw_only=True)
class EventPlan:
    """The sizes of an environment that events need, and the quotas of its account."""

    environment: Environment
    # The partitions of each of the topics, and the most pollers of a mapping.
    partitions: int
    pollers: int
    matcher_mb: int
    sender_mb: int
    # The most records of a batch of the matcher, and of the sender.
    matcher_records: int
    sender_records: int
    brokers: int
    # The disk of a broker in GB.
    volume_gb: float
    lambda_concurrency: float
    table_writes: float
    # The partition keys of the records that are due in a minute.
    shards: int
    # The parts of all endpoints, by which the sender's topics are keyed.
    buckets: int

    @classmethod
    def of(cls, environment: Environment, *, is_batched: bool) -> Self:
        """Return the configured plan of the environment, in an account with the default quotas."""
        matcher, sender = functions()["event_matcher"], functions()[sender_of(is_batched=is_batched)]
        if matcher.event_source is None or sender.event_source is None:
            raise ValueError("a function of events has no event source")
        (topic,) = (topic for topic in topics.chain_topics() if topic.name == topics.WEBHOOK)
        return cls(
            environment=environment,
            partitions=topic.partitions * environment.kafka.partitions_factor,
            pollers=pollers_of(environment),
            matcher_mb=matcher.memory_mb,
            sender_mb=sender.memory_mb,
            matcher_records=matcher.event_source.batch_sizes[topics.EVENT],
            sender_records=sender.event_source.batch_sizes[sender.event_source.topics[0]],
            brokers=environment.kafka.brokers,
            volume_gb=environment.kafka.volume_gb,
            lambda_concurrency=quota("lambda_concurrency"),
            table_writes=quota("dynamodb_new_table_writes"),
            shards=SHARDS,
            buckets=BUCKETS,
        )

    @property
    def environments(self) -> float:
        """Return the most concurrent invocations of a function."""
        return min(self.partitions, quota("invocations_a_poller") * self.pollers)

    @property
    def fullest_share(self) -> float:
        """Return the share of the messages in the fullest partition."""
        return _fullest_share(self.partitions, self.buckets)


def sender_of(*, is_batched: bool) -> str:
    return "webhook_batch_sender" if is_batched else "webhook_sender"


@cache
def _fullest_share(partitions: int, buckets: int) -> float:
    """Return the share of the buckets in the partition that has the most. Kafka's producer takes the partition by a
    CRC-32 of the key (librdkafka, `consistent_random`).
    """
    found = Counter(zlib.crc32(str(bucket).encode()) % partitions for bucket in range(buckets))
    return max(found.values()) / buckets


@dataclass(frozen=True, kw_only=True)
class Batches:
    """The batches of both functions at a load."""

    # Events of a batch of the matcher, and its seconds.
    matched: float
    matcher_s: float
    messages_a_record: float
    # Messages and requests of a full batch of the sender, and its seconds.
    messages: float
    requests: float
    sender_s: float
    # The processor's part of sender_s.
    sender_cpu_s: float
    # The share of requests on a new connection.
    new_connections: float

    @property
    def messages_a_request(self) -> float:
        return self.messages / self.requests

    @property
    def partition_s(self) -> float:
        """Return the messages per second that one partition of the sender can process."""
        return self.messages / self.sender_s


def batches(load: EventLoad, plan: EventPlan, times: EventTimes, service: ServiceTimes) -> Batches:
    """Return the batches in a steady load."""
    matched, matcher_s = matcher_batch(load, plan, times, service)
    sent = matched * load.endpoints_an_event
    met = plan.buckets * (1 - (1 - 1 / plan.buckets) ** sent)
    a_record = max(1.0, sent / met)
    sizes = event_sizes(round(a_record))
    most = quota("payload_mb") * MB / BASE64 / sizes.message
    messages = max(1.0, min(plan.sender_records * a_record, most))
    return sender_batch(messages, a_record, (matched, matcher_s), load, plan, times, service)


def matcher_batch(load: EventLoad, plan: EventPlan, times: EventTimes, service: ServiceTimes) -> tuple[float, float]:
    """Return the events of a batch in a steady load, and its seconds."""
    each = Time(wall_s=times.matcher_s, cpu_s=times.matcher_s).at(plan.matcher_mb)
    fixed = service.lines["builder"].invocation.at(plan.matcher_mb) + KAFKA_S
    rate = load.events_s / plan.partitions
    # In a steady load as many events arrive during a batch as it has.
    events = rate * fixed / (1 - rate * each) if rate * each < 1 else plan.matcher_records
    events = min(float(plan.matcher_records), max(1.0, events))
    return events, fixed + events * each


def sender_batch(
    messages: float,
    messages_a_record: float,
    matched: tuple[float, float],
    load: EventLoad,
    plan: EventPlan,
    times: EventTimes,
    service: ServiceTimes,
) -> Batches:
    """Return the batches with a number of messages in one of the sender."""
    endpoints = max(1.0, load.endpoints * plan.fullest_share)
    met = endpoints * (1 - exp(-messages / endpoints))
    requests = max(met, messages / 1_000) if load.is_batched else messages
    new = new_connections(load, plan, messages / requests)
    invocation = service.lines["delivery"].invocation
    # What was sent before a crash, the endpoints, and the results.
    stored_s = DYNAMODB_S * (1 + ceil(met / KEYS_A_READ) + ceil(messages / MAX_RESULTS))
    cpu_s = invocation.cpu_s + messages * times.message_s + requests * (times.request_s + new * times.handshake_s)
    cpu_s = Time(wall_s=cpu_s, cpu_s=cpu_s).at(plan.sender_mb)
    answered_s = load.answer_s + load.round_trip_s * (1 + 2 * new)
    # A sliding window: requests overlap, as far as the processor and the number of calls permit.
    taken_s = stored_s + answered_s + max(cpu_s, (requests / CALLS - 1) * answered_s)
    return Batches(
        matched=matched[0],
        matcher_s=matched[1],
        messages_a_record=messages_a_record,
        messages=messages,
        requests=requests,
        sender_s=taken_s,
        sender_cpu_s=cpu_s,
        new_connections=new,
    )


def new_connections(load: EventLoad, plan: EventPlan, messages_a_request: float) -> float:
    """Return the share of requests on a new connection: an environment keeps MAX_IDLE connections, each for
    EVENT_CONNECTION_S.
    """
    share, environments = (plan.fullest_share, 1.0) if load.is_sticky else (1.0, plan.environments)
    endpoints = max(1.0, load.endpoints * share)
    kept = min(1.0, MAX_IDLE / endpoints)
    uses = load.messages_s * share / messages_a_request / environments / endpoints * EVENT_CONNECTION_S
    return 1 - kept * uses / (1 + uses)


@dataclass(frozen=True, kw_only=True)
class EventLimit:
    """A limit and its use."""

    name: str
    used: float  # The use and the limit, in `unit`.
    most: float
    unit: str
    # Returns a plan with a higher limit and a description of the change; None if the limit is fixed.
    raised: Raise | None = None

    @property
    def share(self) -> float:
        return self.used / self.most


@dataclass(frozen=True, kw_only=True)
class EventChange:
    """A limit that was reached, and the change of the plan that raised it."""

    limit: EventLimit
    done: str


def event_limits(load: EventLoad, plan: EventPlan, times: EventTimes, service: ServiceTimes) -> list[EventLimit]:
    """Return every limit of events."""
    return [*_lambda(load, plan, times, service), *_stores(load, plan, times, service)]


def raised_for_events(
    load: EventLoad, plan: EventPlan, times: EventTimes, service: ServiceTimes, *, at_most: int = 60
) -> tuple[EventPlan, list[EventChange]]:
    """Return a plan in which the load uses at most HEADROOM of each limit, and the changes in order.

    Raises:
        ValueError: The load reaches a limit that cannot be raised.
    """
    changes: list[EventChange] = []
    for _ in range(at_most):
        limit = max(event_limits(load, plan, times, service), key=lambda each: each.share)
        if limit.share <= HEADROOM:
            return plan, changes
        if limit.raised is None:
            raise ValueError(f"{limit.name}: {limit.used:,.0f} of {limit.most:,.0f} {limit.unit}: it cannot be raised")
        plan, done = limit.raised(plan, limit.used / HEADROOM)
        changes.append(EventChange(limit=limit, done=done))
    raise ValueError(f"no end of limits at {load.messages_s:,.0f}/s")


def met_at(name: str, load: EventLoad, plan: EventPlan, times: EventTimes, service: ServiceTimes) -> float:
    """Return the messages per second at which a limit is reached: the batches depend on the rate, so it is found by
    halving.
    """
    low, high = 1.0, 1e7
    for _ in range(60):
        middle = (low * high) ** 0.5
        some = event_limits(replace(load, messages_s=middle), plan, times, service)
        share = next(limit.share for limit in some if limit.name == name)
        low, high = (middle, high) if share <= 1 else (low, middle)
    return low


def _lambda(load: EventLoad, plan: EventPlan, times: EventTimes, service: ServiceTimes) -> Iterator[EventLimit]:
    found = batches(load, plan, times, service)
    full = full_matcher_s(plan, times, service)
    sender = sender_of(is_batched=load.is_batched)

    def sender_raised(plan: EventPlan, _needed: float) -> tuple[EventPlan, str]:
        return _faster_sender(load, plan, times, service)

    yield EventLimit(
        name="event_matcher: events of a partition",
        used=load.events_s / plan.partitions,
        most=plan.matcher_records / full,
        unit="events/s",
        raised=_faster_matcher,
    )
    yield EventLimit(
        name=f"{sender}: messages of the fullest partition",
        used=load.messages_s * plan.fullest_share,
        most=found.partition_s,
        unit="messages/s",
        raised=sender_raised,
    )
    yield EventLimit(
        name=f"{sender}: time in which a full batch begins its attempts",
        used=found.sender_s,
        most=EVENT_BATCH_S,
        unit="s",
    )
    yield EventLimit(
        name="Lambda: invocations of the account",
        used=2 * plan.environments,
        most=plan.lambda_concurrency,
        unit="at a time",
    )
    yield EventLimit(
        name="pollers: bytes of a mapping",
        used=load.messages_s * event_sizes(round(found.messages_a_record)).message / MB,
        most=quota("poller_mb_s") * min(plan.pollers, plan.partitions),
        unit="MB/s",
        raised=lambda plan, _needed: (replace(plan, pollers=2 * plan.pollers), f"{2 * plan.pollers} pollers a mapping"),
    )


def full_matcher_s(plan: EventPlan, times: EventTimes, service: ServiceTimes) -> float:
    """Return the seconds of a full batch of the matcher."""
    each = Time(wall_s=times.matcher_s, cpu_s=times.matcher_s).at(plan.matcher_mb)
    fixed = service.lines["builder"].invocation.at(plan.matcher_mb) + KAFKA_S
    return fixed + plan.matcher_records * each


def _faster_matcher(plan: EventPlan, _needed: float) -> tuple[EventPlan, str]:
    if plan.matcher_mb < VCPU_MB:
        return replace(plan, matcher_mb=VCPU_MB), f"{VCPU_MB:,} MB, a whole vCPU, for event_matcher"
    return _more_partitions(plan)


def _faster_sender(load: EventLoad, plan: EventPlan, times: EventTimes, service: ServiceTimes) -> tuple[EventPlan, str]:
    """Return the change that raises the rate of the fullest partition the most: larger batches, a whole vCPU, or more
    partitions.
    """
    sender = sender_of(is_batched=load.is_batched)
    more = min(_MOST_RECORDS, 10 * plan.sender_records)
    candidates = [
        (replace(plan, sender_records=more), f"{more} records a batch of {sender}"),
        (replace(plan, sender_mb=VCPU_MB), f"{VCPU_MB:,} MB, a whole vCPU, for {sender}"),
    ]
    candidates.append(_more_partitions(plan))

    def possible(plan: EventPlan) -> float:
        return batches(load, plan, times, service).partition_s / plan.fullest_share

    best, done = max(candidates, key=lambda candidate: possible(candidate[0]))
    if possible(best) <= possible(plan):
        raise ValueError(f"{sender}: no larger batch, processor or number of partitions makes it faster")
    return best, done


def _more_partitions(plan: EventPlan) -> tuple[EventPlan, str]:
    """Return a plan with twice the partitions, and so many buckets that the partitions have about as many of them."""
    partitions, buckets = 2 * plan.partitions, max(plan.buckets, 16 * plan.partitions)
    pollers = max(plan.pollers, ceil(partitions / quota("invocations_a_poller")))
    done = f"{partitions} partitions of each topic of events, {buckets} buckets"
    return replace(plan, partitions=partitions, pollers=pollers, buckets=buckets), done


def _stores(load: EventLoad, plan: EventPlan, times: EventTimes, service: ServiceTimes) -> Iterator[EventLimit]:
    kafka, zones = plan.environment.kafka, len(plan.environment.zones)
    found = batches(load, plan, times, service)

    def more_brokers(plan: EventPlan, needed: float) -> tuple[EventPlan, str]:
        brokers = ceil(needed * plan.brokers / quota("kafka_mb_s_a_broker") / zones) * zones
        brokers = max(brokers, plan.brokers + zones)
        return replace(plan, brokers=brokers), f"{brokers} brokers"

    def more_disk(plan: EventPlan, needed: float) -> tuple[EventPlan, str]:
        if needed > (most := quota("kafka_gb_a_broker")):
            brokers = ceil(needed * plan.brokers / most / zones) * zones
            return replace(plan, brokers=brokers, volume_gb=most), f"{brokers} brokers with {most:,.0f} GB each"
        volume_gb = ceil(needed / 1_000) * 1_000
        return replace(plan, volume_gb=volume_gb), f"{volume_gb:,} GB for each broker"

    def more_writes(plan: EventPlan, needed: float) -> tuple[EventPlan, str]:
        writes = ceil(needed / 1_000) * 1_000
        return replace(plan, table_writes=writes), f"warm throughput of `waiting`: {writes:,} write units/s"

    def more_shards(plan: EventPlan, _needed: float) -> tuple[EventPlan, str]:
        return replace(plan, shards=2 * plan.shards), f"{2 * plan.shards} shards of a due minute (SHARDS)"

    yield EventLimit(
        name="DynamoDB: writes to the delay store",
        used=writes_s(load, found),
        most=plan.table_writes,
        unit="write units/s",
        raised=more_writes,
    )
    yield EventLimit(
        name="DynamoDB: writes to one shard of a due minute",
        used=shard_writes_s(load, found) / plan.shards,
        most=quota("dynamodb_partition_writes"),
        unit="write units/s",
        raised=more_shards,
    )
    yield EventLimit(
        name="MSK: written to a broker",
        used=kafka_mb_s(load, found) / plan.brokers,
        most=quota("kafka_mb_s_a_broker"),
        unit="MB/s",
        raised=more_brokers,
    )
    yield EventLimit(
        name="MSK: disk of a broker, a full retention",
        used=kept_gb(load, found) * kafka.replication_factor / plan.brokers,
        most=plan.volume_gb,
        unit="GB",
        raised=more_disk,
    )
    yield EventLimit(
        name="MSK: partitions of a broker, those of events with replicas",
        used=len(_event_topics()) * plan.partitions * kafka.replication_factor / plan.brokers,
        most=PARTITIONS_A_BROKER.get(kafka.instance_type, quota("kafka_partitions_a_broker")),
        unit="partitions",
        raised=more_brokers,
    )


def writes_s(load: EventLoad, found: Batches) -> float:
    """Return the write units per second of the delay store: results of messages, and messages whose attempt failed."""
    # The content of a record is apart from its item. That of a waiting message is deleted, and that of results expires
    # (masscomm.stores.delayed_records.dynamodb).
    results = _results_a_record(found)
    content = ceil(event_sizes(results).stored_result * results / KB) / results
    waiting = 2 * ceil(event_sizes(1).stored_message / KB)
    return shard_writes_s(load, found) + load.messages_s * (content + load.failing * waiting)


def shard_writes_s(load: EventLoad, found: Batches) -> float:
    """Return the write units per second of the delay store's items, without the content that is apart from them."""
    return load.messages_s * WRITES_A_DELAYED * (1 / _results_a_record(found) + load.failing)


def all_writes_s(load: EventLoad, found: Batches) -> float:
    """Return the write units per second of the delay store and of the items that have which messages are recorded."""
    return writes_s(load, found) + load.messages_s / _results_a_record(found)


def _results_a_record(found: Batches) -> int:
    return min(MAX_RESULTS, round(found.messages))


def reads_s(load: EventLoad, found: Batches) -> float:
    """Return the read units per second of endpoints: each environment reads those that it meets again after
    ENDPOINTS_CACHED_S.
    """
    busy = busy_senders(load, found)
    met = load.messages_s * ENDPOINTS_CACHED_S / max(busy, 1.0) / load.endpoints
    return max(busy, 1.0) * load.endpoints * (1 - exp(-met)) / ENDPOINTS_CACHED_S


def busy_senders(load: EventLoad, found: Batches) -> float:
    """Return the mean number of busy environments of the sender, by Little's law."""
    return load.messages_s / found.partition_s


def busy_matchers(load: EventLoad, found: Batches) -> float:
    return load.events_s / found.matched * found.matcher_s


def kafka_mb_s(load: EventLoad, found: Batches) -> float:
    """Return the MB per second that are written to the topics, without replicas."""
    sizes = event_sizes(round(found.messages_a_record))
    results = event_sizes(min(MAX_RESULTS, round(found.messages)))
    waiting = load.failing * event_sizes(1).message
    return (load.events_s * sizes.event + load.messages_s * (sizes.message + results.result + waiting)) / MB


def kept_gb(load: EventLoad, found: Batches) -> float:
    """Return the GB of a full retention of the topics, without replicas."""
    kept_s = {topic.name: topic.retention_hours * 3_600 for topic in topics.chain_topics()}
    sizes = event_sizes(round(found.messages_a_record))
    results = event_sizes(min(MAX_RESULTS, round(found.messages)))
    webhook = topics.WEBHOOK_BATCHED if load.is_batched else topics.WEBHOOK
    return (
        load.events_s * sizes.event * kept_s[topics.EVENT]
        + load.messages_s * sizes.message * kept_s[webhook]
        + load.messages_s * load.failing * event_sizes(1).message * kept_s[topics.WEBHOOK_SLOW]
        + load.messages_s * results.result * kept_s[topics.WEBHOOK_OUTCOME]
    ) / GB


def handshakes_s(load: EventLoad, found: Batches) -> float:
    return load.messages_s / found.messages_a_request * found.new_connections


def data_out_gb_month(load: EventLoad, found: Batches) -> float:
    """Return the GB that leave AWS in a month."""
    requests_s = load.messages_s / found.messages_a_request
    sizes = event_sizes(1)
    sent = load.messages_s * sizes.body + requests_s * sizes.head + handshakes_s(load, found) * HANDSHAKE_BYTES
    return sent * SECONDS_A_MONTH / GB


def internet_dollars(gb: float) -> float:
    """Return the price of data out to the internet in a month, which falls with the amount."""
    tiers = (("internet_gb_10tb", 10_000.0), ("internet_gb_50tb", 40_000.0), ("internet_gb_150tb", 100_000.0))
    dollars, left = 0.0, gb
    for name, most in tiers:
        dollars += min(left, most) * price(name)
        left -= min(left, most)
    return dollars + left * price("internet_gb_more")


def event_month(load: EventLoad, plan: EventPlan, times: EventTimes, service: ServiceTimes) -> list[Cost]:
    """Return what a month of the load costs, beside the environment without load."""
    found = batches(load, plan, times, service)
    kafka = plan.environment.kafka
    matchers, senders = busy_matchers(load, found), busy_senders(load, found)
    invocations = (load.events_s / found.matched + load.messages_s / found.messages) * SECONDS_A_MONTH
    written = kafka_mb_s(load, found) * MB / GB * SECONDS_A_MONTH
    pollers = sum(
        max(ceil(busy / quota("invocations_a_poller")), ceil(mb_s / quota("poller_mb_s")))
        for busy, mb_s in ((matchers, load.events_s * event_sizes(1).event / MB), (senders, _sent_mb_s(load, found)))
    )
    units = max(
        ceil(pollers / quota("pollers_a_unit")),
        ceil((load.events_s * event_sizes(1).event / MB + _sent_mb_s(load, found)) / quota("unit_mb_s")),
    )
    brokers = plan.brokers - plan.environment.kafka.brokers
    disk_gb = plan.brokers * plan.volume_gb - plan.environment.kafka.brokers * kafka.volume_gb
    return [
        Cost(component="data out to the internet", dollars=internet_dollars(data_out_gb_month(load, found))),
        Cost(
            component="DynamoDB: results and waiting messages",
            dollars=all_writes_s(load, found) * SECONDS_A_MONTH * price("dynamodb_write_unit"),
        ),
        Cost(
            component="DynamoDB: endpoints read",
            dollars=reads_s(load, found) * SECONDS_A_MONTH * price("dynamodb_read_unit"),
        ),
        Cost(component="Lambda, event_matcher", dollars=_lambda_month(matchers, plan.matcher_mb)),
        Cost(component="Lambda, the sender", dollars=_lambda_month(senders, plan.sender_mb)),
        Cost(component="Lambda, invocations", dollars=invocations * price("lambda_request")),
        Cost(
            component="event pollers",
            dollars=units * price("lambda_event_poller_unit_hour") * HOURS_A_MONTH,
        ),
        Cost(
            component="Kafka: further brokers and disk",
            dollars=brokers * price(f"msk.{kafka.instance_type}") * HOURS_A_MONTH + disk_gb * price("msk_gb_month"),
        ),
        # A record is written once and read once.
        Cost(component="Kafka, between zones", dollars=2 * written * OTHER_ZONE * price("between_zones_gb")),
    ]


def _sent_mb_s(load: EventLoad, found: Batches) -> float:
    return load.messages_s * event_sizes(round(found.messages_a_record)).message / MB


def _lambda_month(busy: float, memory_mb: int) -> float:
    return busy * SECONDS_A_MONTH * memory_mb / 1_024 * price("lambda_gb_s")


def _event_topics() -> tuple[str, ...]:
    return (topics.EVENT, topics.WEBHOOK, topics.WEBHOOK_BATCHED, topics.WEBHOOK_SLOW, topics.WEBHOOK_OUTCOME)
