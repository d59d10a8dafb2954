"""Measure one tenant's broadcast behind another tenant's larger broadcast, compared with both in one queue.

    python -m lab.benchmarks.broadcasts [--large 100000] [--small 5000]

The small broadcast is measured three times: alone; behind a large broadcast of another tenant, which uses another
queue; and behind a large broadcast of its own tenant in the same queue, as if all tenants shared one queue. It is sent
once the provider has accepted the first pushes of the large broadcast. The benchmark prints the duration of the small
broadcast, and the share of the large one that the provider accepted meanwhile. The exit status is 1 if a recipient was
missed or a large broadcast ended before the small one was sent.
"""

import argparse
import sys
import time
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from lab.benchmarks.running_chain import RunningChain, running_chain

LARGE, SMALL = 1, 2
TIMEOUT_S = 900.0


def behind(
    chain: RunningChain, recipients: Sequence[int], club_id: int, users: Sequence[int]
) -> tuple[float, float, float]:
    """Send the large broadcast and then the small one to `users`; wait for the end of both.

    Returns:
        (seconds of the small broadcast, share of the large one that was accepted meanwhile, seconds of the large one)
    """
    began = time.time()
    large = chain.broadcast(LARGE, recipients)
    asked = time.time()
    if len(large.taken()) == len(large.wanted):
        raise SystemExit("the large broadcast ended before the small one was sent: make it larger")
    small = chain.send(club_id, users)
    ended = chain.await_taken(small, users, TIMEOUT_S)
    all_ended = chain.await_taken(large.send_id, recipients, TIMEOUT_S)
    meanwhile = sum(asked < at <= ended for at in large.taken())
    return ended - asked, meanwhile / len(large.wanted), all_ended - began


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m lab.benchmarks.broadcasts", description="Two tenants' broadcasts.")
    parser.add_argument("--large", type=int, default=100_000)
    parser.add_argument("--small", type=int, default=5_000)
    arguments = parser.parse_args()
    large = range(1, arguments.large + 1)
    own, others = (range(start, start + arguments.small) for start in (10**7, 2 * 10**7))
    table = Table(f"a broadcast to {arguments.small:,}", "seconds", f"meanwhile, of {arguments.large:,}")
    with running_chain() as chain:
        for club_id, users in ((LARGE, large), (LARGE, own), (SMALL, others)):
            chain.people(club_id, users)
        chain.seconds(SMALL, others[:500], TIMEOUT_S)  # A small broadcast warms up all functions.
        table.add_row("alone", f"{chain.seconds(SMALL, others, TIMEOUT_S):.1f}", "")
        for name, club_id, users in (("in a queue of its own", SMALL, others), ("in the same queue", LARGE, own)):
            took, meanwhile, whole = behind(chain, large, club_id, users)
            table.add_row(name, f"{took:.1f}", f"{meanwhile:.0%}; the large one took {whole:.1f} s")
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
