"""How long a critical push takes from Kafka to SNS, idle and beside a broadcast to 100,000.

    python -m benchmarks.critical_beside_bulk [--recipients 100000] [--probes 100]

Both in one run on one stack. A probe is a send to one person on the critical lane, produced every quarter of a second
whatever became of the one before; its time ends where the SNS stand-in took it. Functions, broker, OpenSearch and
DynamoDB share the processors of one machine here: what the lanes cannot keep apart is that.
"""

import argparse
import statistics
import time
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from benchmarks.running_chain import RunningChain, running_chain
from masscomm.ids import notification_id

BULK_CLUB, PROBED_CLUB = 1, 2
EVERY_S = 0.25
WARM_UP = 20
TARGET = 2.0


def probes(chain: RunningChain, users: Sequence[int]) -> dict[str, float]:
    """Send to each in turn; when each notification was asked for, by its id."""
    asked = {}
    for user_id in users:
        began = time.time()
        send_id = chain.send(PROBED_CLUB, [user_id], type="one_time_password", critical=True)
        asked[notification_id(send_id, user_id, "push")] = began
        time.sleep(max(0.0, began + EVERY_S - time.time()))
    return asked


def milliseconds(chain: RunningChain, asked: dict[str, float]) -> list[float]:
    """What each probe took. Errors: SystemExit where one never arrived."""
    until = time.monotonic() + 30
    while not asked.keys() <= chain.taken().keys():
        if time.monotonic() > until:
            raise SystemExit(f"{len(asked.keys() - chain.taken().keys())} critical pushes never arrived")
        time.sleep(0.5)
    taken = chain.taken()
    return sorted((taken[each] - began) * 1000 for each, began in asked.items())


def _say(text: str) -> None:
    Console(stderr=True).print(f"[dim]{text}[/]", highlight=False)


def main() -> int:
    """Print a table; 1 where the 99th percentile beside the broadcast is more than TARGET times that without."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.critical_beside_bulk", description=__doc__)
    parser.add_argument("--recipients", type=int, default=100_000)
    parser.add_argument("--probes", type=int, default=100, help="in each of the two")
    arguments = parser.parse_args()
    count = arguments.probes
    with running_chain() as chain:
        everybody = range(1, arguments.recipients + 1)
        probed = range(10**7, 10**7 + WARM_UP + 2 * count)
        _say("everything runs")
        chain.people(PROBED_CLUB, probed)
        chain.people(BULK_CLUB, everybody)
        _say(f"{len(everybody):,} people are in the directory")
        probes(chain, probed[:WARM_UP])
        idle = milliseconds(chain, probes(chain, probed[WARM_UP : WARM_UP + count]))
        _say("measured idle")
        chain.send(BULK_CLUB, everybody)
        while chain.sns.counts().accepted < WARM_UP + count + 1_000:
            time.sleep(0.05)
        before, began = chain.sns.counts().accepted, time.time()
        asked = probes(chain, probed[WARM_UP + count :])
        rate = (chain.sns.counts().accepted - before) / (time.time() - began)
        running = chain.sns.counts().accepted < arguments.recipients + WARM_UP + 2 * count
        beside = milliseconds(chain, asked)
    table = Table("critical push, ms", "p50", "p90", "p99", "most")
    for name, values in (("idle", idle), (f"beside a broadcast at {rate:,.0f}/s", beside)):
        cuts = statistics.quantiles(values, n=100)
        table.add_row(name, f"{cuts[49]:.0f}", f"{cuts[89]:.0f}", f"{cuts[98]:.0f}", f"{values[-1]:.0f}")
    ratios = [statistics.quantiles(beside, n=100)[each] / statistics.quantiles(idle, n=100)[each] for each in (49, 98)]
    console = Console()
    console.print(table)
    console.print(f"p50 {ratios[0]:.1f} times, p99 {ratios[1]:.1f} times; target {TARGET:.0f}")
    if not running:
        console.print("The broadcast was over before the probes were: send to more, or probe less.")
    return 0 if running and ratios[1] <= TARGET else 1


if __name__ == "__main__":
    raise SystemExit(main())
