"""The metrics database's tables, and its users."""

from collections.abc import Iterable
from pathlib import Path

import psycopg
from psycopg import sql

from provisioning import SCHEMAS

TABLES = tuple(sorted((SCHEMAS / "tables").glob("*.sql")))
# Whoever is in it signs in with a token instead of a password; RDS makes it.
TOKENS = "rds_iam"

# What the writer's sessions begin with, as schemas/tables/00_session.sql says it and why.
_SESSION = {"timezone": "UTC", "jit": "off"}

# Until the connection ends. Of two who create what does not exist Postgres refuses one, and that while it creates it.
_ALONE = "select pg_advisory_lock(4602678820)"


def apply_sql(database_url: str, files: Iterable[Path]) -> None:
    """Run SQL files, each in a transaction. They are written so that running them again changes nothing.

    Others who provision the database wait.
    """
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(_ALONE)
        for path in files:
            # Without parameters psycopg sends the text as it stands: several statements are one transaction.
            connection.execute(path.read_bytes())


def create_users(database_url: str, *, reader: str, writer: str) -> None:
    """Who reads and who writes the tables that stand, and those that will: both sign in with tokens.

    The writer makes staging tables, too, and its sessions begin with the job's settings. Errors: psycopg.Error, with
    nothing done.
    """
    with psycopg.connect(database_url) as connection:
        connection.execute(_ALONE)
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
