"""Measures event delivery.

    python -m lab.benchmarks.events --match
    python -m lab.benchmarks.events --send
    python -m lab.benchmarks.events --chain

--match: the index of subscriptions in memory, for 10,000 endpoints, 500 types, 30,000 tenants and 50,000 subscriptions
of all kinds. It prints the processor time of a match, the memory of the index and the processor time to build it from
records, and exits with 1 if one is above its limit.

--send: messages a second of one environment of webhook_sender, and the processor time of both functions, to servers in
another process, without Kafka and DynamoDB (lab/benchmarks/event_sending.py); then the time from event to receipt at a
constant rate, with endpoints that hang or answer 500 and without. --write stores the processor times, the median of
--runs, in lab/capacity/event_times.json, from which docs/internals/capacity.md is calculated.

--chain: the whole path on the local servers, from an event in Kafka to receivers with TLS, and a naive sender on the
same servers (lab/benchmarks/event_chain.py): throughput and processor time, latency of single events, endpoints that
hang or answer 500, and a busy endpoint in a bucket with 600 others. It exits with 1 if a goal is missed.
"""

import argparse
import gc
import json
import os
import platform
import random
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import psutil
from rich.console import Console
from rich.table import Table

from lab.benchmarks.event_chain import EventChain, Throughput, naive_sender, percentiles
from lab.benchmarks.event_receivers import Receivers, receivers
from lab.benchmarks.event_sending import Case, Result, handshake_us, latencies, quantile, throughput
from lab.benchmarks.running_chain import running_chain
from lab.capacity.event_load import FILE
from masscomm.decisions.event_matching import SubscriptionIndex
from masscomm.domain.records import EventOccurred, SubscriptionChanged
from masscomm.domain.subscriptions import Subscription
from masscomm.domain.webhooks import MAX_BYTES

