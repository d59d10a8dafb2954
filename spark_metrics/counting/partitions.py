"""Makes and drops the partitions of tables that grow with time (schemas/tables).

A partition is a day, a month or a year (UTC). The job makes the present and the next one before it counts. Except in
the log of recipients, rows of other times lie in the table's default partition, from which they are moved when their
partition is made.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import psycopg
from psycopg import sql

from masscomm.domain.grains import REASONS_TABLE, Grain
from masscomm.domain.time_limits import (
    DAYS_KEPT_DAYS,
    HOURS_KEPT_DAYS,
    LATENCY_MINUTES_KEPT_DAYS,
    MINUTES_KEPT_DAYS,
    RECIPIENT_LOG_KEPT_DAYS,
    REDELIVERED_KEPT_DAYS,
    SEND_CHANGES_KEPT_DAYS,
    WEBHOOK_LOG_KEPT_DAYS,
    WEBHOOK_MINUTES_KEPT_DAYS,
)
from spark_metrics.counting import recipient_log, webhook_results
from spark_metrics.sql import read_sql


@dataclass(frozen=True)
class Partitioned:
    """A partitioned table.

    Attributes:
        at: The column with the time.
        step: The length of a partition: day, month or year.
        keep_days: The default of its retention, in days.
        other: Whether rows of other times lie in a default partition.
        fillfactor: The percentage of a page that inserts fill, as in schemas/tables/01_counts.sql.
    """

    table: str
    at: str
    step: str
    keep_days: int
    other: bool = True
    fillfactor: int = 100


class Partition(NamedTuple):
    name: str
    first: datetime
    end: datetime
    attached: bool
    detaching: bool


TABLES: Mapping[str, Partitioned] = {
    each.table: each
    for each in (
        Partitioned(Grain.MINUTE.table, "bucket", "month", MINUTES_KEPT_DAYS),
        Partitioned(Grain.HOUR.table, "bucket", "month", HOURS_KEPT_DAYS, fillfactor=50),
        Partitioned(Grain.DAY.table, "bucket", "year", DAYS_KEPT_DAYS, fillfactor=50),
        Partitioned(Grain.MINUTE.latency_table, "bucket", "day", LATENCY_MINUTES_KEPT_DAYS),
        Partitioned(Grain.HOUR.latency_table, "bucket", "month", HOURS_KEPT_DAYS, fillfactor=50),
        Partitioned(REASONS_TABLE, "bucket", "month", HOURS_KEPT_DAYS, fillfactor=50),
        Partitioned("revised_minutes", "minute", "month", DAYS_KEPT_DAYS),
        Partitioned("send_changes", "changed_at", "day", SEND_CHANGES_KEPT_DAYS),
        Partitioned("redelivered", "refused_at", "month", REDELIVERED_KEPT_DAYS),
        Partitioned(Grain.MINUTE.webhook_table, "bucket", "day", WEBHOOK_MINUTES_KEPT_DAYS),
        Partitioned(Grain.HOUR.webhook_table, "bucket", "month", HOURS_KEPT_DAYS, fillfactor=50),
        Partitioned(Grain.DAY.webhook_table, "bucket", "year", DAYS_KEPT_DAYS, fillfactor=50),
        Partitioned(webhook_results.LOG, "at", "day", WEBHOOK_LOG_KEPT_DAYS),
    )
}
LOG = Partitioned(recipient_log.NAME, "counted_at", "day", RECIPIENT_LOG_KEPT_DAYS, other=False)
# Partitions are made this long before their time: an event may be a day ahead, and clocks differ.
_AHEAD = timedelta(days=3)


def make_partitions(
    connection: psycopg.Connection[Any], at: datetime, tables: Iterable[Partitioned] = TABLES.values()
) -> None:
    """Make the partitions for the records that are counted at a time, and soon after, unless they exist."""
    for table in tables:
        for moment in (at, at + _AHEAD):
            known = partitions_of(connection, table)
            if not any(each.first <= moment < each.end for each in known):
                _make(connection, table, *_ends(connection, table, moment))


def drop_before(connection: psycopg.Connection[Any], table: Partitioned, moment: datetime) -> list[str]:
    """Drop the partitions before the partition of a moment, and rows without a partition that are as old. Record what
    is deleted. Return the names of the dropped partitions. The connection must be in autocommit mode.

    Raises psycopg.OperationalError if the connection's lock_timeout has passed. Then nothing is deleted, or in a table
    without a default partition only some; another call completes it.
    """
    cutoff, _ = _ends(connection, table, moment)
    old = [each for each in partitions_of(connection, table) if each.end <= cutoff]
    if not table.other:
        keep_since(connection, table.table, cutoff)
        for each in old:
            # The partition is detached before it is dropped, so that readers of others never wait. With a default
            # partition, Postgres cannot do so.
            if each.attached:
                how = sql.SQL("finalize" if each.detaching else "concurrently")
                names = sql.Identifier(table.table), sql.Identifier(each.name)
                connection.execute(sql.SQL("alter table {} detach partition {} {}").format(*names, how))
            connection.execute(sql.SQL("drop table {}").format(sql.Identifier(each.name)))
        return [each.name for each in old]
    with connection.transaction():
        for each in old:
            connection.execute(sql.SQL("drop table {}").format(sql.Identifier(each.name)))
        without = sql.SQL("delete from {} where {} < {}").format(
            sql.Identifier(f"{table.table}_other"), sql.Identifier(table.at), sql.Literal(cutoff)
        )
        if connection.execute(without).rowcount or old:
            keep_since(connection, table.table, cutoff)
    return [each.name for each in old]


def keep_since(connection: psycopg.Connection[Any], name: str, moment: datetime) -> None:
    """Record that older rows of a table, a view or the log of recipients are deleted."""
    of_view = "update stream_views set kept_since = greatest(kept_since, %s) where view = %s"
    if connection.execute(of_view, [moment, name]).rowcount:
        return
    connection.execute(
        "insert into stream_retention as r (name, kept_since) values (%s, %s)"
        " on conflict (name) do update set kept_since = greatest(r.kept_since, excluded.kept_since)",
        [name, moment],
    )


def _make(connection: psycopg.Connection[Any], table: Partitioned, first: datetime, end: datetime) -> None:
    names = {
        "table": sql.Identifier(table.table),
        "other": sql.Identifier(f"{table.table}_other"),
        "partition": sql.Identifier(f"{table.table}_{first:%Y%m%d}"),
        "at": sql.Identifier(table.at),
        "first": sql.Literal(first),
        "end": sql.Literal(end),
        "fillfactor": sql.Literal(table.fillfactor),
    }
    with connection.transaction():
        # CREATE TABLE … PARTITION OF would wait for every reader of the table and block new readers; ATTACH does not.
        create = "create table {partition} (like {table} including all) with (fillfactor = {fillfactor})"
        connection.execute(sql.SQL(create).format(**names))
        if table.other:
            # Attaching reads the default partition and would fail for a row of the new one.
            connection.execute(sql.SQL("lock table {other} in access exclusive mode").format(**names))
            # guard: metrics.rows_of_a_new_partition
            connection.execute(sql.SQL(_MOVE).format(**names))
        attach = "alter table {table} attach partition {partition} for values from ({first}) to ({end})"
        connection.execute(sql.SQL(attach).format(**names))


# The session's time zone is UTC.
_ENDS = "select f, f + ('1 ' || %(step)s)::interval from date_trunc(%(step)s, %(moment)s::timestamptz) as f"
_MOVE = """
with own as (delete from {other} where {at} >= {first} and {at} < {end} returning *)
insert into {partition} select * from own
"""


def partitions_of(connection: psycopg.Connection[Any], table: Partitioned) -> list[Partition]:
    """Return the partitions without the default partition, including those that an interrupted run has detached."""
    rows = connection.execute(read_sql("partitions"), {"table": table.table, "step": table.step})
    return [Partition(*row) for row in rows]


def _ends(connection: psycopg.Connection[Any], table: Partitioned, moment: datetime) -> tuple[datetime, datetime]:
    """Return the beginning and the end of the partition that contains a moment."""
    [(first, end)] = connection.execute(_ENDS, {"step": table.step, "moment": moment}).fetchall()
    return first, end
