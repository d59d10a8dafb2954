"""A metrics database for one test, with the empty tables of schemas/tables."""

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import psycopg
from psycopg import sql

from devstack.config import StackConfig
from devstack.provision import SCHEMAS, apply_sql


@contextmanager
def metrics_database(config: StackConfig) -> Iterator[str]:
    """The URL of a new database, which is dropped at the end."""
    name = f"metrics_{uuid4().hex}"
    with psycopg.connect(config.database_url("postgres"), autocommit=True) as connection:
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
    try:
        apply_sql(config.database_url(name), sorted((SCHEMAS / "tables").glob("*.sql")))
        yield config.database_url(name)
    finally:
        with psycopg.connect(config.database_url("postgres"), autocommit=True) as connection:
            connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))
