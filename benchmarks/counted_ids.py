"""Measure the cost of stored record ids in Postgres: `python -m benchmarks.counted_ids [--known N] [--ids N]`.

The benchmark needs `make setup`. It starts and stops its own database, and prints the processor time of Postgres'
backend per id when batches of new ids are stored in addition to `--known` ids:

  N tables    logged tables of equal size with a unique index: insert into the latest, look up in the others
  unlogged    one unlogged table, and the ids of the batch packed in a logged row, as before

The times of all candidates contain the COPY of the ids into a temporary table.
"""

import argparse
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import psycopg

from devstack.config import StackConfig
from devstack.stack import Stack
from spark_metrics.counted_ids import ID_BYTES, IdTables, store_new
from spark_metrics.lane_merge import prepare
from tests.support.servers.metrics_database import metrics_database

_BATCH = 2_000
type Connection = psycopg.Connection[Any]


def filled(connection: Connection, number: int, known: int) -> IdTables:
    names = tuple(f"ids_{n}" for n in range(number))
    for name in names:
        connection.execute(f"create table {name} (record_id uuid not null, source text not null)".encode())
        rows = f"select gen_random_uuid(), 'outcome' from generate_series(1, {known // number})"  # noqa: S608
        connection.execute(f"insert into {name} {rows}".encode())
        connection.execute(f"create unique index {name}_id on {name} (record_id, source)".encode())
    return IdTables(names, datetime.now(UTC))


def in_tables(connection: Connection, number: int, known: int) -> Callable[[list[bytes]], None]:
    tables = filled(connection, number, known)

    def store(ids: list[bytes]) -> None:
        assert not store_new(connection, tables, "outcome", ids)

    return store


def unlogged(connection: Connection, known: int) -> Callable[[list[bytes]], None]:
    (name,) = filled(connection, 1, known).names
    connection.execute(f"alter table {name} set unlogged".encode())
    connection.execute(b"create table packed (ids bytea not null)")
    tables = IdTables((name,), datetime.now(UTC))

    def store(ids: list[bytes]) -> None:
        assert not store_new(connection, tables, "outcome", ids)
        connection.execute(b"insert into packed values (%s)", [b"".join(ids)])

    return store


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--known", type=int, default=2_000_000)
    parser.add_argument("--ids", type=int, default=200_000)
    chosen = parser.parse_args()
    ways: dict[str, Callable[[Connection], Callable[[list[bytes]], None]]] = {
        f"{number} tables": lambda connection, number=number: in_tables(connection, number, chosen.known)
        for number in (1, 2, 3, 8)
    } | {"unlogged": lambda connection: unlogged(connection, chosen.known)}
    with tempfile.TemporaryDirectory() as folder:
        stack = StackConfig.on_free_ports(Path(folder))
        with Stack(stack, ["postgres"]):
            for name, way in ways.items():
                with metrics_database(stack) as database, psycopg.connect(database, autocommit=True) as connection:
                    prepare(connection)
                    store = way(connection)
                    batches = [[uuid4().bytes for _ in range(_BATCH)] for _ in range(chosen.ids // _BATCH)]
                    backend = psutil.Process(connection.info.backend_pid)
                    began = sum(backend.cpu_times()[:2])
                    for batch in batches:
                        with connection.transaction():
                            store(batch)
                    took = sum(backend.cpu_times()[:2]) - began
                    print(f"{name:9} {took / chosen.ids * 1e6:6.2f} µs an id")


if __name__ == "__main__":
    assert len(uuid4().bytes) == ID_BYTES
    main()
