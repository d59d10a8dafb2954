"""Days of time zones: their first bucket, and the rows from which their exact sum is made."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from functions.metrics_handler.buckets import InexactError, zone_days
from masscomm.domain.grains import Grain


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("zone", "source"),
    [
        ("UTC", Grain.DAY),
        ("Africa/Abidjan", Grain.DAY),
        ("Europe/Madrid", Grain.HOUR),
        ("Asia/Kolkata", Grain.MINUTE),
        ("Asia/Kathmandu", Grain.MINUTE),
        ("Australia/Lord_Howe", Grain.MINUTE),  # summer time moves the clock by half an hour
    ],
)
def test_rows_are_the_coarsest_that_begin_where_the_days_do(zone: str, source: Grain) -> None:
    assert zone_days(ZoneInfo(zone), at("2026-01-01"), at("2027-01-01")).source is source


def test_day_of_a_clock_change_has_its_true_length() -> None:
    found = zone_days(ZoneInfo("Europe/Madrid"), at("2026-10-23T22:00"), at("2026-10-26T00:00"))
    bounds = (*found.starts, found.end)
    assert bounds == (at("2026-10-23T22:00"), at("2026-10-24T22:00"), at("2026-10-25T23:00"), at("2026-10-26T23:00"))


def test_a_day_without_a_midnight_begins_where_its_date_does() -> None:
    found = zone_days(ZoneInfo("America/Sao_Paulo"), at("2018-11-04T00:00"), at("2018-11-05T00:00"))
    assert (*found.starts, found.end) == (at("2018-11-04T03:00"), at("2018-11-05T02:00"))


def test_a_date_that_was_skipped_is_no_day() -> None:
    found = zone_days(ZoneInfo("Pacific/Apia"), at("2011-12-29T10:00"), at("2011-12-31T10:00"))
    assert (*found.starts, found.end) == (at("2011-12-29T10:00"), at("2011-12-30T10:00"), at("2011-12-31T10:00"))


def test_repeated_midnight_begins_its_date_once() -> None:
    found = zone_days(ZoneInfo("America/Havana"), at("2026-11-01T00:00"), at("2026-11-02T00:00"))
    assert (*found.starts, found.end) == (at("2026-11-01T04:00"), at("2026-11-02T05:00"))


@pytest.mark.parametrize(
    ("zone", "day"),
    [
        ("America/St_Johns", "2010-11-07"),  # St John's clocks were put back at 00:01, into the previous day
        ("Africa/Monrovia", "1971-06-01"),  # Liberia's time was 44 minutes and 30 seconds behind UTC
    ],
)
def test_days_of_a_zone_off_the_full_hour_are_refused(zone: str, day: str) -> None:
    with pytest.raises(InexactError):
        zone_days(ZoneInfo(zone), at(day), at(day) + timedelta(days=1))


def test_too_many_days_are_refused_before_they_are_computed() -> None:
    with pytest.raises(ValueError, match="3660"):
        zone_days(ZoneInfo("Europe/Madrid"), at("1970-01-02"), at("2199-01-01"))


def test_span_shorter_than_a_day_has_no_day() -> None:
    assert zone_days(ZoneInfo("Europe/Madrid"), at("2026-11-21T01:00"), at("2026-11-21T02:00")).starts == ()
