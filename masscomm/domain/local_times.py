"""send_at_local: a date and time without a time zone. Each recipient waits until the clocks of the user's own time zone
show it.
"""

import re
from datetime import UTC, datetime, timedelta

from masscomm.domain.limits import LOCAL_TIME_PATTERN

# The offsets of the time zones whose clocks are furthest ahead of UTC and furthest behind it.
_FURTHEST_AHEAD, _FURTHEST_BEHIND = timedelta(hours=14), timedelta(hours=12)
# In each time zone, a time in these years is a moment that Python can represent.
_YEARS = range(1970, 9999)


def parse_local_time(text: str) -> datetime | None:
    """Return the date and time in a text such as 2026-11-24T09:00, without a time zone; None if it is invalid."""
    if not re.fullmatch(LOCAL_TIME_PATTERN, text, re.ASCII):
        return None
    try:
        local_time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return local_time if local_time.year in _YEARS else None


def first_ms(text: str) -> int | None:
    """Return the moment at which the first clocks in the world show this time, in ms since the epoch; None if it is
    invalid.
    """
    return _ms(text, -_FURTHEST_AHEAD)


def last_ms(text: str) -> int | None:
    """Return the moment at which the last clocks in the world show this time, in ms since the epoch; None if it is
    invalid.
    """
    return _ms(text, _FURTHEST_BEHIND)


def _ms(text: str, offset: timedelta) -> int | None:
    local_time = parse_local_time(text)
    if local_time is None:
        return None
    return round((local_time.replace(tzinfo=UTC).timestamp() + offset.total_seconds()) * 1000)
