"""Measure one tenant's send to fifty users during another tenant's broadcast to 100,000.

    python -m lab.benchmarks.tenants [--recipients 100000] [--sends 5]

The send is first measured idle. Then the loud tenant's broadcast begins, and the quiet tenant's sends are produced one
after another. The benchmark prints the seconds of each send, and the share of the broadcast that the provider accepted
meanwhile. The exit status is 1 if the broadcast ended before a send, or if a recipient was missed.
"""

import argparse
import sys

from rich.console import Console
from rich.table import Table

from lab.benchmarks.running_chain import running_chain

LOUD, QUIET = 1, 2
FEW = 50
TIMEOUT_S = 600.0


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m lab.benchmarks.tenants", description="One tenant during another tenant's broadcast."
    )
    parser.add_argument("--recipients", type=int, default=100_000)
    parser.add_argument("--sends", type=int, default=5)
    arguments = parser.parse_args()
    table = Table("a send to 50", "seconds", "of the broadcast meanwhile")
    with running_chain() as chain:
        recipients = range(1, arguments.recipients + 1)
        quiet = range(10**7, 10**7 + FEW)
        chain.people(QUIET, quiet)
        chain.people(LOUD, recipients)
        chain.seconds(QUIET, quiet, TIMEOUT_S)
        table.add_row("idle", f"{chain.seconds(QUIET, quiet, TIMEOUT_S):.2f}", "")
        broadcast = chain.broadcast(LOUD, recipients)
        running = True
        for _ in range(arguments.sends):
            before = len(broadcast.taken())
            took = chain.seconds(QUIET, quiet, TIMEOUT_S)
            after = len(broadcast.taken())
            running = running and after < len(recipients)
            table.add_row(
                f"with {before / len(recipients):.0%} of it delivered",
                f"{took:.2f}",
                f"{(after - before) / len(recipients):.1%}",
            )
        chain.await_taken(broadcast.send_id, recipients, TIMEOUT_S)
    Console().print(table)
    if not running:
        sys.stderr.write("The broadcast was over before the sends were: send to more.\n")
    return 0 if running else 1


if __name__ == "__main__":
    raise SystemExit(main())
