"""The place of a row of the log of webhook messages in a cursor."""

from datetime import UTC, datetime, timedelta
from typing import Any

from masscomm.http.cursor import checked_text
from masscomm.stores.metrics.port import WebhookLogKey

_EPOCH = datetime.fromtimestamp(0, UTC)


def log_position(key: WebhookLogKey) -> tuple[int, str, int]:
    """Return the values of a cursor for a row."""
    return ms_of(key.at), key.message_id, key.attempt


def log_key(values: list[Any]) -> WebhookLogKey:
    """Return the row in a cursor. Raises ValueError or OverflowError."""
    match values:
        case [int() as at_ms, str() as message_id, int() as attempt] if abs(attempt) < 2**31:
            return WebhookLogKey(moment_of(at_ms), checked_text(message_id), attempt)
    raise ValueError("not a row")


def ms_of(moment: datetime) -> int:
    """Return a time in milliseconds since the epoch."""
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def moment_of(at_ms: int) -> datetime:
    """Return the time of a number of milliseconds since the epoch. Raises ValueError or OverflowError."""
    return datetime.fromtimestamp(at_ms / 1000, UTC)
