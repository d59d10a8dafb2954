"""The ids of accepted events in memory, for unit tests."""

from collections.abc import Iterable, Mapping

from masscomm.domain.records import EventOccurred
from masscomm.domain.time_limits import EVENT_IDS_KEPT_S, OWN_EVENTS_KEPT_S
from masscomm.stores.event_ids.port import EventKey
from masscomm.stores.in_memory import InMemoryStore


class InMemoryEventIds(InMemoryStore):
    """A store of ids in a dictionary, for unit tests."""

    def __init__(self) -> None:
        super().__init__()
        self.stored: dict[EventKey, tuple[str, int]] = {}
        # masscomm's own events, each with its expiry.
        self.own: dict[EventKey, tuple[EventOccurred, int]] = {}

    def known(self, keys: Iterable[EventKey], at_s: int) -> Mapping[EventKey, str]:
        found = {key: self.stored[key] for key in keys if key in self.stored}
        return {key: digest for key, (digest, expires_at) in found.items() if expires_at > at_s}

    def record(self, digests: Mapping[EventKey, str], at_s: int) -> None:
        self.stored |= {key: (digest, at_s + EVENT_IDS_KEPT_S) for key, digest in digests.items()}

    def keep(self, events: Iterable[EventOccurred], at_s: int) -> None:
        self.own |= {EventKey.of(each): (each, at_s + OWN_EVENTS_KEPT_S) for each in events}

    def kept(self, keys: Iterable[EventKey], at_s: int) -> Mapping[EventKey, EventOccurred]:
        found = {key: self.own[key] for key in keys if key in self.own}
        return {key: event for key, (event, expires_at) in found.items() if expires_at > at_s}
