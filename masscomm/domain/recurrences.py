"""Recurring times: a recurrence rule (RRULE) of RFC 5545 on the clocks of a time zone.

The rule yields local times. Of a local time that clocks show twice, the first moment counts; one that clocks skip
counts at the moment of the change, as for send_at_local. Local times of one moment are one time.

python-dateutil searches a rule that never fires until the year 9999. The calendar repeats every 400 years, so each
search begins in the last cycle before that year; rules whose search has a step each day are checked for a day first.
So a search takes at most some 0.1 s.
"""

import re
from calendar import monthrange
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from itertools import islice, pairwise, product
from typing import Any, NamedTuple

from masscomm.domain.local_times import parse_local_time
from masscomm.domain.time_zones import moments, wall_time
from masscomm.integers import integer
from masscomm.texts import CodedText, Text

# The least minutes between two local times of a rule.
LEAST_MINUTES = 15
# A rule whose next time is further ahead has ended.
LONGEST_GAP_YEARS = 10
MAX_RULE_CHARACTERS = 500
_MAX_INTERVAL, _MAX_COUNT = 1_000, 10_000
_CYCLE_YEARS, _LAST_CYCLE_ENDS = 400, 9_900
_MINUTES_A_DAY = 24 * 60
_LONGEST_GAP = timedelta(days=366 * LONGEST_GAP_YEARS)
# A date with a weekday recurs within 40 years, also after a century without a leap day.
_EXAMINED_DATES = 41 * 366
_FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY")
_WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_WEEKDAY = re.compile(r"([+-]?\d{1,2})?(MO|TU|WE|TH|FR|SA|SU)", re.ASCII)
_UNTIL = re.compile(r"\d{8}(T\d{6}Z?)?", re.ASCII)


class LocalTime(NamedTuple):
    """A time of a rule."""

    # On the clocks of the zone, such as 2026-11-24T09:00.
    text: str
    # In ms since the epoch.
    at_ms: int


class InvalidRule(ValueError):
    """The rule cannot be used."""

    def __init__(self, message: CodedText) -> None:
        super().__init__(message)
        self.message = message


@dataclass(frozen=True, kw_only=True)
class Recurrence:
    """The times of a rule that `read_rule` has read."""

    zone: tzinfo
    start: datetime
    frequency: str
    interval: int = 1
    # The last local time that the rule may yield.
    until: datetime | None = None
    # The number of its local times from `start` on.
    count: int | None = None
    # The first day of a week, 0 for Monday.
    first_day: int = 0
    # The parts BY…, as dateutil's rrule takes them.
    parts: Mapping[str, Any] = field(default_factory=dict)

    def after(self, moment_ms: int) -> Iterator[LocalTime]:
        """Yield the times after a moment (ms since the epoch), until the rule ends."""
        for local in self._local_times(wall_time(moment_ms, self.zone) - timedelta(days=1)):
            at_ms = moments(local, self.zone)[0]
            if at_ms > moment_ms:  # guard: recurrences.one_time_a_moment
                moment_ms = at_ms
                yield LocalTime(local.isoformat(timespec="minutes"), at_ms)

    def next(self, moment_ms: int) -> LocalTime | None:
        """Return the first time after a moment (ms since the epoch); None if the rule has ended."""
        return next(self.after(moment_ms), None)

    def _local_times(self, lower: datetime) -> Iterator[datetime]:
        """Yield the local times of the rule in order, from `lower` or earlier on."""
        # All times since the start are counted.
        begin = self._period_before(self.start if self.count is not None else max(lower, self.start))
        found = (local for local in self._found(begin) if local >= self.start)
        last = max(lower, self.start)
        for local in islice(found, self.count):
            if local - last > _LONGEST_GAP or (self.until is not None and local > self.until):
                return
            last = max(last, local)
            yield local

    def _found(self, begin: datetime) -> Iterator[datetime]:
        """Yield the local times from the start of a period on."""
        from dateutil import rrule

        years = (_LAST_CYCLE_ENDS - begin.year) // _CYCLE_YEARS * _CYCLE_YEARS  # guard: recurrences.bounded_search
        try:
            rule = rrule.rrule(
                getattr(rrule, self.frequency),
                dtstart=begin.replace(year=begin.year + years),
                interval=self.interval,
                wkst=self.first_day,
                bysecond=0,
                **self.parts,
            )
            for local in rule:
                yield local.replace(year=local.year - years)
        except ValueError:  # No time has all parts.
            return

    def _period_before(self, lower: datetime) -> datetime:
        """Return the start of the period (year, month, …) of the rule that contains `lower`, or an earlier one."""
        midnight = datetime.combine(self.start, time())
        if self.frequency == "YEARLY":
            years = lower.year - self.start.year
            return midnight.replace(year=self.start.year + years - years % self.interval, month=1, day=1)
        if self.frequency == "MONTHLY":
            first = self.start.year * 12 + self.start.month - 1
            months = lower.year * 12 + lower.month - 1 - first
            year, month = divmod(first + months - months % self.interval, 12)
            return midnight.replace(year=year, month=month + 1, day=1)
        base, unit = {
            "WEEKLY": (midnight - timedelta(days=(midnight.weekday() - self.first_day) % 7), timedelta(weeks=1)),
            "DAILY": (midnight, timedelta(days=1)),
            "HOURLY": (self.start.replace(minute=0), timedelta(hours=1)),
            "MINUTELY": (self.start, timedelta(minutes=1)),
        }[self.frequency]
        length = unit * self.interval
        return base + (lower - base) // length * length


