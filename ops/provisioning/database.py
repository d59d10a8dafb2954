"""Creates the tables and the users of the metrics database, and the user of the schema registry's database."""

from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ops.provisioning import SCHEMAS

TABLES = tuple(sorted((SCHEMAS / "tables").glob("*.sql")))
# A role that RDS defines: its members sign in with an IAM token instead of a password.
TOKENS = "rds_iam"

# The database of each instance in which another one can be created.
_MAINTENANCE = "postgres"
# Session settings of the user that writes to the metrics database; schemas/tables/00_session.sql has the reasons.
_SESSION = {"timezone": "UTC", "jit": "off"}

# The tables, with their partitions, that belong to the administrator, such as those that apply_sql has created.
_OWN_TABLES = """
SELECT relname FROM pg_class
 WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v')
   AND pg_get_userbyid(relowner) <> %s AND pg_has_role(current_user, relowner, 'USAGE')
"""

_HAS_SETTINGS = """
SELECT FROM pg_db_role_setting s JOIN pg_roles r ON r.oid = s.setrole
 WHERE r.rolname = %s AND s.setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())
   AND array(SELECT lower(setting) FROM unnest(s.setconfig) setting)
       @> array(SELECT lower(setting) FROM unnest(%s::text[]) setting)
"""

# This lock is held until the connection ends. If two sessions create the same object concurrently, PostgreSQL refuses
# one of them, even with IF NOT EXISTS. The metrics job has a lock of its own (spark_metrics.counting.sink.BATCH_LOCK):
# provisioning may have to repair what a batch waits for.
_EXCLUSIVE = "select pg_advisory_lock(4602678821)"

# The files of TABLES that were applied, with the digests of their texts, so that a check finds pending files without a
# lock on a table.
_APPLIED = """
create table if not exists applied_files (
    name       text        primary key,
    digest     text        not null,
    applied_at timestamptz not null
)
"""
_STORE_DIGEST = """
insert into applied_files (name, digest, applied_at) values (%s, %s, now())
on conflict (name) do update set digest = excluded.digest, applied_at = excluded.applied_at
"""

# The metrics job, or another command of spark_metrics, is connected.
_JOB_RUNS = """
select exists (
    select from pg_stat_activity where datname = current_database() and application_name like 'spark_metrics%'
)
"""


def create_database(database_url: str) -> None:
    """Create the database, if its server has none of that name. It requires a role that may create databases."""
    if not _has_database(database_url):
        # CREATE DATABASE permits no transaction.
        with psycopg.connect(make_conninfo(database_url, dbname=_MAINTENANCE), autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(_name_of(database_url))))


def missing_database(database_url: str) -> list[str]:
    """Return a line of text if the server has no database of that name."""
    return [] if _has_database(database_url) else [f"create the database {_name_of(database_url)}"]


def apply_sql(database_url: str, files: Iterable[Path]) -> None:
    """Run idempotent SQL files, each in a transaction.

    A concurrent run for the same database waits until this one ends.
    """
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(_EXCLUSIVE)
        for path in files:
            # Without parameters, psycopg sends the text as one simple query, whose statements are one transaction.
            connection.execute(path.read_bytes())


def apply_tables(database_url: str) -> None:
    """Create or change the tables of the metrics database, and store the digest of each file that was applied.

    A concurrent run for the same database waits until this one ends.
    """
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(_EXCLUSIVE)
        connection.execute(_APPLIED)
        for path in TABLES:
            with connection.transaction():
                # Without parameters, psycopg sends the text as one simple query.
                connection.execute(path.read_bytes())
                connection.execute(_STORE_DIGEST, [path.name, _digest(path)])


def unapplied_tables(database_url: str) -> list[str]:
    """Return a line of text for each file of tables that has changed since it was applied. It takes no lock."""
    with psycopg.connect(database_url) as connection:
        has_digests = connection.execute("select to_regclass('applied_files') is not null").fetchone() == (True,)
        rows = connection.execute("select name, digest from applied_files") if has_digests else ()
        applied: dict[str, str] = dict(rows)
    return [f"apply schemas/tables/{path.name}" for path in TABLES if applied.get(path.name) != _digest(path)]


def outdated_users(database_url: str, *, owner: str, reader: str, writer: str) -> list[str]:
    """Return a line of text for each role of create_users that is missing, for each table that does not belong to the
    owner yet, and if the writer's sessions have other settings.
    """
    settings = [f"{name}={value}" for name, value in (_SESSION | {"role": owner}).items()]
    with psycopg.connect(database_url) as connection:
        known = {name for (name,) in connection.execute("SELECT rolname FROM pg_roles")}
        found = [f"create the role {name}" for name in (owner, reader, writer) if name not in known]
        tables = connection.execute(_OWN_TABLES, [owner]).fetchall()
        if not connection.execute(_HAS_SETTINGS, [writer, settings]).rowcount:
            found.append(f"set the settings of {writer}")
    return found + [f"give the table {table} to {owner}" for (table,) in tables]


