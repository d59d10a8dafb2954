"""A metrics database of a test's own, with the tables of schemas/tables and nothing in them."""

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import psycopg
from psycopg import sql

from devstack.provision import SCHEMAS, apply_sql
from devstack.settings import StackSettings


@contextmanager
def metrics_database(settings: StackSettings) -> Iterator[str]:
    """The URL of a new database, which is dropped at the end."""
    name = f"metrics_{uuid4().hex}"
    with psycopg.connect(settings.database_url("postgres"), autocommit=True) as connection:
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
    try:
        apply_sql(settings.database_url(name), sorted((SCHEMAS / "tables").glob("*.sql")))
        yield settings.database_url(name)
    finally:
        with psycopg.connect(settings.database_url("postgres"), autocommit=True) as connection:
            connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))