def read_rule(text: str, start: str, zone: tzinfo) -> Recurrence:
    """Return the recurrence of an RRULE. Raises InvalidRule.

    Args:
        text: The rule, such as FREQ=WEEKLY;BYDAY=MO.
        start: The local time from which it counts (DTSTART), which has the parts that the rule leaves out.
        zone: The time zone.
    """
    begin = parse_local_time(start)
    if begin is None or begin.second:
        raise InvalidRule(Text.SCHEDULE_START.filled())
    parts = _parts_of(text)
    frequency = parts.get("FREQ", "")
    _check_parts(parts, frequency)
    rule = Recurrence(
        zone=zone,
        start=begin,
        frequency=frequency,
        interval=_number("INTERVAL", parts.get("INTERVAL", "1"), 1, _MAX_INTERVAL),
        count=_number("COUNT", parts["COUNT"], 1, _MAX_COUNT) if "COUNT" in parts else None,
        until=_until(parts["UNTIL"], zone) if "UNTIL" in parts else None,
        first_day=_first_day(parts.get("WKST", "MO")),
        parts=_with_parts_of_start(_by_parts(parts, frequency), frequency, begin),
    )
    _check_distance(rule)
    _check_days(rule)
    return rule


def _parts_of(text: str) -> dict[str, str]:
    """Return the parts of a rule by name."""
    pairs = [part.partition("=") for part in text.removeprefix("RRULE:").split(";")]
    parts = {name: value for name, _, value in pairs}
    if len(text) > MAX_RULE_CHARACTERS or len(parts) < len(pairs) or not all(value for _, _, value in pairs):
        raise InvalidRule(Text.SCHEDULE_RULE_FORM.filled())
    return parts


