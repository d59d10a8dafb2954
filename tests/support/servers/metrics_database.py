"""A metrics database for one test, with the empty tables of schemas/tables."""

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import psycopg
from psycopg import sql

from local.devstack.config import StackConfig
from local.devstack.provision import SCHEMAS, apply_sql
from tests.support.until import until


@contextmanager
def metrics_database(config: StackConfig, template: str = "") -> Iterator[str]:
    """The URL of a new database, which is dropped at the end.

    Args:
        template: The URL of a database of which it is a copy; no client may be connected to that.
    """
    name = f"metrics_{uuid4().hex}"
    with psycopg.connect(config.database_url("postgres"), autocommit=True) as connection:
        copied = sql.Identifier(template.rpartition("/")[2] or "template1")
        connection.execute(sql.SQL("create database {} template {}").format(sql.Identifier(name), copied))
    try:
        apply_sql(config.database_url(name), sorted((SCHEMAS / "tables").glob("*.sql")))
        yield config.database_url(name)
    finally:
        with psycopg.connect(config.database_url("postgres"), autocommit=True) as connection:
            connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


def await_earlier_transactions(url: str) -> None:
    """Wait until every transaction that runs now has ended, in all databases of the server. A reader of changed counts
    waits for them, too.

    Args:
        url: The URL of any of its databases.
    """
    with psycopg.connect(url, autocommit=True) as connection:
        now = connection.execute("select pg_current_xact_id()").fetchone()
        assert now is not None

        def ended() -> bool:
            is_later = "select pg_snapshot_xmin(pg_current_snapshot()) > %s::text::xid8"
            return connection.execute(is_later, [str(now[0])]).fetchone() == (True,)

        until("the earlier transactions have ended", ended)
