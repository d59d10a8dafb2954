"""Parses times in RFC 3339."""

import re
from datetime import UTC, datetime

_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
# The earliest and the latest permitted time: far from the limits of Python's calendar, so that no sum of times exceeds
# these.
_EARLIEST, _LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)


def parse_rfc3339(text: str) -> datetime:
    """Return the time in a text such as 2026-11-23T19:30:00+01:00, in UTC. Raises ValueError."""
    if not _RFC3339.fullmatch(text):
        raise ValueError(text)
    try:
        moment = datetime.fromisoformat(text.upper()).astimezone(UTC)
    except OverflowError as error:
        # The UTC time is outside Python's calendar.
        raise ValueError(text) from error
    if not _EARLIEST <= moment < _LATEST:
        raise ValueError(text)
    return moment
