"""Sources of incoming webhooks in memory, for unit tests."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from masscomm.domain.time_limits import REFUSALS_KEPT_S
from masscomm.domain.webhook_sources import (
    MAX_ACCEPTED,
    MAX_REFUSALS,
    AcceptedWebhook,
    RefusedWebhook,
    SourceKey,
    WebhookSource,
)
from masscomm.stores.in_memory import InMemoryStore
from masscomm.stores.webhook_sources.port import Refusals


class InMemoryWebhookSources(InMemoryStore):
    """A store of sources in dictionaries, for unit tests."""

    def __init__(self) -> None:
        super().__init__()
        self.stored: dict[SourceKey, WebhookSource] = {}
        self.accepted: defaultdict[SourceKey, list[AcceptedWebhook]] = defaultdict(list)
        self.refused: defaultdict[SourceKey, list[RefusedWebhook]] = defaultdict(list)

    def put(self, source: WebhookSource) -> None:
        self.stored[source.key] = source

    def find(self, keys: Iterable[SourceKey]) -> Mapping[SourceKey, WebhookSource]:
        return {key: self.stored[key] for key in keys if key in self.stored}

    def of_club(self, club_id: int) -> Sequence[WebhookSource]:
        return [self.stored[key] for key in sorted(self.stored) if key.club_id == club_id]

    def delete(self, key: SourceKey) -> bool:
        with self._lock:
            return self.stored.pop(key, None) is not None

    def accept(self, key: SourceKey, accepted: Sequence[AcceptedWebhook]) -> None:
        with self._lock:
            self.accepted[key] = sorted([*self.accepted[key], *accepted], reverse=True)[:MAX_ACCEPTED]

    def last_accepted(self, key: SourceKey, at_s: int) -> Sequence[AcceptedWebhook]:
        found = self.accepted[key]
        return found if found and found[0].at_ms > (at_s - REFUSALS_KEPT_S) * 1000 else []

    def refuse(self, key: SourceKey, refused: Sequence[RefusedWebhook]) -> None:
        with self._lock:
            self.refused[key] += refused

    def refusals(self, key: SourceKey, at_s: int) -> Refusals:
        refused = self.refused[key]
        since_ms = (at_s - REFUSALS_KEPT_S) * 1000
        kept = [each for each in refused[-MAX_REFUSALS:] if each.at_ms > since_ms]
        return Refusals(len(refused) if kept else 0, sorted(kept, key=lambda each: each.at_ms, reverse=True))
