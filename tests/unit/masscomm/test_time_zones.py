"""Time zones are found by the names that other systems give them."""

import json
from datetime import datetime, timedelta

import pytest

from masscomm.domain.time_zones import zone_form, zone_of
from schemas import read_text
from tests.support.zone_data import FILES, zone_data

JANUARY = datetime(2026, 1, 15, 12)  # noqa: DTZ001 - each zone reads it as its own time


def _hours(name: str) -> float | None:
    zone = zone_of(name)
    offset = None if zone is None else zone.utcoffset(JANUARY)
    return None if offset is None else offset / timedelta(hours=1)


@pytest.mark.guarantee("quiet_hours.other_names_of_zones")
@pytest.mark.kills(guard="time_zones.other_names")
@pytest.mark.parametrize("name", ["australia/sydney", " Australia/Sydney ", "AUS Eastern Standard Time"])
def test_other_name_is_the_zone(name: str) -> None:
    assert str(zone_of(name)) == "Australia/Sydney"


@pytest.mark.guarantee("quiet_hours.other_names_of_zones")
@pytest.mark.kills(guard="time_zones.sign_of_an_offset")
@pytest.mark.parametrize(
    ("name", "hours"),
    [
        ("+11:00", 11), ("GMT+11", 11), ("Etc/GMT+11", -11), ("etc/gmt+11", -11), ("UTC+5:30", 5.5), ("UTC -3", -3),
        ("UTC\u22123", -3),
        ("+0530", 5.5), ("-12", -12), ("-12:30", None), ("+14:00", 14), ("+14:15", None), ("+99", None), ("11", None),
        ("", None), ("Mars/Base", None), ("UTC+", None), ("+1:60", None),
    ],
)  # fmt: skip
def test_offset_is_ahead_of_utc(name: str, hours: float | None) -> None:
    assert _hours(name) == hours


@pytest.mark.parametrize("file", FILES)
def test_stored_names_of_zones_equal_those_of_cldr(file: str) -> None:
    """If this fails: python -m tests.support.zone_data"""
    assert read_text(file) == zone_data(file)


def test_each_name_of_windows_is_a_zone() -> None:
    assert [name for name in json.loads(read_text("windows_zones.json")) if zone_of(name) is None] == []


@pytest.mark.kills(guard="time_zones.renamed")
def test_former_name_of_a_zone_has_its_form() -> None:
    assert zone_form("Asia/Calcutta") == zone_form("Asia/Kolkata") == zone_form("India Standard Time")
    assert zone_form("Europe/Kiev") == zone_form("Europe/Kyiv")
    assert zone_form("Europe/Berlin") != zone_form("Europe/Copenhagen")
