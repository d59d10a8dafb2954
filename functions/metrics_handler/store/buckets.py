"""Which buckets a query asks for, and from which rows each can be summed exactly.

A day of a time zone begins where its date begins there. It can be summed from the rows of a grain when its beginning
and its end are beginnings of that grain's buckets (which are UTC): whole-hour offsets from hour rows, half hours and
quarters from minute rows. Days that have no such beginning are refused, never rounded.
"""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from functions.metrics_handler.store.port import Granularity

MAX_ZONE_DAYS = 3_660

LENGTH = {
    Granularity.MINUTE: timedelta(minutes=1),
    Granularity.HOUR: timedelta(hours=1),
    Granularity.DAY: timedelta(days=1),
}
_EPOCH = datetime.fromtimestamp(0, UTC)
_MINUTE = timedelta(minutes=1)
_ZONE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+/-]{0,63}", re.ASCII)
# Zones with leap seconds, duplicates, and the zone of this machine.
_NO_ZONES = ("right/", "posix/", "localtime", "posixrules", "Factory")


class InexactError(ValueError):
    """A zone's days cannot be summed exactly from any rows there are; the message says which day."""


@dataclass(frozen=True)
class Buckets:
    """Consecutive buckets."""

    # Their beginnings, ascending.
    starts: tuple[datetime, ...]
    # The end of the last bucket.
    end: datetime
    # The grain of the rows to sum.
    source: Granularity


def floor(moment: datetime, length: timedelta) -> datetime:
    """The beginning of the bucket (UTC) that a moment is in."""
    return _EPOCH + (moment - _EPOCH) // length * length


def ceiling(moment: datetime, length: timedelta) -> datetime:
    """The first beginning of a bucket (UTC) at or after a moment."""
    return _EPOCH - (_EPOCH - moment) // length * length


def number_of(granularity: Granularity, start: datetime, end: datetime) -> int:
    """How many UTC buckets begin in [start, end)."""
    length = LENGTH[granularity]
    return (ceiling(end, length) - ceiling(start, length)) // length


def utc_buckets(granularity: Granularity, start: datetime, end: datetime) -> Buckets:
    """Those that begin in [start, end)."""
    length = LENGTH[granularity]
    first = ceiling(start, length)
    starts = tuple(first + n * length for n in range(number_of(granularity, start, end)))
    return Buckets(starts, first + len(starts) * length, granularity)


def zone_days(zone: ZoneInfo, start: datetime, end: datetime) -> Buckets:
    """The days of a zone that begin in [start, end).

    Errors: InexactError; ValueError where there are more than MAX_ZONE_DAYS.
    """
    if end - start > MAX_ZONE_DAYS * LENGTH[Granularity.DAY]:
        raise ValueError(f"at most {MAX_ZONE_DAYS} days can be asked for in a time zone")
    first = start.astimezone(zone).date() - timedelta(days=1)
    last = end.astimezone(zone).date() + timedelta(days=2)
    # A date that a zone has skipped altogether (Apia, 2011-12-30) begins where the next one does.
    begins = list(dict.fromkeys(_beginning(first + timedelta(days=n), zone) for n in range((last - first).days + 1)))
    starts = tuple(moment for moment in begins if start <= moment < end)
    if not starts:
        return Buckets((), end, Granularity.DAY)
    bounds = (*starts, begins[begins.index(starts[-1]) + 1])
    return Buckets(starts, bounds[-1], _coarsest(bounds, zone))


def _beginning(day: date, zone: ZoneInfo) -> datetime:
    """Return the instant at which a date begins in a zone. Raises InexactError if it has no single beginning."""
    midnight = datetime.combine(day, time(), zone)
    first, again = (midnight.replace(fold=fold).astimezone(UTC) for fold in (0, 1))
    begins = _date(first, zone) >= day > _date(first - _MINUTE, zone)
    # Clocks that go back just after midnight have the evening before twice, with a piece of the new day in between.
    once = again <= first or _date(again - _MINUTE, zone) >= day
    if not (begins and once):
        raise InexactError(f"{day} does not begin at one moment in {zone.key}")
    return first


def _date(moment: datetime, zone: ZoneInfo) -> date:
    return moment.astimezone(zone).date()


def _coarsest(bounds: tuple[datetime, ...], zone: ZoneInfo) -> Granularity:
    for granularity in (Granularity.DAY, Granularity.HOUR, Granularity.MINUTE):
        if all(floor(moment, LENGTH[granularity]) == moment for moment in bounds):
            return granularity
    raise InexactError(f"days of {zone.key} do not begin on whole minutes of UTC there")


def time_zone(text: str) -> ZoneInfo:
    """a name of the IANA time zone database, e.g. Europe/Madrid, Asia/Kolkata, UTC"""
    if not _ZONE_NAME.fullmatch(text) or text.startswith(_NO_ZONES):
        raise ValueError(text)
    try:
        return ZoneInfo(text)
    except (KeyError, OSError) as error:  # no such file, or a folder of the database
        raise ValueError(text) from error
