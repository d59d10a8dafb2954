"""Access tokens in memory, for unit tests."""

from masscomm.domain.webhooks import EndpointKey
from masscomm.stores.in_memory import InMemoryStore
from masscomm.stores.webhook_tokens.port import StoredToken


class InMemoryWebhookTokens(InMemoryStore):
    """A store of access tokens in a dictionary, for unit tests."""

    def __init__(self) -> None:
        super().__init__()
        self.stored: dict[EndpointKey, StoredToken] = {}

    def find(self, endpoint: EndpointKey) -> StoredToken | None:
        return self.stored.get(endpoint)

    def replace(self, endpoint: EndpointKey, token: StoredToken, previous: StoredToken | None) -> bool:
        with self._lock:
            if self.stored.get(endpoint) not in (previous, token):
                return False
            self.stored[endpoint] = token
            return True
