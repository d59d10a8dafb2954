"""Delivers webhooks that are due.

A sweep gives the endpoints turns. Within a turn the deliveries of one endpoint are attempted one after another; turns
of several endpoints run concurrently. A tenant has at most CLUB_TURNS turns at a time, and endpoints whose last attempt
failed have at most half of all turns, so that slow endpoints do not delay those of other tenants.

An attempt is recorded after the response: after a crash in between it is repeated under the same `webhook-id`.
"""

import random
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Protocol

from masscomm.channels.guarded_http import Answer, NoAnswer
from masscomm.channels.public_urls import UrlRefused
from masscomm.channels.signing_keys import SigningKeys
from masscomm.channels.webhook_requests import attempt_of, signed_headers
from masscomm.clock import Clock
from masscomm.domain.time_limits import WEBHOOK_ATTEMPT_S, WEBHOOK_CLAIM_S, WEBHOOK_RESERVE_S, WEBHOOK_TURN_S
from masscomm.domain.webhooks import Attempt, Delivery, DeliveryStatus, Endpoint, Event
from masscomm.errors import Retry
from masscomm.observability import logs, metrics
from masscomm.observability.metric_names import (
    WEBHOOK_FAILURES,
    WEBHOOK_OLDEST_DUE,
    WEBHOOKS_DELIVERED,
    WEBHOOKS_GIVEN_UP,
)
from masscomm.stores.audit_log.port import Audit
from masscomm.stores.webhook_deliveries.port import Due, Queue, WebhookDeliveries
from masscomm.stores.webhook_endpoints.port import WebhookEndpoints
from masscomm.stores.webhook_endpoints.results import EndpointResults

logger = logs.logger("webhook_delivery")

TURNS, CLUB_TURNS = 32, 4
# The pending deliveries that a turn reads at once.
_BATCH = 20


