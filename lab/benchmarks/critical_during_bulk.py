"""Measure critical pushes from Kafka to SNS, idle and during a broadcast to 100,000 recipients.

    python -m lab.benchmarks.critical_during_bulk [--recipients 100000] [--probes 100]

The idle pushes and the pushes during the broadcast are measured in one run on one stack. A probe is a send to one user
on the critical lane. One probe is produced every 0.15 s, independently of earlier probes, and ends when the SNS
stand-in accepts its push. Functions, broker, OpenSearch and DynamoDB share the processors of one machine, which
the lanes cannot separate. The bulk functions run at a lower priority (--nice), because in Lambda each function has a
separate share of a processor.

The second table has the mean time for which runnable processes wait for a processor: the functions of each lane, and
the servers that both lanes share.

The stages of a probe end when the preference checker has produced the build record, when the builder has produced the
delivery record, and when SNS has accepted the push, by the records' timestamps. The exit status is 1 if the 99th
percentile during the broadcast is more than twice the idle one, or if the broadcast ended before the probes.
"""

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import quantiles

import httpx
import psutil
from rich.console import Console
from rich.table import Table

from lab.benchmarks.processor_waits import Turns, turns
from lab.benchmarks.running_chain import RunningChain, running_chain
from local.devstack import process
from local.devstack.demo.records import TopicReader
from masscomm.domain.ids import notification_id
from masscomm.domain.lanes import Lane
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec, HttpSchemaRegistry

BULK_CLUB, PROBED_CLUB = 1, 2
EVERY_S = 0.15
WARM_UP = 40
TARGET = 2.0
SERVERS = ("kafka", "opensearch", "localstack")
STAGES = {
    topics.in_lane(topics.BUILD, Lane.CRITICAL): "BuildRequested",
    topics.in_lane(topics.DELIVERY, Lane.CRITICAL): "DeliveryRequested",
}


@dataclass
class Probe:
    """The times of one probe, in seconds since the epoch."""

    user_id: int
    # The time at which the send was produced.
    asked: float
    # The times at which the records of the send were produced, by topic.
    produced: dict[str, float] = field(default_factory=dict)
    # The time at which SNS accepted the push.
    taken: float = 0.0

    def milliseconds(self) -> list[float]:
        """Return the milliseconds of the whole probe, then of preference checker, builder and delivery."""
        moments = [self.asked, *(self.produced[topic] for topic in STAGES), self.taken]
        return [(self.taken - self.asked) * 1000, *((after - before) * 1000 for before, after in pairwise(moments))]


def probe(chain: RunningChain, users: Sequence[int]) -> dict[str, Probe]:
    """Produce a send to each user in turn. Return the probes by send id."""
    asked = {}
    for user_id in users:
        began = time.time()
        send_id = chain.send(PROBED_CLUB, [user_id], type="one_time_password", critical=True)
        asked[send_id] = Probe(user_id, began)
        time.sleep(max(0.0, began + EVERY_S - time.time()))
    return asked


def measured(
    chain: RunningChain, users: Sequence[int], taking_part: Mapping[str, Sequence[int]]
) -> tuple[dict[str, Probe], dict[str, Turns], float]:
    """Return the probes, the processes' run and wait times during them, and the seconds of the measurement."""
    began, before = time.monotonic(), turns(taking_part)
    asked = probe(chain, users)
    after = turns(taking_part)
    return asked, {kind: after[kind].since(before[kind]) for kind in after}, time.monotonic() - began


def arrived(chain: RunningChain, asked: dict[str, Probe], codec: Codec, reader: TopicReader) -> list[Probe]:
    """Return the probes once all their times are known. Raises SystemExit if a probe did not arrive."""
    until = time.monotonic() + 30
    missing = {notification_id(send_id, each.user_id, "push"): each for send_id, each in asked.items()}
    while missing:
        for notification, when in chain.taken().items():
            if notification in missing:
                missing.pop(notification).taken = when
        if time.monotonic() > until:
            raise SystemExit(f"{len(missing)} critical pushes never arrived")
        time.sleep(0.2)
    for message in reader.poll():
        topic = message.topic() or ""
        send_id = codec.decode(STAGES[topic], message.value())["send_id"]
        if send_id in asked:
            asked[send_id].produced[topic] = message.timestamp()[1] / 1000
    return list(asked.values())


def rows(name: str, found: Sequence[Probe]) -> Iterator[list[str]]:
    columns = zip(*(each.milliseconds() for each in found), strict=True)
    for label, values in zip((name, "  preference checker", "  builder", "  delivery"), columns, strict=True):
        cuts = quantiles(values, n=100, method="inclusive")
        yield [label, *(f"{cuts[share - 1]:.0f}" for share in (50, 90, 99)), f"{max(values):.0f}"]