def _check_parts(parts: Mapping[str, str], frequency: str) -> None:
    """Check the names of parts, and which of them go together (RFC 5545, section 3.3.10)."""
    others = {"FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST", "BYSECOND"}
    if unknown := parts.keys() - others - _RANGES.keys() - {"BYDAY"}:
        raise InvalidRule(Text.SCHEDULE_RULE_PART.filled(part=min(unknown)[:20]))
    if frequency not in _FREQUENCIES:
        raise _invalid("FREQ", ", ".join(_FREQUENCIES))
    if parts.get("BYSECOND", "0") != "0":
        raise _invalid("BYSECOND", "0")
    excluded = {
        "YEARLY": set[str](),
        "MONTHLY": {"BYYEARDAY", "BYWEEKNO"},
        "WEEKLY": {"BYMONTHDAY", "BYYEARDAY", "BYWEEKNO"},
        "DAILY": {"BYYEARDAY", "BYWEEKNO"},
        "HOURLY": {"BYYEARDAY", "BYWEEKNO", "BYSETPOS"},
        "MINUTELY": {"BYYEARDAY", "BYWEEKNO", "BYSETPOS", "BYHOUR", "BYMINUTE"},
    }[frequency]
    both = {"UNTIL"} if "COUNT" in parts else set()
    for part in sorted(parts.keys() & (excluded | both)):
        raise InvalidRule(Text.SCHEDULE_RULE_TOGETHER.filled(part=part, other="COUNT" if part in both else frequency))
    if "BYSETPOS" in parts and not any(name.startswith("BY") and name != "BYSETPOS" for name in parts):
        raise InvalidRule(Text.SCHEDULE_RULE_SETPOS.filled())


# The numbers that a part may have: the lowest and highest, and whether they may be negative.
_RANGES: Mapping[str, tuple[int, int, bool]] = {
    "BYMONTH": (1, 12, False),
    "BYMONTHDAY": (1, 31, True),
    "BYYEARDAY": (1, 366, True),
    "BYWEEKNO": (1, 53, True),
    "BYHOUR": (0, 23, False),
    "BYMINUTE": (0, 59, False),
    "BYSETPOS": (1, 366, True),
}


def _by_parts(parts: Mapping[str, str], frequency: str) -> dict[str, Any]:
    """Return the parts BY… as dateutil takes them."""
    found: dict[str, Any] = {}
    for name in parts.keys() & _RANGES.keys():
        lowest, highest, signed = _RANGES[name]
        numbers = set()
        for text in parts[name].split(","):
            positive = text.lstrip("+-") if signed and re.fullmatch(r"[+-]?\d+", text, re.ASCII) else text
            number = _number(name, positive.removeprefix("0") or "0", lowest, highest)
            numbers.add(-number if text.startswith("-") else number)
        found[name.lower()] = sorted(numbers)
    if "BYDAY" in parts:
        found["byweekday"] = [_weekday(each, parts, frequency) for each in parts["BYDAY"].split(",")]
    return found


def _weekday(text: str, parts: Mapping[str, str], frequency: str) -> Any:
    from dateutil import rrule

    matched = _WEEKDAY.fullmatch(text)
    if matched is None:
        raise _invalid("BYDAY", "MO, TU, WE, TH, FR, SA, SU, 1MO, -1FR")
    day = rrule.weekdays[_WEEKDAYS.index(matched[2])]
    if matched[1] is None:
        return day
    sign, digits = (-1 if matched[1][0] == "-" else 1), matched[1].lstrip("+-").removeprefix("0")
    weeks = _number("BYDAY", digits or "0", 1, 53)
    if frequency not in ("MONTHLY", "YEARLY") or "BYWEEKNO" in parts:
        raise InvalidRule(Text.SCHEDULE_RULE_TOGETHER.filled(part=f"BYDAY={text}", other=frequency))
    return day(sign * weeks)


def _with_parts_of_start(parts: dict[str, Any], frequency: str, start: datetime) -> dict[str, Any]:
    """Return the parts with those that the rule leaves out, which the start has."""
    days = {"byweekno", "byyearday", "bymonthday", "byweekday"} & parts.keys()
    of_start: dict[str, Any] = {}
    if frequency not in ("HOURLY", "MINUTELY"):
        of_start["byhour"] = [start.hour]
    if frequency != "MINUTELY":
        of_start["byminute"] = [start.minute]
    if frequency == "WEEKLY" and not days:
        of_start["byweekday"] = [start.weekday()]
    if frequency in ("MONTHLY", "YEARLY") and not days:
        of_start["bymonthday"] = [start.day]
    if frequency == "YEARLY" and not days:
        of_start["bymonth"] = [start.month]
    return of_start | parts


