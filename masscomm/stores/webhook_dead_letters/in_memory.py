"""Dead letters of webhooks in memory, for unit tests."""

from collections.abc import Collection, Sequence

from masscomm.domain.webhooks import EndpointKey
from masscomm.stores.in_memory import InMemoryStore
from masscomm.stores.webhook_dead_letters.port import DeadLetterPage, WebhookDeadLetter


class InMemoryWebhookDeadLetters(InMemoryStore):
    """A store of dead letters in a dictionary, for unit tests."""

    def __init__(self) -> None:
        super().__init__()
        self.stored: dict[tuple[EndpointKey, str], WebhookDeadLetter] = {}

    def put(self, letters: Collection[WebhookDeadLetter]) -> None:
        with self._lock:
            for letter in letters:
                self.stored[letter.endpoint, letter.id] = letter

    def page(
        self,
        endpoint: EndpointKey,
        *,
        limit: int,
        before_ms: int,
        after: str | None = None,
        event_type: str | None = None,
    ) -> DeadLetterPage:
        found = sorted(
            (letter for (key, _), letter in self.stored.items() if key == endpoint and letter.at_ms < before_ms),
            key=lambda letter: letter.id,
        )
        found = [letter for letter in found if after is None or letter.id > after]
        read = found[:limit]
        letters = [letter for letter in read if event_type in (None, letter.event.type)]
        return DeadLetterPage(letters, more=len(found) > limit, last=read[-1].id if read else None)

    def find(self, endpoint: EndpointKey, ids: Collection[str]) -> Sequence[WebhookDeadLetter]:
        return [self.stored[endpoint, id_] for id_ in sorted(set(ids)) if (endpoint, id_) in self.stored]

    def delete(self, endpoint: EndpointKey, ids: Collection[str]) -> None:
        with self._lock:
            for id_ in ids:
                self.stored.pop((endpoint, id_), None)
