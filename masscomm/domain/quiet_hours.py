"""Quiet hours: the time of day, on the user's own clock, at which nothing is to reach them.

`user_settings.quiet_hours` is null, or {"start": "22:00", "end": "07:00"}: from the start on, until the end, which no
longer belongs to them; across midnight where the end is the smaller. Other keys are not looked at. It is the clock on
the user's wall that counts: where it is put forward over the end they are over, and where it is put back into them they
begin again.

It is a customer's JSON, and what cannot be read as this is no reason to wake anybody: it means NIGHT, which does not
last for ever. So does a start that is the end, which is all day to one and nothing to another. No hour is day
everywhere: of somebody whose time zone is none, the clock is UTC's, as of somebody who has none.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from functools import lru_cache
from itertools import count
from zoneinfo import ZoneInfo

from masscomm.domain.categories import category
from masscomm.domain.preferences import Decision
from masscomm.domain.statuses import Reason, Status
from masscomm.domain.users import User, UserSettings
from masscomm.errors import Stop

NIGHT = (time(21), time(9))
# The delay reason of HELD recipients.
DELAY_REASON = "quiet_hours"
# Parts of one record that wait until different times. Beyond so many they wait until full quarters of an hour, of which
# a day has few: everybody may have an end of their own.
MAX_ENDS = 100
_QUARTER_MS = 15 * 60_000

_TIME = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::00)?|24:00(?::00)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Quiet:
    """Somebody's quiet hours while they last; until_ms: their end; rule: as it is told."""

    until_ms: int
    rule: str


def quiet_now(said: object, time_zone: object, now_ms: int) -> Quiet | None:
    """The quiet hours that this moment is in, None where it is in none.

    said: the user's quiet_hours, whatever it is; time_zone: an IANA name, or anything else; now_ms: since the epoch.
    Errors: Stop where the machine knows no time zones at all.
    """
    hours = _hours(said)
    return None if hours is None else _quiet(hours, time_zone if isinstance(time_zone, str) else "", now_ms)


def decide_by_hours(
    user: User, user_settings: UserSettings, *, type: str, now_ms: int, expires_at: int | None
) -> Decision | None:
    """What becomes of somebody who may be notified, but not at this time of day, on whatever channel; None: go on.

    Held until their quiet hours end, and expired at once where the notification would have by then.
    Errors: Stop (no time zones).
    """
    if category(type).mandatory:
        return None
    quiet = quiet_now(user_settings.quiet_hours, user.time_zone, now_ms)
    if quiet is None:
        return None
    if expires_at is not None and expires_at <= quiet.until_ms:
        return Decision(Status.EXPIRED, Reason.EXPIRED, "user", quiet.rule, user_settings.version)
    return Decision(Status.HELD, None, "user", quiet.rule, user_settings.version, quiet.until_ms)


def by_end[K](ends: Mapping[int, tuple[int, K]]) -> dict[tuple[int, K], set[int]]:
    """(end, whatever) → the positions it is the end of, at most MAX_ENDS ends unless whatever differs; ends in ms."""
    groups: dict[tuple[int, K], set[int]] = {}
    for grain in (1, _QUARTER_MS):
        groups.clear()
        for position, (until_ms, what) in ends.items():
            groups.setdefault((-(-until_ms // grain) * grain, what), set()).add(position)
        if len(groups) <= MAX_ENDS:
            break
    return groups


# As often as two users of a chunk share them: nearly always.
@lru_cache(maxsize=4096)
def _quiet(hours: tuple[time, time] | str, time_zone: str, now_ms: int) -> Quiet | None:
    start, end = NIGHT if isinstance(hours, str) else hours
    zone = _zone(time_zone)
    until_ms = _until_ms(start, end, zone or _utc(), now_ms)
    if until_ms is None:
        return None
    unread = f" ({hours})" if isinstance(hours, str) else ""
    clock = "UTC (unknown time zone)" if zone is None else time_zone
    until = datetime.fromtimestamp(until_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Quiet(until_ms, f"quiet_hours {start:%H:%M}-{end:%H:%M}{unread} {clock} until {until}")


def _hours(said: object) -> tuple[time, time] | str | None:
    """(start, end), or why they cannot be read; None where nothing is said."""
    if said is None:
        return None
    if not isinstance(said, Mapping):
        return "malformed"
    texts = said.get("start"), said.get("end")
    if texts == (None, None):
        return None
    start, end = (_time(text) for text in texts)
    if start is None or end is None:
        return "malformed"
    return (start, end) if start != end else "start is end"


def _time(text: object) -> time | None:
    found = _TIME.fullmatch(text) if isinstance(text, str) else None
    return None if found is None else time(int(found[1] or 0), int(found[2] or 0))


def _until_ms(start: time, end: time, zone: ZoneInfo, now_ms: int) -> int | None:
    """The first moment from now on that is not in them; None where that is now."""

    def quiet(moment_ms: int) -> bool:
        at = _wall(moment_ms, zone).time()
        return start <= at < end if start < end else at >= start or at < end

    if not quiet(now_ms):
        return None
    today = _wall(now_ms, zone).date()
    # From yesterday on: clocks that are put back at midnight show it once more.
    for days in count(-1):
        for moment_ms in _moments(datetime.combine(today + timedelta(days=days), end), zone):
            if moment_ms > now_ms and not quiet(moment_ms):
                return moment_ms
    raise AssertionError("there is always another day")


def _moments(shown: datetime, zone: ZoneInfo) -> list[int]:
    """When the zone's clocks show it: twice where they are put back over it; where they skip it, when they do so."""
    early, late = (round(shown.replace(tzinfo=zone, fold=fold).timestamp() * 1000) for fold in (0, 1))
    if early <= late:
        return [early, late]
    before, after = late, early  # skipped: each is what it would be by the other side's offset
    while after - before > 1:
        middle = (before + after) // 2
        if _wall(middle, zone) < shown:
            before = middle
        else:
            after = middle
    return [after]


def _wall(moment_ms: int, zone: ZoneInfo) -> datetime:
    return datetime.fromtimestamp(moment_ms / 1000, zone).replace(tzinfo=None)


@lru_cache(maxsize=4096)
def _zone(name: str) -> ZoneInfo | None:
    """None where there is no such zone."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # no such file, no name of one, a folder
        return None


def _utc() -> ZoneInfo:
    """Errors: Stop where there is not even that one: everybody's zone would be an unknown one."""
    zone = _zone("UTC")
    if zone is None:
        raise Stop("no time zones are installed: there is no UTC")
    return zone
