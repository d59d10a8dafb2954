"""The times of rules are those of a slow list, also where clocks change."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from dateutil import rrule

from masscomm.domain.recurrences import InvalidRule, LocalTime, read_rule
from masscomm.domain.time_zones import moments

ZONES = ["Europe/Zurich", "America/New_York", "Australia/Lord_Howe", "America/St_Johns", "Africa/Casablanca", "UTC"]
DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
STARTS = ["2023-10-27T02:30", "2024-03-08T00:00", "2024-02-29T23:45", "2023-12-31T01:15"]
LENGTH = timedelta(days=230)


def ms(text: str, zone: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1000)


def random_rule(source: random.Random) -> dict[str, str]:
    frequency = source.choice(["MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY"])
    parts = {"FREQ": frequency, "INTERVAL": str(source.choice([1, 1, 2, 3, 5]))}
    if frequency == "MINUTELY":
        return parts | {"INTERVAL": str(source.choice([15, 45, 60, 95]))}
    if source.random() < 0.5:
        parts["BYMINUTE"] = source.choice(["0", "30", "5,20,50"])
    if frequency == "HOURLY":
        return parts
    if source.random() < 0.6:
        parts["BYHOUR"] = source.choice(["2", "1,2,3", "0,12,23"])
    if source.random() < 0.5:
        parts["BYDAY"] = ",".join(source.sample(DAYS, source.choice([1, 3])))
    if frequency != "WEEKLY" and source.random() < 0.4:
        parts["BYMONTHDAY"] = source.choice(["1,15", "-1", "13,31"])
    if source.random() < 0.3:
        parts["BYMONTH"] = source.choice(["3", "2,3,10,11"])
    return parts


def slow_list(parts: dict[str, str], start: datetime) -> Iterator[datetime]:
    """Yield the local times of a rule: each minute of a year is compared with its parts."""
    interval, frequency = int(parts["INTERVAL"]), parts["FREQ"]

    def numbers(name: str, default: int) -> set[int]:
        return {int(number) for number in parts.get(name, str(default)).split(",")}

    minutes, hours = numbers("BYMINUTE", start.minute), numbers("BYHOUR", start.hour)
    days = parts["BYDAY"].split(",") if "BYDAY" in parts else None
    if frequency == "WEEKLY" and days is None:
        days = [DAYS[start.weekday()]]
    dates = numbers("BYMONTHDAY", 0) if "BYMONTHDAY" in parts else None
    if frequency == "MONTHLY" and days is None and dates is None:
        dates = {start.day}
    months = numbers("BYMONTH", 0) if "BYMONTH" in parts else None
    first_week = start.date() - timedelta(days=start.weekday())
    local = start
    while local < start + LENGTH:
        since = {
            "MONTHLY": (local.year - start.year) * 12 + local.month - start.month,
            "WEEKLY": (local.date() - first_week).days // 7,
            "DAILY": (local.date() - start.date()).days,
            "HOURLY": round((local.replace(minute=0) - start.replace(minute=0)).total_seconds()) // 3600,
            "MINUTELY": round((local - start).total_seconds()) // 60,
        }[frequency]
        last = (local.replace(day=28) + timedelta(days=4)).replace(day=1) - timedelta(days=1)
        if (
            since % interval == 0
            and (frequency == "MINUTELY" or local.minute in minutes)
            and (frequency in ("HOURLY", "MINUTELY") or local.hour in hours)
            and (days is None or DAYS[local.weekday()] in days)
            and (dates is None or local.day in dates or local.day - last.day - 1 in dates)
            and (months is None or local.month in months)
        ):
            yield local
        local += timedelta(minutes=5)


def expected(locals_: list[datetime], zone: str, after_ms: int) -> Iterator[LocalTime]:
    for local in locals_:
        at_ms = moments(local, ZoneInfo(zone))[0]
        if at_ms > after_ms:
            after_ms = at_ms
            yield LocalTime(local.isoformat(timespec="minutes"), at_ms)


@pytest.mark.kills(guard="recurrences.one_time_a_moment")
@pytest.mark.parametrize("seed", range(4))
def test_times_are_those_of_a_slow_list(seed: int) -> None:
    source = random.Random(seed)  # noqa: S311
    start, parts = source.choice(STARTS), random_rule(source)
    begin = datetime.fromisoformat(start)
    every = list(slow_list(parts, begin))
    text = ";".join(f"{name}={value}" for name, value in parts.items())
    for zone in ZONES:
        rule = read_rule(text, start, ZoneInfo(zone))
        for day in (-3, 0, 4, 130, 150):
            after = round((begin + timedelta(days=day, minutes=7)).replace(tzinfo=UTC).timestamp() * 1000)
            wanted = list(islice(expected(every, zone, after), 40))
            found = list(islice(rule.after(after), len(wanted)))
            assert found == wanted, (text, start, zone, day)


def test_skipped_hour_is_at_the_change_of_the_clocks() -> None:
    rule = read_rule("FREQ=DAILY", "2024-03-30T02:30", ZoneInfo("Europe/Zurich"))
    times = list(islice(rule.after(ms("2024-03-30T00:00", "Europe/Zurich")), 3))
    assert [time.text for time in times] == ["2024-03-30T02:30", "2024-03-31T02:30", "2024-04-01T02:30"]
    assert times[1].at_ms == ms("2024-03-31T03:00", "Europe/Zurich")


def test_repeated_hour_counts_once() -> None:
    rule = read_rule("FREQ=DAILY", "2024-10-27T02:30", ZoneInfo("Europe/Zurich"))
    first, second = islice(rule.after(ms("2024-10-27T00:00", "Europe/Zurich")), 2)
    assert first.at_ms == ms("2024-10-27T02:30", "Europe/Zurich")
    assert second.text == "2024-10-28T02:30"


def test_skipped_hour_has_one_time() -> None:
    rule = read_rule("FREQ=MINUTELY;INTERVAL=15", "2024-03-31T00:00", ZoneInfo("Europe/Zurich"))
    times = list(islice(rule.after(ms("2024-03-31T01:30", "Europe/Zurich")), 4))
    assert [time.text[11:] for time in times] == ["01:45", "02:00", "03:15", "03:30"]


@pytest.mark.parametrize(
    ("rule", "times"),
    [
        ("FREQ=DAILY;COUNT=3", ["2023-11-15T09:00", "2023-11-16T09:00"]),
        ("RRULE:FREQ=DAILY;UNTIL=20231115", ["2023-11-15T09:00"]),
        ("FREQ=DAILY;UNTIL=20231115T090000", ["2023-11-15T09:00"]),
        ("FREQ=DAILY;UNTIL=20231115T075959Z", []),
        ("FREQ=MONTHLY;BYDAY=-1FR;COUNT=2", ["2023-11-24T09:00", "2023-12-29T09:00"]),
        ("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1;COUNT=2", ["2023-11-30T09:00", "2023-12-29T09:00"]),
        ("FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO;COUNT=1", ["2024-05-13T09:00"]),
        ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29;COUNT=2", ["2024-02-29T09:00", "2028-02-29T09:00"]),
        ("FREQ=YEARLY;INTERVAL=11", []),
    ],
)
def test_rule_of_the_standard_has_its_times(rule: str, times: list[str]) -> None:
    found = read_rule(rule, "2023-11-14T09:00", ZoneInfo("Europe/Zurich"))
    after = ms("2023-11-14T12:00", "Europe/Zurich")
    assert [time.text for time in islice(found.after(after), 2)] == times[:2]


@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=DAILY;INTERVAL=7;BYDAY=MO",
        "FREQ=HOURLY;INTERVAL=24;BYHOUR=3",
        "FREQ=HOURLY;INTERVAL=168;BYDAY=MO",
        "FREQ=MONTHLY;BYDAY=MO;BYSETPOS=9",
    ],
)
def test_rule_that_never_fires_has_no_time(rule: str) -> None:
    assert read_rule(rule, "2023-11-14T09:00", ZoneInfo("Europe/Zurich")).next(0) is None


@pytest.mark.kills(guard="recurrences.bounded_search")
def test_search_begins_in_the_last_cycle_of_the_calendar(monkeypatch: pytest.MonkeyPatch) -> None:
    """python-dateutil would search from the present until the year 9999."""
    years = set[int]()

    iterated = rrule.rrulebase.__iter__

    def observed(rule: Any) -> Any:
        years.add(rule._dtstart.year)
        return iterated(rule)

    monkeypatch.setattr(rrule.rrulebase, "__iter__", observed)
    assert read_rule("FREQ=DAILY;INTERVAL=7;BYDAY=MO", "2023-11-14T09:00", ZoneInfo("UTC")).next(0) is None
    assert min(years) > 9_500


@pytest.mark.kills(guard="recurrences.least_distance")
@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=MINUTELY",
        "FREQ=MINUTELY;INTERVAL=14",
        "FREQ=HOURLY;BYMINUTE=0,50",
        "FREQ=DAILY;BYHOUR=9;BYMINUTE=0,10",
        "FREQ=DAILY;INTERVAL=0",
        "FREQ=DAILY;INTERVAL=-1",
        "FREQ=DAILY;BYMONTHDAY=0",
        "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=DAILY;BYSETPOS=2",
        "FREQ=DAILY;BYHOUR=9;BYSETPOS=2",
        "FREQ=DAILY;BYSECOND=30",
        "FREQ=WEEKLY;BYDAY=1MO",
        "FREQ=WEEKLY;BYDAY=XX",
        "FREQ=DAILY;FREQ=DAILY",
        "FREQ=DAILY;UNTIL=20231301",
        "FREQ=DAILY;WKST=9",
        "FREQ=MINUTELY;INTERVAL=15;BYHOUR=9",
        "DTSTART:20231114T090000",
    ],
)
def test_unusable_rule_is_refused(rule: str) -> None:
    with pytest.raises(InvalidRule):
        read_rule(rule, "2023-11-14T09:00", ZoneInfo("Europe/Zurich"))
