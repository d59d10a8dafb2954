from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from examples.monolith.rows import set_quiet_hours
from examples.monolith.seed import create_tables, generate, seed
from examples.monolith.simulate import change
from examples.monolith.templates import TEMPLATES
from local.devstack.config import StackConfig
from local.devstack.demo.oracle import World

type Connection = psycopg.Connection[Any]


@pytest.fixture
def database(postgres: StackConfig) -> Iterator[Connection]:
    """An autocommit connection to a unique database with the monolith's tables."""
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


def test_tables_contain_the_rows_of_the_seed(database: Connection) -> None:
    report = seed(database, users=300, seed=7, quiet_hours=0.2)

    assert World.of_database(database) == World.of_seed(generate(300, 7, quiet_hours=0.2))
    assert {table: count(database, table) for table in report.rows} == report.rows == report.written
    assert count(database, "notification_templates") == len(TEMPLATES)
    assert report.rows_per_s > 0


def test_seeding_again_writes_nothing(database: Connection) -> None:
    seed(database, users=300, seed=7)

    assert set(seed(database, users=300, seed=7).written.values()) == {0}


def test_larger_seed_keeps_the_existing_users(database: Connection) -> None:
    seed(database, users=100, seed=7)
    report = seed(database, users=300, seed=7)

    assert report.written["users"] == 200
    assert World.of_database(database) == World.of_seed(generate(300, 7))


def test_seeding_again_restores_changed_rows(database: Connection) -> None:
    seed(database, users=100, seed=7)
    database.execute("UPDATE user_settings SET channels = '{\"fax\": true}'")
    set_quiet_hours(database, range(1, 50), datetime(2026, 11, 21, 23, tzinfo=UTC))
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


def test_quiet_hours_are_set_in_each_users_time_zone(database: Connection) -> None:
    seed(database, users=300, seed=7)
    set_quiet_hours(database, range(1, 301), datetime(2026, 11, 21, 23, 4, tzinfo=UTC))

    people = World.of_database(database).people
    hours = {each.time_zone: each.quiet_hours for each in people.values() if each.quiet_hours is not None}

    assert hours["Europe/London"] == {"start": "20:04", "end": "23:04"}
    assert hours["Europe/Berlin"] == {"start": "21:04", "end": "00:04"}
    assert hours["Asia/Tokyo"] == {"start": "05:04", "end": "08:04"}
    set_quiet_hours(database, range(1, 301), None)
    assert World.of_database(database) == World.of_seed(generate(300, 7))


def test_simulated_change_touches_only_its_rows(database: Connection) -> None:
    seed(database, users=10, seed=7)
    before = dict(database.execute("SELECT id, updated_at FROM users").fetchall())

    made = change(database, [1, 2])

    after = dict(database.execute("SELECT id, updated_at FROM users").fetchall())
    assert {number for number, at in after.items() if at != before[number]} == {1, 2}
    assert made.updated_at == after[made.user_id] > before[made.user_id]
