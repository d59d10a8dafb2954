"""The interface of the queues of keys: the unsettled messages of ordered endpoints, by the key of their events.

A key without waiting messages has no queue.
"""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from masscomm.domain.webhooks import EndpointKey


class Ordering(NamedTuple):
    """The time (ms since the epoch) since which an endpoint is ordered. Queues of an earlier time are forgotten."""

    endpoint: EndpointKey
    since_ms: int


class KeyQueue(NamedTuple):
    """The waiting messages of a key."""

    # The ids of the messages, the first one at the beginning.
    ids: tuple[str, ...]
    # The time at which the first one is due, in milliseconds since the epoch.
    due_ms: int


class KeyQueues(Protocol):
    """Methods raise Retry (down, slow) or Stop (no table, no permission)."""

    def find(self, ordering: Ordering) -> Mapping[str, KeyQueue]:
        """Return the queues of an endpoint by the digest of their key. The read is consistent."""
        ...

    def replace(self, ordering: Ordering, key: str, old: KeyQueue | None, new: KeyQueue | None, at_s: int) -> bool:
        """Store a queue in the place of another one; None stands for no queue. Return False, and change nothing, if
        another function has changed the queue.

        Args:
            ordering: The endpoint.
            key: The digest of the key.
            old: The queue as it was read.
            new: The queue. It is kept for DELAYED_KEPT_S, as its messages are.
            at_s: The present time in seconds since the epoch.
        """
        ...
