"""The tables of the schema `recompute`, into which the lanes of a recompute merge.

They have the names and columns of the served tables and of those that guard the stream's lanes, so a recompute merges
by the same task and statements as the stream (spark_metrics.lane_merge). Only one recompute runs at a time.
"""

from collections.abc import Iterable
from typing import Any

import psycopg
from psycopg import sql

from spark_metrics import recipient_log
from spark_metrics.database import STREAM, lock
from spark_metrics.sql import read_sql

SCHEMA = "recompute"
# The key of the advisory lock that a recompute holds until its connection is closed.
_LOCK = 4_602_678_821
# The tables that guard a lane. No batch is merged in some lanes only, and no minute is complete: most stay empty.
_GUARDS = ("stream_status", "stream_offsets", "stream_watermark", "lane_offsets", "quarantine", "revised_minutes")


class RecomputedTables:
    """Creates and drops the tables, and begins the parts of a recompute."""

    def __init__(self, connection: psycopg.Connection[Any], names: Iterable[str], *, wait_s: float = 10) -> None:
        """Create the tables, instead of those that a killed run has left.

        Args:
            wait_s: How long to wait for the end of another recompute.

        Raises:
            Retry: Another recompute runs.
        """
        self._connection = connection
        held = "another recompute runs on this database: wait for its end"
        lock(connection, _LOCK, wait_s=wait_s, held=held)  # guard: recompute.one_at_a_time
        self.close()
        for name in (*_GUARDS, *names):
            # No index of the log would be used.
            indexes = "" if name == recipient_log.NAME else " including all"
            table = sql.Identifier(name).as_string()
            connection.execute(read_sql("create_recomputed", schema=SCHEMA, table=table, indexes=indexes))

    def begin_part(self) -> int:
        """Return the epoch of the next part. The lanes of this part have merged nothing, and a task of an earlier part
        that runs once more merges nothing.
        """
        with self._connection.transaction():
            # This waits for the tasks that are merging.
            # guard: recompute.earlier_part
            self._connection.execute("truncate recompute.stream_status, recompute.lane_offsets")
            row = self._connection.execute(_BEGIN, [STREAM]).fetchone()
        assert row is not None  # noqa: S101 - the statement returns one row
        return int(row[0])

    def close(self) -> None:
        """Drop all tables of the schema: the log has user ids."""
        if self._connection.closed:
            return
        for (name,) in self._connection.execute(read_sql("recomputed_tables", schema=SCHEMA)).fetchall():
            self._connection.execute(sql.SQL("drop table {}").format(sql.Identifier(SCHEMA, name)))


# The id of a transaction: no other part, of any run, has the same epoch.
_BEGIN = """
insert into recompute.stream_status (stream, epoch) values (%s, pg_current_xact_id()::text::bigint) returning epoch
"""
