"""Makes the records of waiting messages and of results, and stores the dead letters of a batch.

Every record is put before the batch is answered. A record's id is derived from its messages.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import batched
from operator import attrgetter
from typing import NamedTuple

from functions.webhook_sender.messages import Message, Post
from masscomm.chain.bundled_records import bundled_record
from masscomm.chain.waiting_messages import WaitingMessages, records_of
from masscomm.clock import Clock
from masscomm.domain.ids import webhook_part_id
from masscomm.domain.records import WebhookOutcome, WebhookRequested
from masscomm.domain.webhooks import MAX_ATTEMPTS, Attempt, AttemptResult, Endpoint, EndpointKey, retry_delay_ms
from masscomm.errors import Retry
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec
from masscomm.kafka.bundled_schema import BundledSchema
from masscomm.observability import logs, metrics
from masscomm.observability.metric_names import WEBHOOK_DEAD_LETTERS_REMOVED
from masscomm.stores.delayed_records.port import MINUTE_MS, DelayedRecord, DelayStore
from masscomm.stores.webhook_dead_letters.port import WebhookDeadLetter, WebhookDeadLetters

logger = logs.logger("webhook_sender")

# The results of a record: each has at most 400 bytes.
MAX_RESULTS = 500
_MAX_ERROR = 200


class Waiting(NamedTuple):
    """A request that is made later."""

    post: Post
    # The number of attempts that have been made.
    attempt: int
    due_ms: int


class Result(NamedTuple):
    """The result of an attempt to send a message, or the reason for which there is none."""

    message: Message
    status: AttemptResult
    attempt: Attempt


@dataclass(frozen=True, kw_only=True)
class Storing:
    """Makes records for the delay store, and stores dead letters."""

    store: DelayStore
    waiting: WaitingMessages
    dead_letters: WebhookDeadLetters
    clock: Clock
    codec: Codec

    @classmethod
    def of(cls, store: DelayStore, dead_letters: WebhookDeadLetters, clock: Clock) -> "Storing":
        codec = Codec(BundledSchema(WebhookRequested))
        waiting = WaitingMessages(store=store, codec=codec, clock=clock)
        return cls(store=store, waiting=waiting, dead_letters=dead_letters, clock=clock, codec=codec)

    def waiting_records(self, endpoint: Endpoint, waiting: Iterable[Waiting]) -> Iterator[DelayedRecord]:
        """Yield the records of requests for an endpoint, packed by the number of their attempts and the minute in which
        they are due.
        """
        groups: defaultdict[tuple[int, int], list[Waiting]] = defaultdict(list)
        for each in waiting:
            groups[each.attempt, each.due_ms // MINUTE_MS].append(each)
        for (attempt, _), some in groups.items():
            due_ms = max(each.due_ms for each in some)
            for messages in _packed(endpoint, attempt, [each.post for each in some]):
                yield self._waiting_record(endpoint, messages, attempt, due_ms)

    def result_records(self, results: Iterable[Result]) -> Iterator[DelayedRecord]:
        """Yield the records of results, at most MAX_RESULTS in each. They are due now."""
        ordered = sorted(results, key=lambda each: (each.message.endpoint.id, each.message.id, each.message.attempt))
        for some in batched(ordered, MAX_RESULTS, strict=False):
            record = self._outcome(some)
            yield bundled_record(
                self.codec,
                topics.WEBHOOK_OUTCOME,
                record,
                id_=record.record_id,
                due_ms=record.timestamp,
                delay_reason="webhook_outcome",
            )

    def put_dead_letters(self, results: Iterable[Result], reason: str) -> None:
        """Store messages as dead letters for the tenant of their endpoint. The oldest of an endpoint with too many
        go. Raises Retry or Stop.
        """
        letters = [
            WebhookDeadLetter(
                endpoint=message.endpoint,
                message_id=message.id,
                event=message.event,
                produced_at_ms=message.waiting.produced_at_ms,
                at_ms=attempt.at_ms,
                reason=reason,
                attempts=message.attempt + int(attempt.status is not None or attempt.duration_ms > 0),
                status=attempt.status,
            )
            for message, _, attempt in results
        ]
        self.dead_letters.put(letters)
        stored: defaultdict[EndpointKey, list[str]] = defaultdict(list)
        for letter in letters:
            stored[letter.endpoint].append(letter.id)
        for endpoint, ids in stored.items():
            self._remove_oldest(endpoint, ids)

    def _remove_oldest(self, endpoint: EndpointKey, stored: Sequence[str]) -> None:
        try:
            removed = self.dead_letters.remove_oldest(endpoint, stored)
        except Retry as error:
            # The messages would be sent again for it. The next call removes more.
            logger.warning("the oldest dead letters of an endpoint stay", endpoint=endpoint.id, error=str(error))
            return
        if removed:
            metrics.add(WEBHOOK_DEAD_LETTERS_REMOVED, removed)
            logger.warning("an endpoint has too many dead letters", endpoint=endpoint.id, removed=removed)

    def _waiting_record(
        self, endpoint: Endpoint, messages: Sequence[Message], attempt: int, due_ms: int
    ) -> DelayedRecord:
        tried = [each.item.value.first_tried_at for each in messages if each.item.value.first_tried_at]
        return self.waiting.record(
            endpoint.key,
            [each.waiting for each in messages],
            attempt=attempt,
            due_ms=due_ms,
            first_tried_at=min(tried, default=self.clock.now_ms()),
        )

    def _outcome(self, results: Sequence[Result]) -> WebhookOutcome:
        endpoints = _places(row.message.endpoint.id for row in results)
        types = _places(row.message.event.type for row in results)
        names = [f"{row.message.endpoint.id}/{row.message.id}/{row.message.attempt}" for row in results]
        return WebhookOutcome(
            record_id=webhook_part_id("outcome", 0, names),
            timestamp=self.clock.now_ms(),
            endpoints=list(endpoints),
            types=list(types),
            endpoint_index=[endpoints[row.message.endpoint.id] for row in results],
            type_index=[types[row.message.event.type] for row in results],
            # Each follows from the other columns, and would be a third of the stored bytes.
            message_id=[],
            event_id=[row.message.event.event_id for row in results],
            club_id=[row.message.event.club_id for row in results],
            status=[str(row.status) for row in results],
            attempt=[row.message.attempt + 1 for row in results],
            http_status=[row.attempt.status for row in results],
            duration_ms=[row.attempt.duration_ms for row in results],
            at_ms=[row.attempt.at_ms for row in results],
            error=[row.attempt.error[:_MAX_ERROR] for row in results],
        )


def repeated(endpoint: Endpoint, post: Post, attempt: Attempt) -> Waiting | None:
    """Return a request after a failed attempt; None if no attempt follows."""
    tries = post.attempt + 1
    # guard: events.end_of_the_schedule
    if tries >= MAX_ATTEMPTS:
        return None
    return Waiting(post, tries, attempt.at_ms + retry_delay_ms(f"{endpoint.key.id}{post.id}", tries, attempt))


def _places(values: Iterable[str]) -> dict[str, int]:
    """Return the index of each distinct value."""
    return {each: place for place, each in enumerate(dict.fromkeys(values))}


def _packed(endpoint: Endpoint, attempt: int, posts: Sequence[Post]) -> Iterator[list[Message]]:
    """Yield the messages of each record. A request that was attempted has a record of its own, so that it is repeated
    under the same webhook-id, unless it is too large.
    """
    if endpoint.is_batched and attempt > 0:
        together: Iterable[Sequence[Message]] = (post.messages for post in posts)
    else:
        together = [[message for post in posts for message in post.messages]]
    for messages in together:
        yield from records_of(messages, attrgetter("waiting"))
