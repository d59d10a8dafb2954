"""send_at_local: a date and time without a time zone. Each recipient waits until the clocks of the user's own time zone
show it.

If clocks skip the time, the user waits until they have skipped it; if they show it twice, the first moment counts. An
unknown or missing time zone means UTC.
"""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from masscomm.domain.limits import LOCAL_TIME_PATTERN
from masscomm.domain.preferences import Decision
from masscomm.domain.statuses import Reason, Status
from masscomm.domain.time_zones import moments, utc, zone_of
from masscomm.domain.users import User

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


def first_ms(local_time: datetime) -> int:
    """Return the moment at which the first clocks in the world show this time, in ms since the epoch."""
    return _ms(local_time, -_FURTHEST_AHEAD)


def last_ms(local_time: datetime) -> int:
    """Return the moment at which the last clocks in the world show this time, in ms since the epoch."""
    return _ms(local_time, _FURTHEST_BEHIND)


def decide_by_local_time(user: User, text: str, *, now_ms: int, expires_at: int | None) -> Decision | None:
    """Return the decision for a recipient who waits for a local time, on any channel; None once it has come.

    The status is SCHEDULED until then, or EXPIRED if the notification expires before it.

    Raises:
        Stop: No time zones are installed.
        ValueError: The text is no local time.
    """
    due_ms, rule = _due(text, user.time_zone if isinstance(user.time_zone, str) else "")
    if due_ms <= now_ms:
        return None
    if expires_at is not None and expires_at <= due_ms:
        return Decision(Status.EXPIRED, Reason.EXPIRED, "send", rule)
    return Decision(Status.SCHEDULED, None, "send", rule, None, due_ms)


# The result is cached, because the users of a send have few time zones.
@lru_cache(maxsize=4096)
def _due(text: str, time_zone: str) -> tuple[int, str]:
    """Return the moment (ms since the epoch) and the text for outcome records."""
    local_time = parse_local_time(text)
    if local_time is None:
        raise ValueError(f"{text!r} is no local time")
    zone = zone_of(time_zone)
    due_ms = moments(local_time, zone or utc())[0]
    clock = "UTC (unknown time zone)" if zone is None else time_zone
    until = datetime.fromtimestamp(due_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return due_ms, f"send_at_local {text} {clock} until {until}"


def _ms(local_time: datetime, offset: timedelta) -> int:
    return round((local_time.replace(tzinfo=UTC).timestamp() + offset.total_seconds()) * 1000)
