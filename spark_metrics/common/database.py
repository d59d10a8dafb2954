"""Connects the job, recompute and retention to the metrics database, and recognizes permanent errors."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from masscomm.aws.authentication import address_now
from masscomm.errors import Retry, Stop

# The key of the stream's rows in stream_status and stream_watermark.
STREAM = "metrics"
_CONNECT_TIMEOUT_S = 5
# Permanent errors: SQLSTATE classes 22 (data), 23 (constraints) and 54 (limits). Source: PostgreSQL's
# documentation, appendix "PostgreSQL Error Codes".
_PERMANENT = (psycopg.DataError, psycopg.IntegrityError, psycopg.errors.ProgramLimitExceeded)


def connect(database_url: str, application_name: str) -> psycopg.Connection[Any]:
    """Return a connection in autocommit mode whose session has the time zone UTC.

    The session's settings belong to the database role (schemas/tables/00_session.sql, ops.provisioning.database),
    because RDS Proxy rejects start-up options.

    Raises:
        psycopg.OperationalError: The server is down.
        Stop: The role lacks its settings.
    """
    connection = psycopg.connect(
        address_now(database_url),
        autocommit=True,
        connect_timeout=_CONNECT_TIMEOUT_S,
        application_name=application_name,
    )
    zone = connection.info.parameter_status("TimeZone")
    if zone != "UTC":
        user = connection.info.user
        connection.close()
        raise Stop(f"The metrics database has the time zone {zone} for {user}, not UTC. Provision it again.")
    return connection


def lock(connection: psycopg.Connection[Any], key: int, *, wait_s: float, held: str) -> None:
    """Take an advisory lock for the session of the connection. Raises Retry with the text `held` after wait_s."""
    connection.execute("select set_config('lock_timeout', %s, false)", [f"{round(wait_s * 1000)}ms"])
    try:
        connection.execute("select pg_advisory_lock(%s)", [key])
    except psycopg.errors.LockNotAvailable as error:
        raise Retry(held) from error
    finally:
        connection.execute("select set_config('lock_timeout', '0', false)")


def is_permanent(error: Exception) -> bool:
    """Return whether Postgres rejects the rows, however often it gets them."""
    return isinstance(error, _PERMANENT)


@contextmanager
def postgres_errors() -> Iterator[None]:
    """Raise psycopg's OperationalError, or Stop for a wrong installation, instead of Spark's errors that quote an error
    of Postgres. Executors return the errors of rows (is_permanent) as results.
    """
    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        quoted = _QUOTED.search(str(error))
        if quoted is None:
            raise
        text = f"Postgres cannot merge a lane: {first_line(quoted[0])}"
        kind: type[Exception] = getattr(psycopg.errors, quoted[1], psycopg.Error)
        if issubclass(kind, (psycopg.OperationalError, psycopg.InterfaceError)):
            raise psycopg.OperationalError(text) from error
        raise Stop(text) from error


_QUOTED = re.compile(r"psycopg\.(?:errors\.)?(\w+): .*")


def first_line(error: object) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]
