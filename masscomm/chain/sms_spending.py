"""Reserves what SMS cost, before they are sent, in the daily limit of their club (tenant).

The day (UTC) of a club is one item of the table key_usage. A number is only added to it, so that nothing repeated lets
the club spend more. More than the SMS cost is reserved for those that are refused or never called, and again for those
of an invocation that was killed or of a later retry.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from masscomm.clock import Clock
from masscomm.domain.key_limits import Limit, Use, Window
from masscomm.domain.provider_errors import ProviderError, SpendLimit, Transient
from masscomm.domain.sms_settings import sms_table
from masscomm.errors import Retry

SPENT = Limit(name="sms_micro_dollars", setting="", window_s=86_400)
# How often it is counted how many SMS still fit: other environments of the function reserve at the same time.
_ROUNDS = 5


class SpentAmounts(Protocol):
    """The store of amounts (masscomm.stores.key_usage)."""

    def take(self, window: Window, amount: int) -> Use:
        """Add an amount to a window unless it would exceed the maximum. Raises Retry or Stop."""
        ...


@dataclass(frozen=True, kw_only=True)
class SmsSpending:
    """The use case. Each function environment has one instance."""

    store: SpentAmounts
    clock: Clock

    def reserve(self, club_id: int, costs: Sequence[int], *, is_critical: bool) -> list[ProviderError | None]:
        """Reserve the costs of SMS, in micro-dollars, by one request if they all fit.

        Returns:
            For each SMS None, SpendLimit, or Transient if the store does not answer. Raises Stop.
        """
        club = sms_table().club(club_id)
        maximum = club.daily if is_critical else club.daily - club.critical_reserve  # guard: sms.critical_reserve
        window = Window.at(self.clock.now_ms() // 1000, key_id=f"sms:{club_id}", kind=SPENT, maximum=maximum)
        fits = [True] * len(costs)
        for _ in range(_ROUNDS):
            amount = sum(cost for cost, is_fitting in zip(costs, fits, strict=True) if is_fitting)
            try:
                use = self.store.take(window, amount)
            except Retry as error:  # guard: sms.spending_unknown
                return [Transient(f"the costs of SMS cannot be reserved: {error}"[:500])] * len(costs)
            if use.counted:
                return [None if is_fitting else SpendLimit() for is_fitting in fits]
            fits = _fitting(costs, maximum - use.used)
            if not any(fits):
                return [SpendLimit() for _ in costs]
        return [Transient("the costs of SMS change at the same time")] * len(costs)


def _fitting(costs: Sequence[int], room: int) -> list[bool]:
    """Return which of the SMS fit, the first ones first."""
    found = []
    for cost in costs:
        found.append(cost <= room)
        room -= cost if cost <= room else 0
    return found
