"""Debezium's own records, stored in schemas/cdc_examples, are decoded."""

import json
from pathlib import Path
from typing import Any

import pytest

from masscomm.cdc.change_events import (
    ChangeDecoder,
    Heartbeat,
    Irrelevant,
    RowChanged,
    SnapshotCompleted,
    SnapshotStarted,
    TableTruncated,
    columns_of,
)
from masscomm.errors import DeadLetter
from masscomm.kafka.event import KafkaRecord
from masscomm.kafka.topics import cdc_topic
from tests.support.inputs.debezium_records import heartbeat, notification, record, row, truncate

FOLDER = Path(__file__).parents[3] / "schemas" / "cdc_examples"
EXAMPLES = [
    pytest.param(path.stem, example, id=f"{path.stem}-{number}")
    for path in sorted(FOLDER.glob("*.json"))
    for number, example in enumerate(json.loads(path.read_text()))
]
decoder = ChangeDecoder("g1")
SETTINGS_ROW = {"user_id": 1, "channels": {"push": False}, "categories": None, "quiet_hours": None}
TEMPLATE_ROW = {"id": 1, "club_id": 7, "type": "news", "channel": "push", "locale": "en", "title": "t", "body": "b"}


@pytest.mark.parametrize(("what", "example"), EXAMPLES)
def test_debezium_example_is_decoded(what: str, example: dict[str, Any] | None) -> None:
    topic = {"message": "heartbeat"}.get(what, what)
    change = decoder.decode(record(topic, {"id": 1}, example, produced_ms=2_000_000_000_000))
    value = example or {}
    if value.get("op") in ("r", "c", "u"):
        assert isinstance(change, RowChanged)
        assert change.columns is not None
        assert change.columns.keys() == columns_of(change.table).keys(), "every column that is mapped comes"
        assert change.version == (1 if value["op"] == "r" else value["source"]["lsn"])
    elif value.get("op") == "d":
        assert isinstance(change, RowChanged)
        assert change.columns is None
    elif value.get("op") == "m":
        assert isinstance(change, Heartbeat)
        assert change.ts_ms > 1_700_000_000_000
    else:
        assert isinstance(change, SnapshotStarted | SnapshotCompleted | Irrelevant)


def test_each_other_kind_of_change_event_is_decoded() -> None:
    assert decoder.decode(truncate("devices", 5)) == TableTruncated(table="devices", lsn=5)
    assert decoder.decode(heartbeat(5, "1700000000.123999")) == Heartbeat(lsn=5, ts_ms=1_700_000_000_123)
    assert decoder.decode(heartbeat(5, "not ours", prefix="else")) == Irrelevant()
    assert decoder.decode(notification("STARTED", "x")) == SnapshotStarted(snapshot_id="x")
    assert isinstance(decoder.decode(notification("COMPLETED")), SnapshotCompleted)
    assert decoder.decode(notification("IN_PROGRESS")) == Irrelevant()
    assert decoder.decode(record("heartbeat", {"prefix": "x"}, None)) == Irrelevant()


@pytest.mark.parametrize(
    "bad",
    [
        record("users", None, {"op": "u", "source": {"lsn": 1, "ts_ms": 1}, "after": {"id": 1}}),
        record("users", {"a": 1, "b": 2}, {"op": "u", "source": {"lsn": 1, "ts_ms": 1}, "after": {"id": 1}}),
        record("users", {"id": None}, {"op": "u", "source": {"lsn": 1, "ts_ms": 1}, "after": {"id": 1}}),
        record("users", {"id": 1}, {"op": "u", "source": {"lsn": 1, "ts_ms": 1}, "after": None}),
        heartbeat(5, "half past ten"),
        record("notification", {"id": 1}, {"type": "COMPLETED"}),
        KafkaRecord(topic=cdc_topic("users", "another"), partition=0, offset=0, timestamp_ms=0, key=b"{}", value=b"{}"),
    ],
)
def test_value_not_from_debezium_is_dead_lettered(bad: KafkaRecord) -> None:
    with pytest.raises(DeadLetter) as caught:
        decoder.decode(bad)
    assert caught.value.reason == "undecodable"


@pytest.mark.kills(guard="cdc.lost_column")
@pytest.mark.parametrize(
    ("table", "key", "after", "lost"),
    [
        ("user_settings", "user_id", SETTINGS_ROW, "channels"),
        ("user_settings", "user_id", SETTINGS_ROW, "categories"),
        ("user_settings", "user_id", SETTINGS_ROW, "quiet_hours"),
        ("notification_templates", "id", TEMPLATE_ROW, "club_id"),
    ],
)
def test_row_of_a_table_that_lost_a_column_is_refused(table: str, key: str, after: dict[str, Any], lost: str) -> None:
    """The monolith renames a column: its opt-outs are not removed, and no tenant gets the template of another."""
    null = decoder.decode(row(table, "u", 5, after | {lost: None}, key=key))
    assert isinstance(null, RowChanged)
    with pytest.raises(DeadLetter, match=rf"has no column public\.{table}\.{lost}$") as caught:
        decoder.decode(row(table, "u", 6, {name: value for name, value in after.items() if name != lost}, key=key))
    assert caught.value.reason == "invalid"


def test_row_without_a_further_column_is_decoded() -> None:
    """The column is optional."""
    change = decoder.decode(row("user_settings", "c", 5, SETTINGS_ROW, key="user_id"))
    assert isinstance(change, RowChanged)
    assert change.columns is not None
    assert "preference_version" not in change.columns


@pytest.mark.kills(guard="cdc.converted_texts")
def test_text_of_a_char_column_is_decoded_without_blanks() -> None:
    user = {"id": 1, "club_id": 1, "locale": " de  ", "time_zone": "Europe/Berlin   "}
    change = decoder.decode(row("users", "c", 5, user))
    assert isinstance(change, RowChanged)
    assert change.columns == {"id": 1, "club_id": 1, "locale": " de", "time_zone": "Europe/Berlin"}


@pytest.mark.parametrize(("column", "value"), [("club_id", True), ("club_id", "1"), ("locale", 7), ("locale", ["de"])])
def test_value_of_another_type_is_refused(column: str, value: Any) -> None:
    with pytest.raises(DeadLetter, match=rf"users\.{column} is no "):
        decoder.decode(row("users", "c", 5, {"id": 1, "club_id": 1, "time_zone": None, column: value}))
