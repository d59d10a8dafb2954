"""The schedule of what waits: doubling, spread, bounded, and over when it has expired."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masscomm.errors import Stop
from masscomm.stores.back_off import BackOff
from tests.support.harness.chain import NOW

BACK_OFF = BackOff(first_ms=60_000, last_ms=1_800_000, lifetime_ms=86_400_000)


@given(st.integers(1, 10_000), st.text(max_size=40))
def test_each_delay_doubles_between_its_bounds(n: int, item_id: str) -> None:
    wait = min(60_000 * 2 ** (n - 1), 1_800_000)
    due = BACK_OFF.due_ms(now_ms=NOW, n=n, item_id=item_id, ends_ms=NOW + 10**12)
    assert NOW + wait // 2 <= due < NOW + wait


def test_the_last_try_is_made_when_it_expires() -> None:
    assert BACK_OFF.due_ms(now_ms=NOW, n=9, item_id="a", ends_ms=NOW + 5) == NOW + 5
    assert BACK_OFF.ends_ms(since_ms=NOW, expires_at=NOW + 7) == NOW + 7
    assert BACK_OFF.ends_ms(since_ms=NOW, expires_at=None) == NOW + 86_400_000


def test_records_that_failed_together_are_retried_apart() -> None:
    dues = [BACK_OFF.due_ms(now_ms=NOW, n=1, item_id=str(n), ends_ms=NOW * 2) for n in range(1_000)]
    assert min(dues) < NOW + 33_000
    assert max(dues) > NOW + 57_000


def test_the_environment_sets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert BackOff.from_environment() == BackOff()
    monkeypatch.setenv("BACK_OFF_FIRST_S", "5")
    monkeypatch.setenv("BACK_OFF_LAST_S", "10.5")
    monkeypatch.setenv("BACK_OFF_LIFETIME_S", "60")
    assert BackOff.from_environment() == BackOff(first_ms=5_000, last_ms=10_500, lifetime_ms=60_000)
    monkeypatch.setenv("BACK_OFF_LAST_S", "soon")
    with pytest.raises(Stop, match="BACK_OFF_LAST_S"):
        BackOff.from_environment()
