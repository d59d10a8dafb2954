"""The function webhook_events in memory: it produces the events of sends, and reads subscriptions from their topic."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from functions.webhook_events.find_events import FindEvents
from functions.webhook_events.send_counts import ChangedCounts
from masscomm.chain.publish_subscriptions import PublishSubscriptions
from masscomm.chain.subscription_topic import SubscriptionTopic
from masscomm.domain.records import EventOccurred
from masscomm.domain.subscriptions import SubscriptionKey
from masscomm.domain.webhooks import EndpointKey
from masscomm.kafka import topics
from masscomm.kafka.producer import InMemoryProducer
from masscomm.kafka.topic_reading import TopicReader
from masscomm.stores.event_ids.in_memory import InMemoryEventIds
from masscomm.stores.sends.port import Sends
from masscomm.stores.subscriptions.in_memory import InMemorySubscriptions
from tests.support.harness.chain import Chain
from tests.support.harness.events import ScriptedMessage, ScriptedReader
from tests.support.harness.webhooks import Webhooks


@dataclass
class ProducedSubscriptions:
    """A TopicReader over the produced records of the topic `subscription`."""

    producer: InMemoryProducer

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        return self._now().bounds(topic, partition)

    def read(self, partitions: Sequence[Any]) -> Iterator[ScriptedMessage]:
        return self._now().read(partitions)

    def _now(self) -> ScriptedReader:
        produced = self.producer.produced
        return ScriptedReader([(key, value) for topic, key, value, _ in produced if topic == topics.SUBSCRIPTION])


class OwnEvents(Chain):
    """The use case over the endpoints of a test."""

    def __init__(self, webhooks: Webhooks, counts: ChangedCounts, sends: Sends) -> None:
        super().__init__()
        self.webhooks, self.clock, self.counts, self.sends = webhooks, webhooks.clock, counts, sends
        self.event_ids, self.subscriptions = InMemoryEventIds(), InMemorySubscriptions()
        self.use_case = self.restarted()

    def restarted(self) -> FindEvents:
        """Return the use case of another environment."""
        publishing = PublishSubscriptions(
            store=self.subscriptions,
            endpoints=self.webhooks.endpoints,
            codec=self.codec,
            producer=self.producer,
            clock=self.clock,
        )
        reader = cast(TopicReader, ProducedSubscriptions(self.producer))
        return FindEvents(
            counts=self.counts,
            sends=self.sends,
            subscriptions=SubscriptionTopic(bootstrap="", codec=self.codec, clock=self.clock, _reader=reader),
            publishing=publishing,
            event_ids=self.event_ids,
            codec=self.codec,
            producer=self.producer,
            clock=self.clock,
        )

    def publish(self, endpoint: EndpointKey) -> None:
        """Publish the change of an endpoint, as the request that makes it."""
        (mark,) = self.subscriptions.mark([SubscriptionKey.implicit(endpoint)], self.clock.now_ms())
        self.use_case.publishing.publish(mark)

    def produced_events(self) -> list[EventOccurred]:
        return self._decoded(EventOccurred, topics.EVENT)

    def events(self) -> list[dict[str, Any]]:
        """Return the type and the data of each produced event."""
        return [{"type": each.type, "data": json.loads(each.data)} for each in self.produced_events()]

    def received(self) -> list[tuple[EndpointKey, str]]:
        """Return (endpoint, event type) of each message."""
        index = self.use_case.subscriptions.current()
        return [(endpoint, event.type) for event in self.produced_events() for endpoint in index.match(event)]