class Http(Protocol):
    def post(self, url: str, *, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Post a body and return the answer. Raises UrlRefused or NoAnswer."""
        ...


@dataclass(kw_only=True)
class _Turn:
    """The result of one turn."""

    # The time of the next attempt of the endpoint; None: there is none, or another sweep's turn.
    next_due_ms: int | None = None
    # Whether an attempt failed.
    failed: bool = False


@dataclass(kw_only=True)
class _State:
    """The queues of one sweep."""

    waiting: deque[Queue]
    running: dict[Future[_Turn], Queue] = field(default_factory=dict)
    # (time, queue): queues whose next attempt is due during the sweep.
    later: list[tuple[int, Queue]] = field(default_factory=list)
    # The queues of endpoints whose last attempt failed.
    failing: set[str] = field(default_factory=set)
    errors: list[Exception] = field(default_factory=list)
    oldest_due_ms: int | None = None

    def next(self) -> Queue | None:
        """Remove and return the first queue that may have a turn now."""
        clubs = Counter(each.endpoint.club_id for each in self.running.values())
        failing = sum(each.endpoint.text in self.failing for each in self.running.values())
        for _ in range(len(self.waiting)):
            queue = self.waiting.popleft()
            is_failing = queue.endpoint.text in self.failing
            # guard: webhooks.fair_turns
            if clubs[queue.endpoint.club_id] < CLUB_TURNS and not (is_failing and failing >= TURNS // 2):
                return queue
            self.waiting.append(queue)
        return None


@dataclass(frozen=True, kw_only=True)
class DeliverWebhooks:
    """The use case. Each function environment has one instance."""

    endpoints: WebhookEndpoints
    deliveries: WebhookDeliveries
    http: Http
    keys: SigningKeys
    clock: Clock
    # Records that this function disabled an endpoint.
    audit: Audit

    def sweep(self, remaining_s: Callable[[], float]) -> dict[str, int]:
        """Attempt the deliveries that are due, and return the number of queues and of errors.

        Raises:
            Retry, Stop: Nothing could be read, or a turn failed in a way that concerns every endpoint.
        """
        # In a fixed order, a sweep without time for all would always leave the same ones.
        queues = list(self.deliveries.queues())
        random.shuffle(queues)  # guard: webhooks.random_order
        failing = self._failing(queues)
        # Endpoints that are not failing come first.
        state = _State(waiting=deque(sorted(queues, key=lambda each: each.endpoint.text in failing)), failing=failing)
        with ThreadPoolExecutor(TURNS, thread_name_prefix="turn") as pool:
            while True:
                while self._has_time(remaining_s) and len(state.running) < TURNS and (queue := state.next()):
                    state.running[pool.submit(self._turn, queue, remaining_s)] = queue
                if state.running:
                    done, _ = wait(state.running, return_when=FIRST_COMPLETED)
                    for future in done:
                        self._ended(future, state)
                elif not self._wait(state, remaining_s):
                    break
        now_ms = self.clock.now_ms()
        oldest_ms = now_ms if state.oldest_due_ms is None else min(now_ms, state.oldest_due_ms)
        metrics.add(WEBHOOK_OLDEST_DUE, (now_ms - oldest_ms) / 1000 if state.waiting else 0)
        for error in state.errors:
            if not isinstance(error, Retry):
                raise error
        return {"queues": len(queues), "errors": len(state.errors)}

    def _failing(self, queues: Sequence[Queue]) -> set[str]:
        """Return the queues of endpoints whose last attempt failed."""
        clubs = {queue.endpoint.club_id for queue in queues}
        return {
            endpoint.key.text
            for club_id in clubs
            for endpoint in self.endpoints.of_club(club_id)
            if endpoint.failing_since_ms is not None
        }

    def _ended(self, future: Future[_Turn], state: _State) -> None:
        """Note the result of a turn, and put its queue back if it is due again."""
        queue = state.running.pop(future)
        error = future.exception()
        if error is not None:
            if not isinstance(error, Exception):
                raise error
            logger.error("the webhooks of an endpoint wait for the next sweep", exc_info=error)
            state.errors.append(error)
            return
        turn = future.result()
        if turn.next_due_ms is None:
            return
        if turn.next_due_ms > self.clock.now_ms():
            state.later.append((turn.next_due_ms, queue))
        elif not turn.failed:
            state.oldest_due_ms = min(state.oldest_due_ms or turn.next_due_ms, turn.next_due_ms)
            state.waiting.append(queue)
        # The other deliveries of an endpoint that failed wait for the next sweep.

    def _wait(self, state: _State, remaining_s: Callable[[], float]) -> bool:
        """Wait for the next retry if it is due within this invocation. Return False if there is none."""
        if state.waiting or not state.later:
            return False
        due_ms, queue = min(state.later, key=lambda each: each[0])
        left_s = max(0.0, (due_ms - self.clock.now_ms()) / 1000)
        if left_s > WEBHOOK_TURN_S * 2 or not self._has_time(lambda: remaining_s() - left_s):
            return False
        state.later.remove((due_ms, queue))
        self.clock.sleep(left_s)
        state.waiting.append(queue)
        return True

    def _has_time(self, remaining_s: Callable[[], float]) -> bool:
        """Return whether an attempt that begins now ends, and is recorded, before the function is stopped."""
        return remaining_s() > WEBHOOK_ATTEMPT_S + WEBHOOK_RESERVE_S

    def _turn(self, queue: Queue, remaining_s: Callable[[], float]) -> _Turn:
        now_ms = self.clock.now_ms()
        until_ms = now_ms + round(WEBHOOK_CLAIM_S * 1000)
        if not self.deliveries.claim(queue.endpoint, now_ms=now_ms, until_ms=until_ms):
            return _Turn()
        try:
            failed = self._attempt_due(queue, remaining_s)
            left = self.deliveries.due(queue.endpoint, limit=1)
            if not left:
                self.deliveries.drop(queue)
            return _Turn(next_due_ms=left[0].due_ms if left else None, failed=failed)
        finally:
            self.deliveries.release(queue.endpoint, until_ms=until_ms)

    def _attempt_due(self, queue: Queue, remaining_s: Callable[[], float]) -> bool:
        """Attempt the deliveries of an endpoint until one fails. Return whether one failed."""
        began = self.clock.monotonic()
        for due in self.deliveries.due(queue.endpoint, limit=_BATCH):
            if due.due_ms > self.clock.now_ms() or not self._has_time(remaining_s):
                return False
            if self.clock.monotonic() - began > WEBHOOK_TURN_S:
                return False
            # A request may have changed the endpoint since the previous delivery.
            endpoint = self.endpoints.find(queue.endpoint)
            delivery = self.deliveries.find(queue.endpoint, due.delivery_id)
            event = None if delivery is None else self.deliveries.event(delivery.event_id)
            # guard: webhooks.stale_entry
            if delivery is None or delivery.due_ms != due.due_ms:
                self.deliveries.forget(queue.endpoint, due)
            elif endpoint is None or not endpoint.enabled or event is None:
                reason = "the event has expired" if event is None else "the endpoint is disabled or deleted"
                self._give_up(delivery, reason)
            elif not self._attempt(endpoint, delivery, event, due):
                return True
        return False

    def _attempt(self, endpoint: Endpoint, delivery: Delivery, event: Event, due: Due) -> bool:
        """Attempt a delivery and record the result. Return whether it succeeded."""
        attempt = self._post(endpoint, event)
        after = delivery.after(attempt)
        if not self.deliveries.replace(after, delivery):
            # A request changed the delivery meanwhile, for example to send it again.
            self.deliveries.forget(delivery.endpoint, due)
        metrics.add(WEBHOOKS_DELIVERED if attempt.succeeded else WEBHOOK_FAILURES)
        if after.status is DeliveryStatus.FAILED:
            metrics.add(WEBHOOKS_GIVEN_UP)
        if not attempt.succeeded:
            logger.info(
                "a webhook was not accepted",
                club_id=endpoint.key.club_id,
                endpoint=endpoint.key.id,
                event=event.id,
                status=attempt.status,
                error=attempt.error,
            )
        if not attempt.succeeded or endpoint.failing_since_ms is not None:
            results = EndpointResults(endpoints=self.endpoints, audit=self.audit)
            results.record(endpoint, attempt, tried_since_ms=after.tried_since_ms)
        return attempt.succeeded

    def _post(self, endpoint: Endpoint, event: Event) -> Attempt:
        at_ms, began = self.clock.now_ms(), time.monotonic()
        body = event.body.encode()
        signed = signed_headers(self.keys.now(), endpoint, message_id=event.id, at_ms=at_ms, body=body)
        result: Answer | UrlRefused | NoAnswer
        try:
            result = self.http.post(endpoint.url, body=body, headers=signed)
        except (UrlRefused, NoAnswer) as refused:
            result = refused
        return attempt_of(result, at_ms=at_ms, duration_ms=round((time.monotonic() - began) * 1000))

    def _give_up(self, delivery: Delivery, reason: str) -> None:
        self.deliveries.replace(delivery.given_up(reason, self.clock.now_ms()), delivery)
        metrics.add(WEBHOOKS_GIVEN_UP)
