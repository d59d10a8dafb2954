"""Measure what lanes of the metrics job cost Postgres, and compare two checkouts:

    python -m lab.benchmarks.metrics_lanes                            # this checkout
    python -m lab.benchmarks.metrics_lanes --tree ../before           # and another one, in turns
    python -m lab.benchmarks.metrics_lanes --bytes                    # the size of a send, for the model of capacity

Each lane is a process of its own that runs the task of an executor (spark_metrics.counting.lane_merge) on a real
Postgres; Spark, Kafka and the archive are not part of it. A round has two batches: the requests of new sends, and their
delivery and outcome records. The log of recipients is on. The database is filled with as many earlier sends and ids as
--state says. The figures are medians of the rounds after the first one:

  records/s    on this machine, whose processors run the lanes, too
  Postgres     processor time of all its processes, in microseconds a record
  WAL          bytes a record
  waiting      the share of the lanes' time in Postgres in which they waited for each other's locks, by samples

--bytes counts sends in a database without state, and writes to lab/capacity/metrics_bytes.json what a single send and a
recipient of a broadcast take in each table with its indexes, and their WAL and processor time.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import psutil
import psycopg
from rich.console import Console
from rich.table import Table

from lab.benchmarks.processor_time import of_process
from local.devstack.config import ROOT, StackConfig
from local.devstack.services import all_services
from local.devstack.stack import Stack

_COMMAND = "python -m lab.benchmarks.metrics_lanes --bytes"
_SIZES = ROOT / "lab" / "capacity" / "metrics_bytes.json"
_WORKER = Path(__file__).with_name("worker.py")
_LOADS = {
    "single sends of 200 tenants": {"sends": 20_000, "users": 1, "tenants": 200},
    "single sends of 30,000 tenants": {"sends": 20_000, "users": 1, "tenants": 30_000},
    "broadcasts to 5,000 of 20 tenants": {"sends": 400, "users": 5_000, "tenants": 20},
}
# The broadcasts' recipients are in records of 500.
_SIZED = {
    "single_send": {"sends": 30_000, "users": 1, "tenants": 200},
    "recipient": {"sends": 100, "users": 10_000, "tenants": 20},
}
_TABLES = ("sends", "send_channels", "send_totals", "send_states", "recipient_log", "counted_ids", "send_changes")
_BYTES = """
select coalesce(sum(pg_total_relation_size(oid)), 0)::bigint from pg_class
where relkind = 'r' and relname ~ ('^' || %s || '(_[0-9]+|_other)?$')
"""
_STATE = (
    "insert into sends (send_id, club_id, type, requested_at, chunk_count, chunks)"
    " select md5(n::text), n % 200, 'news', now() - n * interval '1 s', 1, 1 from generate_series(1, {rows}) as n",
    "insert into send_channels select md5(n::text), 'push', 1, 0, 1 from generate_series(1, {rows}) as n",
    "insert into send_totals select md5(n::text), 'push', 'sent', '', 1 from generate_series(1, {rows}) as n",
    "insert into send_states select md5(n::text), 0, 'push', 0, '\\x0003' from generate_series(1, {rows}) as n",
    "vacuum analyze",
    "checkpoint",
)


class Checkout:
    """A checkout with a database of its own and a process for its lanes."""

    def __init__(self, tree: Path, config: StackConfig, name: str, lanes: int, state: int, on_exit: ExitStack) -> None:
        with psycopg.connect(config.database_url("postgres"), autocommit=True) as connection:
            connection.execute(f"create database {name}".encode())
        self.url = config.database_url(name)
        for path in sorted((tree / "schemas" / "tables").glob("*.sql")):
            with psycopg.connect(self.url, autocommit=True) as connection:
                connection.execute(path.read_bytes())
        with psycopg.connect(self.url, autocommit=True) as connection:
            for statement in _STATE if state else ():
                connection.execute(statement.format(rows=state).encode())
        self._process = on_exit.enter_context(
            subprocess.Popen(
                [sys.executable, str(_WORKER), self.url, str(lanes)],
                cwd=tree,
                env={**os.environ, "PYTHONPATH": str(tree)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        on_exit.callback(self._process.kill)

    def run(self, load: dict[str, int]) -> dict[str, float]:
        """Count the batches of a round, and return its figures."""
        before, wal = _postgres_s(), self._wal()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(load) + "\n")
        self._process.stdin.flush()
        found = json.loads(self._process.stdout.readline())
        number = found["records"]
        return {
            "records": number,
            "records/s": number / found["seconds"],
            "Postgres, µs": (_postgres_s() - before) / number * 1e6,
            "WAL, bytes": (self._wal() - wal) / number,
            "waiting, %": 100 * found["waiting"] / max(1, found["waiting"] + found["busy"]),
        }

    def bytes_of(self, table: str) -> int:
        """Return the size of a table, its partitions and their indexes."""
        with psycopg.connect(self.url) as connection:
            [(size,)] = connection.execute(_BYTES, [table]).fetchall()
        return int(size)

    def _wal(self) -> int:
        with psycopg.connect(self.url) as connection:
            [(position,)] = connection.execute("select pg_current_wal_insert_lsn() - '0/0'::pg_lsn").fetchall()
        return int(position)


def _postgres_s() -> float:
    """Return the processor time of Postgres, that of ended connections included."""
    found = 0.0
    for process in psutil.Process().children(recursive=True):
        try:
            if "postgres" in process.name():
                found += of_process(process) + process.cpu_times().children_user + process.cpu_times().children_system
        except psutil.Error:
            continue
    return found


def write_sizes(config: StackConfig, lanes: int, on_exit: ExitStack) -> None:
    """Count the sends of _SIZED, and write what one of them takes."""
    found: dict[str, object] = {}
    for name, load in _SIZED.items():
        checkout = Checkout(ROOT, config, name, lanes, 0, on_exit)
        before = {table: checkout.bytes_of(table) for table in _TABLES}
        figures = checkout.run(load)
        number = load["sends"] * load["users"]
        records_each = figures["records"] / number
        found[name] = {
            "bytes": {table: round((checkout.bytes_of(table) - before[table]) / number, 2) for table in _TABLES},
            "wal_bytes": round(figures["WAL, bytes"] * records_each, 1),
            "processor_us": round(figures["Postgres, µs"] * records_each, 2),
        }
    _SIZES.write_text(
        json.dumps({"command": _COMMAND, "measured_at": f"{datetime.now(UTC):%Y-%m-%d}"} | found, indent=2)
    )
    Console().print(_SIZES.read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what lanes cost Postgres.")
    parser.add_argument("--tree", type=Path, help="another checkout to compare with")
    parser.add_argument("--lanes", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--state", type=int, default=1_000_000, help="number of earlier sends")
    parser.add_argument("--bytes", action="store_true", help="measure the size of a send instead")
    chosen = parser.parse_args()
    with ExitStack() as on_exit:
        config = StackConfig.on_free_ports(Path(on_exit.enter_context(tempfile.TemporaryDirectory())))
        only_postgres = all_services(config).keys() - {"postgres"}
        on_exit.enter_context(Stack(config, without=only_postgres, tasks=lambda _: []))
        if chosen.bytes:
            write_sizes(config, chosen.lanes, on_exit)
            return
        trees = {"before": chosen.tree.resolve(), "after": ROOT} if chosen.tree else {"this": ROOT}
        checkouts = {
            name: Checkout(tree, config, name, chosen.lanes, chosen.state, on_exit) for name, tree in trees.items()
        }
        figures: defaultdict[tuple[str, str], list[dict[str, float]]] = defaultdict(list)
        for round_ in range(chosen.rounds + 1):
            for load, values in _LOADS.items():
                for name, checkout in checkouts.items():
                    found = checkout.run(values)
                    if round_:
                        figures[load, name].append(found)
    columns = list(next(iter(figures.values()))[0])[1:]
    table = Table("load", "checkout", *columns)
    for (load, name), rounds in figures.items():
        table.add_row(load, name, *[f"{statistics.median(each[of] for each in rounds):,.1f}" for of in columns])
    Console().print(table)


if __name__ == "__main__":
    main()
