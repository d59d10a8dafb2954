"""Whether an index on (club_id, bucket) pays: `python -m benchmarks.club_index [--clubs 200]`.

Needs `make setup`; starts a database of its own, and stops it. Fills counts_minute with a day, asks for one and ten
clubs, and upserts as the stream does, with the key alone and with the further index. Medians of three, and the plans.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

from devstack.config import StackConfig
from devstack.stack import Stack
from tests.support.servers.metrics_database import metrics_database

FILL = """
insert into counts_minute
select timestamptz '2026-11-20 00:00Z' + minute * interval '1 minute', club, 'type ' || t, channel, measure, 5
from generate_series(0, 1439) as minute, generate_series(1, %s) as club, generate_series(1, 2) as t,
    unnest(array['push', 'email']) as channel, unnest(array['requested', 'sent']) as measure
where (club * 7919 + minute * 104729 + t) %% 10 < 8
"""
ASK = """
select date_trunc('hour', bucket, 'UTC'), measure, sum(count_total) from counts_minute
where bucket >= '2026-11-20 00:00Z' and bucket < timestamptz '2026-11-20 00:00Z' + %s * interval '1 hour'
    and club_id = any(%s::bigint[])
group by 1, 2
"""
UPSERT = """
insert into counts_minute as c
select timestamptz '2026-11-20 23:50Z' + minute * interval '1 minute', club, 'type ' || t, channel, 'sent', 1
from generate_series(0, 9) as minute, generate_series(1, 200) as club, generate_series(1, 2) as t,
    unnest(array['push', 'email']) as channel
on conflict (bucket, club_id, type, channel, measure) do update set count_total = c.count_total + excluded.count_total
"""


def median_ms(work: Callable[[], object]) -> float:
    """Of three."""
    took = []
    for _ in range(3):
        began = time.perf_counter()
        work()
        took.append((time.perf_counter() - began) * 1000)
    return statistics.median(took)


def measure(connection: psycopg.Connection[Any], what: str) -> None:
    for hours, clubs in ((1, [7]), (24, [7]), (24, list(range(10, 20)))):
        asked = [hours, clubs]
        took = median_ms(lambda asked=asked: connection.execute(ASK, asked).fetchall())  # type: ignore[misc]
        plan = [row[0].strip() for row in connection.execute("explain (costs off) " + ASK, asked)]
        scan = next(line for line in reversed(plan) if "Scan" in line)
        print(f"{what:14} {hours:2} h of {len(clubs):2} clubs {took:8.1f} ms   {scan}")
    print(f"{what:14} upsert of 8,000 rows {median_ms(lambda: connection.execute(UPSERT)):8.1f} ms")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--clubs", type=int, default=200)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        config = StackConfig.on_free_ports(Path(folder))
        with (
            Stack(config, ["postgres"]),
            metrics_database(config) as url,
            psycopg.connect(url, autocommit=True) as connection,
        ):
            connection.execute("set jit = off")
            rows = connection.execute(FILL, [chosen.clubs]).rowcount
            connection.execute("vacuum analyze counts_minute")
            print(f"{rows:,} rows")
            measure(connection, "the key alone")
            connection.execute("create index on counts_minute (club_id, bucket)")
            connection.execute("vacuum analyze counts_minute")
            measure(connection, "and the index")


if __name__ == "__main__":
    main()
