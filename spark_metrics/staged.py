"""Copies recomputed rows to Postgres from the tasks of executors, into tables of the schema `recompute`.

A run of recompute has tables of its own, whose names end with the process id of its database connection. A task stores
its rows in one transaction, and first deletes those of an earlier attempt: Spark may run a task several times.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any

import psycopg
from psycopg import sql
from pyspark import TaskContext
from pyspark.sql import DataFrame

from spark_metrics.database import connect
from spark_metrics.states import StateEntry, blocks_of, status_of, stored

SCHEMA = "recompute"
_SLICE = 2_000
_EPOCH = datetime.fromtimestamp(0, UTC)

# {table: its rows, each with the columns of the table}
type Rows = Mapping[str, Sequence[tuple[Any, ...]]]
type RowsOf = Callable[[Sequence[Any]], Rows]


@dataclass(frozen=True)
class StagedTable:
    """A table of one run, with a column `task` before its columns."""

    name: str
    columns: tuple[str, ...]

    @property
    def identifier(self) -> sql.Identifier:
        return sql.Identifier(SCHEMA, self.name)


def stage(frame: DataFrame, database_url: str, tables: Mapping[str, StagedTable], rows_of: RowsOf) -> None:
    """Copy the rows that a function returns for the rows of a frame; each partition is one transaction of a task.

    Raises Spark's errors, which quote psycopg's.
    """
    frame.foreachPartition(partial(_run_task, database_url, tables, rows_of))


def _run_task(database_url: str, tables: Mapping[str, StagedTable], rows_of: RowsOf, rows: Iterator[Any]) -> None:
    context = TaskContext.get()
    assert context is not None  # noqa: S101 - an executor runs this function
    with connect(database_url, "spark_metrics recompute") as connection:
        store(connection, tables, context.partitionId(), map(rows_of, _slices(rows)))


def _slices(rows: Iterator[Any]) -> Iterator[list[Any]]:
    while some := list(islice(rows, _SLICE)):
        yield some


def store(
    connection: psycopg.Connection[Any], tables: Mapping[str, StagedTable], task: int, slices: Iterable[Rows]
) -> None:
    """Replace the rows of a task in one transaction."""
    with connection.transaction():
        for table in tables.values():
            # Another attempt of the task ends first.
            connection.execute("select pg_advisory_xact_lock(hashtext(%s), %s)", [table.name, task])
            # guard: recompute.one_attempt_a_task
            connection.execute(sql.SQL("delete from {} where task = %s").format(table.identifier), [task])
        for rows in slices:
            for name, lines in rows.items():
                table = tables[name]
                columns = sql.SQL(", ").join(map(sql.Identifier, ("task", *table.columns)))
                statement = sql.SQL("copy {} ({}) from stdin").format(table.identifier, columns)
                with connection.cursor() as cursor, cursor.copy(statement) as copy:
                    for line in lines:
                        copy.write_row((task, *line))


def plain_rows(name: str, rows: Sequence[Any]) -> Rows:
    return {name: [tuple(row) for row in rows]}


def timed_rows(name: str, place: int, rows: Sequence[Any]) -> Rows:
    """Return rows whose column at `place` is a time in ms since the epoch."""
    return {name: [(*row[:place], _EPOCH + timedelta(milliseconds=row[place]), *row[place + 1 :]) for row in rows]}


def state_rows(chunks: Iterable[tuple[str, int, str, Iterable[StateEntry]]]) -> Rows:
    """Return the blocks of chunks (send_id, chunk_index, channel, entries), and the totals of sends in these chunks."""
    blocks = []
    totals: Counter[tuple[str, str, str, str]] = Counter()
    for send_id, chunk_index, channel, entries in chunks:
        for block, codes in blocks_of(entries).items():
            blocks.append((send_id, chunk_index, channel, block, stored(codes)))
            for code, n in Counter(codes).items():
                if code:
                    totals[send_id, channel, *status_of(code)] += n
    return {"send_states": blocks, "send_totals": [(*key, n) for key, n in totals.items()]}
