"""Beginning and end of quiet hours on the user's own clock, even when the clock is changed."""

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from masscomm.domain import time_zones
from masscomm.domain.quiet_hours import current_quiet_period
from masscomm.errors import Stop

DEFAULT_QUIET_HOURS = {"start": "22:00", "end": "07:00"}
BERLIN = "Europe/Berlin"
MINUTE_MS = 60_000


def ms(text: str) -> int:
    """Return the milliseconds of an ISO time with an offset."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def until(said: Any, zone: str, now: str) -> str | None:
    """The end of quiet hours on the zone's clock; None outside of quiet hours."""
    quiet = current_quiet_period(said, zone, ms(now))
    return None if quiet is None else datetime.fromtimestamp(quiet.until_ms / 1000, ZoneInfo(zone)).isoformat()


@pytest.mark.parametrize(
    ("said", "now", "end"),
    [
        (DEFAULT_QUIET_HOURS, "2026-11-21T21:59:59+01:00", None),
        (DEFAULT_QUIET_HOURS, "2026-11-21T22:00:00+01:00", "2026-11-22T07:00:00+01:00"),
        (DEFAULT_QUIET_HOURS, "2026-11-22T00:00:00+01:00", "2026-11-22T07:00:00+01:00"),
        (DEFAULT_QUIET_HOURS, "2026-11-22T06:59:59.999+01:00", "2026-11-22T07:00:00+01:00"),
        (DEFAULT_QUIET_HOURS, "2026-11-22T07:00:00+01:00", None),
        ({"start": "12:00", "end": "14:30"}, "2026-11-21T11:59:59+01:00", None),
        ({"start": "12:00", "end": "14:30"}, "2026-11-21T12:00:00+01:00", "2026-11-21T14:30:00+01:00"),
        ({"start": "12:00", "end": "14:30"}, "2026-11-21T14:30:00+01:00", None),
        ({"start": "00:00", "end": "06:00"}, "2026-11-21T00:00:00+01:00", "2026-11-21T06:00:00+01:00"),
        ({"start": "20:00", "end": "00:00"}, "2026-11-21T23:59:00+01:00", "2026-11-22T00:00:00+01:00"),
        ({"start": "20:00", "end": "24:00"}, "2026-11-21T23:59:00+01:00", "2026-11-22T00:00:00+01:00"),
        ({"start": "22:00:00", "end": "7:00"}, "2026-11-21T23:00:00+01:00", "2026-11-22T07:00:00+01:00"),
        ({" Start": "22:00", "END": "07:00", "days": None}, "2026-11-22T23:00:00+01:00", "2026-11-23T07:00:00+01:00"),
    ],
)
def test_quiet_hours_include_start_and_exclude_end(said: dict[str, Any], now: str, end: str | None) -> None:
    assert until(said, BERLIN, now) == end


@pytest.mark.parametrize(
    ("zone", "said", "now", "end"),
    [
        # Berlin's clocks skip 02:00 to 03:00 on 29 March 2026: the night is an hour shorter.
        (BERLIN, DEFAULT_QUIET_HOURS, "2026-03-28T23:00:00+01:00", "2026-03-29T07:00:00+02:00"),
        # A start or an end within the skipped hour is at 03:00.
        (BERLIN, {"start": "22:00", "end": "02:30"}, "2026-03-29T01:59:00+01:00", "2026-03-29T03:00:00+02:00"),
        (BERLIN, {"start": "02:30", "end": "08:00"}, "2026-03-29T01:59:00+01:00", None),
        (BERLIN, {"start": "02:30", "end": "08:00"}, "2026-03-29T03:00:00+02:00", "2026-03-29T08:00:00+02:00"),
        # Quiet hours within the skipped hour do not occur on that day.
        (BERLIN, {"start": "02:15", "end": "02:45"}, "2026-03-29T03:00:00+02:00", None),
        # Berlin's clocks repeat 02:00 to 03:00 on 25 October 2026: the night is an hour longer.
        (BERLIN, DEFAULT_QUIET_HOURS, "2026-10-24T23:00:00+02:00", "2026-10-25T07:00:00+01:00"),
        # Quiet hours that include a part of the repeated hour include it both times.
        (BERLIN, {"start": "22:00", "end": "02:30"}, "2026-10-25T02:29:00+02:00", "2026-10-25T02:30:00+02:00"),
        (BERLIN, {"start": "22:00", "end": "02:30"}, "2026-10-25T02:30:00+02:00", None),
        (BERLIN, {"start": "22:00", "end": "02:30"}, "2026-10-25T02:00:00+01:00", "2026-10-25T02:30:00+01:00"),
        (BERLIN, {"start": "22:00", "end": "03:00"}, "2026-10-25T02:59:00+02:00", "2026-10-25T03:00:00+01:00"),
        ("Asia/Kolkata", DEFAULT_QUIET_HOURS, "2026-11-21T22:00:00+05:30", "2026-11-22T07:00:00+05:30"),
        ("Asia/Kolkata", DEFAULT_QUIET_HOURS, "2026-11-21T21:59:00+05:30", None),
        ("America/St_Johns", DEFAULT_QUIET_HOURS, "2026-03-07T23:30:00-03:30", "2026-03-08T07:00:00-02:30"),
        # Until 2011 St John's clocks were put back at 00:01, so local time returned to the previous day.
        ("America/St_Johns", {"start": "23:50", "end": "23:30"}, "2010-11-07T00:00:30-02:30",
         "2010-11-06T23:30:00-03:30"),
        # Samoa skipped 30 December 2011: a night that begins on the 29th ends on the 31st.
        ("Pacific/Apia", DEFAULT_QUIET_HOURS, "2011-12-29T23:00:00-10:00", "2011-12-31T07:00:00+14:00"),
        ("Pacific/Apia", {"start": "22:00", "end": "00:00"}, "2011-12-29T23:00:00-10:00", "2011-12-31T00:00:00+14:00"),
        ("Pacific/Apia", DEFAULT_QUIET_HOURS, "2026-11-21T23:00:00+13:00", "2026-11-22T07:00:00+13:00"),
    ],
)  # fmt: skip
def test_quiet_hours_follow_local_time(zone: str, said: dict[str, Any], now: str, end: str | None) -> None:
    assert until(said, zone, now) == end


