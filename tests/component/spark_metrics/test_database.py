"""Session settings of the job's connections on a real server."""

from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from local.devstack.config import StackConfig
from masscomm.errors import Stop
from ops.provisioning.database import TABLES, apply_sql
from spark_metrics.common.database import connect


@pytest.fixture
def elsewhere(postgres: StackConfig) -> Iterator[str]:
    """An empty database of a server in another time zone than UTC."""
    name = f"elsewhere_{uuid4().hex[:12]}"
    with psycopg.connect(postgres.database_url("postgres"), autocommit=True) as server:
        server.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        server.execute(sql.SQL("alter database {} set timezone = 'Asia/Kolkata'").format(sql.Identifier(name)))
        try:
            yield postgres.database_url(name)
        finally:
            server.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


def test_sessions_begin_with_the_parameters_of_their_role(elsewhere: str) -> None:
    apply_sql(elsewhere, TABLES)
    with connect(elsewhere, "a test") as connection:
        assert connection.execute("show timezone").fetchone() == ("UTC",)
        assert connection.execute("show jit").fetchone() == ("off",)


def test_a_database_that_is_not_provisioned_stops_the_job(elsewhere: str) -> None:
    """In a database with another time zone, days of that zone would be counted as days of UTC."""
    with pytest.raises(Stop, match="Asia/Kolkata"):
        connect(elsewhere, "a test")
