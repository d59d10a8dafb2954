"""Deletes old rows: `python -m spark_metrics.retention [--recipient-log-days 30] [--minutes-days 92] …`.

The command drops old days of the log of recipients (by the time of counting), old months and years of the counts and of
refused positions, and deletes old sends as a whole, old buckets of views with a retention, and old quarantined
positions. It records the deleted span in stream_views and stream_retention, so that recompute and the API do not take
deleted rows for rows that were never counted. masscomm/domain/time_limits.py has the defaults; --help lists them. The
archive has its own retention (spark_metrics.maintenance). Run the command once a day. It may run concurrently with the
stream and may be interrupted; the next run continues.

A send to at most 100 users is deleted earlier than others: a month after its last change, once all of its notifications
have ended. Its sums stay in the counts.

METRICS_DATABASE_URL and SPARK_VIEWS are those of the job. The status is 0 after success, and 2 if the database is down
or a lock timed out.
"""

import argparse
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from psycopg import sql

from masscomm.domain.grains import REASONS_TABLE, Grain
from masscomm.domain.time_limits import QUARANTINE_KEPT_DAYS, SENDS_KEPT_DAYS, SMALL_SENDS_KEPT_DAYS
from masscomm.errors import Stop
from masscomm.integers import integer
from masscomm.observability import metrics
from masscomm.observability.metric_names import METRICS_DISK_DAYS
from spark_metrics.common.command import exit_status
from spark_metrics.common.database import STREAM, connect
from spark_metrics.common.settings import view_names
from spark_metrics.counting import webhook_results
from spark_metrics.counting.partitions import LOG, TABLES, drop_before, keep_since
from spark_metrics.counting.problems import Problem
from spark_metrics.counting.served import SMALL_SENDS, ended_small_sends
from spark_metrics.counting.views import View, load_views
from spark_metrics.sql import read_sql

_log = logging.getLogger("spark_metrics.retention")

# Dropping a day's table waits for its readers, and new readers wait until the table is dropped or this time is over.
_LOCK_TIMEOUT = b"set lock_timeout = '10s'"
_MOST_DAYS = 3_650.0
# The number of sends that one transaction deletes.
_SLICE = 1_000
# Option without -days → the tables that have this retention.
_PARTITIONED = {
    "recipient_log": (LOG,),
    "minutes": (TABLES[Grain.MINUTE.table],),
    "hours": tuple(
        TABLES[name] for name in (Grain.HOUR.table, Grain.HOUR.webhook_table, Grain.HOUR.latency_table, REASONS_TABLE)
    ),
    "days": (TABLES[Grain.DAY.table], TABLES[Grain.DAY.webhook_table]),
    "revised": (TABLES["revised_minutes"],),
    "redelivered": (TABLES["redelivered"],),
    "send_changes": (TABLES["send_changes"],),
    "latency_minutes": (TABLES[Grain.MINUTE.latency_table],),
    "webhook_minutes": (TABLES[Grain.MINUTE.webhook_table],),
    "webhook_log": (TABLES[webhook_results.LOG],),
}
# Option without -days → the rows that it keeps, and the default number of days.
_OPTIONS = {
    name.replace("_", "-"): (" and ".join(table.table for table in tables), tables[0].keep_days)
    for name, tables in _PARTITIONED.items()
} | {
    "quarantine": ("quarantined positions", QUARANTINE_KEPT_DAYS),
    "sends": ("sends", SENDS_KEPT_DAYS),
    "small-sends": ("small sends that have ended", SMALL_SENDS_KEPT_DAYS),
}


def delete_buckets(connection: psycopg.Connection[Any], view: View, now: datetime) -> int:
    """Delete a view's buckets that are older than its retention, in whole days (UTC). Return the number of rows."""
    if view.keep is None:
        return 0
    before = (now - view.keep).astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    with connection.transaction():
        keep_since(connection, view.table, before)
        statement = sql.SQL("delete from {table} where bucket < %s").format(table=sql.Identifier(view.table))
        return connection.execute(statement, [before]).rowcount


def delete_quarantined(connection: psycopg.Connection[Any], days: int) -> int:
    """Delete positions that were quarantined more than `days` days ago, and return their number.

    Those whose records the archive may have decoded are kept, because recompute leaves these records out.
    """
    kept = [
        Problem.UNSTORABLE,
        Problem.UNKNOWN_SCHEMA,
        Problem.LATE_SCHEMA,
    ]  # guard: retention.archived_without_a_problem
    return connection.execute(
        "delete from quarantine where quarantined_at < now() - make_interval(days => %s) and reason <> all(%s)",
        [days, kept],
    ).rowcount


