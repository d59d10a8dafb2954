"""Makes and drops the partitions of tables that grow with time (schemas/tables/07_partitions.sql).

A partition is a day, a month or a year (UTC). The job makes the present and the next one before it counts. Except in
the log of recipients, rows of other times lie in the table's default partition, from which they are moved when their
partition is made.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Any

import psycopg
from psycopg import sql

from masscomm.domain.grains import Grain
from masscomm.domain.time_limits import (
    DAYS_KEPT_DAYS,
    HOURS_KEPT_DAYS,
    MINUTES_KEPT_DAYS,
    RECIPIENT_LOG_KEPT_DAYS,
    REDELIVERED_KEPT_DAYS,
)
from spark_metrics import recipient_log


class Step(StrEnum):
    """The length of a partition."""

    DAY = "day"
    MONTH = "month"
    YEAR = "year"

    def begin(self, day: date) -> date:
        """Return the first day of the partition that contains a day."""
        return {Step.DAY: day, Step.MONTH: day.replace(day=1), Step.YEAR: day.replace(month=1, day=1)}[self]

    def next(self, first: date) -> date:
        """Return the first day after the partition that begins on `first`."""
        return self.begin(first + timedelta(days={Step.DAY: 1, Step.MONTH: 31, Step.YEAR: 366}[self]))


@dataclass(frozen=True)
class Partitioned:
    """A partitioned table.

    Attributes:
        at: The column with the time.
        keep_days: The default of its retention, in days.
        other: Whether rows of other times lie in a default partition.
    """

    table: str
    at: str
    step: Step
    keep_days: int
    other: bool = True


TABLES: Mapping[str, Partitioned] = {
    each.table: each
    for each in (
        Partitioned(Grain.MINUTE.table, "bucket", Step.MONTH, MINUTES_KEPT_DAYS),
        Partitioned(Grain.HOUR.table, "bucket", Step.MONTH, HOURS_KEPT_DAYS),
        Partitioned(Grain.DAY.table, "bucket", Step.YEAR, DAYS_KEPT_DAYS),
        Partitioned("revised_minutes", "minute", Step.MONTH, DAYS_KEPT_DAYS),
        Partitioned("redelivered", "refused_at", Step.MONTH, REDELIVERED_KEPT_DAYS),
    )
}
LOG = Partitioned(recipient_log.NAME, "counted_at", Step.DAY, RECIPIENT_LOG_KEPT_DAYS, other=False)
# Partitions are made this long before their time: an event may be a day ahead, and clocks differ.
_AHEAD = timedelta(days=3)


def make_partitions(
    connection: psycopg.Connection[Any], at: datetime, tables: Iterable[Partitioned] = TABLES.values()
) -> None:
    """Make the partitions for the records that are counted at a time, and soon after, unless they exist."""
    for table in tables:
        known = _partitions(connection, table)
        for moment in (at, at + _AHEAD):
            first = table.step.begin(moment.astimezone(UTC).date())
            if not any((begin is None or begin <= first) and first < end for _, begin, end in known):
                known.append(_make(connection, table, first))


def drop_before(connection: psycopg.Connection[Any], table: Partitioned, day: date) -> list[str]:
    """Drop the partitions that end before the partition of `day`, and rows without a partition that are as old. Record
    in stream_retention what is deleted. Return the names of the dropped partitions.

    Raises psycopg.OperationalError if the connection's lock_timeout has passed; then nothing is deleted.
    """
    cutoff = table.step.begin(day)
    old = [name for name, _, end in _partitions(connection, table) if end <= cutoff]
    with connection.transaction():
        for name in old:
            connection.execute(sql.SQL("drop table {}").format(sql.Identifier(name)))
        without = sql.SQL("delete from {other} where {at} < {cutoff}").format(
            other=sql.Identifier(f"{table.table}_other"),
            at=sql.Identifier(table.at),
            cutoff=sql.Literal(_midnight(cutoff)),
        )
        if connection.execute(without).rowcount or old:
            keep_since(connection, table.table, datetime.fromisoformat(_midnight(cutoff)))
    return old


def keep_since(connection: psycopg.Connection[Any], name: str, moment: datetime) -> None:
    """Record in stream_retention that older rows are deleted."""
    connection.execute(
        "insert into stream_retention as r (name, kept_since) values (%s, %s)"
        " on conflict (name) do update set kept_since = greatest(r.kept_since, excluded.kept_since)",
        [name, moment],
    )


def _make(connection: psycopg.Connection[Any], table: Partitioned, first: date) -> tuple[str, date | None, date]:
    end, name = table.step.next(first), f"{table.table}_{first:%Y%m%d}"
    names = {
        "table": sql.Identifier(table.table),
        "other": sql.Identifier(f"{table.table}_other"),
        "partition": sql.Identifier(name),
        "at": sql.Identifier(table.at),
        "first": sql.Literal(_midnight(first)),
        "end": sql.Literal(_midnight(end)),
    }
    with connection.transaction():
        # CREATE TABLE … PARTITION OF would wait for every reader of the table and block new readers; ATTACH does not.
        connection.execute(sql.SQL("create table {partition} (like {table} including all)").format(**names))
        if table.other:
            # Attaching reads the default partition and would fail for a row of the new one.
            connection.execute(sql.SQL("lock table {other} in access exclusive mode").format(**names))
            # guard: metrics.rows_of_a_new_partition
            connection.execute(sql.SQL(_MOVE).format(**names))
        attach = "alter table {table} attach partition {partition} for values from ({first}) to ({end})"
        connection.execute(sql.SQL(attach).format(**names))
    return name, first, end


_MOVE = """
with own as (delete from {other} where {at} >= {first} and {at} < {end} returning *)
insert into {partition} select * from own
"""


def _partitions(connection: psycopg.Connection[Any], table: Partitioned) -> list[tuple[str, date | None, date]]:
    """Return the name, the first day (None: open) and the day after each partition, without the default partition."""
    rows = connection.execute(
        "select relname from pg_inherits join pg_class on pg_class.oid = inhrelid where inhparent = %s::regclass",
        [table.table],
    )
    found: list[tuple[str, date | None, date]] = []
    for (name,) in rows:
        match = re.fullmatch(rf"{table.table}_(until_)?(\d{{8}})", name)
        if match and match[1]:
            found.append((name, None, date.fromisoformat(match[2])))
        elif match:
            first = date.fromisoformat(match[2])
            found.append((name, first, table.step.next(first)))
    return found


def _midnight(day: date) -> str:
    return f"{day}T00:00:00+00:00"
