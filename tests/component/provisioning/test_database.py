import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from devstack.config import StackConfig
from provisioning.database import TABLES, TOKENS, apply_sql, create_users


@pytest.fixture
def nothing_yet(postgres: StackConfig) -> Iterator[str]:
    """An empty database on a server that has RDS' role for IAM tokens."""
    name = f"provisioned_{uuid4().hex[:12]}"
    with psycopg.connect(postgres.database_url("metrics"), autocommit=True) as server:
        if not server.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (TOKENS,)).fetchone():
            server.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(TOKENS)))
        server.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            yield postgres.database_url(name)
        finally:
            server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture
def database(nothing_yet: str) -> str:
    apply_sql(nothing_yet, TABLES)
    return nothing_yet


@pytest.fixture
def users(database: str) -> Iterator[tuple[str, str]]:
    """Create a reader and a writer with unique names."""
    names = (f"reader_{uuid4().hex[:8]}", f"writer_{uuid4().hex[:8]}")
    create_users(database, reader=names[0], writer=names[1])
    yield names
    drop(database, names)


def drop(database: str, users: Iterable[str]) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        for name in users:
            if connection.execute("SELECT FROM pg_roles WHERE rolname = %s", [name]).rowcount:
                connection.execute(sql.SQL("DROP OWNED BY {}").format(sql.Identifier(name)))
                connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


def as_user(database: str, user: str, statement: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(user)))
        connection.execute(statement.encode())
        connection.rollback()


def test_the_reader_reads_and_changes_nothing(database: str, users: tuple[str, str]) -> None:
    as_user(database, users[0], "SELECT * FROM counts_minute")
    for statement in ("DELETE FROM counts_minute", "CREATE TABLE mine (id int)"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            as_user(database, users[0], statement)


def test_the_writer_writes_and_makes_staging_tables(database: str, users: tuple[str, str]) -> None:
    as_user(database, users[1], "DELETE FROM counts_minute")
    as_user(database, users[1], "CREATE UNLOGGED TABLE staging (id int)")


def test_roles_have_their_rights_on_later_tables(database: str, users: tuple[str, str]) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE TABLE counts_year (id int)")
    as_user(database, users[0], "SELECT * FROM counts_year")
    as_user(database, users[1], "DELETE FROM counts_year")


def test_users_sign_in_with_tokens_and_creation_is_idempotent(database: str, users: tuple[str, str]) -> None:
    create_users(database, reader=users[0], writer=users[1])
    with psycopg.connect(database) as connection:
        members = connection.execute(
            "SELECT m.rolname FROM pg_auth_members a JOIN pg_roles g ON g.oid = a.roleid"
            " JOIN pg_roles m ON m.oid = a.member WHERE g.rolname = %s",
            (TOKENS,),
        ).fetchall()
    assert set(users) <= {name for (name,) in members}


def test_concurrent_provisioning_is_serialised(nothing_yet: str) -> None:
    """`if not exists` takes no lock in Postgres: a concurrent creation may fail because the object exists."""
    names = [f"{role}_{uuid4().hex[:8]}" for role in ("reader", "writer")]
    together = threading.Barrier(6)

    def provision(_: int) -> None:
        together.wait(30)
        apply_sql(nothing_yet, TABLES)
        create_users(nothing_yet, reader=names[0], writer=names[1])

    try:
        with ThreadPoolExecutor(6) as several:
            assert list(several.map(provision, range(6))) == [None] * 6
        as_user(nothing_yet, names[0], "SELECT * FROM counts_minute")
    finally:
        drop(nothing_yet, names)


def test_sessions_of_the_writer_begin_in_utc(database: str, users: tuple[str, str]) -> None:
    """A role's settings apply to this database, because sessions pass no start-up options."""
    with psycopg.connect(database) as connection:
        found = connection.execute(
            "SELECT r.rolname, s.setconfig FROM pg_db_role_setting s JOIN pg_roles r ON r.oid = s.setrole"
            " JOIN pg_database d ON d.oid = s.setdatabase WHERE d.datname = current_database()"
        ).fetchall()
        (owner,) = connection.execute("SELECT current_user").fetchone() or ("",)
    assert {name: set(settings) for name, settings in found} == {
        name: {"TimeZone=UTC", "jit=off"} for name in (users[1], owner)
    }
