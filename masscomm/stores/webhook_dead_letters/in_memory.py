"""Dead letters of webhooks in memory, for unit tests."""

from collections.abc import Collection, Sequence

from masscomm.domain.webhooks import EndpointKey
from masscomm.stores.in_memory import InMemoryStore
from masscomm.stores.webhook_dead_letters.port import (
    MILLION,
    REMOVED_AT_ONCE,
    Bound,
    DeadLetterPage,
    WebhookDeadLetter,
)


class InMemoryWebhookDeadLetters(InMemoryStore):
    """A store of dead letters in a dictionary, for unit tests."""

    def __init__(self, bound: Bound = MILLION) -> None:
        super().__init__()
        self._bound = bound
        self.stored: dict[tuple[EndpointKey, str], WebhookDeadLetter] = {}

    def put(self, letters: Collection[WebhookDeadLetter]) -> None:
        with self._lock:
            for letter in letters:
                self.stored[letter.endpoint, letter.id] = letter

    def remove_oldest(self, endpoint: EndpointKey, stored: Collection[str]) -> int:
        if not any(map(self._bound.is_sampled, stored)):
            return 0
        with self._lock:
            ids = [letter.id for letter in self._of(endpoint)]
            sample = list(filter(self._bound.is_sampled, ids))[: -self._bound.samples]
            removed = [id_ for id_ in ids if sample and id_ <= sample[-1]][:REMOVED_AT_ONCE]
            for id_ in removed:
                del self.stored[endpoint, id_]
        return len(removed)

    def page(
        self, endpoint: EndpointKey, *, limit: int, after: str, up_to: str, event_type: str | None = None
    ) -> DeadLetterPage:
        found = [letter for letter in self._of(endpoint) if after < letter.id <= up_to]
        read = found[:limit]
        letters = [letter for letter in read if event_type in (None, letter.event.type)]
        return DeadLetterPage(letters, more=len(found) > limit, last=read[-1].id if read else None)

    def find(self, endpoint: EndpointKey, ids: Collection[str]) -> Sequence[WebhookDeadLetter]:
        return [self.stored[endpoint, id_] for id_ in sorted(set(ids)) if (endpoint, id_) in self.stored]

    def delete(self, endpoint: EndpointKey, ids: Collection[str]) -> None:
        with self._lock:
            for id_ in ids:
                self.stored.pop((endpoint, id_), None)

    def _of(self, endpoint: EndpointKey) -> list[WebhookDeadLetter]:
        found = [letter for (key, _), letter in self.stored.items() if key == endpoint]
        return sorted(found, key=lambda letter: letter.id)
