"""Computes which buckets a query requests, and from which stored rows each bucket can be summed exactly.

A day of a time zone begins when its date begins in that zone. It can be summed from the rows of a grain if its
beginning and its end are also beginnings of that grain's buckets, which are in UTC: from hour rows for whole-hour
offsets, from minute rows for half hours and quarters. Days that no stored rows match are refused, never rounded.
"""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from masscomm.domain.grains import Grain, ceiling, floor
from masscomm.http.parameters import of_form
from masscomm.texts import Text

MAX_ZONE_DAYS = 3_660

_MINUTE = timedelta(minutes=1)
_ZONE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+/-]{0,63}", re.ASCII)
# Names in the time zone database that are not accepted: zones with leap seconds, duplicates, and the zone of this
# machine.
_NO_ZONES = ("right/", "posix/", "localtime", "posixrules", "Factory")


class InexactError(ValueError):
    """A day of the time zone cannot be summed exactly from stored rows; the message names the day."""


@dataclass(frozen=True)
class Buckets:
    """Consecutive time buckets of the response."""

    # The beginnings of the time buckets, ascending.
    starts: tuple[datetime, ...]
    # The end of the last time bucket.
    end: datetime
    # The grain (minute, hour or day) of the stored rows that are summed.
    source: Grain


def number_of(granularity: Grain, start: datetime, end: datetime) -> int:
    length = granularity.length
    return (ceiling(end, length) - ceiling(start, length)) // length


def utc_buckets(granularity: Grain, start: datetime, end: datetime) -> Buckets:
    """Return the beginnings of the UTC buckets in [start, end)."""
    length = granularity.length
    first = ceiling(start, length)
    starts = tuple(first + n * length for n in range(number_of(granularity, start, end)))
    return Buckets(starts, first + len(starts) * length, granularity)


def zone_days(zone: ZoneInfo, start: datetime, end: datetime) -> Buckets:
    """Return the beginnings of the days of a time zone in [start, end).

    Raises InexactError, or ValueError if there are more than MAX_ZONE_DAYS days.
    """
    if end - start > MAX_ZONE_DAYS * Grain.DAY.length:
        raise ValueError(Text.ZONE_DAYS.filled(maximum=MAX_ZONE_DAYS))
    first = start.astimezone(zone).date() - timedelta(days=1)
    last = end.astimezone(zone).date() + timedelta(days=2)
    # A date that a zone skipped (Apia, 2011-12-30) begins at the same moment as the next date, and is dropped.
    begins = list(dict.fromkeys(_beginning(first + timedelta(days=n), zone) for n in range((last - first).days + 1)))
    starts = tuple(moment for moment in begins if start <= moment < end)
    if not starts:
        return Buckets((), end, Grain.DAY)
    bounds = (*starts, begins[begins.index(starts[-1]) + 1])
    return Buckets(starts, bounds[-1], _coarsest(bounds, zone))


def _beginning(day: date, zone: ZoneInfo) -> datetime:
    """Return the moment at which a date begins in a time zone. Raises InexactError if it has no single beginning."""
    midnight = datetime.combine(day, time(), zone)
    first, again = (midnight.replace(fold=fold).astimezone(UTC) for fold in (0, 1))
    begins = _date(first, zone) >= day > _date(first - _MINUTE, zone)
    # If clocks are put back just after midnight, the evening of the previous day occurs twice, with a piece of the new
    # day in between.
    once = again <= first or _date(again - _MINUTE, zone) >= day
    if not (begins and once):
        raise InexactError(Text.DAY_HAS_NO_BEGINNING.filled(day=str(day), zone=zone.key))
    return first


def _date(moment: datetime, zone: ZoneInfo) -> date:
    return moment.astimezone(zone).date()


def _coarsest(bounds: tuple[datetime, ...], zone: ZoneInfo) -> Grain:
    for granularity in reversed(Grain):
        if all(floor(moment, granularity.length) == moment for moment in bounds):
            return granularity
    raise InexactError(Text.DAYS_NOT_ON_MINUTES.filled(zone=zone.key))


@of_form(Text.FORM_TIME_ZONE.filled())
def time_zone(text: str) -> ZoneInfo:
    if not _ZONE_NAME.fullmatch(text) or text.startswith(_NO_ZONES):
        raise ValueError(text)
    try:
        return ZoneInfo(text)
    except (KeyError, OSError) as error:  # The name has no file in the time zone database, or is a folder.
        raise ValueError(text) from error
