"""A dead-lettered row leaves no earlier version that reaches the wrong person, and no user without settings."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from masscomm.cdc import captured_tables, change_events
from masscomm.cdc.captured_tables import read_captured
from masscomm.cdc.change_events import ChangeDecoder, RowChanged
from masscomm.domain import source_tables
from masscomm.domain.preferences import decide_by_user_settings
from masscomm.domain.quiet_hours import applied_hours
from masscomm.domain.source_tables import read_source
from masscomm.domain.users import UserSettings
from masscomm.kafka.event import KafkaRecord
from tests.support.harness.cdc_consumer import Consumer
from tests.support.inputs.debezium_records import row

SETTINGS_ROW = {"user_id": 1, "channels": '{"push": false}', "categories": None, "quiet_hours": None}
IN_ONE_COLUMN = {
    "channels": {"column": "choices", "path": "notify.channels"},
    "categories": {"object": {"news": {"column": "choices", "path": "notify.news"}}},
    "quiet_hours": {"column": "choices", "path": "quiet"},
}


@pytest.fixture
def _mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Map the settings to values inside one JSON column."""
    document: dict[str, Any] = dict(source_tables._document())
    settings = document["tables"]["user_settings"] | {"columns": {"user_id": "user_id"} | IN_ONE_COLUMN}
    captured = read_captured(read_source(document | {"tables": document["tables"] | {"user_settings": settings}}))
    for module in (captured_tables, change_events):
        monkeypatch.setattr(module, "captured_tables", lambda: captured)


def choices(value: object, *, op: str = "u", lsn: int = 9) -> KafkaRecord:
    return row("user_settings", op, lsn, {"user_id": 1, "choices": value}, key="user_id")


def columns(value: object) -> Mapping[str, Any]:
    change = ChangeDecoder("g1").decode(choices(value))
    assert isinstance(change, RowChanged)
    assert change.columns is not None
    return change.columns


def letters(consumer: Consumer) -> list[str]:
    return [dict(headers)["masscomm.error"].decode() for *_, headers in consumer.producer.produced]


def settings_of(consumer: Consumer, user_id: int = 1) -> UserSettings | None:
    """Return the settings that a look-up finds."""
    return consumer.directory().user_settings([user_id]).get(user_id)


def wants(settings: UserSettings | None) -> bool:
    return decide_by_user_settings(settings, type="news", channel="push").status is None


@pytest.mark.kills(guard="preferences.path_without_an_object")
@pytest.mark.usefixtures("_mapped")
@pytest.mark.parametrize("value", ['"none"', "[]", "null", "0", "false", '{"notify": "none"}', '{"notify": []}'])
def test_settings_in_json_without_an_object_are_refused(value: str) -> None:
    consumer = Consumer()
    assert consumer.run(choices('{"notify": {"channels": {"push": true}}}', op="c", lsn=5), choices(value)) == []
    assert wants(settings_of(consumer)), "the earlier settings stay"
    (letter,) = letters(consumer)
    assert letter.startswith("choices (user_settings.channels) is no JSON object")


@pytest.mark.usefixtures("_mapped")
def test_text_at_the_path_of_settings_opts_out() -> None:
    """A text is not parsed as JSON, so that `null` in it is a text."""
    for text in ("none", "null", "[]", "true"):
        consumer = Consumer()
        consumer.run(choices(json.dumps({"notify": {"channels": text}, "quiet": text})))
        settings = settings_of(consumer)
        assert letters(consumer) == []
        assert settings is not None
        assert not wants(settings)
        assert applied_hours(settings.quiet_hours) is not None, "unreadable quiet hours are those of the night"


@pytest.mark.usefixtures("_mapped")
def test_settings_absent_from_json_make_no_rule() -> None:
    none = {"user_id": 1, "channels": None, "categories": None, "quiet_hours": None}
    for value in (None, "{}", '{"notify": null}', '{"notify": {}}'):
        assert columns(value) == none
    found = columns('{"notify": {"channels": "{\\"push\\": true}", "news": {"push": false}}}')
    assert found == none | {"channels": {"push": True}, "categories": {"news": {"push": False}}}


@pytest.mark.kills(guard="cdc.refused_settings")
@pytest.mark.parametrize("refused", [{"channels": "{no json"}, {"preference_version": "seven"}, {"categories": ...}])
def test_first_settings_that_are_refused_opt_out(refused: dict[str, Any]) -> None:
    """Without a document the user would have no settings, and so no opt-out."""
    after = {name: value for name, value in (SETTINGS_ROW | refused).items() if value is not ...}
    bad = row("user_settings", "c", 20, after, key="user_id")
    consumer = Consumer()
    assert consumer.run(bad) == []
    settings = settings_of(consumer)
    assert not wants(settings)
    assert settings is not None
    assert len(letters(consumer)) == 1

    consumer.run(row("user_settings", "r", 3, SETTINGS_ROW | {"channels": None}, key="user_id"))
    assert wants(settings_of(consumer)), "every valid row replaces the opt-out, an earlier one included"
    consumer.run(bad)
    assert wants(settings_of(consumer)), "the earlier settings stay"


