"""The events in the monolith's outbox: a table into which a transaction inserts the events that it causes. Debezium
captures it like the tables of the directory, so that an event and the rows that it is about commit together.

An inserted row is an event. Rows of a snapshot were events when they were inserted; changed and deleted rows are none.

Source: Debezium's PostgreSQL connector 3.7 with the JSON converter without schemas, as in masscomm.cdc.change_events.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from masscomm.domain.records import EventOccurred
from masscomm.errors import DeadLetter
from masscomm.json_reader import InvalidJson, read_json
from masscomm.kafka.event import KafkaRecord

# The columns of the table; the first two are the key of its records.
COLUMNS = ("club_id", "event_id", "type", "unit", "key", "occurred_at", "data")
KEY_COLUMNS = COLUMNS[:2]
# Debezium's operations: a row of a snapshot, a changed or deleted row, and TRUNCATE.
_NO_EVENTS = ("r", "u", "d", "t")


def event_in(record: KafkaRecord) -> EventOccurred | None:
    """Return the event of an inserted row; None if the record is not one of an inserted row.

    Raises:
        DeadLetter: The record differs from Debezium's format (undecodable), or a column from that of an event
            (invalid). The rules for the values of an event are not checked.
    """
    if record.value is None:
        return None
    try:
        change = read_json(record.value)
    except InvalidJson as error:
        raise DeadLetter("undecodable", f"the value is not JSON: {error}") from error
    operation = change.get("op") if isinstance(change, dict) else None
    if operation in _NO_EVENTS:  # guard: outbox.inserts_alone
        return None
    row = change.get("after") if operation == "c" else None
    if not isinstance(row, dict):
        raise DeadLetter("undecodable", f"no change of a row: the operation is {operation!r:.100}")
    return EventOccurred(
        event_id=_text(row, "event_id"),
        type=_text(row, "type"),
        club_id=_club_id(row),
        unit=_optional_text(row, "unit"),
        key=_optional_text(row, "key"),
        occurred_at=_moment(row),
        data=_text(row, "data"),
    )


def _text(row: Mapping[str, Any], column: str) -> str:
    """Return the text of a column. A whole number, such as an order's, is also one."""
    value = row.get(column)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise DeadLetter("invalid", f"the row of the outbox has no text in {column}")
    return value


def _optional_text(row: Mapping[str, Any], column: str) -> str | None:
    return None if row.get(column) is None else _text(row, column)


def _club_id(row: Mapping[str, Any]) -> int:
    club_id = row.get("club_id")
    if not isinstance(club_id, int) or isinstance(club_id, bool):
        raise DeadLetter("invalid", "the row of the outbox has no whole number in club_id")
    return club_id


def _moment(row: Mapping[str, Any]) -> int:
    """Return occurred_at in milliseconds since the epoch. A number would not say its unit."""
    value = row.get("occurred_at")
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:  # guard: outbox.time_with_zone
        raise DeadLetter("invalid", f"the row of the outbox has no timestamptz in occurred_at: {value!r:.100}")
    return round(moment.timestamp() * 1000)
