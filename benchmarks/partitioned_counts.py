"""Measure the cost of partitioned counts: `python -m benchmarks.partitioned_counts [--rows 1000000] [--rounds 20]`.

The benchmark needs `make setup`; it starts and stops its own database. It merges the same rows into counts_minute as a
partitioned and as a plain table, in turns, each with as many rows before, and prints the medians in ms. A merge adds to
rows of the last hour and of one hour in each of the past 40 days.
"""

import argparse
import statistics
import time
from datetime import UTC, datetime

import psycopg

from benchmarks.metrics_tables import metrics_connection
from spark_metrics.partitions import make_partitions

_CLUBS = 200
_FILL = """
insert into {table}
select date_trunc('minute', now()) - make_interval(mins => n / {clubs} * 60), n %% {clubs}, 'news', 'push', 'sent', 1
from generate_series(0, %s) as n
"""
_MERGE = """
insert into {table} as c
select date_trunc('minute', now()) - make_interval(mins => n / {clubs} * 60), n %% {clubs}, 'news', 'push', 'sent', 1
from generate_series(0, %s) as n
order by 1, 2
on conflict (bucket, club_id, type, channel, measure) do update set count_total = c.count_total + excluded.count_total
"""


def run(connection: psycopg.Connection[tuple[object, ...]], statement: str, table: str, rows: int) -> float:
    """Execute a statement on a table, and return its duration in ms."""
    began = time.perf_counter()
    connection.execute(statement.format(table=table, clubs=_CLUBS).encode(), [rows])
    return (time.perf_counter() - began) * 1000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of each table before the merges")
    parser.add_argument("--merged", type=int, default=10_000, help="rows of a merge")
    parser.add_argument("--rounds", type=int, default=20)
    chosen = parser.parse_args()
    with metrics_connection() as connection:
        connection.execute("create table plain (like counts_minute including all)")
        make_partitions(connection, datetime.now(UTC))
        for table in ("plain", "counts_minute"):
            print(f"{table:14} {chosen.rows} rows inserted in {run(connection, _FILL, table, chosen.rows):,.0f} ms")
            connection.execute(f"vacuum analyze {table}".encode())
        durations: dict[str, list[float]] = {"plain": [], "counts_minute": []}
        for _ in range(chosen.rounds):
            for table, found in durations.items():
                found.append(run(connection, _MERGE, table, chosen.merged))
        for table, found in durations.items():
            print(f"{table:14} {chosen.merged} rows merged in {statistics.median(found):,.1f} ms (median)")


if __name__ == "__main__":
    main()
