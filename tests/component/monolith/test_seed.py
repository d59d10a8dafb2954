"""The seeder against a real PostgreSQL."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from devstack.demo.oracle import World
from devstack.settings import StackSettings
from examples.monolith.seed import create_tables, generate, seed
from examples.monolith.templates import TEMPLATES

type Connection = psycopg.Connection[Any]


@pytest.fixture
def database(postgres: StackSettings) -> Iterator[Connection]:
    """A connection, committing by itself, to a database of its own with the monolith's tables."""
    name = f"monolith_{uuid4().hex}"
    with psycopg.connect(postgres.database_url("monolith"), autocommit=True) as server:
        server.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        with psycopg.connect(postgres.database_url(name), autocommit=True) as connection:
            create_tables(connection)
            yield connection
        server.execute(sql.SQL("DROP DATABASE {}").format(sql.Identifier(name)))


def count(database: Connection, table: str) -> int:
    row = database.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table))).fetchone()
    assert row is not None
    return int(row[0])


def test_the_tables_hold_what_the_seed_says(database: Connection) -> None:
    report = seed(database, users=300, seed=7)

    assert World.of_database(database) == World.of_seed(generate(300, 7))
    assert {table: count(database, table) for table in report.rows} == report.rows == report.written
    assert count(database, "notification_templates") == len(TEMPLATES)
    assert report.rows_per_s > 0


def test_seeding_again_writes_nothing(database: Connection) -> None:
    seed(database, users=300, seed=7)

    assert set(seed(database, users=300, seed=7).written.values()) == {0}


def test_more_users_are_added_to_those_that_are_there(database: Connection) -> None:
    seed(database, users=100, seed=7)
    report = seed(database, users=300, seed=7)

    assert report.written["users"] == 200
    assert World.of_database(database) == World.of_seed(generate(300, 7))


def test_what_was_changed_since_is_taken_back(database: Connection) -> None:
    seed(database, users=100, seed=7)
    database.execute("UPDATE user_settings SET channels = '{\"sms\": true}'")
    database.execute("DELETE FROM devices WHERE id = (SELECT min(id) FROM devices)")
    database.execute("INSERT INTO devices SELECT id, id, 'gcm', 'new' FROM users WHERE id < 4")
    database.execute(
        "INSERT INTO user_settings (user_id, club_id) SELECT id, club_id FROM users ON CONFLICT DO NOTHING"
    )

    seed(database, users=100, seed=7)

    assert World.of_database(database) == World.of_seed(generate(100, 7))
    assert count(database, "user_settings") == sum(user.settings is not None for user in generate(100, 7))


def test_change_data_capture_sees_the_whole_old_row(database: Connection) -> None:
    rows = database.execute(
        "SELECT relname, relreplident FROM pg_class WHERE relname IN"
        " ('users', 'user_settings', 'devices', 'notification_templates')"
    )

    assert dict(rows.fetchall()) == dict.fromkeys(("users", "user_settings", "devices", "notification_templates"), "f")
