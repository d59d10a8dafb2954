"""A tenant uses at most its share of the small lane."""

from functions.preference_checker import small_sends
from functions.preference_checker.small_sends import SmallSends


def test_tenant_has_a_burst_and_a_rate() -> None:
    sends = SmallSends(per_s=2, burst=10)
    assert [sends.admit(1, 4, 0.0) for _ in range(4)] == [True, True, False, False]
    assert sends.admit(1, 2, 0.0)
    assert not sends.admit(1, 3, 1.0)
    assert sends.admit(1, 2, 1.0)


def test_unused_budget_is_capped_at_a_burst() -> None:
    sends = SmallSends(per_s=2, burst=10)
    assert sends.admit(1, 10, 0.0)
    assert not sends.admit(1, 11, 1_000.0)
    assert sends.admit(1, 10, 1_000.0)


def test_tenants_have_separate_budgets() -> None:
    sends = SmallSends(per_s=1, burst=10)
    assert sends.admit(1, 10, 0.0)
    assert sends.admit(2, 10, 0.0)
    assert not sends.admit(1, 1, 0.0)


def test_bucket_of_an_idle_tenant_is_dropped() -> None:
    sends = SmallSends(per_s=1, burst=10)
    for club_id in range(small_sends._MOST_TENANTS):
        assert sends.admit(club_id, 1, 0.0)
    assert sends.admit(-1, 1, 100.0)
    assert list(sends._tokens) == [-1]
    assert not sends.admit(-1, 10, 100.0)