def percentile(found: Sequence[Probe], share: int) -> float:
    """Return a percentile of the probes' total time in milliseconds."""
    return quantiles([each.milliseconds()[0] for each in found], n=100, method="inclusive")[share - 1]


def processes(chain: RunningChain) -> dict[str, list[int]]:
    """Return the ids of the measured processes, by kind."""
    stack = chain.stack
    status = httpx.get(f"{stack.config.gateway_url}/-/status", trust_env=False).json()["functions"]
    critical = [name for name in status if name.endswith("-critical")]
    servers = {name: [each.pid for each in process.family(stack.pid(name))] for name in SERVERS}
    return {
        "functions, critical": [pid for name in critical for pid in status[name]["pids"]],
        "functions, bulk": [pid for name in critical for pid in status[name.removesuffix("-critical")]["pids"]],
        "event source and host": [stack.pid("lambda_host")],
        **servers,
        "SNS": [each.pid for each in psutil.Process().children() if "local.emulators.sns_stand_in" in each.cmdline()],
    }


def waits(idle: Mapping[str, Turns], during: Mapping[str, Turns], idle_s: float, during_s: float) -> Table:
    """Return the table of processor time and waits, by kind of process."""
    table = Table("processes", "processor, idle", "beside", "wait for a turn, ms, idle", "beside")
    for kind, before in idle.items():
        after = during[kind]
        shares = (before.ran_s / idle_s, after.ran_s / during_s)
        table.add_row(kind, *(f"{share:.0%}" for share in shares), f"{before.wait_ms:.2f}", f"{after.wait_ms:.2f}")
    return table


def _report(text: str) -> None:
    Console(stderr=True).print(f"[dim]{text}[/]", highlight=False)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m lab.benchmarks.critical_during_bulk",
        description="A critical push, idle and during a broadcast.",
    )
    parser.add_argument("--recipients", type=int, default=100_000)
    parser.add_argument("--nice", type=int, default=10, help="of bulk's functions (default: %(default)s)")
    parser.add_argument("--probes", type=int, default=100, help="in each of the two")
    arguments = parser.parse_args()
    count = arguments.probes
    with running_chain(bulk_nice=arguments.nice) as chain:
        config = chain.stack.config
        codec = Codec(HttpSchemaRegistry(config.registry_url))
        reader = TopicReader(config.kafka_bootstrap, list(STAGES), from_beginning=True)
        recipients = range(1, arguments.recipients + 1)
        probed = range(10**7, 10**7 + WARM_UP + 2 * count)
        _report("everything runs")
        chain.people(PROBED_CLUB, probed)
        if arguments.recipients:
            chain.people(BULK_CLUB, recipients)
        _report(f"{len(recipients):,} people are in the directory")
        arrived(chain, probe(chain, probed[:WARM_UP]), codec, reader)
        taking_part = processes(chain)
        asked, idle_turns, idle_s = measured(chain, probed[WARM_UP : WARM_UP + count], taking_part)
        idle = arrived(chain, asked, codec, reader)
        table = Table("critical push, ms", "p50", "p90", "p99", "most")
        for row in rows("idle", idle):
            table.add_row(*row)
        console = Console()
        if not arguments.recipients:
            console.print(table)
            return 0
        _report("measured idle")
        chain.send(BULK_CLUB, recipients)
        while chain.sns.counts().accepted < WARM_UP + count + 1_000:
            time.sleep(0.05)
        before = chain.sns.counts().accepted
        asked, during_turns, during_s = measured(chain, probed[WARM_UP + count :], taking_part)
        rate = (chain.sns.counts().accepted - before) / during_s
        running = chain.sns.counts().accepted < arguments.recipients + WARM_UP + 2 * count
        during = arrived(chain, asked, codec, reader)
        reader.close()
    for row in rows(f"during a broadcast at {rate:,.0f}/s", during):
        table.add_row(*row)
    ratios = {share: percentile(during, share) / percentile(idle, share) for share in (50, 99)}
    console.print(table)
    console.print(waits(idle_turns, during_turns, idle_s, during_s))
    console.print(f"p50 {ratios[50]:.1f} times, p99 {ratios[99]:.1f} times; target {TARGET:.0f}")
    if not running:
        console.print("The broadcast was over before the probes were: send to more, or probe less.")
    return 0 if running and ratios[99] <= TARGET else 1


if __name__ == "__main__":
    raise SystemExit(main())
