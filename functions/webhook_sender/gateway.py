"""Posts the messages of a batch from one event loop, as a sliding window: a slow endpoint delays no other.

An endpoint has at most ENDPOINT_CALLS concurrent calls. After its first failure its other messages are not attempted:
they wait with the failed one.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from masscomm.channels.gateway import event_loop
from masscomm.channels.guarded_http import Answer, NoAnswer
from masscomm.channels.public_urls import UrlRefused
from masscomm.channels.signing_keys import SigningKeys
from masscomm.channels.webhook_requests import attempt_of, signed_headers
from masscomm.clock import Clock
from masscomm.domain.time_limits import EVENT_ATTEMPT_S, EVENT_SENDER_RESERVE_S
from masscomm.domain.webhooks import Attempt, Endpoint, Event

# The concurrent calls of an environment, and of one endpoint.
CALLS, ENDPOINT_CALLS = 128, 8


class Http(Protocol):
    async def post(self, url: str, *, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Post a body and return the answer. Raises UrlRefused or NoAnswer."""
        ...


@dataclass(kw_only=True)
class Lane:
    """The messages for one endpoint."""

    endpoint: Endpoint
    pending: deque[Event]
    calls: int = 0
    # Whether a worker may take its next message.
    is_ready: bool = False
    # The messages whose attempt failed, each with the attempt, and the accepted ones.
    failed: list[tuple[Event, Attempt]] = field(default_factory=list)
    accepted: int = 0
    # An error that concerns every endpoint, such as signing keys that cannot be read.
    error: Exception | None = None

    @property
    def is_failing(self) -> bool:
        """Return whether an attempt of this batch has failed."""
        return bool(self.failed or self.error)  # guard: events.after_a_failure


@dataclass(frozen=True, kw_only=True)
class WebhookGateway:
    """Makes the calls. Each function environment has one instance."""

    http: Http
    keys: SigningKeys
    clock: Clock
    # A function that runs a coroutine in the event loop.
    run: Callable[[Coroutine[Any, Any, Any]], Any] = field(default_factory=event_loop)

    def send(self, lanes: Sequence[Lane], remaining_s: Callable[[], float]) -> None:
        """Attempt the messages of each lane, and store the results there. The messages that are not attempted stay
        `pending`: those after a failure, and those without enough time.
        """
        self.run(self._send(lanes, remaining_s))

    async def _send(self, lanes: Sequence[Lane], remaining_s: Callable[[], float]) -> None:
        ready: deque[Lane] = deque()

        def offer(lane: Lane) -> None:
            """Let the next worker take a message of an endpoint, if it may have one more call."""
            if lane.pending and lane.calls < ENDPOINT_CALLS and not lane.is_failing and not lane.is_ready:
                lane.is_ready = True
                ready.append(lane)

        async def work() -> None:
            while ready:
                # An attempt that begins now ends, and is recorded, before the function is stopped.
                # guard: events.time_for_an_attempt
                if remaining_s() <= EVENT_ATTEMPT_S + EVENT_SENDER_RESERVE_S:
                    return
                lane = ready.popleft()
                lane.is_ready = False
                if lane.is_failing:
                    continue
                event = lane.pending.popleft()
                lane.calls += 1
                offer(lane)
                await self._attempt(lane, event)
                lane.calls -= 1
                offer(lane)

        for lane in lanes:
            offer(lane)
        count = min(CALLS, sum(min(len(lane.pending), ENDPOINT_CALLS) for lane in lanes))
        await asyncio.gather(*(asyncio.create_task(work()) for _ in range(count)))

    async def _attempt(self, lane: Lane, event: Event) -> None:
        at_ms, began = self.clock.now_ms(), time.monotonic()
        body = event.body.encode()
        result: Answer | UrlRefused | NoAnswer
        try:
            headers = signed_headers(self.keys.now(), lane.endpoint, message_id=event.id, at_ms=at_ms, body=body)
            result = await self.http.post(lane.endpoint.url, body=body, headers=headers)
        except (UrlRefused, NoAnswer) as refused:
            result = refused
        except Exception as error:
            lane.error = error
            lane.pending.appendleft(event)
            return
        attempt = attempt_of(result, at_ms=at_ms, duration_ms=round((time.monotonic() - began) * 1000))
        if attempt.succeeded:
            lane.accepted += 1
        else:
            lane.failed.append((event, attempt))