@pytest.mark.kills(guard="cdc.refused_settings")
def test_refused_settings_after_deleted_ones_opt_out() -> None:
    """A monolith may delete and insert the row of a user in one transaction."""
    consumer = Consumer()
    consumer.run(row("user_settings", "c", 10, SETTINGS_ROW, key="user_id"))
    consumer.run(row("user_settings", "d", 20, None, SETTINGS_ROW, key="user_id"))
    assert wants(settings_of(consumer))
    consumer.run(row("user_settings", "c", 21, SETTINGS_ROW | {"channels": "{no json"}, key="user_id"))
    assert not wants(settings_of(consumer))
    consumer.run(row("user_settings", "c", 22, SETTINGS_ROW | {"channels": None}, key="user_id"))
    assert wants(settings_of(consumer))


def test_refused_settings_wait_for_a_busy_index() -> None:
    consumer = Consumer()
    consumer.cluster.refuse["user_settings-g1", "1"] = 429, "busy"
    bad = row("user_settings", "c", 20, SETTINGS_ROW | {"channels": "{no json"}, key="user_id")
    assert consumer.run(bad) == [bad.offset]
    assert letters(consumer) == []


def test_many_refused_rows_are_replaced_at_once() -> None:
    """A renamed column refuses every row of a snapshot."""
    consumer = Consumer()
    rows = [
        row("user_settings", "r", 20, SETTINGS_ROW | {"user_id": number, "channels": "{no json"}, key="user_id")
        for number in range(1, 51)
    ]
    assert consumer.run(*rows) == []
    assert consumer.cluster.bulk_requests == 1
    assert len(consumer.cluster.rows("user_settings-g1")) == len(letters(consumer)) == 50


@pytest.mark.kills(guard="cdc.row_without_an_owner")
@pytest.mark.parametrize(
    ("table", "before", "owner"),
    [
        ("users", {"id": 1, "club_id": 3, "first_name": "Ada", "time_zone": None}, "club_id"),
        ("devices", {"id": 1, "user_id": 7, "platform": "gcm", "token": "t", "active": True}, "user_id"),
    ],
)
def test_row_that_loses_its_owner_is_removed(table: str, before: dict[str, Any], owner: str) -> None:
    """The club of a user who left it sends nothing more, and nothing for a person reaches a phone that was given up."""
    consumer = Consumer()
    given_up = row(table, "u", 20, before | {owner: None}, before)
    assert consumer.run(row(table, "c", 10, before), given_up) == []
    assert consumer.cluster.rows(f"{table}-g1") == {}
    (letter,) = letters(consumer)
    assert letter.startswith(f"{table}.{owner} (public.{table}.{owner}) is missing in the row id=1")
    consumer.run(row(table, "c", 10, before))
    assert consumer.cluster.rows(f"{table}-g1") == {}, "an older change does not restore it"
    consumer.run(row(table, "u", 30, before | {owner: 9}))
    assert consumer.cluster.rows(f"{table}-g1")["1"][owner] == 9


def test_row_without_the_column_of_its_owner_stays() -> None:
    """A renamed column says nothing about the owner."""
    consumer = Consumer()
    before = {"id": 1, "club_id": 3, "first_name": "Ada", "time_zone": None}
    lost = {name: value for name, value in before.items() if name != "club_id"} | {"first_name": "Eve"}
    consumer.run(row("users", "c", 10, before), row("users", "u", 20, lost))
    assert consumer.cluster.rows("users-g1")["1"]["first_name"] == "Ada"
    assert len(letters(consumer)) == 1


def test_settings_of_a_snapshot_have_its_lsn() -> None:
    consumer = Consumer()
    consumer.run(row("user_settings", "r", 900, SETTINGS_ROW, key="user_id"))
    settings = settings_of(consumer)
    assert settings is not None
    assert settings.version == 900
    consumer.run(row("user_settings", "u", 50, SETTINGS_ROW, key="user_id"))
    settings = settings_of(consumer)
    assert settings is not None
    assert settings.version == 50


@pytest.mark.kills(guard="cdc.lost_time_zone")
def test_row_without_its_time_zone_keeps_the_earlier_one() -> None:
    """In UTC, quiet hours would be at another time. The rest of the row counts, such as another address or tenant."""
    consumer = Consumer()
    before = {"id": 1, "club_id": 3, "email": "a@example.org", "time_zone": "Asia/Tokyo"}
    lost = {"id": 1, "club_id": 4, "email": "b@example.org"}
    assert consumer.run(row("users", "c", 10, before), row("users", "u", 20, lost), row("users", "u", 21, lost)) == []
    expected = lost | {"time_zone": "Asia/Tokyo"}
    assert consumer.cluster.documents["users-g1", "1"] == (21, expected)
    assert letters(consumer) == ["users.time_zone: the row 1 has lost the column; the earlier value stays"] * 2
    consumer.run(row("users", "u", 30, lost | {"time_zone": None}))
    assert consumer.cluster.rows("users-g1")["1"]["time_zone"] is None


def test_new_user_without_a_time_zone_is_written() -> None:
    """Otherwise the user would get no one-time password."""
    consumer = Consumer()
    assert consumer.run(row("users", "c", 10, {"id": 1, "club_id": 3})) == []
    assert consumer.cluster.rows("users-g1")["1"] == {"id": 1, "club_id": 3}
    assert len(letters(consumer)) == 1
    consumer.run(row("users", "u", 20, {"id": 1, "club_id": None}))
    assert consumer.cluster.rows("users-g1") == {}, "the owner counts"


def test_row_without_its_time_zone_waits_for_a_busy_index() -> None:
    consumer = Consumer()
    consumer.cluster.refuse["users-g1", "1"] = 429, "busy"
    lost = row("users", "c", 10, {"id": 1, "club_id": 3})
    assert consumer.run(lost) == [lost.offset]
    assert letters(consumer) == []
