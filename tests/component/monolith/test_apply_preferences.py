"""The consumers of the examples write changed preferences to their tables, each version once."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from examples.crm import apply_preferences as crm
from examples.monolith import apply_preferences as general
from examples.monolith.apply_preferences import apply
from examples.monolith.seed import create_tables
from local.devstack.config import ROOT, StackConfig
from masscomm.domain.preference_changes import Wish, after_wishes
from masscomm.domain.source_tables import SourceError, read_source

type Connection = psycopg.Connection[Any]


@contextmanager
def empty_database(postgres: StackConfig) -> Iterator[Connection]:
    name = f"monolith_{uuid4().hex}"
    with psycopg.connect(postgres.database_url("monolith"), autocommit=True) as server:
        server.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        with psycopg.connect(postgres.database_url(name), autocommit=True) as connection:
            yield connection
        server.execute(sql.SQL("DROP DATABASE {}").format(sql.Identifier(name)))


@pytest.fixture
def database(postgres: StackConfig) -> Iterator[Connection]:
    with empty_database(postgres) as connection:
        create_tables(connection)
        connection.execute("INSERT INTO clubs (id, name) VALUES (7, 'Rowing')")
        connection.execute("INSERT INTO users (id, club_id, first_name, last_name) VALUES (1, 7, 'Ada', 'L')")
        yield connection


@pytest.fixture
def second(postgres: StackConfig) -> Iterator[Connection]:
    with empty_database(postgres) as connection:
        connection.execute((ROOT / "examples" / "crm" / "schema.sql").read_text())
        connection.execute("INSERT INTO crm.person (person_no, organisation, given_name) VALUES (1, 7, 'Ada')")
        yield connection


def _record(version: int, *wishes: Wish, user_id: int = 1, of: int | None = None) -> dict[str, Any]:
    changes = [{**wish._asdict(), "version": of or version} for wish in wishes]
    return {"user_id": user_id, "club_id": 7, "version": version, "changes": changes, "quiet_hours": None}


def _row(database: Connection) -> Any:
    return database.execute("SELECT channels, categories, preference_version FROM user_settings").fetchone()


def test_changes_are_written_once_in_their_order(database: Connection) -> None:
    assert apply(database, _record(5, Wish("news", "email", False)))
    assert _row(database) == ({}, {"news": {"email": False}}, 5)
    assert not apply(database, _record(5, Wish("news", "email", False)))
    assert apply(database, _record(9, Wish("news", None, False), Wish(None, "push", False)))
    assert _row(database) == ({"push": False}, {"news": False}, 9)
    assert not apply(database, _record(7, Wish("news", None, True)))
    assert apply(database, _record(11, Wish("news", None, True), of=8)), "the change is older than the row"
    assert _row(database) == ({"push": False}, {"news": False}, 11)


def test_quiet_hours_are_written_once_in_their_order(database: Connection) -> None:
    def hours() -> Any:
        return database.execute("SELECT quiet_hours, preference_version FROM user_settings").fetchone()

    def change(start: str | None, end: str | None, version: int) -> dict[str, Any]:
        return {"quiet_hours": {"start": start, "end": end, "version": version}}

    night = {"start": "22:00", "end": "07:00"}
    assert apply(database, _record(5) | change("22:00", "07:00", 5))
    assert hours() == (night, 5)
    assert apply(database, _record(6, Wish("news", None, False)))
    assert hours() == (night, 6)
    assert apply(database, _record(8) | change(None, None, 4)), "the change is older than the row"
    assert hours() == (night, 8)
    assert not apply(database, _record(7) | change(None, None, 7))
    assert apply(database, _record(9) | change(None, None, 9))
    assert hours() == (None, 9)


def test_unknown_user_is_ignored(database: Connection) -> None:
    assert not apply(database, _record(5, Wish("news", None, False), user_id=2))
    assert _row(database) is None


@pytest.mark.parametrize("known", [{}, {"news": False}, {"news": True}, {"news": {"push": False}}])
def test_row_has_the_rules_that_applied_before(database: Connection, known: dict[str, Any]) -> None:
    database.execute(
        "INSERT INTO user_settings (user_id, club_id, categories) VALUES (1, 7, %s)",
        (psycopg.types.json.Jsonb(known),),
    )
    wishes = [Wish("news", "email", True), Wish(None, "email", False)]
    apply(database, _record(5, *wishes))
    assert _row(database)[:2] == after_wishes({}, known, wishes)


@pytest.mark.parametrize("rules", [False, [], ["push"], "none", 0])
@pytest.mark.parametrize("column", ["channels", "categories"])
def test_rules_that_are_not_objects_stay(database: Connection, column: str, rules: Any) -> None:
    """They opt out of everything: an object in their place would opt in."""
    query = sql.SQL("INSERT INTO user_settings (user_id, club_id, {}) VALUES (1, 7, %s)").format(sql.Identifier(column))
    database.execute(query, (psycopg.types.json.Jsonb(rules),))
    other = "categories" if column == "channels" else "channels"
    before = dict(zip((column, other), (rules, {}), strict=True))
    wishes = [Wish("news", "email", True), Wish(None, "push", False)]
    assert apply(database, _record(5, *wishes))
    assert _row(database) == (before["channels"], before["categories"], 5)
    assert (before["channels"], before["categories"]) == after_wishes(before["channels"], before["categories"], wishes)


def _choice(database: Connection) -> Any:
    return database.execute("SELECT wants_push, no_mail, topics, preference_version FROM crm.contact_choice").fetchone()


def test_second_example_writes_changes_once(second: Connection) -> None:
    assert crm.apply(second, _record(5, Wish("news", "email", False)))
    assert _choice(second) == (None, False, {"news": {"email": False}}, 5), "the row is new"
    assert not crm.apply(second, _record(5, Wish("news", "email", False)))
    assert crm.apply(second, _record(9, Wish(None, "push", False), Wish(None, "email", False)))
    assert _choice(second) == (False, True, {"news": {"email": False}}, 9)
    assert not crm.apply(second, _record(7, Wish(None, "push", True)))
    assert crm.apply(second, _record(11, Wish(None, "push", True), of=8)), "the change is older than the row"
    assert _choice(second) == (False, True, {"news": {"email": False}}, 11)
    assert not crm.apply(second, _record(12, Wish("news", None, False), user_id=2)), "an unknown person"


def test_second_example_writes_quiet_hours_once(second: Connection) -> None:
    def hours() -> Any:
        return second.execute("SELECT starts::text, ends::text FROM crm.quiet_time").fetchall()

    def change(start: str | None, end: str | None, version: int) -> dict[str, Any]:
        return {"quiet_hours": {"start": start, "end": end, "version": version}}

    assert crm.apply(second, _record(5) | change("22:00", "07:00", 5))
    assert crm.apply(second, _record(6) | change("21:00", "06:30", 6))
    assert crm.apply(second, _record(7, Wish("news", None, False))), "a record of an earlier schema"
    assert crm.apply(second, _record(8) | change(None, None, 4)), "the change is older than the row"
    assert hours() == [("21:00:00", "06:30:00")]
    assert crm.apply(second, _record(9) | change(None, None, 9))
    assert hours() == []


# The settings are columns of the users' table; a text has the choice for push.
MEMBERS: dict[str, Any] = {
    "table": "shop.member",
    "key": "number",
    "columns": {
        "channels": {"object": {"push": {"column": "app", "values": {"yes": True, "no": False}}, "email": "mail"}},
        "categories": {"object": {"news": "wants_news", "newsletter": "letters"}},
        "quiet_hours": {"object": {"start": "silent_from", "end": "silent_to"}},
        "preference_version": "choice_version",
    },
}


@pytest.fixture
def member(postgres: StackConfig, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    users = {"table": "shop.member", "key": "number", "columns": {"club_id": {"constant": 7}}}
    source = read_source({"tables": {"users": users, "user_settings": MEMBERS}})
    monkeypatch.setattr(general, "source_tables", lambda: source)
    with empty_database(postgres) as connection:
        connection.execute("CREATE SCHEMA shop")
        connection.execute(
            "CREATE TABLE shop.member (number bigint PRIMARY KEY, app text, mail boolean, wants_news boolean,"
            " letters jsonb, silent_from time, silent_to time, choice_version bigint)"
        )
        connection.execute("INSERT INTO shop.member (number, app, mail) VALUES (1, 'yes', true), (2, 'no', false)")
        yield connection


def test_columns_of_the_mapping_are_written(member: Connection) -> None:
    def row(number: int = 1) -> Any:
        names = "app, mail, wants_news, letters, silent_from::text, silent_to::text, choice_version"
        return member.execute(f"SELECT {names} FROM shop.member WHERE number = %s", (number,)).fetchone()  # noqa: S608

    night = {"quiet_hours": {"start": "22:00", "end": "07:00", "version": 5}}
    wishes = [Wish("news", None, False), Wish("newsletter", "push", False), Wish(None, "push", False)]
    assert apply(member, _record(5, *wishes) | night)
    assert row() == ("no", True, False, {"push": False}, "22:00:00", "07:00:00", 5)
    assert not apply(member, _record(5, Wish("news", None, True)))
    ended = {"quiet_hours": {"start": None, "end": None, "version": 6}}
    assert apply(member, _record(6, Wish(None, "push", True)) | ended)
    assert row() == ("yes", True, False, {"push": False}, None, None, 6)
    assert row(2) == ("no", False, None, None, None, None, None), "another user's row"


def test_unreadable_row_stops_no_other_user(member: Connection, capsys: pytest.CaptureFixture[str]) -> None:
    member.execute("UPDATE shop.member SET app = 'perhaps' WHERE number = 1")
    assert not apply(member, _record(5, Wish(None, "email", False)))
    assert "Changes of user 1 are not written, because of the row: app is 'perhaps'" in capsys.readouterr().out
    assert member.execute("SELECT mail, choice_version FROM shop.member WHERE number = 1").fetchone() == (True, None)
    assert apply(member, _record(5, Wish(None, "email", True), user_id=2))


def test_change_without_a_column_is_not_marked_as_applied(member: Connection) -> None:
    with pytest.raises(SourceError, match=r"names no column of its own for user_settings\.categories\.offers"):
        apply(member, _record(5, Wish("offers", None, False)))
    assert member.execute("SELECT choice_version FROM shop.member WHERE number = 1").fetchone() == (None,)


def test_mapping_may_lack_rules_and_needs_a_version(member: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = {name: MEMBERS["columns"][name] for name in ("channels", "preference_version")}
    users = {"table": "shop.member", "key": "number", "columns": {}}

    def without(*names: str) -> None:
        left = {name: value for name, value in columns.items() if name not in names}
        source = read_source({"tables": {"users": users, "user_settings": MEMBERS | {"columns": left}}})
        monkeypatch.setattr(general, "source_tables", lambda: source)

    without()
    assert apply(member, _record(5, Wish(None, "email", False)))
    with pytest.raises(SourceError, match=r"for user_settings\.categories,"):
        apply(member, _record(6, Wish("news", None, False)))
    without("preference_version")
    with pytest.raises(SourceError, match=r"for user_settings\.preference_version,"):
        apply(member, _record(6, Wish(None, "email", True)))
    assert member.execute("SELECT mail, choice_version FROM shop.member WHERE number = 1").fetchone() == (False, 5)
