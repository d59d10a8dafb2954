"""Cursors of paginated responses: the sort key of a page's last row, and the fingerprint of the query. A cursor is
opaque to callers, and invalid for any other query.

A cursor is base64url over a JSON array of the fingerprint and the parts of the key. It is not signed: a forged cursor
returns only rows that the query returns anyway.
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Callable
from typing import Any

from masscomm.http.parameters import Reader
from masscomm.json_reader import read_json
from masscomm.texts import Text

_MAX_LENGTH = 8_000


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
        parts = read_json(text)
    except binascii.Error as error:
        raise ValueError("not a cursor") from error
    match parts:
        case [str() as fingerprint, *key] if fingerprint == _fingerprint(query):
            if any(isinstance(part, bool) for part in key):  # Python takes a boolean for an integer.
                raise ValueError("not a key")
            return key
        case _:
            raise ValueError("not this query's")


def position_in[Position](
    cursor: str, query: object, read: Reader, position_of: Callable[[list[Any]], Position]
) -> Position:
    """Return the position in a cursor. Raises Problem with status 400 if the text is not a cursor of this query.

    Args:
        position_of: Returns the position with these parts of the key. Raises ValueError or OverflowError if the parts
            are not a position.
    """
    try:
        return position_of(decode_cursor(cursor, query))
    except (ValueError, OverflowError) as error:
        read.refuse("cursor", Text.CURSOR_UNKNOWN.filled())
        raise read.problem() from error


def _fingerprint(query: object) -> str:
    return hashlib.sha256(repr(query).encode()).hexdigest()[:16]


def checked_text(text: str) -> str:
    """Return a text of a key. Raises ValueError if Postgres refuses it: it has NUL or half of a surrogate pair."""
    if "\0" in text:
        raise ValueError("a text with NUL")
    text.encode()  # Half of a surrogate pair raises ValueError.
    return text
