import threading
import zipfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from local.devstack.config import StackConfig
from local.devstack.setup import JARS
from ops.provisioning.database import (
    TABLES,
    TOKENS,
    apply_sql,
    create_registry_user,
    create_users,
    outdated_registry_user,
    outdated_users,
)
from spark_metrics.counting.partitions import LOG, drop_before, make_partitions, partitions_of
from spark_metrics.counting.sink import BATCH_LOCK


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
    """Create a reader and a writer with unique names; the owner's name is derived from the writer's."""
    names = (f"reader_{uuid4().hex[:8]}", f"writer_{uuid4().hex[:8]}")
    create(database, names)
    yield names
    drop(database, names)


def create(database: str, users: Sequence[str]) -> None:
    create_users(database, owner=f"{users[1]}_owner", reader=users[0], writer=users[1])


def drop(database: str, users: Sequence[str]) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        for name in (*users, *(f"{name}_owner" for name in users)):
            if connection.execute("SELECT FROM pg_roles WHERE rolname = %s", [name]).rowcount:
                connection.execute(sql.SQL("DROP OWNED BY {}").format(sql.Identifier(name)))
                connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


def as_user(database: str, user: str, statement: str) -> None:
    with signed_in(database, user) as connection:
        connection.execute(statement.encode())
        connection.rollback()


def signed_in(database: str, user: str, *, autocommit: bool = False) -> psycopg.Connection[Any]:
    """Return a connection of the user, with the settings that its sessions begin with."""
    password = uuid4().hex
    with psycopg.connect(database, autocommit=True) as server:
        server.execute(sql.SQL("ALTER ROLE {} PASSWORD {}").format(sql.Identifier(user), sql.Literal(password)))
    return psycopg.connect(database, user=user, password=password, autocommit=autocommit)


