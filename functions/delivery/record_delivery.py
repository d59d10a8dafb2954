"""The state of one delivery record whose lease this invocation has, while its recipients are published to and
recorded.
"""

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import Any

from functions.delivery.look_up import Question
from functions.delivery.time_budget import TimeBudget
from masscomm.chain.batch import Item
from masscomm.domain.call_results import RecipientResult
from masscomm.domain.records import DeliveryRequested
from masscomm.domain.sends import SendControl


@dataclass(kw_only=True, eq=False)
class RecordDelivery:
    """A delivery record in progress: the scope of its provider calls (masscomm.channels.gateway.CallScope)."""

    item: Item[DeliveryRequested]
    question: Question
    time_budget: TimeBudget
    # The recorded results by the recipient's position.
    done: dict[int, RecipientResult]
    # The reasons why recipients of the record are delayed.
    errors: set[str] = field(default_factory=set)
    # The control of the paused send that holds the remaining recipients.
    held_by: SendControl | None = None

    @property
    def delivery(self) -> DeliveryRequested:
        return self.item.value

    @property
    def channel(self) -> str:
        return self.item.value.channel

    @property
    def log_keys(self) -> Mapping[str, Any]:
        return self.item.log_keys

    @property
    def has_failed(self) -> bool:
        return self.item.error is not None

    @property
    def is_stopped(self) -> bool:
        """Return whether nothing more is published for the record, because it has failed or its send is paused."""
        return self.has_failed or self.held_by is not None

    def remaining_s(self) -> Awaitable[float]:
        """Return the seconds within which a provider call must end."""
        return self.time_budget.remaining_s()
