"""Measures how long an opt-out takes from its commit in the monolith until the send path reads it.

    masscomm up --detach && python -m lab.benchmarks.opt_outs

It changes one user's settings again and again, one change after another, in the stack that runs on this machine.
"""

import argparse

import psycopg

from local.devstack.config import GENERATION
from local.devstack.demo.directory import Directory
from local.devstack.demo.report import Percentiles
from local.devstack.handle import RunningStack

USER = 42


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure opt-outs from their commit until the send path reads them.")
    parser.add_argument("--changes", type=int, default=500, help="number of changes (default: %(default)s)")
    count = parser.parse_args().changes
    config = RunningStack.here().config
    directory = Directory(config.opensearch_url, GENERATION)
    with psycopg.connect(config.database_url("monolith"), autocommit=True) as monolith:
        took = Percentiles.of([directory.change_latency_ms(monolith, USER, number) for number in range(count)])
    directory.close()
    print(f"{count} changes: p50 {took.p50:.0f} ms, p99 {took.p99:.0f} ms")


if __name__ == "__main__":
    main()
