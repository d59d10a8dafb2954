"""The retry schedule: delays double, are spread and bounded, and end at the deadline."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masscomm.chain.bootstrap import retry_schedule
from masscomm.domain.delays import RetrySchedule
from masscomm.errors import Stop
from tests.support.harness.chain import NOW

SCHEDULE = RetrySchedule(first_ms=60_000, last_ms=1_800_000, lifetime_ms=86_400_000)


@given(st.integers(1, 10_000), st.text(max_size=40))
def test_each_delay_doubles_between_its_bounds(n: int, item_id: str) -> None:
    wait = min(60_000 * 2 ** (n - 1), 1_800_000)
    due = SCHEDULE.due_ms(now_ms=NOW, attempt=n, item_id=item_id, deadline_ms=NOW + 10**12)
    assert NOW + wait // 2 <= due < NOW + wait


def test_last_retry_is_at_the_expiry() -> None:
    assert SCHEDULE.due_ms(now_ms=NOW, attempt=9, item_id="a", deadline_ms=NOW + 5) == NOW + 5
    assert SCHEDULE.deadline_ms(since_ms=NOW, expires_at=NOW + 7) == NOW + 7
    assert SCHEDULE.deadline_ms(since_ms=NOW, expires_at=None) == NOW + 86_400_000


def test_records_that_failed_together_are_retried_apart() -> None:
    dues = [SCHEDULE.due_ms(now_ms=NOW, attempt=1, item_id=str(n), deadline_ms=NOW * 2) for n in range(1_000)]
    assert min(dues) < NOW + 33_000
    assert max(dues) > NOW + 57_000


def test_environment_configures_the_back_off(monkeypatch: pytest.MonkeyPatch) -> None:
    assert retry_schedule() == RetrySchedule()
    monkeypatch.setenv("BACK_OFF_FIRST_S", "5")
    monkeypatch.setenv("BACK_OFF_LAST_S", "10.5")
    monkeypatch.setenv("BACK_OFF_LIFETIME_S", "60")
    assert retry_schedule() == RetrySchedule(first_ms=5_000, last_ms=10_500, lifetime_ms=60_000)
    monkeypatch.setenv("BACK_OFF_LAST_S", "soon")
    with pytest.raises(Stop, match="BACK_OFF_LAST_S"):
        retry_schedule()
