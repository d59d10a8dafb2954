"""Decides whether a recipient still waits for the send_at_local of a send.

If clocks skip the time, the user waits until they have skipped it; if they show it twice, the first moment counts. An
unknown or missing time zone means UTC.
"""

from datetime import UTC, datetime
from functools import lru_cache

from masscomm.domain.local_times import parse_local_time
from masscomm.domain.preferences import Decision
from masscomm.domain.statuses import Reason, Status
from masscomm.domain.time_zones import moments, utc, zone_of
from masscomm.domain.users import User


def decide_by_local_time(user: User, text: str, *, now_ms: int, expires_at: int | None) -> Decision | None:
    """Return the decision for a recipient who waits for a local time, on any channel; None once it has come.

    The status is SCHEDULED until then, or EXPIRED if the notification expires before it.

    Raises:
        Stop: No time zones are installed.
        ValueError: The text is not a local time.
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
