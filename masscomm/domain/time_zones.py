"""Time zones, and the moments at which their clocks show a time.

CLDR's names of Windows' zones are in schemas/windows_zones.json, and its names of zones that were renamed in
schemas/zone_aliases.json, because importing Babel would add 67 ms to a cold start.
"""

import json
import re
from collections.abc import Hashable, Mapping
from datetime import datetime, timedelta, timezone, tzinfo
from functools import cache, lru_cache
from zoneinfo import ZoneInfo, available_timezones

from masscomm.domain.names import folded
from masscomm.errors import Stop
from schemas import read_text

# Hours and minutes ahead of UTC: +11:00, UTC+5:30, GMT-3; the sign may be U+2212.
_OFFSET = re.compile(r"(?:utc|gmt)?([+\-\u2212])(\d{1,2})(?::?([0-5]\d))?", re.ASCII)
_SMALLEST_OFFSET, _LARGEST_OFFSET = timedelta(hours=-12), timedelta(hours=14)


def moments(time: datetime, zone: tzinfo) -> list[int]:
    """Return the moments (ms since the epoch) at which clocks show this time. There are two if clocks are put back
    over it; if clocks skip it, the result is the moment of the change.
    """
    early, late = (round(time.replace(tzinfo=zone, fold=fold).timestamp() * 1000) for fold in (0, 1))
    if early <= late:
        return [early, late]
    # Clocks skip this time. The moment of the change lies between the two values, and is searched by bisection.
    before, after = late, early
    while after - before > 1:
        middle = (before + after) // 2
        if wall_time(middle, zone) < time:
            before = middle
        else:
            after = middle
    return [after]


def wall_time(moment_ms: int, zone: tzinfo) -> datetime:
    return datetime.fromtimestamp(moment_ms / 1000, zone).replace(tzinfo=None)


@lru_cache(maxsize=4096)
def zone_of(name: str) -> tzinfo | None:
    """Return the time zone, or None if its name is unknown.

    Names are those of IANA, then the same without case and blanks, then those of Windows, then offsets from -12 to +14
    hours. `GMT+11` is eleven hours ahead of UTC; IANA's `Etc/GMT+11` is eleven hours behind it.
    """
    exact = _iana_zone(name)
    if exact is not None:
        return exact
    key = folded(name)
    # Many users have no zone, and listing the names takes 40 ms, once.
    if not key:
        return None
    iana_name = _iana_names().get(key) or _windows_names().get(key)  # guard: time_zones.other_names
    return _fixed_offset(key) if iana_name is None else _iana_zone(iana_name)


@lru_cache(maxsize=4096)
def zone_form(name: str) -> Hashable:
    """Return a value that all names of one time zone share: the offset of a fixed zone, else CLDR's name of the zone.
    For an unknown zone, it is the name without case and blanks.
    """
    zone = zone_of(name)
    if zone is None:
        return folded(name)
    offset = zone.utcoffset(None)
    # A zone has several names, such as Asia/Calcutta and Asia/Kolkata.
    return _cldr_names().get(str(zone), str(zone)) if offset is None else offset  # guard: time_zones.renamed


def utc() -> tzinfo:
    """Return UTC. Raises Stop if it is not installed: every time zone would then be unknown."""
    zone = _iana_zone("UTC")
    if zone is None:
        raise Stop("no time zones are installed: there is no UTC")
    return zone


def _iana_zone(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        # The name is not a file in the time zone database, is not a valid name, or is a folder.
        return None


def _fixed_offset(key: str) -> tzinfo | None:
    found = _OFFSET.fullmatch(key)
    if found is None:
        return None
    size = timedelta(hours=int(found[2]), minutes=int(found[3] or 0))
    offset = size if found[1] == "+" else -size  # guard: time_zones.sign_of_an_offset
    return timezone(offset) if _SMALLEST_OFFSET <= offset <= _LARGEST_OFFSET else None


@cache
def _iana_names() -> Mapping[str, str]:
    return {folded(name): name for name in available_timezones()}


@cache
def _cldr_names() -> Mapping[str, str]:
    names: Mapping[str, str] = json.loads(read_text("zone_aliases.json"))
    return names


@cache
def _windows_names() -> Mapping[str, str]:
    return {folded(name): zone for name, zone in json.loads(read_text("windows_zones.json")).items()}
