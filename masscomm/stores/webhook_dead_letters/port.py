"""The interface of the store of webhook dead letters: messages with events that are not attempted any more.

The tenant of the endpoint polls them in their order, acknowledges them, or has them sent
again.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from masscomm.domain.records import EventOccurred
from masscomm.domain.webhooks import EndpointKey


@dataclass(frozen=True, kw_only=True)
class WebhookDeadLetter:
    """A message without further attempts. Times are in milliseconds since the epoch."""

    endpoint: EndpointKey
    # The webhook-id of the message.
    message_id: str
    event: EventOccurred
    # The time of the event's record in Kafka, and that of the dead letter.
    produced_at_ms: int
    at_ms: int
    # Why no attempt follows, in our words.
    reason: str
    # The number of attempts, and the status of the last response; None: there was none.
    attempts: int
    status: int | None = None

    @property
    def id(self) -> str:
        """Return the id among those of the endpoint. Ids are ordered by time."""
        return f"{self.at_ms:013d}-{self.message_id}"


class DeadLetterPage(NamedTuple):
    """Dead letters of an endpoint, the oldest first."""

    letters: Sequence[WebhookDeadLetter]
    # Whether there may be more after the last one.
    more: bool
    # The id after which the next page begins; None: nothing was read.
    last: str | None


class WebhookDeadLetters(Protocol):
    """Methods raise Retry (down, slow) or Stop (no table, no permission)."""

    def put(self, letters: Collection[WebhookDeadLetter]) -> None:
        """Store dead letters. One that is stored already stays as it is."""
        ...

    def page(
        self,
        endpoint: EndpointKey,
        *,
        limit: int,
        before_ms: int,
        after: str | None = None,
        event_type: str | None = None,
    ) -> DeadLetterPage:
        """Return up to `limit` dead letters of an endpoint in their order.

        Args:
            endpoint: The endpoint.
            limit: The number of letters that are read. With a type fewer may be returned.
            before_ms: The time before which they were stored.
            after: The id after which the page begins.
            event_type: The type of their events; None: every type.
        """
        ...

    def find(self, endpoint: EndpointKey, ids: Collection[str]) -> Sequence[WebhookDeadLetter]:
        """Return the dead letters with these ids, as far as they exist."""
        ...

    def delete(self, endpoint: EndpointKey, ids: Collection[str]) -> None:
        """Delete the dead letters with these ids."""
        ...
