from datetime import UTC, datetime, timedelta

import pytest
import typer

from cli.times import moment

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "when"),
    [
        ("15m", NOW - timedelta(minutes=15)),
        ("7d", NOW - timedelta(days=7)),
        ("today", NOW - timedelta(hours=12)),
        ("yesterday", NOW - timedelta(hours=36)),
        ("2026-11-21T10:00:00", NOW - timedelta(hours=2)),
        ("2026-11-21T10:00:00+02:00", NOW - timedelta(hours=4)),
    ],
)
def test_time_is_absolute_an_age_or_a_day(text: str, when: datetime) -> None:
    assert moment(text, NOW) == when


@pytest.mark.parametrize("text", ["tomorrow", "", "999999999d"])
def test_malformed_time_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="15m, 2h, 7d"):
        moment(text, NOW)
