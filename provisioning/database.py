"""Creates the tables and the users of the metrics database."""

from collections.abc import Iterable
from pathlib import Path

import psycopg
from psycopg import sql

from provisioning import SCHEMAS

TABLES = tuple(sorted((SCHEMAS / "tables").glob("*.sql")))
# A role that RDS defines: its members sign in with an IAM token instead of a password.
TOKENS = "rds_iam"

# Session settings of the user that writes to the metrics database; schemas/tables/00_session.sql has the reasons.
_SESSION = {"timezone": "UTC", "jit": "off"}

# This lock is held until the connection ends. If two sessions create the same object concurrently, PostgreSQL refuses
# one of them, even with IF NOT EXISTS.
_EXCLUSIVE = "select pg_advisory_lock(4602678820)"


def apply_sql(database_url: str, files: Iterable[Path]) -> None:
    """Run idempotent SQL files, each in a transaction.

    A concurrent run for the same database waits until this one ends.
    """
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(_EXCLUSIVE)
        for path in files:
            # Without parameters, psycopg sends the text as one simple query, whose statements are one transaction.
            connection.execute(path.read_bytes())


def create_users(database_url: str, *, reader: str, writer: str) -> None:
    """Create the two users of the metrics database. Their privileges cover present and future tables, and both sign
    in with IAM tokens.

    Args:
        database_url: The URL of the database, with an administrator's credentials.
        reader: The name of the user that may read the tables.
        writer: The name of the user that may also write them and create staging tables; its sessions begin with the
            settings of the metrics job.

    Raises:
        psycopg.Error: The transaction failed and changed nothing.
    """
    with psycopg.connect(database_url) as connection:
        connection.execute(_EXCLUSIVE)
        known = {name for (name,) in connection.execute("SELECT rolname FROM pg_roles")}
        for name in (reader, writer):
            if name not in known:
                connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(name)))
            connection.execute(sql.SQL("GRANT {} TO {}").format(sql.Identifier(TOKENS), sql.Identifier(name)))
        for name, tables, schema in ((reader, "SELECT", "USAGE"), (writer, "ALL", "USAGE, CREATE")):
            user = sql.Identifier(name)
            for text in (
                f"GRANT {schema} ON SCHEMA public TO {{}}",
                f"GRANT {tables} ON ALL TABLES IN SCHEMA public TO {{}}",
                f"ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT {tables} ON TABLES TO {{}}",
                "GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {}",
            ):
                connection.execute(sql.SQL(text).format(user))
        here = sql.Identifier(connection.info.dbname)
        for setting, value in _SESSION.items():
            connection.execute(
                sql.SQL("ALTER ROLE {} IN DATABASE {} SET {} = {}").format(
                    sql.Identifier(writer), here, sql.Identifier(setting), sql.Literal(value)
                )
            )
