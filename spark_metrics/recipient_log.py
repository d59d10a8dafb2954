"""The log of recipients: one row with user, send and status for each recipient of an outcome record. It can be
switched off because of its size.

The log is written in the transaction that counts a lane of a batch. So it is as exact as the counts, and a redelivery
adds no row.
"""

from datetime import date, timedelta
from typing import Any, LiteralString

import psycopg
from psycopg import sql
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

NAME = "recipient_log"


def recipients(facts: DataFrame) -> DataFrame:
    """Return one row for each result of a countable outcome record, with the users that have this result.

    The columns are send_id, club_id, type, channel, status, reason, at_ms and user_ids. A position without a user or a
    result is skipped.
    """
    results = facts.where((F.col("source") == "outcome") & (F.size("counts") > 0)).select(
        *("send_id", "club_id", "type", "at_ms", "user_ids", "result_index", "counts"),
        F.posexplode("counts").alias("number", "count"),
    )
    return results.select(
        "send_id",
        "club_id",
        "type",
        "count.channel",
        F.col("count.measure").alias("status"),
        "count.reason",
        "at_ms",
        _users_of(F.col("number")).alias("user_ids"),
    ).where(F.size("user_ids") > 0)


def _users_of(number: Column) -> Column:
    placed = F.arrays_zip("user_ids", "result_index")
    chosen = F.filter(placed, lambda place: (place["result_index"] == number) & place["user_ids"].isNotNull())
    # Nearly every outcome has one result for all its users.
    is_only = (
        (F.size("user_ids") == F.size("result_index"))
        & (F.array_min("result_index") == number)
        & (F.array_max("result_index") == number)
    )
    return F.when(is_only, F.col("user_ids")).otherwise(F.transform(chosen, lambda place: place["user_ids"]))


def make_partition(connection: psycopg.Connection[Any], day: date) -> None:
    """Create the table for one day of the log (UTC), unless it exists."""
    if connection.execute("select to_regclass(%s) is not null", [table_of(day)]).fetchone() == (True,):
        return
    names = {
        "partition": sql.Identifier(table_of(day)),
        "day": sql.Literal(f"{day}T00:00:00Z"),
        "next": sql.Literal(f"{day + timedelta(days=1)}T00:00:00Z"),
    }
    # CREATE TABLE … PARTITION OF would wait for every reader of the log and block new readers; ATTACH does not.
    connection.execute(sql.SQL("create table {partition} (like recipient_log including all)").format(**names))
    connection.execute(
        sql.SQL("alter table recipient_log attach partition {partition} for values from ({day}) to ({next})").format(
            **names
        )
    )


def tables(connection: psycopg.Connection[Any]) -> list[tuple[date, bool, bool]]:
    """Return the days (UTC) of the log that have a table, each with whether the table is attached and is being
    detached.
    """
    found = connection.execute(
        "select relname, inhrelid is not null, coalesce(inhdetachpending, false)"
        " from pg_class left join pg_inherits on inhrelid = pg_class.oid"
        " where relkind = 'r' and relnamespace = (select relnamespace from pg_class"
        " where oid = 'recipient_log'::regclass) and relname ~ '^recipient_log_[0-9]{8}$' order by 1"
    )
    return [(date.fromisoformat(name[-8:]), attached, pending) for name, attached, pending in found]


def table_of(day: date) -> str:
    """Return the name of the table for one day of the log."""
    return f"{NAME}_{day:%Y%m%d}"


# Recompute compares the log in this form: for each send and status, sums that differ for almost any two sets of rows.
KEY = ("send_id", "channel", "status", "reason")
SUMS = ("rows", "users", "checksum")
COMPARED: LiteralString = """
select send_id, channel, status, reason, count(*) as rows, sum(user_id)::numeric as users,
    sum(user_id % 1000003 * (extract(epoch from at) * 1000)::bigint % 1000003) as checksum
from recipient_log
where at >= {first} and at < {end} and at >= {kept_since}
group by send_id, channel, status, reason
"""


def compared(rows: DataFrame) -> DataFrame:
    """Return the rows of `recipients` in the form of COMPARED."""
    user = F.explode("user_ids").alias("user_id")
    return (
        rows.select("send_id", "channel", "status", F.coalesce("reason", F.lit("")).alias("reason"), "at_ms", user)
        .groupBy("send_id", "channel", "status", "reason")
        .agg(
            F.count("*").alias("rows"),
            F.sum(F.col("user_id").cast("decimal(20)")).alias("users"),
            F.sum(F.expr("user_id % 1000003 * at_ms % 1000003")).alias("checksum"),
        )
    )
