"""Quiet hours: the time of day, in the user's time zone, at which the user receives no notification.

`user_settings.quiet_hours` is null, or {"start": "22:00", "end": "07:00"}: start inclusive, end exclusive, across
midnight if end is before start. The user's local time counts: if clocks are put forward past the end, or back before
the start, quiet hours are over; if clocks are put back into them, they begin again.

The value is a customer's JSON. A malformed value is replaced by DEFAULT_QUIET_HOURS, which disturb no user at night and
end in the morning. A start equal to the end could mean all day or never, and is also replaced. A name other than start
and end may name further hours: DEFAULT_QUIET_HOURS then apply in addition to start and end. An unknown or missing time
zone means UTC.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo
from functools import lru_cache
from itertools import count

from masscomm.domain.categories import category
from masscomm.domain.preferences import Decision
from masscomm.domain.setting_names import malformed, read_names, setting_names
from masscomm.domain.statuses import Reason, Status
from masscomm.domain.time_zones import moments, utc, wall_time, zone_of
from masscomm.domain.users import User, UserSettings

DEFAULT_QUIET_HOURS = (time(21), time(9))
# The delay reason of recipients with the status HELD.
DELAY_REASON = "quiet_hours"
# The largest number of parts into which a record is split because its users' quiet hours end at different times. Above
# it, ends are rounded up to quarters of an hour, because every user may have a different end.
MAX_ENDS = 100
_QUARTER_MS = 15 * 60_000

_TIME = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::00)?|24:00(?::00)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class QuietPeriod:
    """A user's current quiet hours: until_ms is their end (ms since the epoch), rule the text for outcome records."""

    until_ms: int
    rule: str


def current_quiet_period(quiet_hours: object, time_zone: object, now_ms: int) -> QuietPeriod | None:
    """Return the user's quiet hours at the time now_ms, or None outside them.

    Args:
        quiet_hours: The user's setting, of any type.
        time_zone: A name of a time zone, or any value.
        now_ms: The time in ms since the epoch.

    Raises:
        Stop: No time zones are installed.
    """
    zone = time_zone if isinstance(time_zone, str) else ""
    periods = [period for hours in _hours(quiet_hours) if (period := _quiet(hours, zone, now_ms)) is not None]
    return max(periods, key=lambda period: period.until_ms, default=None)


def applied_hours(quiet_hours: object) -> tuple[time, time] | None:
    """Return the start and the end of quiet hours as they apply, or None for a user without quiet hours. Hours with an
    unknown name are returned without the further hours that then apply.
    """
    for hours in _hours(quiet_hours):
        return DEFAULT_QUIET_HOURS if isinstance(hours, str) else hours
    return None


def decide_by_hours(
    user: User, user_settings: UserSettings, *, type: str, at_ms: int | None = None, now_ms: int, expires_at: int | None
) -> Decision | None:
    """Return the decision for a recipient in quiet hours, on any channel; None outside quiet hours.

    The status is HELD until quiet hours end, or EXPIRED if the notification expires before that.

    Raises:
        Stop: No time zones are installed.
    """
    if category(type, at_ms=at_ms).mandatory:
        return None
    quiet = current_quiet_period(user_settings.quiet_hours, user.time_zone, now_ms)
    if quiet is None:
        return None
    if expires_at is not None and expires_at <= quiet.until_ms:
        return Decision(Status.EXPIRED, Reason.EXPIRED, "user", quiet.rule).by(user_settings)
    return Decision(Status.HELD, None, "user", quiet.rule, until_ms=quiet.until_ms).by(user_settings)


def group_by_end[K](ends: Mapping[int, tuple[int, K]]) -> dict[tuple[int, K], set[int]]:
    """Group recipients' positions by (end of quiet hours in ms, key), with at most MAX_ENDS different ends for each
    key.
    """
    groups: dict[tuple[int, K], set[int]] = {}
    for grain in (1, _QUARTER_MS):
        groups.clear()
        for position, (until_ms, key) in ends.items():
            groups.setdefault((-(-until_ms // grain) * grain, key), set()).add(position)
        if len(groups) <= MAX_ENDS:
            break
    return groups


# The result is cached, because most users of a send have the same quiet hours.
@lru_cache(maxsize=4096)
def _quiet(hours: tuple[time, time] | str, time_zone: str, now_ms: int) -> QuietPeriod | None:
    start, end = DEFAULT_QUIET_HOURS if isinstance(hours, str) else hours
    zone = zone_of(time_zone)
    until_ms = _until_ms(start, end, zone or utc(), now_ms)
    if until_ms is None:
        return None
    unread = f" ({hours})" if isinstance(hours, str) else ""
    clock = "UTC (unknown time zone)" if zone is None else time_zone
    until = datetime.fromtimestamp(until_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return QuietPeriod(until_ms, f"quiet_hours {start:%H:%M}-{end:%H:%M}{unread} {clock} until {until}")


def _hours(quiet_hours: object) -> list[tuple[time, time] | str]:
    """Return the quiet hours that apply: for each (start, end), or a text that says why DEFAULT_QUIET_HOURS apply. The
    list is empty if the user has no quiet hours.
    """
    if quiet_hours is None:
        return []
    if not isinstance(quiet_hours, Mapping):
        return [malformed()]
    known, unknown = read_names(quiet_hours, setting_names().quiet_hours)
    # guard: quiet_hours.unknown_name
    others: list[tuple[time, time] | str] = [] if unknown is None else [malformed(unknown)]
    texts = known.get("start"), known.get("end")
    if texts == (None, None):
        return others
    start, end = (_time(text) for text in texts)
    if start is None or end is None:
        return others or [malformed()]
    return [(start, end) if start != end else "start is end", *others]


def _time(text: object) -> time | None:
    found = _TIME.fullmatch(text) if isinstance(text, str) else None
    return None if found is None else time(int(found[1] or 0), int(found[2] or 0))


def _until_ms(start: time, end: time, zone: tzinfo, now_ms: int) -> int | None:
    """Return the end of the current quiet hours in ms since the epoch; None outside them."""

    def quiet(moment_ms: int) -> bool:
        at = wall_time(moment_ms, zone).time()
        return start <= at < end if start < end else at >= start or at < end

    if not quiet(now_ms):
        return None
    today = wall_time(now_ms, zone).date()
    # The search starts with yesterday: when clocks are put back at midnight, yesterday's last hour is repeated.
    for days in count(-1):
        for moment_ms in moments(datetime.combine(today + timedelta(days=days), end), zone):
            if moment_ms > now_ms and not quiet(moment_ms):
                put_back_ms = _put_back_ms(zone, now_ms, moment_ms)
                return moment_ms if put_back_ms is None or quiet(put_back_ms) else put_back_ms
    raise AssertionError("there is always another day")


def _put_back_ms(zone: tzinfo, first_ms: int, last_ms: int) -> int | None:
    """Return the first moment after first_ms, until last_ms, at which clocks have been put back; None if there is none.

    Quiet hours may end at this moment: if clocks are put back from 00:01 to 23:01, hours from 00:00 to 00:30 are over.
    """

    def offset(moment_ms: int) -> timedelta:
        return datetime.fromtimestamp(moment_ms / 1000, zone).utcoffset() or timedelta()

    if offset(last_ms) >= offset(first_ms):
        return None
    before, after = first_ms, last_ms
    while after - before > 1:
        middle = (before + after) // 2
        if offset(middle) == offset(first_ms):
            before = middle
        else:
            after = middle
    return after
