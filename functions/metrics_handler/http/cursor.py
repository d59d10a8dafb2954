"""Cursors of paginated responses: the key of a page's last row, and the fingerprint of the query. A cursor is opaque
to callers, and invalid for any other query.

A cursor is base64url over JSON [query, bucket (s since the epoch), values, count]. It is not signed: a forged cursor
returns only rows that the query returns anyway.
"""

import base64
import binascii
import hashlib
import json
from dataclasses import replace
from datetime import UTC, datetime

from functions.metrics_handler.store.port import Count, Dimension, MetricsQuery

_MAX_LENGTH = 8_000
# The maximum size of a number in a cursor in bits: a sum of 64-bit counts fits.
_NUMBER_BITS = 100


def cursor_after(query: MetricsQuery, row: Count) -> str:
    """Return the cursor of the page that begins after a row."""
    key = [fingerprint(query), int(row.bucket.timestamp()), list(row.values), row.count_total]
    text = json.dumps(key, separators=(",", ":"), ensure_ascii=False)
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def row_before(cursor: str, query: MetricsQuery) -> Count:
    """Return the last row of the page before a cursor. Raises ValueError if the cursor belongs to another query."""
    if len(cursor) > _MAX_LENGTH:
        raise ValueError("too long")
    try:
        text = base64.b64decode(cursor.encode() + b"=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        key = json.loads(text)
    except (binascii.Error, RecursionError) as error:
        raise ValueError("not a cursor") from error
    match key:
        case [str() as asked, int() as seconds, list() as values, int() as count] if asked == fingerprint(query):
            if len(values) != len(query.dimensions) or not all(map(_fits, query.dimensions, values)):
                raise ValueError("not this query's dimensions")
            if count.bit_length() > _NUMBER_BITS or abs(seconds) >= 2**36:
                raise ValueError("no such row")
            return Count(datetime.fromtimestamp(seconds, UTC), tuple(values), int(count))
        case _:
            raise ValueError("not this query's")


def fingerprint(query: MetricsQuery) -> str:
    """Return a hash of the query without its cursor and its limit."""
    same = repr(replace(query, after=None, limit=0, buckets=None, fill=False))
    buckets = None if query.buckets is None else [int(moment.timestamp()) for moment in query.buckets]
    return hashlib.sha256(repr((same, query.fill, buckets)).encode()).hexdigest()[:16]


def _fits(dimension: Dimension, value: object) -> bool:
    if dimension is Dimension.CLUB_ID:
        return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63
    if not isinstance(value, str) or "\0" in value:
        return False
    value.encode()  # Encoding raises ValueError if the text has half of a surrogate pair.
    return True
