"""The log of recipients: one row with user, send and status for each recipient of an outcome record. It can be
switched off because of its size.

The log is written in the transaction that counts a lane of a batch. So it is as exact as the counts, and a redelivery
adds no row.
"""

import json
from datetime import date
from functools import lru_cache
from typing import Any

import psycopg

NAME = "recipient_log"


@lru_cache(4_096)
def decisions_of(decisions: str) -> list[str | None]:
    """Return the decision of each result as JSON; None for a decision without a rule and without user settings.

    Args:
        decisions: The line of sources.decisions. Those of most records are equal, so they are cached.
    """
    columns = json.loads(decisions)
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return [_stored(row) if row.keys() - {"layer"} else None for row in map(_without_nulls, rows)]


def _without_nulls(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


def _stored(decision: dict[str, Any]) -> str:
    # PostgreSQL's texts cannot contain NUL.
    texts = {name: value.replace("\0", "\ufffd") for name, value in decision.items() if isinstance(value, str)}
    return json.dumps(decision | texts, separators=(",", ":"))


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
