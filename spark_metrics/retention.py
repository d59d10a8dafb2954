"""Deletes old rows: `python -m spark_metrics.retention [--recipient-log-days 30] [--minutes-days 92] …`.

The command drops old days of the log of recipients (by the time of counting), old months and years of the counts and of
refused positions, and deletes old sends as a whole, old buckets of views with a retention, and old quarantined
positions. It records the deleted span in stream_views and stream_retention, so that recompute and the API do not take
deleted rows for rows that were never counted. masscomm/domain/time_limits.py has the defaults; --help lists them. The
archive has its own retention (spark_metrics.maintenance). Run the command once a day. It may run concurrently with the
stream and may be interrupted; the next run continues.

METRICS_DATABASE_URL and SPARK_VIEWS are those of the job. The status is 0 after success, and 2 if the database is down
or a lock timed out.
"""

import argparse
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import psycopg
from psycopg import sql

from masscomm.domain.grains import Grain
from masscomm.domain.time_limits import QUARANTINE_KEPT_DAYS, SENDS_KEPT_DAYS
from masscomm.errors import Stop
from masscomm.observability import metrics
from masscomm.observability.metric_names import DAILY_RUNS
from spark_metrics import recipient_log
from spark_metrics.command import configure_logging, exit_status
from spark_metrics.database import connect
from spark_metrics.partitions import LOG, TABLES, drop_before, keep_since
from spark_metrics.problems import Problem
from spark_metrics.settings import view_names
from spark_metrics.views import View, load_views

_log = logging.getLogger("spark_metrics.retention")

# Dropping a day's table waits for its readers, and new readers wait until the table is dropped or this time is over.
_LOCK_TIMEOUT = b"set lock_timeout = '10s'"
# The number of sends that one transaction deletes.
_SLICE = 1_000
# The options with the days to keep of partitioned tables.
_OPTIONS = {
    "--minutes-days": Grain.MINUTE.table,
    "--hours-days": Grain.HOUR.table,
    "--days-days": Grain.DAY.table,
    "--revised-days": "revised_minutes",
    "--redelivered-days": "redelivered",
}


def drop_recipients(connection: psycopg.Connection[Any], before: date) -> list[date]:
    """Drop the tables of the days (UTC) before `before`, and return these days. The connection must be in autocommit
    mode.
    """
    connection.execute(
        "update stream_views set kept_since = greatest(kept_since, %s) where view = %s",
        [datetime(before.year, before.month, before.day, tzinfo=UTC), recipient_log.NAME],
    )
    dropped = []
    for day, attached, pending in recipient_log.tables(connection):
        if day >= before:
            continue
        names = {"day": sql.Identifier(recipient_log.table_of(day))}
        # The table is detached before it is dropped, so that readers of other days never wait. A run that was
        # interrupted while it detached a table is completed here.
        if pending:
            connection.execute(sql.SQL("alter table recipient_log detach partition {day} finalize").format(**names))
        elif attached:
            connection.execute(sql.SQL("alter table recipient_log detach partition {day} concurrently").format(**names))
        connection.execute(sql.SQL("drop table {day}").format(**names))
        dropped.append(day)
    return dropped


def delete_buckets(connection: psycopg.Connection[Any], view: View, now: datetime) -> int:
    """Delete a view's buckets that are older than its retention, in whole days (UTC). Return the number of rows."""
    if view.keep is None:
        return 0
    before = (now - view.keep).astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    with connection.transaction():
        connection.execute(
            "update stream_views set kept_since = greatest(kept_since, %s) where view = %s", [before, view.table]
        )
        statement = sql.SQL("delete from {table} where bucket < %s").format(table=sql.Identifier(view.table))
        return connection.execute(statement, [before]).rowcount


def delete_quarantined(connection: psycopg.Connection[Any], days: int) -> int:
    """Delete positions that were quarantined more than `days` days ago, and return their number.

    Those whose records the archive may have decoded are kept, because recompute leaves these records out.
    """
    return connection.execute(
        "delete from quarantine where quarantined_at < now() - make_interval(days => %s) and reason <> all(%s)",
        [days, [Problem.UNSTORABLE, Problem.UNKNOWN_SCHEMA]],
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


def main(arguments: Sequence[str] | None = None, environ: Mapping[str, str] = os.environ) -> int:
    """Run the command, and return the exit status of the process."""
    parser = argparse.ArgumentParser(prog="spark_metrics.retention", description="Delete what is old enough.")
    parser.add_argument(
        "--recipient-log-days",
        type=_days,
        default=LOG.keep_days,
        help="whole days to keep in addition to today; %(default)s",
    )
    parser.add_argument("--quarantine-days", type=_days, default=QUARANTINE_KEPT_DAYS, help="days to keep; %(default)s")
    for option, table in _OPTIONS.items():
        parser.add_argument(
            option, type=_days, default=TABLES[table].keep_days, help=f"days to keep {table}; %(default)s"
        )
    parser.add_argument("--sends-days", type=_days, default=SENDS_KEPT_DAYS, help="days to keep sends; %(default)s")
    chosen = parser.parse_args(arguments)
    configure_logging()

    def work() -> int:
        url = environ.get("METRICS_DATABASE_URL")
        if not url:
            raise Stop("METRICS_DATABASE_URL is not set")
        views = load_views(view_names(environ.get("SPARK_VIEWS", "")))
        with connect(url, "spark_metrics retention") as connection:
            connection.execute(_LOCK_TIMEOUT)
            now = datetime.now(UTC)
            days = drop_recipients(connection, now.date() - timedelta(days=chosen.recipient_log_days))
            _log.info("dropped %d days of the log of recipients: %s", len(days), ", ".join(map(str, days)) or "none")
            for option, name in _OPTIONS.items():
                keep = timedelta(days=getattr(chosen, option.removeprefix("--").replace("-", "_")))
                dropped = drop_before(connection, TABLES[name], (now - keep).date())
                _log.info("dropped %d partitions of %s: %s", len(dropped), name, ", ".join(dropped) or "none")
            sends = delete_sends(connection, now - timedelta(days=chosen.sends_days))
            _log.info("deleted %d sends", sends)
            for view in views:
                _log.info("deleted %d rows of %s", delete_buckets(connection, view, now), view.table)
            _log.info("deleted %d quarantined positions", delete_quarantined(connection, chosen.quarantine_days))
        metrics.add(DAILY_RUNS["retention"])
        metrics.write("spark_metrics")
        return 0

    return exit_status(work)


def _days(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError("must be a whole number above 0")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
