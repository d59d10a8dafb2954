"""Measure the cost of recognising redelivered records: `python -m benchmarks.counted_ids [--known N] [--ids N]`.

The benchmark needs `make setup`. It starts and stops its own database, and prints the processor time of Postgres'
backend per record when batches of new records are stored in addition to `--known` ones, and the bytes per row:

  N tables    logged tables of equal size with a unique index: insert into the latest, look up in the others
  unlogged    one unlogged table, and the ids of the batch packed in a logged row, as before
  marks       no ids, but the state of each notification in send_states, read and stored for each record of it

A record of the last candidate has one recipient, and a notification has three records. The ids of all others are
stored as the job does it.
"""

import argparse
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psutil
import psycopg

from devstack.config import StackConfig
from devstack.stack import Stack
from spark_metrics.counted_ids import ID_BYTES, IdTables, store_new
from spark_metrics.lane_merge import prepare
from spark_metrics.sql import read_sql
from tests.support.servers.metrics_database import metrics_database

_BATCH = 2_000
_BYTES = "select pg_total_relation_size(%s) / count(*)::float8 from {}"
type Connection = psycopg.Connection[Any]
# The table that grows, and the function that stores a batch of records by their ids.
type Way = tuple[str, Callable[[list[bytes]], None]]


def filled(connection: Connection, number: int, known: int) -> IdTables:
    names = tuple(f"ids_{n}" for n in range(number))
    for name in names:
        connection.execute(f"create table {name} (record_id uuid not null, source text not null)".encode())
        rows = f"select gen_random_uuid(), 'outcome' from generate_series(1, {known // number})"  # noqa: S608
        connection.execute(f"insert into {name} {rows}".encode())
        connection.execute(f"create unique index {name}_id on {name} (record_id, source)".encode())
    return IdTables(names, datetime.now(UTC))


def in_tables(connection: Connection, number: int, known: int) -> Way:
    tables = filled(connection, number, known)

    def store(ids: list[bytes]) -> None:
        assert not store_new(connection, tables, "outcome", ids)

    return tables.names[0], store


def unlogged(connection: Connection, known: int) -> Way:
    (name,) = filled(connection, 1, known).names
    connection.execute(f"alter table {name} set unlogged".encode())
    connection.execute(b"create table packed (ids bytea not null)")
    tables = IdTables((name,), datetime.now(UTC))

    def store(ids: list[bytes]) -> None:
        assert not store_new(connection, tables, "outcome", ids)
        connection.execute(b"insert into packed values (%s)", [b"".join(ids)])

    return name, store


def marks(connection: Connection, known: int) -> Way:
    connection.execute(
        b"insert into send_states select gen_random_uuid(), 0, 'push', 0, '\\x0101' from generate_series(1, %s)",
        [known],
    )
    sends: list[str] = []
    step = 0

    def store(ids: list[bytes]) -> None:
        nonlocal step
        if step % 3 == 0:
            sends[:] = [str(UUID(bytes=each)) for each in ids]
        step += 1
        n = len(sends)
        keys = [sends, [0] * n, ["push"] * n, [0] * n]
        with connection.cursor(binary=True) as cursor:
            assert len(cursor.execute(read_sql("known_states"), keys).fetchall()) == (0 if step % 3 == 1 else n)
            cursor.execute(read_sql("store_states"), [*keys, [bytes([step % 3, 1])] * n])

    return "send_states", store


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--known", type=int, default=2_000_000)
    parser.add_argument("--ids", type=int, default=200_000)
    chosen = parser.parse_args()
    ways: dict[str, Callable[[Connection], Way]] = {
        f"{number} tables": lambda connection, number=number: in_tables(connection, number, chosen.known)
        for number in (1, 2, 3, 8)
    } | {
        "unlogged": lambda connection: unlogged(connection, chosen.known),
        "marks": lambda connection: marks(connection, chosen.known),
    }
    with tempfile.TemporaryDirectory() as folder:
        stack = StackConfig.on_free_ports(Path(folder))
        with Stack(stack, ["postgres"]):
            for name, way in ways.items():
                with metrics_database(stack) as database, psycopg.connect(database, autocommit=True) as connection:
                    prepare(connection)
                    table, store = way(connection)
                    batches = [[uuid4().bytes for _ in range(_BATCH)] for _ in range(chosen.ids // _BATCH)]
                    backend = psutil.Process(connection.info.backend_pid)
                    began = sum(backend.cpu_times()[:2])
                    for batch in batches:
                        with connection.transaction():
                            store(batch)
                    took = sum(backend.cpu_times()[:2]) - began
                    (size,) = connection.execute(_BYTES.format(table).encode(), [table]).fetchone() or (0,)
                    print(f"{name:9} {took / chosen.ids * 1e6:6.2f} µs a record, {size:4.0f} bytes a row")


if __name__ == "__main__":
    assert len(uuid4().bytes) == ID_BYTES
    main()
