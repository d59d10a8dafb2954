"""Receives webhooks, and checks their signatures as Standard Webhooks 1.0.0 describes it, without masscomm's code."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.support.servers.http_server import Answer, Asked, http_server

_TOLERANCE_S = 300


@dataclass(frozen=True)
class Received:
    # The headers, with names in small letters.
    headers: Mapping[str, str]
    body: bytes

    @property
    def event(self) -> dict[str, Any]:
        event: dict[str, Any] = json.loads(self.body)
        return event

    def is_signed(self, secret: str) -> bool:
        """Return whether a secret (`whsec_…`) signed the body, less than five minutes ago."""
        sent_at = self.headers["webhook-timestamp"]
        content = b".".join((self.headers["webhook-id"].encode(), sent_at.encode(), self.body))
        digest = hmac.digest(base64.b64decode(secret.removeprefix("whsec_")), content, hashlib.sha256)
        signed = f"v1,{base64.b64encode(digest).decode()}" in self.headers["webhook-signature"].split(" ")
        return signed and abs(time.time() - int(sent_at)) < _TOLERANCE_S


@dataclass
class Receiver:
    """A server on this machine that answers each webhook with 204."""

    url: str
    received: list[Received] = field(default_factory=list)

    def types(self, send_id: str) -> list[str]:
        """Return the types of the events about a send, in the order of their arrival."""
        events = [each.event for each in self.received]
        return [event["type"] for event in events if event["data"].get("send_id") == send_id]


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Yield a receiver of webhooks, which ends with the block."""

    receiver = Receiver("")

    def answer(asked: Asked) -> Answer:
        receiver.received.append(Received({name.lower(): value for name, value in asked.headers.items()}, asked.body))
        return 204, {"Connection": "close"}, b""

    with http_server(answer) as url:
        receiver.url = f"{url}/hook"
        yield receiver