@pytest.mark.parametrize("said", [None, {}, {"start": None, "end": None}, {"days": None}])
def test_user_without_a_setting_has_no_quiet_hours(said: Any) -> None:
    assert all(current_quiet_period(said, BERLIN, ms(f"2026-11-21T{hour:02}:00+01:00")) is None for hour in range(24))


@pytest.mark.parametrize(
    "said",
    [
        {"start": "22:00"}, {"end": "07:00"}, {"start": "22:00", "end": None}, {"start": "22", "end": "07:00"},
        {"start": "25:00", "end": "07:00"}, {"start": "22:60", "end": "07:00"}, {"start": 22, "end": 7},
        {"start": "10 pm", "end": "7 am"}, {"start": "22:00", "end": "07:00\n"},
        {"start": "\u0968\u0968:00", "end": "07:00"},
        {"start": [], "end": {}}, {"start": "22:00", "end": "07:00:30"},
        {"from": "22:00", "to": "07:00"}, {"days": ["sat"]}, {"enabled": False}, {"start": "22:00", "to": "07:00"},
        {"start": "22:00", "Start": "23:00", "end": "07:00"},
        "22:00-07:00", ["22:00", "07:00"], True, False, 22, [], "", 0,
        {"start": "07:00", "end": "07:00"}, {"start": "00:00", "end": "24:00"},
    ],
)  # fmt: skip
def test_malformed_quiet_hours_are_21_to_9(said: Any) -> None:
    assert until(said, BERLIN, "2026-11-21T20:59:00+01:00") is None
    assert until(said, BERLIN, "2026-11-21T21:00:00+01:00") == "2026-11-22T09:00:00+01:00"
    assert until(said, BERLIN, "2026-11-22T09:00:00+01:00") is None


@pytest.mark.kills(guard="quiet_hours.unknown_name")
def test_unknown_name_adds_21_to_9_to_quiet_hours() -> None:
    """The unknown name may stand for further hours, or for hours at weekends."""
    said = {"start": "13:00", "end": "15:00", "weekend": {"start": "20:00"}}
    assert until(said, BERLIN, "2026-11-21T14:00:00+01:00") == "2026-11-21T15:00:00+01:00"
    assert until(said, BERLIN, "2026-11-21T15:00:00+01:00") is None
    assert until(said, BERLIN, "2026-11-21T22:00:00+01:00") == "2026-11-22T09:00:00+01:00"
    night = DEFAULT_QUIET_HOURS | {"enabled": True}
    assert until(night, BERLIN, "2026-11-21T23:00:00+01:00") == "2026-11-22T09:00:00+01:00"
    assert until({"from": "22:00", "to": "07:00"}, BERLIN, "2026-11-21T20:00:00+01:00") is None


@pytest.mark.parametrize(
    "zone",
    ["", ".", "..", "/etc/localtime", "Europe", "Mars/Base", "a" * 9_000, "\0", "\ud800", None],
)
def test_unknown_time_zone_is_utc(zone: Any) -> None:
    quiet = current_quiet_period(DEFAULT_QUIET_HOURS, zone, ms("2026-11-21T22:00:00+00:00"))
    assert quiet is not None
    assert quiet.until_ms == ms("2026-11-22T07:00:00+00:00")
    assert quiet.rule == "quiet_hours 22:00-07:00 UTC (unknown time zone) until 2026-11-22T07:00:00Z"
    assert current_quiet_period(DEFAULT_QUIET_HOURS, zone, ms("2026-11-22T07:00:00+00:00")) is None


