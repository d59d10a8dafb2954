"""The metrics in Postgres (schemas/tables)."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import psycopg
from psycopg import IsolationLevel, sql
from psycopg_pool import ConnectionPool

from functions.metrics_handler.metrics_store import (
    ChannelTotals,
    Count,
    Counts,
    Dimension,
    Granularity,
    MetricsQuery,
    SendTotals,
)
from masscomm.errors import Retry

_TABLES = {
    Granularity.MINUTE: sql.Identifier("counts_minute"),
    Granularity.HOUR: sql.Identifier("counts_hour"),
    Granularity.DAY: sql.Identifier("counts_day"),
}
_CONNECT_TIMEOUT_S = 3
_RECONNECT_S = 1
_STATEMENT_TIMEOUT_MS = 10_000

type _Connection = psycopg.Connection[tuple[Any, ...]]


def connection_pool(database_url: str) -> ConnectionPool[_Connection]:
    """A pool for one Lambda environment: it serves one request at a time, so it holds one connection.

    Nothing connects before the first request, and one that died while the environment slept is replaced when it is
    asked for. In AWS an RDS Proxy stands behind the URL.
    """
    return ConnectionPool(
        database_url,
        min_size=0,
        max_size=1,
        timeout=_CONNECT_TIMEOUT_S,
        # Retries in the background back off, for minutes by default, while the environment is asleep or the database is
        # long back; instead each request tries anew.
        reconnect_timeout=_RECONNECT_S,
        check=ConnectionPool.check_connection,
        configure=_configure,
        kwargs={
            "connect_timeout": _CONNECT_TIMEOUT_S,
            "application_name": "metrics_handler",
            "options": f"-c timezone=UTC -c statement_timeout={_STATEMENT_TIMEOUT_MS}",
        },
        open=True,
    )


def _configure(connection: _Connection) -> None:
    connection.read_only = True
    # The watermark and the counts it speaks of come from one state.
    connection.isolation_level = IsolationLevel.REPEATABLE_READ


class PostgresMetricsStore:
    """The port metrics_store.MetricsStore over a pool."""

    def __init__(self, pool: ConnectionPool[_Connection]) -> None:
        self._pool = pool

    def close(self) -> None:
        """Give the connections back."""
        self._pool.close()

    def counts(self, query: MetricsQuery) -> Counts:
        with self._connection() as connection:
            rows = connection.execute(*_counts_statement(query)).fetchall()
            watermark = _watermark(connection)
        counts = [Count(bucket, tuple(values), int(total)) for bucket, *values, total in rows]
        return Counts(counts[: query.limit], len(counts) > query.limit, watermark)

    def send(self, send_id: str) -> SendTotals | None:
        if "\0" in send_id:
            return None  # Postgres takes none in a text, so no send is called that
        with self._connection() as connection:
            send = connection.execute(
                "select club_id, type, requested_at, chunk_count, chunks from sends where send_id = %s", [send_id]
            ).fetchone()
            if send is None:
                return None
            channels: dict[str, ChannelTotals] = {}
            for channel, requested, duplicates, queued in connection.execute(
                "select channel, requested, duplicates, queued from send_channels where send_id = %s order by channel",
                [send_id],
            ):
                channels[channel] = ChannelTotals(requested, duplicates, queued)
            for channel, status, reason, count in connection.execute(
                "select channel, status, reason, count_total from send_totals where send_id = %s order by 1, 2, 3",
                [send_id],
            ):
                channels.setdefault(channel, ChannelTotals()).by_status.setdefault(status, {})[reason] = count
            watermark = _watermark(connection)
        club_id, category, requested_at, chunk_count, chunks = send
        return SendTotals(
            send_id=send_id,
            club_id=club_id,
            type=category,
            requested_at=requested_at,
            chunk_count=chunk_count,
            chunks=chunks,
            channels=channels,
            watermark=watermark,
        )

    @contextmanager
    def _connection(self) -> Iterator[_Connection]:
        try:
            with self._pool.connection() as connection:
                yield connection
        except psycopg.OperationalError as error:  # the pool's own time-out is one too
            raise Retry(f"the metrics database does not answer: {type(error).__name__}") from error
        except psycopg.errors.UndefinedTable as error:
            raise Retry("the metrics database has no tables yet") from error


def _watermark(connection: _Connection) -> datetime | None:
    row = connection.execute("select watermark from stream_watermark where stream = 'metrics'").fetchone()
    return row[0] if row else None


def _counts_statement(query: MetricsQuery) -> tuple[sql.Composed, dict[str, Any]]:
    """The statement and its parameters: identifiers come from the enumerations, every value is a parameter."""
    conditions: list[sql.Composable] = [sql.SQL("bucket >= %(start)s and bucket < %(end)s")]
    # One more than asked for tells whether there is more.
    parameters: dict[str, Any] = {"start": query.start, "end": query.end, "limit": query.limit + 1}
    for dimension in Dimension:
        wanted = getattr(query, dimension)
        if wanted:
            conditions.append(sql.SQL("{} = any(%({})s)").format(sql.Identifier(dimension), sql.SQL(dimension)))
            parameters[dimension] = list(wanted)
    key = sql.SQL(", ").join(sql.Identifier(name) for name in ("bucket", *query.dimensions))
    statement = sql.SQL(
        "select {key}, sum(count_total) from {table} where {conditions} group by {key} order by {key} limit %(limit)s"
    ).format(key=key, table=_TABLES[query.granularity], conditions=sql.SQL(" and ").join(conditions))
    return statement, parameters
