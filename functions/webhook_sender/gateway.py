"""Posts the messages of a batch from one event loop, as a sliding window: a slow endpoint delays no other.

An endpoint has its own limits of concurrent requests and of messages a second. Messages that it cannot take within the
time of the batch stay pending, and so do those after it has not answered or has refused FAILURES_IN_A_ROW requests.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Protocol

from functions.webhook_sender.credentials import EndpointCredentials, NoCredentials
from functions.webhook_sender.http import Http
from functions.webhook_sender.messages import Message, Post
from functions.webhook_sender.ordering import Order
from masscomm.channels.customer_aws import CustomerAws, Entry
from masscomm.channels.gateway import event_loop
from masscomm.channels.guarded_http import Answer, ClientCertificate, NoAnswer
from masscomm.channels.public_urls import UrlRefused
from masscomm.channels.signing_keys import SigningKeys
from masscomm.channels.webhook_requests import attempt_of, signed_headers
from masscomm.clock import Clock
from masscomm.domain.aws_targets import AwsTarget
from masscomm.domain.time_limits import (
    EVENT_ATTEMPT_S,
    EVENT_BATCH_S,
    EVENT_RETRIES_BATCH_S,
    EVENT_SENDER_RESERVE_S,
    WEBHOOK_ATTEMPT_S,
)
from masscomm.domain.webhooks import GONE, Attempt, Endpoint, EndpointKey
from masscomm.observability import logs

logger = logs.logger("webhook_sender")

# The concurrent requests of an environment.
CALLS = 128
# An endpoint that refuses as many requests one after the other is failing, even if it answers.
FAILURES_IN_A_ROW = 3

# The pending requests of an ordered endpoint among which the next one is searched.
_SEARCHED = 1_000

# A request, or the part of one that has the same result, and its attempt.
type Sent = tuple[Post, Attempt]


class Aws(Protocol):
    async def send(
        self, endpoint: Endpoint, target: AwsTarget, entries: Sequence[Entry], timeout_s: float
    ) -> Sequence[Answer]:
        """Send messages to a queue or an event bus, and return the answer to each. Raises NoAnswer, Retry or Stop."""
        ...


@dataclass(frozen=True, kw_only=True)
class BatchTime:
    """The times of a batch in seconds."""

    # The limit of an attempt.
    attempt_s: float
    # How long attempts begin.
    begins_s: float
    # Whether the messages beyond the rate of an endpoint wait within the batch.
    waits: bool


FIRST_ATTEMPTS = BatchTime(attempt_s=EVENT_ATTEMPT_S, begins_s=EVENT_BATCH_S, waits=False)
RETRIES = BatchTime(attempt_s=WEBHOOK_ATTEMPT_S, begins_s=EVENT_RETRIES_BATCH_S, waits=True)


@dataclass(frozen=True)
class Rates:
    """The rates of endpoints, for one environment: an endpoint is in one partition, of which one batch is in flight."""

    # Endpoint → the time at which the messages sent so far are within its rate.
    _until: dict[EndpointKey, float] = field(default_factory=dict)

    def wait_s(self, endpoint: Endpoint, count: int, now: float) -> float:
        """Return after how many seconds an endpoint may get messages; 0 counts them as sent. Up to a second's messages
        may come at once.
        """
        if endpoint.rate_per_s is None:
            return 0.0
        until = max(self._until.get(endpoint.key, 0.0), now - 1)
        if until > now:
            return until - now
        self._until[endpoint.key] = until + count / endpoint.rate_per_s
        return 0.0


@dataclass(kw_only=True)
class Lane:
    """The requests for one endpoint."""

    endpoint: Endpoint
    pending: deque[Post]
    # The request that waits for further messages, if there is one.
    gathered: Sequence[Post] = ()
    # The order of its messages; None: they have none.
    order: Order | None = None
    # The keys of the requests that run, and of those that failed: later ones with these keys wait.
    busy: set[str] = field(default_factory=set)
    # Whether the next request probes a failing endpoint; the others follow once it has succeeded.
    is_probe: bool = False
    calls: int = 0
    # Whether a worker may take its next request.
    is_ready: bool = False
    # The attempted requests with their attempts.
    results: list[Sent] = field(default_factory=list)
    # The failures since the last success.
    failures_in_a_row: int = 0
    # Whether it has stopped to answer, or answers that it wants no more: until a later request succeeds.
    has_stopped: bool = False
    # Whether its credentials cannot be read now: its messages wait, and it does not count as failing.
    is_held: bool = False
    # An error that concerns every endpoint, such as signing keys that cannot be read.
    error: Exception | None = None

    @property
    def concurrency(self) -> int:
        """Return the number of requests that may run at the same time."""
        return 1 if self.is_probe else self.endpoint.max_concurrency

    @property
    def is_failing(self) -> bool:
        """Return whether no further request is attempted now."""
        # guard: events.after_a_failure
        return self.error is not None or self.has_stopped or self.failures_in_a_row >= FAILURES_IN_A_ROW

    @property
    def is_well(self) -> bool:
        """Return whether the endpoint was working, and has accepted each of its requests: nothing is stored for it."""
        endpoint = self.endpoint
        was_well = endpoint.enabled and endpoint.failing_since_ms is None and not endpoint.is_slow
        accepted = all(attempt.succeeded and not attempt.is_slow for _, attempt in self.results)
        is_whole = not self.pending and not self.gathered and (self.order is None or self.order.is_empty)
        return was_well and accepted and is_whole and self.error is None

    def take(self) -> Post | None:
        """Remove and return the next pending request: that of an ordered endpoint has no key that is busy, or that an
        earlier request has. Return None if there is none.
        """
        if self.order is None:
            return self.pending.popleft()
        earlier = set(self.busy)
        for place, post in enumerate(islice(self.pending, _SEARCHED)):
            if earlier.isdisjoint(post.keys):  # guard: events.order_of_a_key
                del self.pending[place]
                self.busy |= post.keys
                return post
            earlier |= post.keys
        return None

    def put_back(self, post: Post) -> None:
        """Take a request back that was not attempted."""
        self.pending.appendleft(post)
        self.busy -= post.keys

    def add(self, post: Post, attempt: Attempt) -> None:
        """Store the result of an attempt."""
        self.results.append((post, attempt))
        if attempt.succeeded:
            if self.order is not None:
                self.busy -= post.keys
            self.failures_in_a_row, self.has_stopped, self.is_probe = 0, False, False
        else:
            self.failures_in_a_row += 1
            is_refusal = attempt.status is None or attempt.retry_after_s is not None
            self.has_stopped = is_refusal or self.is_probe or attempt.status == GONE


@dataclass(kw_only=True)
class Window:
    """Bounds the messages of a batch that are sent and not recorded: after a kill, at most as many are sent again, or
    one request.
    """

    limit: int
    # Records accepted requests with their attempts, in a thread. It raises Retry or Stop.
    record: Callable[[Sequence[Sent]], None]
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    _accepted: list[Sent] = field(default_factory=list)
    # The messages that are being sent, or accepted and not recorded.
    _count: int = 0

    async def admit(self, post: Post) -> None:
        """Wait until a request may be sent. Raises Retry or Stop if the accepted ones cannot be recorded."""
        async with self._changed:
            # guard: events.unrecorded_messages
            while self._count and self._count + len(post.messages) > self.limit:
                if not self._accepted:
                    await self._changed.wait()
                    continue
                accepted = list(self._accepted)
                await asyncio.to_thread(self.record, accepted)
                del self._accepted[: len(accepted)]
                self._count -= sum(len(each.messages) for each, _ in accepted)
                self._changed.notify_all()
            self._count += len(post.messages)

    async def ended(self, post: Post, sent: Sequence[Sent]) -> None:
        """Take a request into account that was attempted, or was not (empty)."""
        accepted = [each for each in sent if each[1].succeeded]
        async with self._changed:
            self._accepted += accepted
            self._count -= len(post.messages) - sum(len(each.messages) for each, _ in accepted)
            self._changed.notify_all()


@dataclass(frozen=True, kw_only=True)
class WebhookGateway:
    """Makes the calls. Each function environment has one instance."""

    http: Http
    keys: SigningKeys
    credentials: EndpointCredentials
    clock: Clock
    aws: Aws = field(default_factory=CustomerAws)
    rates: Rates = field(default_factory=Rates)
    # A function that runs a coroutine in the event loop.
    run: Callable[[Coroutine[Any, Any, Any]], Any] = field(default_factory=event_loop)

    def send(
        self, lanes: Sequence[Lane], remaining_s: Callable[[], float], times: BatchTime, window: Window | None = None
    ) -> None:
        """Attempt the requests of each lane, and store the results there. The requests that are not attempted stay
        `pending`: those after a failure, and those without enough time.
        """
        self.run(self._send(lanes, remaining_s, times, window))

    async def _send(
        self, lanes: Sequence[Lane], remaining_s: Callable[[], float], times: BatchTime, window: Window | None
    ) -> None:
        ready: deque[Lane] = deque()
        workers: set[asyncio.Task[None]] = set()
        busy = 0
        began = self.clock.monotonic()

        def has_time() -> bool:
            """Return whether an attempt that begins now ends, and is recorded, before the function is stopped, and
            delays the following batch of the partition by its own duration at most.
            """
            # guard: events.time_of_a_batch
            if self.clock.monotonic() - began >= times.begins_s:
                return False
            # guard: events.time_for_an_attempt
            return remaining_s() > times.attempt_s + EVENT_SENDER_RESERVE_S

        def offer(lane: Lane, *, to_another: bool = True) -> None:
            """Let a worker take a request of an endpoint, if it may have one more: this worker, or another one."""
            is_free = lane.calls < lane.concurrency and not (lane.is_failing or lane.is_held or lane.is_ready)
            if lane.pending and is_free:
                lane.is_ready = True
                ready.append(lane)
                if to_another and busy < CALLS:
                    workers.add(asyncio.create_task(work()))

        async def work() -> None:
            nonlocal busy
            busy += 1
            while ready:
                lane = ready.popleft()
                lane.is_ready = False
                if lane.is_failing or lane.is_held or not has_time():
                    continue
                post = lane.take()
                if post is None:
                    continue
                lane.calls += 1
                # One request of an endpoint waits for its turn, and the following ones for this one.
                has_turn = await self._has_turn(lane.endpoint, post, has_time, waits=times.waits)
                if has_turn and (window is None or await _admitted(lane, post, window, has_time)):
                    offer(lane)
                    sent = await self._attempt(lane, post, times.attempt_s)
                    if window is not None:
                        await window.ended(post, sent)
                    lane.calls -= 1
                    offer(lane, to_another=False)
                else:
                    lane.put_back(post)
                    lane.calls -= 1
            busy -= 1

        for lane in lanes:
            offer(lane)
        while workers:
            done, _ = await asyncio.wait(workers, return_when=asyncio.FIRST_COMPLETED)
            workers.difference_update(done)
            for task in done:
                task.result()  # An error of the code ends the batch.

    async def _has_turn(self, endpoint: Endpoint, post: Post, has_time: Callable[[], bool], *, waits: bool) -> bool:
        """Return whether an endpoint may get a request by its rate, for which the request waits if it may."""
        while wait_s := self.rates.wait_s(endpoint, len(post.messages), self.clock.monotonic()):
            if not waits:
                return False  # guard: events.rate_of_an_endpoint
            await asyncio.sleep(wait_s)
            if not has_time():
                return False
        return True

    async def _attempt(self, lane: Lane, post: Post, timeout_s: float) -> Sequence[Sent]:
        """Attempt a request, and return its messages with their attempts: of a server one attempt, of a queue or a bus
        maybe several. Return none after an error that concerns every endpoint.
        """
        if (target := lane.endpoint.target) is not None:
            return await self._attempt_target(lane, target, post, timeout_s)
        at_ms, began = self.clock.now_ms(), time.monotonic()
        try:
            result = await self._posted(lane.endpoint, post, at_ms, timeout_s)
        except NoCredentials:  # guard: webhook_authentication.unreadable
            lane.is_held = True
            lane.put_back(post)
            key = lane.endpoint.key
            logger.exception("the messages of an endpoint wait", club_id=key.club_id, endpoint=key.id)
            return []
        except Exception as error:
            lane.error = error
            lane.put_back(post)
            return []
        attempt = attempt_of(result, at_ms=at_ms, duration_ms=round((time.monotonic() - began) * 1000))
        lane.add(post, attempt)
        return [(post, attempt)]

    async def _attempt_target(self, lane: Lane, target: AwsTarget, post: Post, timeout_s: float) -> Sequence[Sent]:
        """Send the messages of a request to a queue or an event bus. Those that it refuses are repeated without the
        others.
        """
        at_ms, began = self.clock.now_ms(), time.monotonic()
        entries = [
            Entry(each.id, each.event.type, each.event.key or each.event.event_id, each.body) for each in post.messages
        ]
        answers: Sequence[Answer | NoAnswer]
        try:
            answers = await self.aws.send(lane.endpoint, target, entries, timeout_s)
        except NoAnswer as refused:
            answers = [refused] * len(entries)
        except Exception as error:
            lane.error = error
            lane.put_back(post)
            return []
        duration_ms = round((time.monotonic() - began) * 1000)
        parts: dict[Attempt, list[Message]] = {}
        for message, answer in zip(post.messages, answers, strict=True):
            attempt = attempt_of(answer, at_ms=at_ms, duration_ms=duration_ms)
            if isinstance(answer, Answer) and not attempt.succeeded:
                attempt = replace(attempt, error=answer.body)
            parts.setdefault(attempt, []).append(message)
        # Accepted messages come last: the endpoint works if it accepts some.
        ordered = sorted(parts, key=lambda each: each.succeeded)
        sent = [(Post(parts[attempt], is_batch=True), attempt) for attempt in ordered]
        for part, attempt in sent:
            lane.add(part, attempt)
        return sent

    async def _posted(
        self, endpoint: Endpoint, post: Post, at_ms: int, timeout_s: float
    ) -> Answer | UrlRefused | NoAnswer:
        """Return the result of a request, with the first credentials that the endpoint does not refuse. Raises
        NoCredentials or Stop.
        """
        body = post.body
        signed = signed_headers(self.keys.now(), endpoint, message_id=post.id, at_ms=at_ms, body=body)
        if endpoint.authentication is None:
            return await self._result(endpoint.url, body, signed, timeout_s)
        until = time.monotonic() + timeout_s
        result: Answer | UrlRefused | NoAnswer | None = None
        try:
            async with aclosing(self.credentials.candidates(endpoint, at_ms, timeout_s=timeout_s)) as candidates:
                async for each in candidates:
                    if (left_s := until - time.monotonic()) <= 0:
                        break
                    headers = {**each.headers, **signed}
                    result = await self._result(endpoint.url, body, headers, left_s, each.client)
                    if not each.refused_by(result):
                        break
        except NoAnswer as error:
            result = result or error
        return result or NoAnswer(f"no answer within {timeout_s:g} s")

    async def _result(
        self,
        url: str,
        body: bytes,
        headers: Mapping[str, str],
        timeout_s: float,
        client: ClientCertificate | None = None,
    ) -> Answer | UrlRefused | NoAnswer:
        try:
            return await self.http.post(url, body=body, headers=headers, timeout_s=timeout_s, client=client)
        except (UrlRefused, NoAnswer) as refused:
            return refused


async def _admitted(lane: Lane, post: Post, window: Window, has_time: Callable[[], bool]) -> bool:
    """Return whether a request may be sent, after the wait for others."""
    try:
        await window.admit(post)
    except Exception as error:
        lane.error = error
        return False
    if has_time():
        return True
    await window.ended(post, [])
    return False
