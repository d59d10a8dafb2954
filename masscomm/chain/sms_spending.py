"""Reserves what SMS cost, before they are sent, in the daily limit of their club (tenant).

The day (UTC) of a club is one item of the table key_usage. The invocation that reserves the cost of an SMS gives it
back if the provider has certainly not accepted it; another invocation, such as that of a redelivered record, reserves
and gives back its own. So the costs of an invocation that was killed stay reserved: its SMS may have been sent.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from masscomm.clock import Clock
from masscomm.domain.key_limits import Limit, Use, Window
from masscomm.domain.provider_errors import ProviderError, SpendLimit, Transient
from masscomm.domain.sms_settings import sms_table
from masscomm.errors import MasscommError, Retry
from masscomm.observability import logs

logger = logs.logger("delivery")

SPENT = Limit(name="sms_micro_dollars", setting="", window_s=86_400)
# How often it is counted how many SMS still fit: other environments of the function reserve at the same time.
_ROUNDS = 5


class SpentAmounts(Protocol):
    """The store of amounts (masscomm.stores.key_usage)."""

    def take(self, window: Window, amount: int) -> Use:
        """Add an amount to a window unless it would exceed the maximum. Raises Retry or Stop."""
        ...

    def give_back(self, window: Window, amount: int) -> None:
        """Subtract an amount from a window, once. Raises Retry or Stop."""
        ...


class Reserved(NamedTuple):
    """The reserved cost of an SMS."""

    # The day.
    window: Window
    micro_dollars: int


@dataclass(frozen=True, kw_only=True)
class SmsSpending:
    """The use case. Each function environment has one instance."""

    store: SpentAmounts
    clock: Clock

    def reserve(self, club_id: int, costs: Sequence[int], *, is_critical: bool) -> list[Reserved | ProviderError]:
        """Reserve the costs of SMS, in micro-dollars, by one request if they all fit.

        Returns:
            For each SMS its reserved cost, SpendLimit, or Transient if the store does not answer. Raises Stop.
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
                return [
                    Reserved(window, cost) if is_fitting else SpendLimit()
                    for cost, is_fitting in zip(costs, fits, strict=True)
                ]
            fits = _fitting(costs, maximum - use.used)
            if not any(fits):
                return [SpendLimit() for _ in costs]
        return [Transient("the costs of SMS change at the same time")] * len(costs)

    def give_back(self, costs: Iterable[Reserved]) -> None:
        """Give back the costs of SMS that were not sent. They stay reserved if the store does not answer, because the
        results of other SMS must not wait for it.
        """
        amounts: Counter[Window] = Counter()
        for window, cost in costs:
            amounts[window] += cost
        for window, amount in amounts.items():
            try:
                self.store.give_back(window, amount)
            except MasscommError as error:
                logger.warning("the costs of SMS that were not sent stay reserved", amount=amount, error=str(error))


def _fitting(costs: Sequence[int], room: int) -> list[bool]:
    """Return which of the SMS fit, the first ones first."""
    found = []
    for cost in costs:
        found.append(cost <= room)
        room -= cost if cost <= room else 0
    return found
