"""Receives webhooks, and checks their signatures as Standard Webhooks 1.0.0 describes it, without masscomm's code."""

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

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

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            receiver.received.append(Received({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            """Print nothing for a request."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver = Receiver(f"http://127.0.0.1:{server.server_port}/hook")
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()
