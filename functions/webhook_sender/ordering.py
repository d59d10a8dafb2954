"""Keeps the order of an ordered endpoint's messages with the same key.

Those that wait are in the queue of their key: the first of them is attempted, and the others wait until it is accepted
or given up. A message that arrives meanwhile, also in another function, joins the end. A queue is stored before its
messages, and changed under a condition, so that neither a kill nor a concurrent function puts a message before an
earlier one.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from functions.webhook_sender.messages import Message, Post
from functions.webhook_sender.storing import Waiting
from masscomm.clock import Clock
from masscomm.domain.time_limits import ORDER_LOST_S
from masscomm.domain.webhooks import Endpoint
from masscomm.errors import Retry
from masscomm.kafka import topics
from masscomm.stores.key_queues.port import KeyQueue, KeyQueues, Ordering

# The most messages of a key that wait: with those of one batch, an item of DynamoDB has 400 kB at most.
MAX_QUEUED = 5_000
_CHANGE_ATTEMPTS = 10


@dataclass(kw_only=True)
class Order:
    """The order of the messages of a batch for one endpoint."""

    ordering: Ordering
    queues: Mapping[str, KeyQueue] = field(default_factory=dict)
    # The messages by the digest of their key, as they arrived.
    arrived: Mapping[str, Sequence[Message]] = field(default_factory=dict)
    # Those that may be attempted, those that wait for an earlier one, and those that are too many.
    ready: list[Message] = field(default_factory=list)
    held: list[Message] = field(default_factory=list)
    too_many: list[Message] = field(default_factory=list)
    # The ids of messages that were sent before a kill, or are lost.
    gone: set[str] = field(default_factory=set)

    @property
    def is_empty(self) -> bool:
        """Return whether no message waits, or has waited."""
        return not (self.queues or self.held or self.too_many)

    @property
    def others(self) -> Sequence[Message]:
        """Return the messages that may not be attempted."""
        return [*self.held, *self.too_many]

    def first_due_ms(self, key: str, due: Mapping[str, int], now_ms: int) -> int:
        """Return when the first waiting message of a key is due: the others are due with it.

        Args:
            key: The digest of the key.
            due: The times at which requests of the batch are due, by the ids of their messages.
            now_ms: The present time.
        """
        if (queue := self.queues.get(key)) is not None:
            return due.get(queue.ids[0], queue.due_ms)
        return next((due[each.id] for each in self.arrived[key] if each.id in due), now_ms)


@dataclass(frozen=True, kw_only=True)
class Orders:
    """The use of the queues."""

    store: KeyQueues
    clock: Clock

    def read(self, endpoint: Endpoint, messages: Sequence[Message], sent: Iterable[str]) -> Order | None:
        """Return the order of messages for an endpoint; None if it is not ordered. Raises Retry or Stop.

        Args:
            endpoint: The endpoint.
            messages: The messages that were not sent.
            sent: The ids of those that an earlier invocation has sent and recorded.
        """
        if endpoint.ordered_since_ms is None:
            return None
        ordering = Ordering(endpoint.key, endpoint.ordered_since_ms)
        arrived: defaultdict[str, list[Message]] = defaultdict(list)
        for message in messages:
            if message.key is not None:
                arrived[message.key].append(message)
        order = Order(ordering=ordering, queues=self.store.find(ordering), arrived=arrived, gone=set(sent))
        ready = {key: iter(self._ready(order, key, some)) for key, some in arrived.items()}
        for message in messages:
            # The order of arrival remains, as far as it may: a repeated request is the same.
            following = message if message.key is None else next(ready[message.key], None)
            if following is not None:
                order.ready.append(following)
        return order

    def _ready(self, order: Order, key: str, messages: Sequence[Message]) -> Iterator[Message]:
        """Yield the messages of a key that may be attempted, one after the other. Store the others in the order."""
        here = {each.id: each for each in messages}
        queue = order.queues.get(key)
        queued = [] if queue is None else [each for each in queue.ids if each not in order.gone]
        if queue is not None and queued and self._is_lost(queue, queued[0], here):
            order.gone.add(queued.pop(0))
        known = set(queued)
        new = [each for each in here if each not in known]
        room = max(0, MAX_QUEUED - len(queued))  # guard: events.queue_of_a_key
        order.too_many += (here[each] for each in new[room:])
        following = [*queued, *new[:room]]
        ready = next((place for place, each in enumerate(following) if each not in here), len(following))
        order.held += (here[each] for each in following[ready:] if each in here)
        yield from (here[each] for each in following[:ready])

    def _is_lost(self, queue: KeyQueue, first: str, here: Mapping[str, Message]) -> bool:
        """Return whether the first message of a queue does not exist any more, such as one of a person whose data was
        erased: a later one was stored again long after the first one was due, and was released after it.
        """
        released = (each.item for each in here.values() if each.item.record.topic == topics.WEBHOOK_SLOW)
        stored_ms = max((item.value.timestamp for item in released), default=0)
        return first not in here and stored_ms - queue.due_ms > ORDER_LOST_S * 1000  # guard: events.lost_message

    def stored(self, order: Order, waiting: Sequence[Waiting]) -> list[Waiting]:
        """Store which messages of a batch wait, and return their requests with those of the held messages. Raises Retry
        or Stop.

        Args:
            order: The order of the batch.
            waiting: The requests that are made later, of other messages.
        """
        now_ms = self.clock.now_ms()
        posts = [*waiting, *(Waiting(Post([each], is_batch=True), each.attempt, now_ms) for each in order.held)]
        due = {message.id: each.due_ms for each in waiting for message in each.post.messages}
        found = []
        for each in posts:
            later_ms = max((order.first_due_ms(key, due, now_ms) for key in each.post.keys), default=0)
            found.append(each._replace(due_ms=max(each.due_ms, later_ms)))
        self.settle(order, {message.id: each.due_ms for each in found for message in each.post.messages})
        return found

    def settle(self, order: Order, due: Mapping[str, int]) -> None:
        """Store which messages of a batch wait: the others are settled. Raises Retry or Stop.

        Args:
            order: The order of the batch.
            due: The times at which the waiting messages are due, by their ids.
        """
        for key, messages in order.arrived.items():
            waiting = list(dict.fromkeys(each.id for each in messages if each.id in due))
            if waiting or key in order.queues:
                settled = {each.id for each in messages if each.id not in due} | order.gone
                self._change(order, key, settled, waiting, due)
        # Messages that were sent before a kill may be the last ones of their key.
        for key in order.queues.keys() - order.arrived.keys() if order.gone else ():
            self._change(order, key, order.gone, [], due)

    def _change(
        self, order: Order, key: str, settled: Collection[str], waiting: Sequence[str], due: Mapping[str, int]
    ) -> None:
        old, now_ms = order.queues.get(key), self.clock.now_ms()
        for _ in range(_CHANGE_ATTEMPTS):
            ids = [] if old is None else [each for each in old.ids if each not in settled]
            known = set(ids)
            ids += [each for each in waiting if each not in known]
            new = None
            if ids:
                is_same = old is not None and old.ids[0] == ids[0]
                new = KeyQueue(tuple(ids), due.get(ids[0], old.due_ms if old is not None and is_same else now_ms))
            if new == old or self.store.replace(order.ordering, key, old, new, now_ms // 1000):
                return
            old = self.store.find(order.ordering).get(key)
        raise Retry("other functions change the queue of a key at the same time")
