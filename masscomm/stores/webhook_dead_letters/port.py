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
        return letter_id(self.at_ms, self.message_id)


def letter_id(at_ms: int, message_id: str) -> str:
    """Return the id of the dead letter of a message that was given up at a time."""
    return f"{at_ms:013d}-{message_id}"


def position_at(at_ms: int) -> str:
    """Return the position after the dead letters of a time, to compare with ids."""
    return f"{at_ms:013d}~"


class Bound(NamedTuple):
    """The number of dead letters of an endpoint that are kept.

    One of `sampled_in` letters is in a sample, by its message's id, and those before the last `samples` of it go. A
    counter would be one item that every write of the endpoint changes, and would differ from the letters after each
    crash and expiry; the sample is stored and deleted with its letters. The number has a standard error of
    1 / sqrt(samples).
    """

    sampled_in: int
    samples: int

    def is_sampled(self, id_: str) -> bool:
        """Return whether the letter with an id is in the sample. The last digits of a message's id are those of a
        hash.
        """
        return int(id_[-8:], 16) % self.sampled_in == 0


# 900,000 letters with a standard error of 30,000: a million is more than three of them away.
MILLION = Bound(sampled_in=1_000, samples=900)
# The letters that one call removes: more than come between two of the sample.
REMOVED_AT_ONCE = 2_500


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

    def remove_oldest(self, endpoint: EndpointKey, stored: Collection[str]) -> int:
        """Delete the oldest dead letters of an endpoint that has more than the bound, at most REMOVED_AT_ONCE. Return
        their number; two concurrent calls may both count one.

        Args:
            endpoint: The endpoint.
            stored: The ids of letters that were just stored. Without one of the sample nothing is read.
        """
        ...

    def page(
        self, endpoint: EndpointKey, *, limit: int, after: str, up_to: str, event_type: str | None = None
    ) -> DeadLetterPage:
        """Return up to `limit` dead letters of an endpoint in their order.

        Args:
            endpoint: The endpoint.
            limit: The number of letters that are read. With a type fewer may be returned.
            after: The id or position after which the page begins.
            up_to: The id or position of the last letter that may be read.
            event_type: The type of their events; None: every type.
        """
        ...

    def find(self, endpoint: EndpointKey, ids: Collection[str]) -> Sequence[WebhookDeadLetter]:
        """Return the dead letters with these ids, as far as they exist."""
        ...

    def delete(self, endpoint: EndpointKey, ids: Collection[str]) -> None:
        """Delete the dead letters with these ids."""
        ...