def test_the_reader_reads_and_changes_nothing(database: str, users: tuple[str, str]) -> None:
    as_user(database, users[0], "SELECT * FROM counts_minute")
    for statement in ("DELETE FROM counts_minute", "CREATE TABLE mine (id int)"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            as_user(database, users[0], statement)


def test_the_writer_writes_and_makes_tables(database: str, users: tuple[str, str]) -> None:
    as_user(database, users[1], "DELETE FROM counts_minute")
    as_user(database, users[1], "CREATE UNLOGGED TABLE staging (id int)")
    as_user(database, users[1], "CREATE UNLOGGED TABLE recompute.sends (LIKE sends INCLUDING ALL)")


def test_roles_have_their_rights_on_later_tables(database: str, users: tuple[str, str]) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE TABLE counts_year (id int)")
    as_user(database, users[0], "SELECT * FROM counts_year")
    as_user(database, users[1], "DELETE FROM counts_year")


def test_missing_users_settings_and_owners_are_pending(database: str, users: tuple[str, str]) -> None:
    reader, writer = users
    names = {"owner": f"{writer}_owner", "reader": reader, "writer": writer}
    assert outdated_users(database, **names) == []
    found = outdated_users(database, owner=names["owner"], reader="nobody", writer="other")
    assert found == ["create the role nobody", "create the role other", "set the settings of other"]
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("create table later (id int)")
        connection.execute(
            sql.SQL("alter role {} in database {} set jit = on").format(
                sql.Identifier(writer), sql.Identifier(connection.info.dbname)
            )
        )
    assert outdated_users(database, **names) == [
        f"set the settings of {writer}",
        f"give the table later to {names['owner']}",
    ]
    create(database, users)
    assert outdated_users(database, **names) == []


def test_users_sign_in_with_tokens_and_creation_is_idempotent(database: str, users: tuple[str, str]) -> None:
    create(database, users)
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
        create(nothing_yet, names)

    try:
        with ThreadPoolExecutor(6) as several:
            assert list(several.map(provision, range(6))) == [None] * 6
        as_user(nothing_yet, names[0], "SELECT * FROM counts_minute")
    finally:
        drop(nothing_yet, names)


def test_provisioning_does_not_wait_for_a_batch(database: str) -> None:
    """A batch that cannot end may need a table that provisioning creates."""
    with psycopg.connect(database) as batch:
        batch.execute("select pg_advisory_lock_shared(%s)", [BATCH_LOCK])
        apply_sql(make_conninfo(database, options="-c lock_timeout=5s"), TABLES)


def test_sessions_of_the_writer_begin_in_utc(database: str, users: tuple[str, str]) -> None:
    """A role's settings apply to this database, because sessions pass no start-up options."""
    with psycopg.connect(database) as connection:
        found = connection.execute(
            "SELECT r.rolname, s.setconfig FROM pg_db_role_setting s JOIN pg_roles r ON r.oid = s.setrole"
            " JOIN pg_database d ON d.oid = s.setdatabase WHERE d.datname = current_database()"
        ).fetchall()
        (owner,) = connection.execute("SELECT current_user").fetchone() or ("",)
    assert {name: set(settings) for name, settings in found} == {
        users[1]: {"TimeZone=UTC", "jit=off", f"role={users[1]}_owner"},
        owner: {"TimeZone=UTC", "jit=off"},
    }


def test_the_writer_adds_and_drops_days_of_the_recipient_log(nothing_yet: str) -> None:
    """As on RDS, the administrator is not a superuser, and owns the tables that it creates. Provisioning again, and
    altering a table later, works with the writer's partitions in place.
    """
    administrator, *names = (f"{role}_{uuid4().hex[:8]}" for role in ("admin", "reader", "writer"))
    with psycopg.connect(nothing_yet, autocommit=True) as server:
        for text in (
            "CREATE ROLE {0} LOGIN CREATEROLE",
            "GRANT {1} TO {0} WITH ADMIN OPTION",
            "ALTER DATABASE {2} OWNER TO {0}",
        ):
            identifiers = map(sql.Identifier, (administrator, TOKENS, server.info.dbname))
            server.execute(sql.SQL(text).format(*identifiers))
    try:
        with signed_in(nothing_yet, administrator) as connection:
            url = make_conninfo(nothing_yet, user=administrator, password=connection.info.password)
        for _ in range(2):
            apply_sql(url, TABLES)
            create(url, names)
            with signed_in(nothing_yet, names[1], autocommit=True) as job:
                for day in (21, 22):
                    make_partitions(job, datetime(2026, 11, day, tzinfo=UTC), [LOG])
                attached = [each.name for each in partitions_of(job, LOG) if each.attached]
                assert attached == [f"recipient_log_202611{day}" for day in (21, 22, 24, 25)]
                assert drop_before(job, LOG, datetime(2026, 11, 22, tzinfo=UTC)) == ["recipient_log_20261121"]
        with psycopg.connect(url) as connection:
            connection.execute("ALTER TABLE recipient_log ADD COLUMN later text")
            connection.execute("CREATE INDEX ON recipient_log (later)")
        as_user(nothing_yet, names[0], "SELECT later FROM recipient_log")
    finally:
        with psycopg.connect(nothing_yet, autocommit=True) as server:
            server.execute(
                sql.SQL("ALTER DATABASE {} OWNER TO CURRENT_USER").format(sql.Identifier(server.info.dbname))
            )
        drop(nothing_yet, [*names, administrator])


# --- the schema registry's user ---------------------------------------------------------------------------------------

# The statements with which Apicurio creates its tables in PostgreSQL at its first start.
_TABLES = "io/apicurio/registry/storage/impl/sql/postgresql.ddl"


@pytest.fixture
def registrys(postgres: StackConfig) -> Iterator[str]:
    """The URL of an empty database, for an administrator without the rights of a superuser, as in RDS.

    https://docs.aws.amazon.com/AmazonRDS/latest/UserGuide/Appendix.PostgreSQL.CommonDBATasks.Roles.rds_superuser.html
    """
    name, password = f"administrator_{uuid4().hex[:8]}", uuid4().hex
    administrator, database = sql.Identifier(name), sql.Identifier(f"of_{name}")
    url = postgres.database_url("metrics")
    with psycopg.connect(url, autocommit=True) as server:
        server.execute(
            sql.SQL("CREATE ROLE {} LOGIN CREATEDB CREATEROLE PASSWORD {}").format(administrator, sql.Literal(password))
        )
        server.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(database, administrator))
        try:
            yield make_conninfo(url, user=name, password=password, dbname=f"of_{name}")
        finally:
            server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(database))
            server.execute(sql.SQL("DROP ROLE {}").format(administrator))


