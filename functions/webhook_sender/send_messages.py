"""Sends the messages of a batch of webhook records to their endpoints.

Three topics have such records: `webhook` and `webhook.batched` those of event_matcher, whose attempts end after
seconds, and `webhook.slow` those that are attempted again or later. Messages that are not delivered now wait for it:

- A failed message is due by the published schedule.
- An endpoint that fails is open: one message probes it by the same schedule, and the others are due when the probe is.
  Its state is in the endpoint's item, so that all environments share it. It delays no other.
- Messages beyond the limits of an endpoint, or the time of the batch, are due in the next minutes.
- The messages of an ordered endpoint wait for those before them with the same key.
- A request that is not full waits for further messages as long as its endpoint permits.

Every message that was attempted or is dead-lettered has a result for the metrics job. Dead letters are kept for the
tenant. After a crash the messages that were not recorded are sent again under the same ids, at most WEBHOOK_UNRECORDED
of them: the others are recorded during the batch (functions.webhook_sender.recording).
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import batched
from typing import NamedTuple

from functions.webhook_sender.gateway import FIRST_ATTEMPTS, RETRIES, Lane, WebhookGateway, Window
from functions.webhook_sender.messages import Message, Post, gathered, messages_of, posts_of
from functions.webhook_sender.ordering import Orders
from functions.webhook_sender.recording import Recording
from functions.webhook_sender.storing import Result, Storing, Waiting, repeated
from masscomm.chain.batch import Batch, Item
from masscomm.clock import Clock
from masscomm.domain.events import faults
from masscomm.domain.records import WebhookRequested
from masscomm.domain.time_limits import ENDPOINTS_CACHED_S
from masscomm.domain.webhooks import GONE, Attempt, AttemptResult, Endpoint, EndpointKey
from masscomm.errors import DeadLetter
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec
from masscomm.kafka.bundled_schema import check_schema
from masscomm.kafka.event import KafkaRecord
from masscomm.observability import logs, metrics
from masscomm.observability.metric_names import (
    WEBHOOK_FAILURES,
    WEBHOOKS_DEFERRED,
    WEBHOOKS_DELIVERED,
    WEBHOOKS_GIVEN_UP,
    WEBHOOKS_WITHOUT_ENDPOINT,
)
from masscomm.stores.delayed_records.port import MINUTE_MS, DelayedRecord
from masscomm.stores.sent_messages.port import SentMessages
from masscomm.stores.webhook_endpoints.port import WebhookEndpoints
from masscomm.stores.webhook_endpoints.results import EndpointResults

logger = logs.logger("webhook_sender")

# The default number of messages that are sent before they are recorded. A smaller number needs more writes.
UNRECORDED = 500
# The concurrent writes of the endpoints of a batch.
_THREADS = 16
# Reasons of dead letters: before an attempt, or after the last one.
_DISABLED, _GONE, _ATTEMPTS_FAILED = "the endpoint is disabled", "the endpoint answered 410", "all attempts failed"
_TOO_MANY_OF_A_KEY = "too many messages of its key wait"
# The endpoints with waiting messages that are recorded together.
_ENDPOINTS_A_WRITE = 100


@dataclass(frozen=True, kw_only=True)
class KnownEndpoints:
    """The endpoints that a function uses, read again after ENDPOINTS_CACHED_S."""

    store: WebhookEndpoints
    clock: Clock
    # Endpoint → its state (None: there is none), and the time until which it is used.
    _known: dict[EndpointKey, tuple[Endpoint | None, float]] = field(default_factory=dict)

    def find(self, keys: Iterable[EndpointKey]) -> Mapping[EndpointKey, Endpoint | None]:
        """Return the endpoints by their keys. Raises Retry or Stop."""
        now, wanted = self.clock.monotonic(), set(keys)
        unread = [key for key in wanted if self._known.get(key, (None, now))[1] <= now]
        if unread:
            found = self.store.find_all(unread)
            self._known.update({key: (found.get(key), now + ENDPOINTS_CACHED_S) for key in unread})
        return {key: self._known[key][0] for key in wanted}

    def forget(self, key: EndpointKey) -> None:
        self._known.pop(key, None)


@dataclass(frozen=True, kw_only=True)
class SendMessages:
    """The use case of webhook_sender and of the other two functions with its package."""

    endpoints: KnownEndpoints
    results: EndpointResults
    storing: Storing
    sent: SentMessages
    orders: Orders
    gateway: WebhookGateway
    clock: Clock
    # The largest number of messages of a batch that are sent and not recorded, unless one request has more.
    unrecorded: int = UNRECORDED
    pool: Executor = field(default_factory=lambda: ThreadPoolExecutor(_THREADS))

    def decode(self, record: KafkaRecord, codec: Codec) -> WebhookRequested:
        """Decode and check a record. Raises DeadLetter or Retry."""
        check_schema(record, WebhookRequested)
        request = WebhookRequested.from_avro(codec.decode("WebhookRequested", record.value))
        columns = len(request.event_index) == len(request.endpoint_index)
        columns = columns and len(request.field_index) in (0, len(request.event_index))
        of_events = len(request.events) == len(request.offsets) == len(request.produced_at)
        in_range = all(0 <= each < len(request.events) for each in request.event_index)
        in_range = in_range and all(0 <= each < len(request.endpoints) for each in request.endpoint_index)
        in_range = in_range and all(0 <= each < len(request.field_lists) for each in request.field_index)
        if not (columns and of_events and in_range and request.attempt >= 0):
            raise DeadLetter("invalid", "no webhook record: its columns do not fit together")
        if any(EndpointKey.of_id(each) is None for each in request.endpoints):
            raise DeadLetter("invalid", "no webhook record: an endpoint's id is none")
        for event in request.events:
            if (fault := next(faults(event), None)) is not None:  # guard: events.faults_of_messages
                raise DeadLetter("invalid", f"no webhook record: {fault[0]} {fault[1]}")
        return request

    def handle(self, batch: Batch[WebhookRequested]) -> None:
        items = batch.active()
        recording = Recording(sent_messages=self.sent, storing=self.storing, clock=self.clock, pool=self.pool)
        recording.begin([item.record for item in items])
        received: defaultdict[EndpointKey, list[Message]] = defaultdict(list)
        sent: defaultdict[EndpointKey, list[str]] = defaultdict(list)
        for item in items:
            batch.attempt(item, partial(_read, item, recording, received, sent))
        if not received:
            return
        is_repeated = items[0].record.topic == topics.WEBHOOK_SLOW
        found = self.endpoints.find(received)
        ordered = [each for each in found.values() if each is not None and each.is_ordered]
        read = self.pool.map(lambda each: self.orders.read(each, received[each.key], sent[each.key]), ordered)
        orders = dict(zip((each.key for each in ordered), read, strict=True))
        lanes: list[Lane] = []
        for key, messages in received.items():
            if (endpoint := found[key]) is None:
                metrics.add(WEBHOOKS_WITHOUT_ENDPOINT, len(messages))
                continue
            order = orders.get(key)
            posts = posts_of(endpoint, messages if order is None else order.ready)
            waits = () if is_repeated else gathered(endpoint, posts)
            lanes.append(Lane(endpoint=endpoint, pending=deque(posts), gathered=waits, order=order))
        # The probes of failing endpoints are claimed together: each takes two round trips.
        apply = self.pool.map if is_repeated else map
        allowed = apply(partial(self._may_attempt, is_repeated=is_repeated), lanes)
        attempted = [lane for lane, may_attempt in zip(lanes, allowed, strict=True) if may_attempt]
        times, window = RETRIES if is_repeated else FIRST_ATTEMPTS, None
        if sum(len(post.messages) for lane in attempted for post in lane.pending) > self.unrecorded:
            window = Window(limit=self.unrecorded, record=recording.record_accepted)
        self.gateway.send(attempted, batch.remaining_s, times, window)
        self._settle(lanes, recording, is_repeated=is_repeated)

    def dead_lettered(self, batch: Batch[WebhookRequested], item: Item[WebhookRequested], why: DeadLetter) -> None:
        """Do nothing: the messages of a record that cannot be read are unknown."""

    def _may_attempt(self, lane: Lane, *, is_repeated: bool) -> bool:
        """Return whether an endpoint gets requests now. Raises Retry or Stop."""
        endpoint = lane.endpoint
        if not endpoint.enabled or not lane.pending:
            return False
        if not is_repeated:
            # guard: events.failing_endpoint
            return endpoint.failing_since_ms is None and not endpoint.is_slow
        if endpoint.failing_since_ms is None:
            return True
        lane.is_probe = self.results.claim_probe(endpoint, self.clock.now_ms())
        return lane.is_probe

    def _settle(self, lanes: Sequence[Lane], recording: Recording, *, is_repeated: bool) -> None:
        """Record the messages of the batch. An error fails the Kafka records whose messages it concerns."""
        settled: list[_Settled] = []
        running = []
        for lane in lanes:
            if lane.is_well:
                settled.append(self._settle_lane(lane, is_repeated=is_repeated))
            else:
                running.append((lane, self.pool.submit(self._settle_lane, lane, is_repeated=is_repeated)))
        for lane, future in running:
            error = lane.error or future.exception()
            if error is None:
                settled.append(future.result())
            elif isinstance(error, Exception):
                _fail(_messages(lane), error)
            else:
                raise error
        well = [each for each in settled if not each.records]
        others = [each for each in settled if each.records]
        # The records of a write are in one item, which has at most 400 kB.
        for some in (well, *batched(others, _ENDPOINTS_A_WRITE, strict=False)):
            results = [result for each in some for result in each.results]
            waiting = [message for each in some for message in each.waiting]
            try:
                recording.record(results, waiting, [record for each in some for record in each.records])
            except Exception as error:  # The records are redelivered: a result is never missing.
                _fail([*(each.message for each in results), *waiting], error)

    def _settle_lane(self, lane: Lane, *, is_repeated: bool) -> "_Settled":
        """Store the state of an endpoint and its dead letters. Return what is recorded of its messages. Raises Retry or
        Stop.
        """
        if lane.error is not None:
            return _Settled([])
        endpoint = lane.endpoint
        order, unattempted = lane.order, Attempt(at_ms=self.clock.now_ms(), duration_ms=0)
        if not endpoint.enabled:
            results = self._give_up(_messages(lane), unattempted, _DISABLED)
            if order is not None:
                self.orders.settle(order, {})
            return _Settled(results)
        endpoint = self._record_state(lane, is_repeated=is_repeated)
        results = [] if order is None else self._give_up(order.too_many, unattempted, _TOO_MANY_OF_A_KEY)
        waiting: list[Waiting] = []
        for post, attempt in lane.results:
            if attempt.succeeded:
                metrics.add(WEBHOOKS_DELIVERED, len(post.messages))
                results += [Result(message, AttemptResult.DELIVERED, attempt) for message in post.messages]
                continue
            metrics.add(WEBHOOK_FAILURES, len(post.messages))
            later = repeated(endpoint, post, attempt) if endpoint.enabled else None
            if later is None:
                results += self._give_up(post.messages, attempt, _reason(endpoint, attempt))
            else:
                waiting.append(later)
                results += [Result(message, AttemptResult.RETRIED, attempt) for message in post.messages]
        if endpoint.enabled:
            waiting += _unattempted(endpoint, lane, self.clock.now_ms())
        else:
            left = [message for post in (*lane.pending, *lane.gathered) for message in post.messages]
            results += self._give_up([*left, *([] if order is None else order.held)], unattempted, _DISABLED)
        if order is not None:
            waiting = self.orders.stored(order, waiting)
        metrics.add(WEBHOOKS_DEFERRED, sum(len(each.post.messages) for each in waiting))
        messages = [message for each in waiting for message in each.post.messages]
        return _Settled(results, messages, list(self.storing.waiting_records(endpoint, waiting)))

    def _record_state(self, lane: Lane, *, is_repeated: bool) -> Endpoint:
        """Store on the endpoint that it fails, or works again, and return it. Raises Retry or Stop."""
        endpoint = lane.endpoint
        if not lane.results:
            return endpoint
        failed = [each for each in lane.results if not each[1].succeeded]
        accepted = [each for each in lane.results if each[1].succeeded]
        if accepted:
            slowest = max(accepted, key=lambda each: each[1].duration_ms)
            # guard: events.slow_endpoint
            if endpoint.failing_since_ms is not None or endpoint.is_slow != slowest[1].is_slow:
                endpoint = self._record(endpoint, *slowest)
        # A message that its receiver cannot process says nothing about the others.
        if lane.is_failing or (is_repeated and not accepted):
            endpoint = self._record(endpoint, *failed[-1], is_probe=lane.is_probe)
            logger.info(
                "an endpoint fails",
                club_id=endpoint.key.club_id,
                endpoint=endpoint.key.id,
                requests=len(failed),
                status=failed[-1][1].status,
                error=failed[-1][1].error,
            )
        return endpoint

    def _record(self, endpoint: Endpoint, post: Post, attempt: Attempt, *, is_probe: bool = False) -> Endpoint:
        self.endpoints.forget(endpoint.key)
        tried_since_ms = min(each.item.value.first_tried_at or attempt.at_ms for each in post.messages)
        return self.results.record(endpoint, attempt, tried_since_ms=tried_since_ms, is_probe=is_probe)

    def _give_up(self, messages: Iterable[Message], attempt: Attempt, reason: str) -> list[Result]:
        """Store messages as dead letters, and return their results. Raises Retry or Stop."""
        error = attempt.error or ("" if attempt.status else reason)
        given_up = Attempt(at_ms=attempt.at_ms, duration_ms=attempt.duration_ms, status=attempt.status, error=error)
        results = [Result(message, AttemptResult.GIVEN_UP, given_up) for message in messages]
        self.storing.put_dead_letters(results, reason)
        metrics.add(WEBHOOKS_GIVEN_UP, len(results))
        return results


class _Settled(NamedTuple):
    """The messages of an endpoint that have a result, those that wait, and the records of these."""

    results: list[Result]
    waiting: Sequence[Message] = ()
    records: Sequence[DelayedRecord] = ()


def _reason(endpoint: Endpoint, attempt: Attempt) -> str:
    """Return why no attempt follows a failed one."""
    if attempt.status == GONE:
        return _GONE
    return _ATTEMPTS_FAILED if endpoint.enabled else _DISABLED


def _unattempted(endpoint: Endpoint, lane: Lane, now_ms: int) -> Iterator[Waiting]:
    """Yield the requests that were not made: those of a failing endpoint are due with its probe, the others in the next
    minutes, as many a minute as its rate permits.
    """
    if endpoint.failing_since_ms is not None:
        due_ms = max(now_ms, endpoint.probe_at_ms or 0)
        yield from (Waiting(post, post.attempt, due_ms) for post in (*lane.pending, *lane.gathered))
        return
    yield from (Waiting(post, post.attempt, endpoint.gathered_until_ms(now_ms)) for post in lane.gathered)
    count = 0
    for post in lane.pending:
        minute = 0 if endpoint.rate_per_s is None else count // round(RETRIES.begins_s * endpoint.rate_per_s)
        yield Waiting(post, post.attempt, now_ms + minute * MINUTE_MS)
        count += len(post.messages)


def _read(
    item: Item[WebhookRequested],
    recording: Recording,
    received: defaultdict[EndpointKey, list[Message]],
    sent: defaultdict[EndpointKey, list[str]],
) -> None:
    """Append the unrecorded messages of a record to those of their endpoints, and the ids of the settled ones."""
    for message in messages_of(item):
        to_endpoint = received[message.endpoint]
        if recording.is_settled(message):  # guard: events.sent_before_a_kill
            sent[message.endpoint].append(message.id)
        elif not recording.is_waiting(message):
            to_endpoint.append(message)


def _messages(lane: Lane) -> list[Message]:
    """Return the messages of an endpoint in the batch."""
    posts = [*(post for post, _ in lane.results), *lane.pending, *lane.gathered]
    others = [] if lane.order is None else lane.order.others
    return [*(message for post in posts for message in post.messages), *others]


def _fail(messages: Iterable[Message], error: Exception) -> None:
    for message in messages:
        message.item.error = message.item.error or error
