"""The messages of webhook records, and the requests in which they are sent."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from itertools import repeat

from masscomm.chain.batch import Item
from masscomm.chain.waiting_messages import WaitingMessage
from masscomm.domain.aws_targets import MAX_ENTRIES, MAX_REQUEST_BYTES
from masscomm.domain.events import webhook_body, with_fields
from masscomm.domain.ids import event_message_id, webhook_batch_id
from masscomm.domain.records import EventOccurred, WebhookRequested
from masscomm.domain.webhooks import BodyFormat, Endpoint, EndpointKey
from masscomm.errors import Retry
from masscomm.http.parameters import time_of_ms

# The bytes around the messages of a batch, and those between two.
_BRACKETS, _COMMA = 2, 1


@dataclass(frozen=True)
class Message:
    """An event for one endpoint."""

    item: Item[WebhookRequested]
    # The index of the message in the record, and that of its event.
    position: int
    place: int
    endpoint: EndpointKey
    # The paths in data that are sent; empty: all data.
    fields: Sequence[str] = ()
    format: BodyFormat = BodyFormat.MASSCOMM

    @cached_property
    def event(self) -> EventOccurred:
        """Return the event with the data that is sent: nothing else is kept for later attempts."""
        event = self.item.value.events[self.place]
        return replace(event, data=with_fields(event.data, self.fields)) if self.fields else event

    @property
    def attempt(self) -> int:
        """Return the number of attempts that have been made."""
        return self.item.value.attempt

    @cached_property
    def id(self) -> str:
        return event_message_id(self.event.club_id, self.event.event_id, self.endpoint.id)

    @cached_property
    def key(self) -> str | None:
        """Return the digest of the event's key, which may name a person; None if it has none."""
        return None if self.event.key is None else blake2b(self.event.key.encode(), digest_size=16).hexdigest()

    @cached_property
    def body(self) -> bytes:
        return webhook_body(self.event, self.endpoint.id, time_of_ms(self.event.occurred_at), self.format).encode()

    @property
    def waiting(self) -> WaitingMessage:
        return WaitingMessage(self.event, self.item.value.produced_at[self.place])


@dataclass(frozen=True)
class Post:
    """A request to an endpoint: one message, or a JSON array of several."""

    messages: Sequence[Message]
    is_batch: bool

    @property
    def attempt(self) -> int:
        """Return the number of attempts that have been made."""
        return self.messages[0].attempt

    @cached_property
    def keys(self) -> frozenset[str]:
        """Return the keys of the messages."""
        return frozenset(each.key for each in self.messages if each.key is not None)

    @property
    def id(self) -> str:
        """Return the webhook-id: that of the message, or one that is derived from those of all."""
        if not self.is_batch:
            return self.messages[0].id
        return webhook_batch_id([message.id for message in self.messages])

    @property
    def body(self) -> bytes:
        """Return the body."""
        if not self.is_batch:
            return self.messages[0].body
        return b"[" + b",".join(message.body for message in self.messages) + b"]"


def messages_of(item: Item[WebhookRequested]) -> Iterator[Message]:
    """Yield the messages of a record, in their order."""
    request = item.value
    keys = [EndpointKey.of_id(each) for each in request.endpoints]
    lists: Sequence[Sequence[str]] = [request.field_lists[each] for each in request.field_index]
    columns = zip(request.event_index, request.endpoint_index, lists or repeat(()), strict=False)
    for position, (place, endpoint, fields) in enumerate(columns):
        key = keys[endpoint]
        if key is None:
            raise Retry(f"the endpoint {request.endpoints[endpoint]} was checked before")
        yield Message(item, position, place, key, fields)


def posts_of(endpoint: Endpoint, messages: Iterable[Message]) -> list[Post]:
    """Return the requests with messages for an endpoint, those with the fewest attempts first.

    A request has at most `max_count` messages and `max_bytes`; a larger message goes alone. One that was attempted is
    repeated as it was: a record of repeated messages has those of one request. Those of an ordered endpoint keep their
    order, and one to a queue or an event bus, which may refuse some of its messages, has one message of each key.
    """
    if endpoint.format is not BodyFormat.MASSCOMM:
        messages = [replace(message, format=endpoint.format) for message in messages]
    if endpoint.target is not None:
        posts = list(_batches(messages, MAX_ENTRIES, MAX_REQUEST_BYTES, has_key_once=endpoint.is_ordered))
    elif not endpoint.is_batched:
        posts = [Post((message,), is_batch=False) for message in messages]
    else:
        posts = list(_batches(messages, endpoint.max_count, endpoint.max_bytes))
    if not endpoint.is_ordered:
        posts.sort(key=lambda post: post.attempt)
    return posts


def gathered(endpoint: Endpoint, posts: list[Post]) -> Sequence[Post]:
    """Remove and return the request that waits for further messages: the last one, unless it is full."""
    most = MAX_ENTRIES if endpoint.target is not None else endpoint.max_count
    waits = endpoint.is_batched and endpoint.max_wait_s > 1  # guard: events.max_wait
    return [posts.pop()] if waits and posts and len(posts[-1].messages) < most else []


def _batches(
    messages: Iterable[Message], max_count: int, max_bytes: int, *, has_key_once: bool = False
) -> Iterator[Post]:
    some: list[Message] = []
    size, keys = _BRACKETS, set[str]()
    for message in messages:
        added = len(message.body) + _COMMA
        is_full = len(some) == max_count or size + added > max_bytes  # guard: events.size_of_batch
        # guard: events.repeated_batch
        is_other = bool(some) and _batch_of(some[-1]) != _batch_of(message)
        has_key = has_key_once and message.key in keys  # guard: events.one_message_of_a_key
        if some and (is_full or is_other or has_key):
            yield Post(some, is_batch=True)
            some, size, keys = [], _BRACKETS, set()
        some.append(message)
        if has_key_once and message.key is not None:
            keys.add(message.key)
        size += added
    if some:
        yield Post(some, is_batch=True)


def _batch_of(message: Message) -> object:
    """Return what the messages of a request share: nothing before the first attempt, and then their record."""
    return None if message.attempt == 0 else id(message.item)
