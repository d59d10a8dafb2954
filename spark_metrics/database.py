"""Connects the job, recompute and retention to the metrics database."""

from typing import Any

import psycopg

from masscomm.aws.authentication import address_now
from masscomm.errors import Retry, Stop

# The key of the stream's rows in stream_status and stream_watermark.
STREAM = "metrics"
_CONNECT_TIMEOUT_S = 5


def connect(database_url: str, application_name: str) -> psycopg.Connection[Any]:
    """Return a connection in autocommit mode whose session has the time zone UTC.

    The session's settings belong to the database role (schemas/tables/00_session.sql, provisioning.database), because
    RDS Proxy rejects start-up options.

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
