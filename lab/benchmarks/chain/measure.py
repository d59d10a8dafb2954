"""Measure one load on the running chain: throughput, latency, processor time, memory, records, requests."""

import statistics
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from lab.benchmarks.chain import usage
from lab.benchmarks.chain.loads import Load
from lab.benchmarks.running_chain import RunningChain

_POLL_S = 0.05
_AT_REST_POLL_S = 0.2
_AT_REST_LOOKS = 3
_AT_REST_TIMEOUT_S = 300.0


class Taken(Protocol):
    """The end of a chain, which counts the notifications that have arrived and their times."""

    def count(self) -> int:
        """Return the number of notifications that have arrived."""
        ...

    def taken_from(self, first: int) -> Iterator[tuple[str, float]]:
        """Yield id and time (seconds since the epoch) of each arrived notification, beginning with number `first`."""
        ...


@dataclass(frozen=True)
class Provider:
    """The calls that the provider stand-in accepted."""

    chain: RunningChain

    def count(self) -> int:
        return self.chain.sns.counts().accepted

    def taken_from(self, first: int) -> Iterator[tuple[str, float]]:
        return ((call.notification_id, call.time) for call in self.chain.sns.received_from(first))


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The results of one run of a load. Times and counts are per recipient unless the field names another unit."""

    recipients: int
    # The duration from the emission of the first send to the last call that the provider accepted.
    seconds: float
    per_s: float
    p50_ms: float
    p99_ms: float
    # The number of recipients without a provider call, and of provider calls beyond one per recipient.
    missed: int
    duplicates: int
    # The processor time in microseconds by role of a process, and by group of roles.
    processor_us: dict[str, float]
    group_us: dict[str, float]
    # The peak of resident memory in MB by role.
    memory_mb: dict[str, float]
    # The number of records by topic; lanes and broadcast queues count under their base topic.
    records: dict[str, float]
    directory_requests: dict[str, float]
    dynamodb_requests: dict[str, float] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {name: _rounded(value) for name, value in vars(self).items()}


def measure(
    chain: RunningChain,
    load: Load,
    *,
    end: Taken | None = None,
    dynamodb_requests: Counter[str] | None = None,
    timeout_s: float = 1800.0,
) -> Measured:
    """Run a load and wait until the chain is at rest again.

    Args:
        chain: The running chain.
        load: A function that emits the sends.
        end: The end of the chain; None: the provider stand-in.
        dynamodb_requests: The request counts by operation, of a proxy in front of DynamoDB; None without a proxy.
        timeout_s: The time-out of the whole load in seconds.

    Raises:
        SystemExit: The chain stopped making progress.
    """
    end = end or Provider(chain)
    at_rest(chain)
    usage.reset_memory(chain)
    first = end.count()
    counted = Counter(dynamodb_requests)
    before = usage.usage(chain, 0.0)
    emitting_since = time.process_time()
    sent = load(chain)
    emitter_s = time.process_time() - emitting_since
    expected = sum(len(each.users) for each in sent)
    _await_count(end, first + expected, timeout_s)
    at_rest(chain)
    spent = usage.usage(chain, emitter_s).since(before)
    memory = usage.memory_mb(chain)
    emitted = {identifier: each.at for each in sent for identifier in each.notifications()}
    taken: dict[str, float] = {}
    calls = 0
    for identifier, at in end.taken_from(first):
        calls += 1
        taken.setdefault(identifier, at)
    delays = [(at - emitted[identifier]) * 1000 for identifier, at in taken.items() if identifier in emitted]
    cuts = statistics.quantiles(delays, n=100, method="inclusive") if len(delays) > 1 else delays * 99
    seconds = max(taken.values()) - min(emitted.values())
    processor = {role: value / expected * 1e6 for role, value in spent.processor_s.items()}
    groups: dict[str, float] = {}
    for role, value in processor.items():
        group = usage.group_of(role)
        groups[group] = groups.get(group, 0.0) + value
    return Measured(
        recipients=expected,
        seconds=seconds,
        per_s=expected / seconds,
        p50_ms=cuts[49],
        p99_ms=cuts[98],
        missed=len(emitted.keys() - taken.keys()),
        duplicates=calls - len(taken),
        processor_us=processor,
        group_us=groups,
        memory_mb=memory,
        records={topic: count / expected for topic, count in _by_base(spent.records).items()},
        directory_requests={name: count / expected for name, count in spent.directory_requests.items()},
        dynamodb_requests={
            name: (count - counted[name]) / expected
            for name, count in (dynamodb_requests or {}).items()
            if count != counted[name]
        },
    )


def at_rest(chain: RunningChain) -> None:
    """Wait until several consecutive checks find no waiting record and no running invocation.

    Raises:
        SystemExit: The wait timed out.
    """
    until = time.monotonic() + _AT_REST_TIMEOUT_S
    looks = 0
    while looks < _AT_REST_LOOKS:
        looks = looks + 1 if usage.at_rest(usage.status(chain.stack)) else 0
        if time.monotonic() > until:
            raise SystemExit("records still wait")
        time.sleep(_AT_REST_POLL_S)


def _await_count(end: Taken, wanted: int, timeout_s: float) -> None:
    until = time.monotonic() + timeout_s
    while (count := end.count()) < wanted:
        if time.monotonic() > until:
            raise SystemExit(f"{wanted - count} recipients were not sent in {timeout_s:.0f} s")
        time.sleep(_POLL_S)


def _by_base(records: Mapping[str, int]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for topic, count in records.items():
        for suffix in (".critical", ".small"):
            topic = topic.removesuffix(suffix)
        found[topic.partition(".bulk")[0]] += count
    return dict(found)


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in sorted(value.items())}
    return float(f"{value:.4g}") if isinstance(value, float) else value
