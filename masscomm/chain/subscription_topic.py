"""Keeps the subscriptions of the compacted topic `subscription` in memory."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

from confluent_kafka import KafkaException, TopicPartition

from masscomm import environment
from masscomm.aws.authentication import kafka_client_config
from masscomm.clock import Clock, SystemClock
from masscomm.decisions.event_matching import SubscriptionIndex
from masscomm.domain.records import SubscriptionChanged
from masscomm.domain.subscriptions import Subscription
from masscomm.domain.time_limits import SUBSCRIPTIONS_FOLLOWED_S
from masscomm.errors import DeadLetter, Retry
from masscomm.kafka.avro import Codec
from masscomm.kafka.topic_reading import TopicReader
from masscomm.kafka.topics import SUBSCRIPTION
from masscomm.observability import logs

logger = logs.logger("event_matcher")
# The topic has one partition.
_PARTITION = 0


class SubscriptionSource(Protocol):
    """The subscriptions as they are now."""

    def current(self) -> SubscriptionIndex:
        """Return the index of all subscriptions. Raises Retry if it cannot be read."""
        ...


@dataclass(kw_only=True)
class SubscriptionTopic:
    """The subscriptions in Kafka, for one thread. It connects at the first call.

    The first call reads the topic to its end. Each later one asks for the end, and reads what follows. After a failed
    read the next call begins at the last record that was read. A function that was idle for long reads the whole topic
    again: Kafka may have removed the record of a deletion meanwhile.
    """

    bootstrap: str
    codec: Codec
    security: Mapping[str, Any] = field(default_factory=dict)
    clock: Clock = field(default_factory=SystemClock)
    _index: SubscriptionIndex = field(default_factory=SubscriptionIndex)
    _next_offset: int = 0
    # The time of the last complete read, in milliseconds since the epoch.
    _read_at_ms: int = 0
    _reader: TopicReader | None = None

    @classmethod
    def from_environment(cls, codec: Codec) -> Self:
        """Return the subscriptions of the brokers in KAFKA_BOOTSTRAP_SERVERS. Raises Stop if a variable is missing."""
        bootstrap = environment.required("KAFKA_BOOTSTRAP_SERVERS")
        return cls(bootstrap=bootstrap, codec=codec, security=kafka_client_config())

    def current(self) -> SubscriptionIndex:
        try:
            self._read()
        except KafkaException as error:
            self._close()
            # A match without the latest subscriptions would lose the events of new ones.
            raise Retry(f"Kafka does not return the subscriptions: {error}") from error
        return self._index

    def _read(self) -> None:
        if self._reader is None:
            self._reader = TopicReader(self.bootstrap, self.security)
        now_ms = self.clock.now_ms()
        first, end = self._reader.bounds(SUBSCRIPTION, _PARTITION)
        is_another_topic = end < self._next_offset
        was_idle = now_ms - self._read_at_ms > SUBSCRIPTIONS_FOLLOWED_S * 1000  # guard: subscriptions.idle_matcher
        if is_another_topic or was_idle:
            self._index, self._next_offset = SubscriptionIndex(), first
        start = max(first, self._next_offset)
        if start < end:
            for message in self._reader.read([TopicPartition(SUBSCRIPTION, _PARTITION, start)]):
                self._apply(message.key(), message.value())
                self._next_offset = (message.offset() or 0) + 1
        self._next_offset = max(self._next_offset, end)
        self._read_at_ms = now_ms

    def _apply(self, key: bytes | None, value: bytes | None) -> None:
        """Apply one record. A malformed one is logged: it must not stop the delivery of every event."""
        subscription_id = (key or b"").decode(errors="replace")
        if value is None:
            self._index.remove(subscription_id)
            return
        try:
            record = SubscriptionChanged.from_avro(self.codec.decode("SubscriptionChanged", value))
            self._index.put(Subscription.of_record(record))
        except (DeadLetter, ValueError) as error:
            logger.exception("a subscription is malformed", subscription_id=subscription_id, error=str(error))

    def _close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None
