"""Cursors of the lists in the metrics database (masscomm.http.cursor has those of every list)."""

from dataclasses import astuple, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from masscomm.http.cursor import checked_text, encode_cursor, position_in
from masscomm.http.parameters import Reader
from masscomm.stores.metrics.port import LogKey, LogQuery, SendListKey, SendListQuery

_EPOCH = datetime.fromtimestamp(0, UTC)


def cursor_after(query: LogQuery | SendListQuery, key: LogKey | SendListKey) -> str:
    """Return the cursor of the page of a list that begins after a row's key."""
    moment, *texts = astuple(key)
    return encode_cursor(_without_position(query), (moment - _EPOCH) // timedelta(microseconds=1), *texts)


def continued[Q: (LogQuery, SendListQuery)](
    query: Q, cursor: str | None, kind: type[LogKey] | type[SendListKey], read: Reader
) -> Q:
    """Return the query of the page that a cursor begins; without a cursor, the query itself.

    Args:
        kind: The class of the query's keys: a moment, and texts.
        read: The parameters of the request.

    Raises:
        Problem: 400 if the text is not a cursor of this query.
    """
    if cursor is None:
        return query
    key: Any = position_in(cursor, _without_position(query), read, lambda parts: _key(parts, kind))
    return replace(query, after=key)


def _key(parts: list[Any], kind: type[LogKey] | type[SendListKey]) -> object:
    """Return the key with these parts. Raises ValueError or OverflowError if there is none."""
    match parts:
        case [int() as at, *texts] if [type(text) for text in texts] == [str] * (len(fields(kind)) - 1):
            return kind(_EPOCH + timedelta(microseconds=at), *map(checked_text, texts))
        case _:
            raise ValueError("not a key")


def _without_position(query: LogQuery | SendListQuery) -> object:
    """Return the query without its position and limit. All pages of the query have the same value."""
    return replace(query, after=None, limit=0)
