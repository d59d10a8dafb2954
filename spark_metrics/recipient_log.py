"""The log of recipients: one row with user, send and status for each recipient of an outcome record. It can be
switched off because of its size.

The log is written in the transaction that counts a lane of a batch. So it is as exact as the counts, and a redelivery
adds no row.
"""

from datetime import date, timedelta
from typing import Any

import psycopg
from psycopg import sql

NAME = "recipient_log"


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


# The columns of sql/log_compared.sql.
KEY = ("send_id", "channel", "status", "reason")
SUMS = ("rows", "users", "checksum")