@pytest.fixture
def user(registrys: str) -> Iterator[dict[str, str]]:
    """The name and the password of a user that does not exist yet."""
    name = f"registry_{uuid4().hex[:8]}"
    yield {"user": name, "password": "p'w$\\"}
    drop(registrys, [name])


def _tables() -> bytes:
    with zipfile.ZipFile(f"{JARS}/registry/apicurio-registry-app-2.6.13.Final-runner.jar") as jar:
        return jar.read(_TABLES)


def test_the_registrys_user_creates_its_tables(registrys: str, user: dict[str, str]) -> None:
    assert outdated_registry_user(registrys, **user) == [f"create the role {user['user']}"]
    create_registry_user(registrys, **user)
    assert outdated_registry_user(registrys, **user) == []
    with psycopg.connect(make_conninfo(registrys, **user)) as registry:
        registry.execute(_tables())
        registry.execute("ALTER TABLE acls ADD COLUMN later VARCHAR(8)")
        registry.execute("INSERT INTO acls VALUES ('a', 'b', 'c', 'd')")


def test_the_registrys_database_is_made_in_a_shared_instance(registrys: str, user: dict[str, str]) -> None:
    """An instance for metrics and registry begins with the database of the metrics only."""
    name = f"registry_{uuid4().hex[:8]}"
    shared = make_conninfo(registrys, dbname=name)
    try:
        assert outdated_registry_user(shared, **user) == [
            f"create the database {name}",
            f"create the role {user['user']}",
        ]
        create_registry_user(shared, **user)
        assert outdated_registry_user(shared, **user) == []
        with psycopg.connect(make_conninfo(shared, **user)) as registry:
            registry.execute(_tables())
    finally:
        with psycopg.connect(registrys, autocommit=True) as administrator:
            administrator.execute(sql.SQL("DROP DATABASE IF EXISTS {}").format(sql.Identifier(name)))


@pytest.mark.kills(guard="registry.owns_its_tables")
def test_the_registrys_user_gets_an_administrators_tables(registrys: str, user: dict[str, str]) -> None:
    """An earlier version signed in as the administrator. Its tasks continue until the last one is replaced."""
    with psycopg.connect(registrys) as earlier:
        earlier.execute(_tables())
    create_registry_user(registrys, **user)
    with psycopg.connect(make_conninfo(registrys, **user)) as registry:
        registry.execute("ALTER TABLE acls ADD COLUMN later VARCHAR(8)")
        registry.execute("CREATE TABLE latest (id BIGINT)")
    with psycopg.connect(registrys) as earlier:
        earlier.execute("INSERT INTO acls VALUES ('a', 'b', 'c', 'd')")
        earlier.execute("CREATE TABLE late (id BIGINT)")
    assert outdated_registry_user(registrys, **user) == [f"give the table late to {user['user']}"]
    create_registry_user(registrys, **user)
    assert outdated_registry_user(registrys, **user) == []


def test_the_registrys_user_has_no_other_privilege(registrys: str, user: dict[str, str]) -> None:
    create_registry_user(registrys, **user)
    for statement in (
        *("CREATE ROLE other", "CREATE DATABASE other", "CREATE SCHEMA other", "SELECT * FROM pg_authid"),
        sql.SQL("SET ROLE {}").format(sql.Identifier(str(conninfo_to_dict(registrys)["user"]))),
    ):
        with (
            psycopg.connect(make_conninfo(registrys, **user), autocommit=True) as registry,
            pytest.raises(psycopg.errors.InsufficientPrivilege),
        ):
            registry.execute(statement if isinstance(statement, sql.Composed) else statement.encode())


