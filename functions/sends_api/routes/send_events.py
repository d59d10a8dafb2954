"""GET /v1/sends/{send_id}/events: a long poll that returns once a send has changed.

after   the version of the previous response; a request without it is answered immediately
wait    the maximum wait in seconds, by default 20: the request must end within API Gateway's 29 s

A version is a digest of the send as GET /v1/sends/{send_id} returns it, without its times of counting. So a restarted
process continues where another one ended, and every change is one: counts, a pause, a cancellation, an expansion. A
send that has ended is answered immediately: later receipts do not wait for a request.

The local gateway relays this route as server-sent events, too (local/emulators/server_sent_events.py).
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypedDict

from functions.sends_api.routes.send import SendBody, SendRoute
from masscomm.domain.time_limits import SEND_POLL_S
from masscomm.http import parameters as parse
from masscomm.http.parameters import Reader
from masscomm.http.read_request import MOVING
from masscomm.http.tenant import Clubs
from masscomm.operations.waiting import Waiting, parse_wait

PARAMETERS = ("after", "wait")


class SendEventBody(TypedDict):
    """A version of a send."""

    version: str
    """The value of `after` in the next request."""
    changed: bool
    complete: bool
    """Whether the send has ended: no further request is necessary."""
    send: SendBody | None
    """The body of GET /v1/sends/{send_id}, after a change."""


@dataclass(frozen=True)
class SendEventsRoute:
    send_route: SendRoute
    waiting: Waiting

    def answer(
        self, send_id: str, parameters: Mapping[str, list[str]], clubs: Clubs, *, caller: str, remaining_s: float
    ) -> SendEventBody:
        """Return the response body.

        Args:
            send_id: The id of the send.
            parameters: The query parameters, {name: values}.
            clubs: The clubs that the caller may read.
            caller: The id of the API key.
            remaining_s: The remaining time of the invocation in seconds.

        Raises:
            Problem: 400, 404 as for GET /v1/sends/{send_id}, or 429 if all of the key's slots are taken.
            Retry: A store is unavailable.
            Stop: The store of slots is missing or not permitted.
        """
        read = Reader(parameters, PARAMETERS)
        after = read.single("after", parse.cursor)
        wait = read.single("wait", parse_wait)
        read.check()

        def current() -> SendBody:
            return self.send_route.answer(send_id, {}, clubs)

        def moved(send: SendBody) -> bool:
            return send["complete"] or version_of(send) != after

        send = self.waiting.until(moved, current, wait=wait, caller=caller, remaining_s=remaining_s, poll_s=SEND_POLL_S)
        version = version_of(send)
        changed = version != after
        return {
            "version": version,
            "changed": changed,
            "complete": send["complete"],
            "send": send if changed else None,
        }


def version_of(send: SendBody) -> str:
    """Return a digest of what the send's counts and control are, whenever they were counted."""
    still = {name: value for name, value in send.items() if name not in MOVING}
    return hashlib.sha256(json.dumps(still, sort_keys=True).encode()).hexdigest()[:32]