COMMAND = "python -m lab.benchmarks.events --send --write"
ENDPOINTS, TYPES, CLUBS, SUBSCRIPTIONS = 10_000, 500, 30_000, 50_000
EVENTS = 20_000
MOST_US, MOST_MB, MOST_BUILD_S = 15.0, 80.0, 2.0
# The type of number n has the parts area, subject and action; 25 areas have 20 types each.
AREAS = 25
# The endpoints of which the first half hangs, and the second answers 500.
BAD = 10
SCENES = ("throughput", "idle", "failing", "bucket")
THROUGHPUT = (
    Case("streaming to 1 endpoint", 1),
    Case("streaming to 16", 16),
    Case("streaming to 1,000", 1_000),
    Case("batched to 16", 16, max_count=1_000),
    Case("batched to 1,000", 1_000, max_count=1_000),
)
LATENCIES = (
    Case("500 endpoints", 500),
    Case("1 % hang, 1 % answer 500", 500, hanging=5, failing=5),
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m lab.benchmarks.events", description="Measure event delivery.")
    chosen = parser.add_mutually_exclusive_group(required=True)
    chosen.add_argument("--match", action="store_true", help="measure the index of subscriptions")
    chosen.add_argument("--send", action="store_true", help="measure the sending of messages")
    chosen.add_argument("--chain", action="store_true", help="measure the whole path on the local servers")
    parser.add_argument("--only", nargs="+", choices=SCENES, default=SCENES, help="scenes of --chain (default: all)")
    parser.add_argument("--messages", type=int, default=20_000, help="the messages of a measurement (default: 20000)")
    parser.add_argument("--rate", type=int, default=400, help="messages a second for latencies (default: 400)")
    parser.add_argument("--runs", type=int, default=3, help="of the throughput (default: 3)")
    parser.add_argument("--write", action="store_true", help=f"store the processor times in {FILE.name}")
    parser.add_argument("--seconds", type=float, default=60, help="of which the second half counts (default: 60)")
    arguments = parser.parse_args()
    return match() if arguments.match else send(arguments) if arguments.send else whole_chain(arguments)


def send(chosen: argparse.Namespace) -> int:
    console = Console()
    table = Table(
        "", "messages/s", "event_matcher", "webhook_sender", "requests", "writes", title=f"{chosen.messages:,} messages"
    )
    results: dict[str, Result] = {}
    for case in THROUGHPUT:
        runs = [throughput(case, chosen.messages) for _ in range(chosen.runs)]
        results[case.name] = found = sorted(runs, key=lambda run: run.sender_us)[len(runs) // 2]
        times = (f"{found.matcher_us:.0f} µs", f"{found.sender_us:.0f} µs")
        table.add_row(case.name, f"{found.messages_per_s:,.0f}", *times, f"{found.requests:,}", f"{found.writes:,}")
    console.print(table)
    shaken_us = statistics.median(handshake_us() for _ in range(chosen.runs))
    console.print(f"a TLS connection: {shaken_us:,.0f} µs of the client's processor")
    if chosen.write:
        FILE.write_text(json.dumps(capacity_times(results, shaken_us, chosen.runs), indent=2) + "\n")
        return 0
    table = Table("", "messages", "p50", "p99", title=f"event to receipt, {chosen.rate} a second, the second half")
    for case in LATENCIES:
        seen = latencies(case, rate=chosen.rate, seconds=chosen.seconds)
        p50, p99 = (f"{quantile(seen, share) * 1000:.1f} ms" for share in (0.5, 0.99))
        table.add_row(case.name, f"{len(seen):,}", p50, p99)
    console.print(table)
    return 0


class Goal(NamedTuple):
    """A measured figure with the limit that it should keep."""

    name: str
    measured: float
    limit: float
    is_least: bool = False

    @property
    def is_met(self) -> bool:
        return self.measured >= self.limit if self.is_least else self.measured <= self.limit


def whole_chain(chosen: argparse.Namespace) -> int:
    """Measure the scenes on one running stack. Return 1 if a goal is missed."""
    console, goals = Console(width=140), list[Goal]()
    with TemporaryDirectory(prefix="masscomm-bench-") as name, ExitStack() as resources:
        folder = Path(name)
        all_endpoints = BAD + 1_000
        served = resources.enter_context(receivers(folder, all_endpoints, hanging=BAD // 2, failing=BAD // 2))
        environment = {"SSL_CERT_FILE": served.authority}
        events = EventChain(resources.enter_context(running_chain(environment)))
        good = range(BAD, all_endpoints)
        scenes = {
            "throughput": lambda: _throughput_scene(events, served, good, folder, chosen.messages, console),
            "idle": lambda: _idle_scene(events, served, good, console),
            "failing": lambda: _failing_scene(events, served, folder, chosen, console),
            "bucket": lambda: _bucket_scene(events, served, good, chosen, console),
        }
        for scene in chosen.only:
            goals += scenes[scene]()
    table = Table("goal", "measured", "limit", "met")
    for goal in goals:
        sign = "at least" if goal.is_least else "at most"
        table.add_row(goal.name, f"{goal.measured:,.1f}", f"{sign} {goal.limit:,.1f}", "yes" if goal.is_met else "NO")
    console.print(table)
    return int(not all(goal.is_met for goal in goals))


def _throughput_scene(
    events: EventChain, served: Receivers, good: Sequence[int], folder: Path, count: int, console: Console
) -> list[Goal]:
    table = Table("throughput", "events/s", "matcher", "senders", "naive", "requests", "repeated")

    def add(name: str, found: Throughput) -> Throughput:
        times = (f"{us:,.0f} µs" for us in (found.matcher_us, found.senders_us, found.naive_us))
        table.add_row(name, f"{found.per_s:,.0f}", *times, f"{found.requests:,}", f"{found.repeated:,}")
        return found

    found: dict[str, Throughput] = {}
    for case in THROUGHPUT:
        audience = events.subscribe(served, good[: case.endpoints], max_count=case.max_count)
        events.throughput(audience, max(200, case.endpoints))  # Connections are made.
        found[case.name] = add(case.name, events.throughput(audience, count))
    for endpoints in (16, 1_000):
        audience = events.subscribe(served, good[:endpoints])
        with naive_sender(events.chain, audience, folder):
            events.throughput(audience, max(200, endpoints), is_naive=True)
            name = f"naive to {endpoints:,}"
            found[name] = add(name, events.throughput(audience, max(200, count // 4), is_naive=True))
    console.print(table)
    streamed, batched = found["streaming to 1,000"], found["batched to 1,000"]
    return [
        Goal("both functions, streaming to 1,000, µs an event", streamed.matcher_us + streamed.senders_us, 200),
        Goal("both functions, batched to 1,000, µs an event", batched.matcher_us + batched.senders_us, 60),
        Goal("streaming to 1,000, times the naive one", streamed.per_s / found["naive to 1,000"].per_s, 1, True),
        Goal(
            "streaming to 16, times the naive sender",
            found["streaming to 16"].per_s / found["naive to 16"].per_s,
            1,
            True,
        ),
    ]


def _idle_scene(events: EventChain, served: Receivers, good: Sequence[int], console: Console) -> list[Goal]:
    table, goals = Table("single events at idle", "p50", "p99"), list[Goal]()
    for name, max_count, limit in (("streaming", 1, 100), ("batched", 1_000, 1_200)):
        audience = events.subscribe(served, good[:4], max_count=max_count)
        p50, p99 = percentiles(events.in_turn(audience, 40, 0.2))
        table.add_row(name, f"{p50:,.0f} ms", f"{p99:,.0f} ms")
        goals.append(Goal(f"event to request at idle, {name}, p50 in ms", p50, limit))
    console.print(table)
    return goals


def _failing_scene(
    events: EventChain, served: Receivers, folder: Path, chosen: argparse.Namespace, console: Console
) -> list[Goal]:
    table = Table(f"{chosen.rate}/s to 500 endpoints, the second half", "events", "p50", "p99")
    p99s: dict[str, float] = {}
    for name, first, is_naive in (
        ("all answer", BAD, False),
        ("1 % hang, 1 % answer 500", 0, False),
        ("naive, all answer", BAD, True),
        ("naive, 1 % hang, 1 % answer 500", 0, True),
    ):
        audience = events.subscribe(served, range(first, first + 500))
        rates = [(place, chosen.rate / 500) for place in range(500)]
        with naive_sender(events.chain, audience, folder) if is_naive else nullcontext():
            found = events.steady(audience, rates, chosen.seconds, is_naive=is_naive)
        p50, p99s[name] = percentiles(list(found.latencies.values()))
        table.add_row(name, f"{len(found.latencies):,}", f"{p50:,.0f} ms", f"{p99s[name]:,.0f} ms")
    console.print(table)
    ratio = p99s["1 % hang, 1 % answer 500"] / p99s["all answer"]
    return [Goal("p99 of the others, times that without failing ones", ratio, 1.2)]


def _bucket_scene(
    events: EventChain, served: Receivers, good: Sequence[int], chosen: argparse.Namespace, console: Console
) -> list[Goal]:
    audience = events.subscribe(served, good[:601], max_count=1_000, max_bytes=MAX_BYTES, one_bucket=True)
    rates = [(0, 2_000.0), *((place, 5.0) for place in range(1, 601))]
    found = events.steady(audience, rates, chosen.seconds)
    busy = good[0]
    requests, messages = found.requests[busy], found.messages[busy]
    others = sum(found.messages.values()) - messages
    console.print(
        f"2,000/s beside 600 endpoints with 5/s in its bucket: {messages:,} messages in {requests:,} requests; "
        f"the others {others:,} in {sum(found.requests.values()) - requests:,}"
    )
    return [Goal("messages a request of a busy endpoint", messages / max(1, requests), 500, True)]


def capacity_times(results: Mapping[str, Result], handshake_us: float, runs: int) -> dict[str, float | str]:
    """Return the content of lab/capacity/event_times.json."""
    streamed, batched = results["streaming to 1,000"], results["batched to 16"]
    machine = f"{os.cpu_count()} shared cores ({platform.machine()}), receivers on the same ones, "
    return {
        "command": COMMAND,
        "measured_at": datetime.now(UTC).date().isoformat(),
        "machine": f"{machine}Python {platform.python_version()}, medians of {runs}",
        "matcher_s": round(streamed.matcher_us / 1e6, 7),
        "message_s": round(batched.sender_us / 1e6, 7),
        "request_s": round((streamed.sender_us - batched.sender_us) / 1e6, 7),
        "handshake_s": round(handshake_us / 1e6, 7),
    }


def match() -> int:
    source = random.Random(7)
    records = list(subscription_records(source))
    occurred = list(events(source))
    process = psutil.Process()
    gc.collect()
    before = process.memory_info().rss
    began = time.process_time()
    index = SubscriptionIndex(map(Subscription.of_record, records))
    build_s = time.process_time() - began
    gc.collect()
    memory_mb = (process.memory_info().rss - before) / 1e6
    found = sum(len(index.match(each)) for each in occurred)  # The first round fills the cache of patterns.
    began = time.process_time()
    for each in occurred:
        index.match(each)
    match_us = (time.process_time() - began) / len(occurred) * 1e6
    table = Table(
        "", "measured", "limit", title=f"{len(index):,} subscriptions; {found / EVENTS:.1f} endpoints an event"
    )
    table.add_row("a match", f"{match_us:.1f} µs", f"{MOST_US:.0f} µs")
    table.add_row("memory", f"{memory_mb:.0f} MB", f"{MOST_MB:.0f} MB")
    table.add_row("build", f"{build_s:.2f} s", f"{MOST_BUILD_S:.0f} s")
    Console().print(table)
    return int(match_us > MOST_US or memory_mb > MOST_MB or build_s > MOST_BUILD_S)


def type_name(number: int) -> str:
    return f"area{number % AREAS}.subject{number // AREAS}.changed"


def subscription_records(source: random.Random) -> Iterator[SubscriptionChanged]:
    """Yield subscriptions of all kinds: of one tenant, of 5, of 100 and of every one; of types, prefixes and every
    type; with and without units and filters.
    """
    for number in range(SUBSCRIPTIONS):
        kind = source.random()
        clubs: Sequence[int] | None
        if kind < 0.002:
            clubs = None
        else:
            count = 100 if kind < 0.02 else 5 if kind < 0.2 else 1
            clubs = sorted(source.sample(range(1, CLUBS + 1), count))
        yield SubscriptionChanged(
            subscription_id=f"sub_{number}",
            endpoint_id=f"ep_{clubs[0] if clubs else 1}_{number % ENDPOINTS:020d}",
            types=_patterns(source, is_of_every_club=clubs is None),
            club_ids=None if clubs is None else list(clubs),
            units=[f"{source.randint(1, 9) * 100}/{source.randint(1, 9)}"] if source.random() < 0.2 else [],
            filter=json.dumps({"kind": ["league", "cup"]}) if source.random() < 0.1 else None,
            revision=1,
        )


def _patterns(source: random.Random, *, is_of_every_club: bool) -> list[str]:
    kind = source.random()
    if kind < 0.05 and not is_of_every_club:
        return ["*"]
    if kind < 0.2 and not is_of_every_club:
        return [f"area{source.randrange(AREAS)}.*"]
    return [type_name(source.randrange(TYPES)) for _ in range(source.choice((1, 1, 2, 5)))]


def events(source: random.Random) -> Iterator[EventOccurred]:
    """Yield events of some 500 bytes."""
    for number in range(EVENTS):
        data = {"kind": source.choice(("league", "friendly")), "text": "x" * 400, "player": {"id": number}}
        yield EventOccurred(
            event_id=f"event-{number}",
            type=type_name(source.randrange(TYPES)),
            club_id=source.randint(1, CLUBS),
            unit=f"{source.randint(1, 9) * 100}/{source.randint(1, 9)}/1" if source.random() < 0.5 else None,
            occurred_at=1_700_000_000_000 + number,
            data=json.dumps(data),
        )


if __name__ == "__main__":
    raise SystemExit(main())
