"""Cursors of paginated responses: the sort key of a page's last row, and the fingerprint of the query. A cursor is
opaque to callers, and invalid for any other query.

A cursor is base64url over a JSON array of the fingerprint and the parts of the key. It is not signed: a forged cursor
returns only rows that the query returns anyway.
"""

import base64
import binascii
import hashlib
import json
from dataclasses import astuple, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from functions.metrics_handler.http.parameters import Reader
from functions.metrics_handler.store.port import LogKey, LogQuery, SendListKey, SendListQuery
from masscomm.http.problem import Problem

_MAX_LENGTH = 8_000
_EPOCH = datetime.fromtimestamp(0, UTC)


def encode_cursor(query: object, *key: object) -> str:
    """Return the cursor of the page that begins after a key.

    Args:
        query: The query without its position and limit. It must have the same repr on every page.
        key: The parts of the sort key, as JSON values.
    """
    text = json.dumps([_fingerprint(query), *key], separators=(",", ":"), ensure_ascii=False)
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def decode_cursor(cursor: str, query: object) -> list[Any]:
    """Return the parts of the key in a cursor; the caller checks their types and ranges.

    Raises:
        ValueError: The text is not a cursor of this query.
    """
    if len(cursor) > _MAX_LENGTH:
        raise ValueError("too long")
    try:
        text = base64.b64decode(cursor.encode() + b"=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        parts = json.loads(text)
    except (binascii.Error, RecursionError) as error:
        raise ValueError("not a cursor") from error
    match parts:
        case [str() as fingerprint, *key] if fingerprint == _fingerprint(query):
            return key
        case _:
            raise ValueError("not this query's")


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
    try:
        key: Any = _key_in(cursor, query, kind)
    except (ValueError, OverflowError) as error:
        raise cursor_problem(read) from error
    return replace(query, after=key)


def _key_in(cursor: str, query: LogQuery | SendListQuery, kind: type[LogKey] | type[SendListKey]) -> object:
    """Return the key in a cursor. Raises ValueError or OverflowError if the text is not a cursor of this query."""
    match decode_cursor(cursor, _without_position(query)):
        case [int() as at, *texts] if [type(text) for text in texts] == [str] * (len(fields(kind)) - 1):
            return kind(_EPOCH + timedelta(microseconds=at), *map(checked_text, texts))
        case _:
            raise ValueError("not a key")


def _without_position(query: LogQuery | SendListQuery) -> object:
    """Return the query without its position and limit. All pages of the query have the same value."""
    return replace(query, after=None, limit=0)


def checked_text(text: str) -> str:
    """Return a text of a key. Raises ValueError if Postgres refuses it: it has NUL or half of a surrogate pair."""
    if "\0" in text:
        raise ValueError("a text with NUL")
    text.encode()  # Half of a surrogate pair raises ValueError.
    return text


def cursor_problem(read: Reader) -> Problem:
    read.refuse("cursor", "is not one that this query gave: use next_cursor, and change nothing else but limit")
    return read.problem()


def _fingerprint(query: object) -> str:
    return hashlib.sha256(repr(query).encode()).hexdigest()[:16]