def _digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


def create_users(database_url: str, *, owner: str, reader: str, writer: str) -> None:
    """Create the two users of the metrics database, and the role that owns its tables. The users' privileges cover
    present and future tables, and both sign in with IAM tokens.

    The writer adds and drops partitions, for which PostgreSQL requires the owner of the table. So its sessions act as
    the role `owner`, and the administrator is a member of it, too. The administrator is not a member of the writer: RDS
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


def _name_of(database_url: str) -> str:
    return str(conninfo_to_dict(database_url)["dbname"])


def _has_database(database_url: str) -> bool:
    """Return whether the database exists in its instance, which may be that of other databases."""
    with psycopg.connect(make_conninfo(database_url, dbname=_MAINTENANCE)) as connection:
        found = connection.execute("SELECT FROM pg_database WHERE datname = %s", [_name_of(database_url)])
        return found.rowcount > 0


def outdated_registry_user(database_url: str, *, user: str, password: str, owner: str | None = None) -> list[str]:
    """Return a line of text if the schema registry's user is missing, has another password or does not act as the
    owner, and for each table that does not belong to the owner yet.

    Args:
        database_url: The URL of the schema registry's database, with an administrator's credentials.
        user: The name of the user.
        password: The password that the user must have.
        owner: The role that owns the tables; None: the user.
    """
    owner = owner or user
    if missing := missing_database(database_url):
        return [*missing, f"create the role {user}"]
    with psycopg.connect(database_url) as connection:
        if not connection.execute("SELECT FROM pg_roles WHERE rolname = %s", [user]).rowcount:
            return [f"create the role {user}"]
        tables = connection.execute(_OWN_TABLES, [owner]).fetchall()
        acts_as_owner = connection.execute(_HAS_SETTINGS, [user, [f"role={owner}"]]).rowcount > 0
    found = [f"give the table {table} to {owner}" for (table,) in tables]
    if user != owner and not acts_as_owner:
        found.append(f"let {user} act as {owner}")
    try:
        psycopg.connect(make_conninfo(database_url, user=user, password=password)).close()
    except psycopg.OperationalError:
        found.append(f"set the password of {user}")
    return found


def create_registry_user(database_url: str, *, user: str, password: str, owner: str | None = None) -> None:
    """Create the user with which the schema registry signs in, or set its password; and its database, if there is none.
    The user creates tables in that database, and owns those that the registry created as an administrator; it has no
    other privilege.

    While a password is rotated, two users are valid: the sessions of the second one act as the first, the owner.

    Args:
        database_url: The URL of the schema registry's database, with an administrator's credentials.
        user: The name of the user.
        password: The password of the user. The server receives a SCRAM verifier of it, so that no log has it.
        owner: The role that owns the tables; None: the user.

    Raises:
        psycopg.Error: The transaction failed and changed nothing.
    """
    create_database(database_url)
    with psycopg.connect(database_url) as connection:
        connection.execute(_EXCLUSIVE)
        owner = owner or user
        for each in dict.fromkeys((owner, user)):
            if not connection.execute("SELECT FROM pg_roles WHERE rolname = %s", [each]).rowcount:
                connection.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(each)))
        verifier = connection.pgconn.encrypt_password(password.encode(), user.encode(), b"scram-sha-256").decode()
        names = {"owner": sql.Identifier(owner), "user": sql.Identifier(user)}
        login = sql.SQL("ALTER ROLE {user} LOGIN PASSWORD {verifier}").format(**names, verifier=sql.Literal(verifier))
        connection.execute(login)
        # Only a member of a role may give tables to it.
        connection.execute(sql.SQL("GRANT {owner} TO CURRENT_USER").format(**names))
        connection.execute(sql.SQL("GRANT USAGE, CREATE ON SCHEMA public TO {owner}").format(**names))
        for (table,) in connection.execute(_OWN_TABLES, [owner]).fetchall():  # guard: registry.owns_its_tables
            given = sql.SQL("ALTER TABLE {table} OWNER TO {owner}")
            connection.execute(given.format(**names, table=sql.Identifier("public", table)))
        if user != owner:  # guard: registry.second_user
            here = sql.Identifier(connection.info.dbname)
            connection.execute(sql.SQL("GRANT {owner} TO {user}").format(**names))
            acts = sql.SQL("ALTER ROLE {user} IN DATABASE {here} SET role = {role}")
            connection.execute(acts.format(**names, here=here, role=sql.Literal(owner)))


def job_runs(database_url: str) -> bool:
    """Return whether the metrics job, or another command of spark_metrics, is connected to the metrics database."""
    with psycopg.connect(database_url) as connection:
        return connection.execute(_JOB_RUNS).fetchone() == (True,)
