"""A time in another unit is recognised, whatever the unit."""

import pytest

from masscomm.domain.limits import EARLIEST_MS, END_OF_TIME_MS
from masscomm.domain.units import RANGES, unit_problem
from masscomm.kafka.avro import own_schema

NOW_MS = 1_700_000_000_000
UNITS = {"seconds": NOW_MS // 1000, "microseconds": NOW_MS * 1000, "nanoseconds": NOW_MS * 1_000_000}


@pytest.mark.parametrize("field", RANGES)
@pytest.mark.parametrize("unit", UNITS)
def test_time_of_another_unit_names_field_and_unit(field: str, unit: str) -> None:
    problem = unit_problem(field, UNITS[unit])
    assert problem is not None
    assert problem.startswith(f"{field} must be in milliseconds since 1970, from 2001-09-09 to 9999-01-01")
    assert problem.endswith(f"and seems to be in {unit}")


@pytest.mark.parametrize("value", [-1, 0, 19_675, EARLIEST_MS - 1, 2**63 - 1])
def test_number_of_no_unit_names_the_field(value: int) -> None:
    assert unit_problem("expires_at", value) is not None


@pytest.mark.parametrize("value", [None, EARLIEST_MS, NOW_MS, END_OF_TIME_MS - 1])
@pytest.mark.parametrize("field", RANGES)
def test_time_in_milliseconds_has_no_problem(field: str, value: int | None) -> None:
    assert unit_problem(field, value) is None


def test_each_time_of_a_send_has_a_range() -> None:
    fields = own_schema("SendRequested")["fields"]
    assert {field["name"] for field in fields if "timestamp-millis" in str(field["type"])} <= RANGES.keys()
