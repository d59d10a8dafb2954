"""send_at_local: the moment at which the clocks of each time zone show a time."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masscomm.decisions.local_times import decide_by_local_time
from masscomm.domain.local_times import first_ms, last_ms, parse_local_time
from masscomm.domain.statuses import Status
from masscomm.domain.users import User


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def due_ms(text: str, zone: str) -> int:
    found = decide_by_local_time(User(user_id=1, club_id=1, time_zone=zone), text, now_ms=0, expires_at=None)
    assert found is not None
    assert found.status is Status.SCHEDULED
    assert found.until_ms is not None
    return found.until_ms


@pytest.mark.parametrize(
    ("text", "zone", "moment"),
    [
        ("2026-11-24T09:00", "Europe/Berlin", "2026-11-24T08:00:00+00:00"),
        ("2026-11-24T09:00:30", "Asia/Kolkata", "2026-11-24T03:30:30+00:00"),
        ("2026-11-24T09:00", "Mars/Base", "2026-11-24T09:00:00+00:00"),
        ("2026-11-24T09:00", "", "2026-11-24T09:00:00+00:00"),
        # Clocks skip this time: the wait ends when they are put forward.
        ("2026-03-29T02:30", "Europe/Berlin", "2026-03-29T01:00:00+00:00"),
        # Clocks show this time twice: the first moment counts.
        ("2026-10-25T02:30", "Europe/Berlin", "2026-10-25T00:30:00+00:00"),
        # Samoa skipped the whole of 30 December 2011.
        ("2011-12-30T12:00", "Pacific/Apia", "2011-12-30T10:00:00+00:00"),
    ],
)
def test_each_zone_has_its_own_moment(text: str, zone: str, moment: str) -> None:
    assert due_ms(text, zone) == ms(moment)


def test_the_wait_ends_at_the_moment() -> None:
    user = User(user_id=1, club_id=1, time_zone="Europe/Berlin")
    at = ms("2026-11-24T08:00:00+00:00")
    assert decide_by_local_time(user, "2026-11-24T09:00", now_ms=at, expires_at=None) is None
    early = decide_by_local_time(user, "2026-11-24T09:00", now_ms=at - 1, expires_at=at + 1)
    assert early is not None
    assert early.rule == "send_at_local 2026-11-24T09:00 Europe/Berlin until 2026-11-24T08:00:00Z"
    late = decide_by_local_time(user, "2026-11-24T09:00", now_ms=at - 1, expires_at=at)
    assert late is not None
    assert late.status is Status.EXPIRED


@pytest.mark.parametrize(
    "text",
    ["", "2026-11-24", "09:00", "2026-11-24T09:00Z", "2026-11-24T09:00+01:00", "2026-11-24 09:00", "2026-11-24T24:00",
     "2026-02-29T09:00", "0001-01-01T00:00", "9999-12-31T23:59", "٢٠٢٦-11-24T09:00", "2026-11-24T09:00\n"],
)  # fmt: skip
def test_other_texts_are_no_local_times(text: str) -> None:
    assert parse_local_time(text) is None


@given(
    st.datetimes(datetime(1970, 1, 1), datetime(9998, 12, 31)).map(lambda each: each.replace(second=0, microsecond=0)),  # noqa: DTZ001
    st.sampled_from(sorted(available_timezones())),
)
def test_every_zone_is_between_the_first_and_the_last(local_time: datetime, zone: str) -> None:
    text = local_time.isoformat()
    assert parse_local_time(text) == local_time
    user = User(user_id=1, club_id=1, time_zone=zone)
    found = decide_by_local_time(user, text, now_ms=-(2**60), expires_at=None)
    assert found is not None
    assert found.until_ms is not None
    first, last = first_ms(text), last_ms(text)
    assert first is not None
    assert last is not None
    skipped_ms = 24 * 3_600_000  # The longest change of clocks: Samoa left out a day.
    assert first - skipped_ms <= found.until_ms <= last + skipped_ms
    shown = datetime.fromtimestamp(found.until_ms / 1000, UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    assert shown >= local_time