def _check_distance(rule: Recurrence) -> None:
    """Check that no two local times of a rule are nearer than LEAST_MINUTES. The check regards times of day, so that it
    ends however seldom the rule fires.
    """
    match rule.frequency:
        case "MINUTELY":
            distance = rule.interval
        case "HOURLY":
            distance = _least_distance(rule.parts["byminute"], 60)
        case _:
            times = [hour * 60 + minute for hour, minute in product(rule.parts["byhour"], rule.parts["byminute"])]
            distance = _least_distance(times, _MINUTES_A_DAY)
    if distance < LEAST_MINUTES:  # guard: recurrences.least_distance
        raise InvalidRule(Text.SCHEDULE_RULE_TOO_OFTEN.filled(minutes=LEAST_MINUTES))


def _check_days(rule: Recurrence) -> None:
    """Check that a rule that is searched day by day has a day, and that no rule has only positions beyond its days."""
    parts, days = rule.parts, {"DAILY": 1, "WEEKLY": len(rule.parts.get("byweekday", ()))}.get(rule.frequency)
    if days is not None and "bysetpos" in parts:
        size = days * len(parts["byhour"]) * len(parts["byminute"])
        if min(map(abs, parts["bysetpos"])) > size:
            raise never()
    if rule.frequency not in ("DAILY", "HOURLY", "MINUTELY"):
        return
    weekdays = {day.weekday for day in parts.get("byweekday", ())}
    for number in range(_EXAMINED_DATES):
        day = rule.start.date() + timedelta(days=number)
        is_weekday = not weekdays or day.weekday() in weekdays
        if is_weekday and day.month in parts.get("bymonth", [day.month]) and _is_month_day(day, parts):
            return
    raise never()


def _is_month_day(day: date, parts: Mapping[str, Any]) -> bool:
    wanted = parts.get("bymonthday")
    return wanted is None or day.day in wanted or day.day - monthrange(day.year, day.month)[1] - 1 in wanted


def never() -> InvalidRule:
    """Return the error of a rule that has no time."""
    return InvalidRule(Text.SCHEDULE_RULE_NEVER.filled(years=LONGEST_GAP_YEARS))


def _least_distance(times: list[int], cycle: int) -> int:
    """Return the least minutes between times that recur in each cycle."""
    ordered = sorted(times)
    return min(after - before for before, after in pairwise([*ordered, ordered[0] + cycle]))


def _number(part: str, text: str, lowest: int, highest: int) -> int:
    try:
        return integer(text, lowest, highest)
    except ValueError:
        raise _invalid(part, f"{lowest}…{highest}") from None


def _until(text: str, zone: tzinfo) -> datetime:
    """Return the last local time. The end of a whole day is its last minute, and one in UTC is converted."""
    try:
        until = datetime.fromisoformat(text.removesuffix("Z")) if _UNTIL.fullmatch(text) else None
    except ValueError:
        until = None
    if until is None:
        raise _invalid("UNTIL", "20261231, 20261231T180000, 20261231T170000Z")
    if text.endswith("Z"):
        return wall_time(round(until.replace(tzinfo=UTC).timestamp() * 1000), zone)
    return until if "T" in text else until.replace(hour=23, minute=59)


def _first_day(text: str) -> int:
    if text not in _WEEKDAYS:
        raise _invalid("WKST", ", ".join(_WEEKDAYS))
    return _WEEKDAYS.index(text)


def _invalid(part: str, form: str) -> InvalidRule:
    return InvalidRule(Text.SCHEDULE_RULE_VALUE.filled(part=part, form=form))
