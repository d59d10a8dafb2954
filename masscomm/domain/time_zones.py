"""Time zones, and the moments at which their clocks show a time."""

from datetime import datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

from masscomm.errors import Stop


def moments(time: datetime, zone: ZoneInfo) -> list[int]:
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


def wall_time(moment_ms: int, zone: ZoneInfo) -> datetime:
    return datetime.fromtimestamp(moment_ms / 1000, zone).replace(tzinfo=None)


@lru_cache(maxsize=4096)
def zone_of(name: str) -> ZoneInfo | None:
    """Return the time zone, or None if its name is unknown."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        # The name is not a file in the time zone database, is not a valid name, or is a folder.
        return None


def utc() -> ZoneInfo:
    """Return UTC. Raises Stop if it is not installed: every time zone would then be unknown."""
    zone = zone_of("UTC")
    if zone is None:
        raise Stop("no time zones are installed: there is no UTC")
    return zone
