"""Receive webhooks of masscomm, verify them, and print each event once. It needs the standard library alone.

python -m examples.receive_webhooks whsec_… 8899
"""

import base64
import hashlib
import hmac
import json
import sys
import time
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOLERANCE_S = 300


def is_valid(secrets: Sequence[str], headers: Mapping[str, str], body: bytes, now_s: float) -> bool:
    """Return whether one of the secrets signed this body, less than five minutes ago."""
    message_id, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not timestamp.isdecimal() or abs(now_s - int(timestamp)) > TOLERANCE_S:
        return False
    content = f"{message_id}.{timestamp}.".encode() + body
    given = [each.encode() for each in headers.get("webhook-signature", "").split(" ")]
    for secret in secrets:
        digest = hmac.new(base64.b64decode(secret.removeprefix("whsec_")), content, hashlib.sha256).digest()
        expected = b"v1," + base64.b64encode(digest)
        # A comparison in constant time reveals nothing about the signature.
        if any(hmac.compare_digest(expected, each) for each in given):
            return True
    return False


class Receiver(BaseHTTPRequestHandler):
    """Answers 204 to a valid webhook. An event that was received before has no further effect."""

    secrets: Sequence[str] = ()
    # A receiver in production stores the ids of events for some days, together with their effects.
    received: dict[str, object]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        if not is_valid(self.secrets, headers, body, time.time()):
            self.send_error(400)
            return
        if headers["webhook-id"] not in self.received:
            event = self.received[headers["webhook-id"]] = json.loads(body)
            print(json.dumps(event), flush=True)
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        """Print nothing for a request."""


def server(secrets: Sequence[str], port: int) -> ThreadingHTTPServer:
    handler = type("SecretReceiver", (Receiver,), {"secrets": secrets, "received": {}})
    return ThreadingHTTPServer(("127.0.0.1", port), handler)


if __name__ == "__main__":
    *given_secrets, given_port = sys.argv[1:]
    server(given_secrets, int(given_port)).serve_forever()
