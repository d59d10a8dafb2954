"""Webhook endpoints in memory."""

import json
from typing import Any

from masscomm.channels.guarded_http import Answer
from masscomm.channels.signing_keys import SigningKeys
from masscomm.clock import FixedClock
from masscomm.domain.webhooks import Endpoint, EndpointKey
from masscomm.stores.webhook_endpoints.in_memory import InMemoryWebhookEndpoints

KEYS_TEXT = json.dumps({"current": "1", "1": "a key of at least thirty-two bytes"})
KEY = EndpointKey(7, "ep_7_aaaaaaaaaaaaaaaaaaaa")


def key(club_id: int, letter: str = "a") -> EndpointKey:
    return EndpointKey(club_id, f"ep_{club_id}_{letter * 20}")


def url_of(endpoint: EndpointKey) -> str:
    return f"https://{endpoint.id.replace('_', '-')}.example.org/"


def answer(status: int, *, retry_after: str | None = None, body: str = "") -> Answer:
    return Answer(status=status, retry_after=retry_after, body=body)


class Webhooks:
    """A store with an endpoint of club 7, and the keys of its secrets."""

    def __init__(self) -> None:
        self.clock = FixedClock()
        self.endpoints = InMemoryWebhookEndpoints()
        self.keys = SigningKeys(read=lambda: KEYS_TEXT, clock=self.clock)
        self.endpoint()

    def endpoint(self, endpoint: EndpointKey = KEY, **fields: Any) -> Endpoint:
        created = Endpoint(key=endpoint, url=url_of(endpoint), created_at_ms=self.clock.now_ms(), key_id="1", **fields)
        self.endpoints.stored[endpoint] = created
        self.endpoints.listed.add(endpoint.club_id)
        return created

    def stored(self, endpoint: EndpointKey = KEY) -> Endpoint:
        found = self.endpoints.find(endpoint)
        assert found is not None
        return found
