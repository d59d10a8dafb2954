"""The tests that every store of the use of API keys must pass, in memory and real."""

from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import pytest

from masscomm.chain.sms_spending import SpentAmounts
from masscomm.domain.key_limits import RECIPIENTS, REQUESTS, Use, Window
from masscomm.http.rate_limits import KeyUsage

NOW_S = 1_700_000_000
WINDOW = Window.at(NOW_S, key_id="k1", kind=RECIPIENTS, maximum=10)
TOMORROW = Window.at(NOW_S + 86_400, key_id="k1", kind=RECIPIENTS, maximum=10)


class Spending(KeyUsage, SpentAmounts, Protocol):
    """The store also gives amounts back."""


class KeyUsageContract:
    """Subclasses define the fixture `usage`, an empty store."""

    @pytest.mark.kills(guard="limits.atomic_count")
    def test_amounts_are_added_up_to_the_maximum(self, usage: KeyUsage) -> None:
        assert usage.take(WINDOW, 6) == Use(counted=True, used=6)
        assert usage.take(WINDOW, 5) == Use(counted=False, used=6)
        assert usage.take(WINDOW, 4) == Use(counted=True, used=10)
        assert usage.take(WINDOW, 1) == Use(counted=False, used=10)

    def test_an_amount_above_the_maximum_is_not_counted(self, usage: KeyUsage) -> None:
        assert usage.take(WINDOW, 11) == Use(counted=False, used=0)
        assert usage.take(WINDOW, 11, send_id="s") == Use(counted=False, used=0)
        assert usage.take(WINDOW, 10) == Use(counted=True, used=10)

    @pytest.mark.kills(guard="limits.own_key")
    def test_keys_limits_and_windows_are_apart(self, usage: KeyUsage) -> None:
        others = [
            Window.at(NOW_S, key_id="k2", kind=RECIPIENTS, maximum=10),
            Window.at(NOW_S, key_id="k1", kind=REQUESTS, maximum=10),
            TOMORROW,
        ]
        for window in (WINDOW, *others):
            assert usage.take(window, 10) == Use(counted=True, used=10)

    @pytest.mark.kills(guard="limits.send_counted_once")
    def test_a_send_is_counted_once(self, usage: KeyUsage) -> None:
        """Also if it is repeated on the next day, or when nothing remains."""
        assert usage.take(WINDOW, 6, send_id="s") == Use(counted=True, used=6)
        assert usage.take(WINDOW, 6, send_id="s") == Use(counted=True, used=6)
        assert usage.take(TOMORROW, 6, send_id="s") == Use(counted=True, used=0)
        assert usage.take(WINDOW, 4, send_id="t") == Use(counted=True, used=10)
        assert usage.take(WINDOW, 6, send_id="s") == Use(counted=True, used=10)

    def test_a_refused_send_is_counted_later(self, usage: KeyUsage) -> None:
        usage.take(WINDOW, 6)
        assert usage.take(WINDOW, 6, send_id="s") == Use(counted=False, used=6)
        assert usage.take(TOMORROW, 6, send_id="s") == Use(counted=True, used=6)

    def test_amount_is_given_back_down_to_nothing(self, usage: Spending) -> None:
        usage.take(WINDOW, 6)
        usage.give_back(WINDOW, 4)
        assert usage.take(WINDOW, 8) == Use(counted=True, used=10)
        usage.give_back(TOMORROW, 4)
        assert usage.take(TOMORROW, 1) == Use(counted=True, used=1)


class ConcurrentKeyUsageContract:
    """For stores whose writes are atomic across threads. Subclasses define the fixture `usage`."""

    @pytest.mark.guarantee("limits.exact_under_concurrency")
    @pytest.mark.parametrize("keyed", [False, True])
    def test_concurrent_amounts_never_pass_the_maximum(self, usage: KeyUsage, keyed: bool) -> None:
        def take(number: int) -> bool:
            return usage.take(WINDOW, 3, send_id=f"s{number}" if keyed else None).counted

        with ThreadPoolExecutor(8) as threads:
            counted = list(threads.map(take, range(8)))
        assert sum(counted) == 3
        assert usage.take(WINDOW, 1) == Use(counted=True, used=10)