def delete_sends(connection: psycopg.Connection[Any], before: datetime) -> int:
    """Delete the sends whose first record was counted before a time, with their totals and states, and return their
    number.

    A send has rows in four tables, which are deleted in one transaction; a transaction deletes a slice of sends. The
    stream merges no lane meanwhile: a record of a send that is half deleted would be added to the other half.
    """
    deleted = 0
    with connection.cursor("old_sends", withhold=True) as old:
        old.execute("select send_id from sends where counted_at < %s", [before])
        while some := [send_id for (send_id,) in old.fetchmany(_SLICE)]:
            with connection.transaction():
                connection.execute("select from stream_status for update")  # guard: retention.between_lanes
                for name in ("send_states", "send_totals", "send_channels", "sends"):
                    statement = sql.SQL("delete from {} where send_id = any(%s)").format(sql.Identifier(name))
                    connection.execute(statement, [some])
                keep_since(connection, "sends", before)
            deleted += len(some)
    return deleted


def delete_small_sends(connection: psycopg.Connection[Any], before: datetime) -> int:
    """Delete the small sends that have ended and that no record has changed since a time, with their totals and states,
    and return their number.

    No lane waits but one that changes a send of the slice, and such a send stays: lanes lock the row of a send first.
    """
    deleted = 0
    with connection.cursor("small_sends", withhold=True) as old:
        old.execute(ended_small_sends(sql.Literal(before).as_string()))
        while some := [send_id for (send_id,) in old.fetchmany(_SLICE)]:
            with connection.transaction():
                names = {"send_ids": some, "before": before}  # guard: retention.changed_small_sends
                [(number,)] = connection.execute(read_sql("delete_small_sends"), names).fetchall()
                keep_since(connection, SMALL_SENDS, before)
            deleted += number
    return deleted


def disk_days(connection: psycopg.Connection[Any], volume_bytes: float) -> float | None:
    """Return the days until the database fills a volume, if it grows as since the last call; at most _MOST_DAYS. None
    if no size is known that is at least an hour old.
    """
    row = connection.execute(read_sql("database_size"), {"stream": STREAM}).fetchone()
    if row is None:
        return None
    before, size, elapsed_days = row[0], int(row[1]), float(row[2] or 0)
    if before is None or elapsed_days < 1 / 24:
        return None
    if size <= before:
        return _MOST_DAYS
    return min(_MOST_DAYS, max(0.0, volume_bytes - size) / (size - int(before)) * elapsed_days)


def main(arguments: Sequence[str] | None = None, environ: Mapping[str, str] = os.environ) -> int:
    """Run the command, and return the exit status of the process."""
    parser = argparse.ArgumentParser(prog="spark_metrics.retention", description="Delete what is old enough.")
    for name, (what, days) in _OPTIONS.items():
        text = f"whole days to keep {what}, in addition to today; %(default)s"
        parser.add_argument(f"--{name}-days", type=_days, default=days, help=text)
    text = "the largest volume of the database in GiB; without it, no days until it is full are emitted"
    parser.add_argument("--volume-gib", type=_days, help=text)
    chosen = {name.removesuffix("_days"): days for name, days in vars(parser.parse_args(arguments)).items()}

    def work() -> int:
        url = environ.get("METRICS_DATABASE_URL")
        if not url:
            raise Stop("METRICS_DATABASE_URL is not set")
        views = load_views(view_names(environ.get("SPARK_VIEWS", "")))
        with connect(url, "spark_metrics retention") as connection:
            connection.execute(_LOCK_TIMEOUT)
            now = datetime.now(UTC)
            for name, tables in _PARTITIONED.items():
                for table in tables:
                    dropped = drop_before(connection, table, now - timedelta(days=chosen[name]))
                    names = ", ".join(dropped) or "none"
                    _log.info("dropped %d partitions of %s: %s", len(dropped), table.table, names)
            sends = delete_sends(connection, now - timedelta(days=chosen["sends"]))
            small = delete_small_sends(connection, now - timedelta(days=chosen["small_sends"]))
            _log.info("deleted %d sends and %d small ones", sends, small)
            for view in views:
                _log.info("deleted %d rows of %s", delete_buckets(connection, view, now), view.table)
            _log.info("deleted %d quarantined positions", delete_quarantined(connection, chosen["quarantine"]))
            volume = chosen["volume_gib"]
            if volume is not None and (left := disk_days(connection, volume * 2**30)) is not None:
                metrics.add(METRICS_DISK_DAYS, round(left, 1))
        return 0

    return exit_status(work, daily_run="retention")


def _days(text: str) -> int:
    try:
        return integer(text, lowest=1)
    except ValueError as error:
        raise argparse.ArgumentTypeError("must be a whole number above 0") from error


if __name__ == "__main__":
    sys.exit(main())
