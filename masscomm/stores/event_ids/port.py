"""The interface of the store of the ids of events: of those that the REST API has accepted in the last 24 hours, and of
masscomm's own, with their contents.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from masscomm.domain.records import EventOccurred


class EventKey(NamedTuple):
    """Identifies an event."""

    club_id: int
    event_id: str

    @classmethod
    def of(cls, event: EventOccurred) -> "EventKey":
        return cls(event.club_id, event.event_id)


class EventIds(Protocol):
    """Methods raise Retry (down, slow) or Stop (no table, no permission)."""

    def known(self, keys: Iterable[EventKey], at_s: int) -> Mapping[EventKey, str]:
        """Return the digests of the events with these keys that were recorded less than 24 hours before `at_s`
        (seconds since the epoch).
        """
        ...

    def record(self, digests: Mapping[EventKey, str], at_s: int) -> None:
        """Record events with the digests of their contents, after Kafka has acknowledged them. A function that crashes
        before this call leaves an event that is accepted again, and never one that is lost.
        """
        ...

    def keep(self, events: Iterable[EventOccurred], at_s: int) -> None:
        """Record masscomm's own events with their contents, for OWN_EVENTS_KEPT_S."""
        ...

    def kept(self, keys: Iterable[EventKey], at_s: int) -> Mapping[EventKey, EventOccurred]:
        """Return those of masscomm's own events with these keys that are recorded."""
        ...