def test_rule_names_hours_time_zone_and_end() -> None:
    now = ms("2026-11-21T23:00:00+01:00")
    rules = [
        current_quiet_period(said, BERLIN, now)
        for said in (DEFAULT_QUIET_HOURS, "nine to five", {"start": "1:00", "end": "01:00"}, {"from": "22:00"})
    ]
    assert [quiet.rule for quiet in rules if quiet is not None] == [
        "quiet_hours 22:00-07:00 Europe/Berlin until 2026-11-22T06:00:00Z",
        "quiet_hours 21:00-09:00 (malformed) Europe/Berlin until 2026-11-22T08:00:00Z",
        "quiet_hours 21:00-09:00 (start is end) Europe/Berlin until 2026-11-22T08:00:00Z",
        "quiet_hours 21:00-09:00 (malformed: from) Europe/Berlin until 2026-11-22T08:00:00Z",
    ]


def test_machine_without_time_zones_is_a_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def absent(name: str) -> ZoneInfo:
        raise ZoneInfoNotFoundError(name)

    monkeypatch.setattr(time_zones, "ZoneInfo", absent)
    time_zones.zone_of.cache_clear()
    try:
        for zone in ("Asia/Tokyo", "UTC", "Mars/Base"):
            with pytest.raises(Stop, match="no time zones"):
                current_quiet_period(DEFAULT_QUIET_HOURS, zone, 1)
    finally:
        time_zones.zone_of.cache_clear()


TIMES = st.times().map(lambda each: f"{each:%H:%M}")
ZONES = st.sampled_from(
    [BERLIN, "Asia/Kolkata", "Pacific/Apia", "America/St_Johns", "Australia/Lord_Howe", "Africa/Casablanca",
     "Pacific/Chatham", "America/Havana", "Asia/Beirut", "Antarctica/Troll", "UTC", "no zone"]
)  # fmt: skip
CHANGES = ["2026-03-29T01:00", "2026-10-25T01:00", "2011-12-30T10:00", "2010-11-07T02:31", "2026-04-05T15:00"]
NEAR_A_CHANGE = st.builds(
    lambda change, seconds: datetime.fromisoformat(change).replace(tzinfo=UTC) + timedelta(seconds=seconds),
    st.sampled_from(CHANGES),
    st.integers(-100_000, 100_000),
)
ANY = st.datetimes(datetime(1990, 1, 1), datetime(2050, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - given a zone there


@pytest.mark.guarantee("quiet_hours.no_user_is_woken")
@given(start=TIMES, end=TIMES, zone=ZONES, now=st.one_of(NEAR_A_CHANGE, ANY))
@example(start="23:50", end="23:30", zone="America/St_Johns", now=datetime(2010, 11, 7, 2, 30, 30, tzinfo=UTC))
@example(start="00:00", end="00:01", zone="America/St_Johns", now=datetime(2010, 11, 7, 2, 30, 59, tzinfo=UTC))
@example(start="22:00", end="02:30", zone=BERLIN, now=datetime(2026, 3, 29, 0, 59, tzinfo=UTC))
def test_quiet_hours_end_at_the_first_moment_outside_them(start: str, end: str, zone: str, now: datetime) -> None:
    """The reference checks each minute, because zones change their offset only at whole minutes."""
    said, now_ms = {"start": start, "end": end}, round(now.timestamp() * 1000)
    if start == end:
        start, end = "21:00", "09:00"
    clock = ZoneInfo("UTC" if zone == "no zone" else zone)

    def shown(moment_ms: int) -> str:
        return f"{datetime.fromtimestamp(moment_ms / 1000, clock):%H:%M}"

    def quiet(moment_ms: int) -> bool:
        at = shown(moment_ms)
        return start <= at < end if start < end else at >= start or at < end

    found = current_quiet_period(said, zone, now_ms)
    assert (found is not None) == quiet(now_ms)
    if found is None:
        return
    assert found.until_ms > now_ms
    assert current_quiet_period(said, zone, found.until_ms) is None
    minute = now_ms // MINUTE_MS * MINUTE_MS
    passed = range(minute, found.until_ms, MINUTE_MS)
    assert found.until_ms % MINUTE_MS == 0
    assert all(quiet(each) for each in passed if each >= now_ms)
    skipped = not any(shown(each) == end for each in range(found.until_ms - 90 * MINUTE_MS, found.until_ms, MINUTE_MS))
    assert shown(found.until_ms) == end or skipped
