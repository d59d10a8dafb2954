"""The connection pool of the metrics database, for functions that read it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import psycopg
from psycopg import IsolationLevel
from psycopg.abc import PQGen
from psycopg.errors import _WaitTimeout
from psycopg_pool import ConnectionPool

from masscomm.domain.time_limits import METRICS_ANSWER_S, METRICS_CONNECT_S, METRICS_RECONNECT_S, METRICS_STATEMENT_S
from masscomm.errors import Retry

_LIMIT_TIME = f"set local statement_timeout = '{METRICS_STATEMENT_S}s'".encode()


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that is closed if the server does not answer: a server that hangs does not keep its own limits, and
    neither closes the connection.
    """

    answer_s: float = METRICS_ANSWER_S

    def wait[Result](self, gen: PQGen[Result], interval: float = 0.1, timeout: float | None = None) -> Result:
        """Wait for an answer as psycopg does, for at most `answer_s`. Raises OperationalError."""
        try:
            # guard: metrics.hanging_database
            return super().wait(gen, interval, self.answer_s if timeout is None else timeout)
        except _WaitTimeout:
            # A rollback would wait again.
            self.pgconn.finish()
            raise


type Pool = ConnectionPool[Connection]


def connection_pool(
    database_url: str | Callable[[], str], function: str = "masscomm", *, wait_s: float = METRICS_CONNECT_S
) -> Pool:
    """Return a connection pool for one Lambda environment. It holds one connection, because the environment serves
    one request at a time.

    The pool connects at the first request. A connection that was lost while the environment was frozen is replaced at
    its next use. A request waits `wait_s` for a connection, and once more for a server that hangs to confirm one.
    """
    return ConnectionPool(
        database_url,
        connection_class=Connection,
        min_size=0,
        max_size=1,
        timeout=wait_s,
        # By default, failed reconnections are repeated in the background with delays of up to minutes, while the
        # environment is frozen or even after the database has recovered. With a short time-out, each request connects
        # again instead.
        reconnect_timeout=METRICS_RECONNECT_S,
        check=partial(_check, wait_s=wait_s),
        configure=_configure,
        kwargs={"connect_timeout": METRICS_CONNECT_S, "application_name": function},
        open=True,
    )


def _check(connection: Connection, *, wait_s: float) -> None:
    """Check that a connection is open. Raises psycopg.OperationalError."""
    connection.answer_s = wait_s
    ConnectionPool.check_connection(connection)
    connection.answer_s = METRICS_ANSWER_S


def _configure(connection: Connection) -> None:
    connection.read_only = True
    # The watermark and its counts must be read from one consistent state.
    connection.isolation_level = IsolationLevel.REPEATABLE_READ
    # Each statement is prepared at its first use: there are few statements, and each one is repeated on the connection.
    connection.prepare_threshold = 0


@contextmanager
def connected(pool: Pool) -> Iterator[Connection]:
    """Yield a connection in a transaction. Raises Retry if the database is down or slow, or has no tables yet."""
    try:
        with pool.connection() as connection:
            connection.execute(_LIMIT_TIME)
            yield connection
    except psycopg.errors.QueryCanceled as error:
        raise Retry(f"the query took longer than {METRICS_STATEMENT_S} s: request less data, or try later") from error
    except psycopg.OperationalError as error:  # psycopg_pool.PoolTimeout is a subclass.
        raise Retry(f"the metrics database does not answer: {type(error).__name__}") from error
    except psycopg.errors.UndefinedTable as error:
        raise Retry("the metrics database has no tables yet") from error
