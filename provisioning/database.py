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

# The tables, with their partitions, that belong to the administrator, such as those that apply_sql has created.
_OWN_TABLES = """
SELECT relname FROM pg_class
 WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v')
   AND pg_get_userbyid(relowner) <> %s AND pg_has_role(current_user, relowner, 'USAGE')
"""

# This lock is held until the connection ends. If two sessions create the same object concurrently, PostgreSQL refuses
# one of them, even with IF NOT EXISTS. The metrics job has a lock of its own (spark_metrics.sink.BATCH_LOCK):
# provisioning may have to repair what a batch waits for.
_EXCLUSIVE = "select pg_advisory_lock(4602678821)"


def apply_sql(database_url: str, files: Iterable[Path]) -> None:
    """Run idempotent SQL files, each in a transaction.

    A concurrent run for the same database waits until this one ends.
    """
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(_EXCLUSIVE)
        for path in files:
            # Without parameters, psycopg sends the text as one simple query, whose statements are one transaction.
            connection.execute(path.read_bytes())


def create_users(database_url: str, *, owner: str, reader: str, writer: str) -> None:
    """Create the two users of the metrics database, and the role that owns its tables. The users' privileges cover
    present and future tables, and both sign in with IAM tokens.

    The writer adds and drops partitions, for which PostgreSQL requires the owner of the table. So its sessions act as
    the role `owner`, and the administrator is a member of it, too. The administrator is no member of the writer: RDS
    would then refuse its password, because the writer is a member of rds_iam (RDS user guide, "Database
    authentication with Amazon RDS").

    Args:
        database_url: The URL of the database, with an administrator's credentials.
        owner: The name of the role that owns the tables; nobody signs in with it.
        reader: The name of the user that may read the tables.
        writer: The name of the user that acts as `owner`; its sessions begin with the settings of the metrics job.

    Raises:
        psycopg.Error: The transaction failed and changed nothing.
    """
    with psycopg.connect(database_url) as connection:
        connection.execute(_EXCLUSIVE)
        known = {name for (name,) in connection.execute("SELECT rolname FROM pg_roles")}
        for name, kind in ((owner, "NOLOGIN"), (reader, "LOGIN"), (writer, "LOGIN")):
            if name not in known:
                connection.execute(sql.SQL("CREATE ROLE {} {}").format(sql.Identifier(name), sql.SQL(kind)))
        for name in (reader, writer):
            connection.execute(sql.SQL("GRANT {} TO {}").format(sql.Identifier(TOKENS), sql.Identifier(name)))
        names = {"owner": sql.Identifier(owner), "reader": sql.Identifier(reader), "writer": sql.Identifier(writer)}
        for text in (
            "GRANT {owner} TO CURRENT_USER",
            "GRANT {owner} TO {writer}",
            "GRANT USAGE, CREATE ON SCHEMA public, recompute TO {owner}",
            "GRANT USAGE ON SCHEMA public TO {reader}",
        ):
            connection.execute(sql.SQL(text).format(**names))
        for table in connection.execute(_OWN_TABLES, [owner]).fetchall():
            statement = sql.SQL("ALTER TABLE {} OWNER TO {owner}").format(sql.Identifier("public", *table), **names)
            connection.execute(statement)
        for text in (
            "GRANT SELECT ON ALL TABLES IN SCHEMA public TO {reader}",
            # Default privileges belong to the role that creates the table.
            "ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO {reader}",
            "ALTER DEFAULT PRIVILEGES FOR ROLE {owner} IN SCHEMA public GRANT SELECT ON TABLES TO {reader}",
            "ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT ALL ON TABLES TO {owner}",
        ):
            connection.execute(sql.SQL(text).format(**names))
        here = sql.Identifier(connection.info.dbname)
        for setting, value in (_SESSION | {"role": owner}).items():
            connection.execute(
                sql.SQL("ALTER ROLE {} IN DATABASE {} SET {} = {}").format(
                    sql.Identifier(writer), here, sql.Identifier(setting), sql.Literal(value)
                )
            )