def test_a_new_password_of_the_secret_is_set(registrys: str, user: dict[str, str]) -> None:
    create_registry_user(registrys, **user)
    changed = user | {"password": "another"}
    assert outdated_registry_user(registrys, **changed) == [f"set the password of {user['user']}"]
    create_registry_user(registrys, **changed)
    assert outdated_registry_user(registrys, **changed) == []
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(make_conninfo(registrys, **user))


def _drop_second(database: str, user: str) -> None:
    """Drop a user that owns nothing, because it acts as another one."""
    with psycopg.connect(database, autocommit=True) as administrator:
        administrator.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(user)))


@pytest.mark.kills(guard="registry.second_user")
def test_two_users_are_valid_while_a_password_is_rotated(registrys: str, user: dict[str, str]) -> None:
    """Tasks of the former user continue until the last one is replaced; each has the tables of both."""
    create_registry_user(registrys, **user, owner=user["user"])
    former = make_conninfo(registrys, **user)
    with psycopg.connect(former, autocommit=True) as session:
        session.execute(_tables())
        other = {"user": f"{user['user']}_2", "password": "another"}
        try:
            assert outdated_registry_user(registrys, **other, owner=user["user"]) == [
                f"create the role {other['user']}"
            ]
            create_registry_user(registrys, **other, owner=user["user"])
            assert outdated_registry_user(registrys, **other, owner=user["user"]) == []
            assert outdated_registry_user(registrys, **user, owner=user["user"]) == []
            with psycopg.connect(make_conninfo(registrys, **other), autocommit=True) as next_session:
                next_session.execute("ALTER TABLE acls ADD COLUMN later VARCHAR(8)")
                next_session.execute("CREATE TABLE latest (id BIGINT)")
                next_session.execute("INSERT INTO acls VALUES ('a', 'b', 'c', 'd')")
            session.execute("UPDATE acls SET later = 'e'")
            session.execute("ALTER TABLE latest ADD COLUMN later VARCHAR(8)")
            # A new session of the former user, such as that of a task that is started during the change.
            with psycopg.connect(former) as again:
                assert again.execute("SELECT later FROM acls").fetchall() == [("e",)]
        finally:
            _drop_second(registrys, other["user"])


def test_user_of_the_secret_acts_as_the_owner(registrys: str, user: dict[str, str]) -> None:
    """Also if the owner never signed in, and does later."""
    other = {"user": f"{user['user']}_2", "password": "another"}
    try:
        create_registry_user(registrys, **other, owner=user["user"])
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(make_conninfo(registrys, **user))
        create_registry_user(registrys, **user, owner=user["user"])
        psycopg.connect(make_conninfo(registrys, **user)).close()
        with psycopg.connect(registrys, autocommit=True) as administrator:
            administrator.execute(sql.SQL("ALTER ROLE {} RESET ALL").format(sql.Identifier(other["user"])))
            here = sql.Identifier(administrator.info.dbname)
            reset = sql.SQL("ALTER ROLE {} IN DATABASE {} RESET ALL")
            administrator.execute(reset.format(sql.Identifier(other["user"]), here))
        expected = [f"let {other['user']} act as {user['user']}"]
        assert outdated_registry_user(registrys, **other, owner=user["user"]) == expected
    finally:
        _drop_second(registrys, other["user"])


def test_no_statement_has_the_registrys_password(
    registrys: str, user: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    executed: list[str] = []
    execute = psycopg.Connection.execute

    def record(self: psycopg.Connection[Any], query: Any, *arguments: Any, **options: Any) -> Any:
        executed.append(query.as_string(self) if isinstance(query, sql.Composed) else str(query))
        return execute(self, query, *arguments, **options)

    monkeypatch.setattr(psycopg.Connection, "execute", record)
    create_registry_user(registrys, **user)
    assert any("PASSWORD 'SCRAM-SHA-256$" in text for text in executed)
    assert not any(user["password"].replace("'", "''") in text or "p'w" in text for text in executed)
