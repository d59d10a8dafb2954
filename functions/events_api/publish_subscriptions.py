"""Publishes changed subscriptions to the compacted topic `subscription`.

DynamoDB has the truth. A change has a mark until the topic has it, so that a sweep publishes what a crash left out. A
subscription that changes while it is published is published again: the last record of the topic is the stored state.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from masscomm.clock import Clock
from masscomm.domain.subscriptions import Subscription, SubscriptionKey
from masscomm.domain.time_limits import API_FLUSH_S, SUBSCRIPTIONS_SWEEP_RESERVE_S, SUBSCRIPTIONS_SWEPT_AFTER_S
from masscomm.errors import Retry
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec
from masscomm.kafka.producer import Producer
from masscomm.stores.subscriptions.port import Subscriptions, Unpublished
from masscomm.stores.webhook_endpoints.port import WebhookEndpoints

# The attempts to publish a subscription that other requests change.
_ATTEMPTS = 5


@dataclass(frozen=True, kw_only=True)
class PublishSubscriptions:
    store: Subscriptions
    endpoints: WebhookEndpoints
    codec: Codec
    producer: Producer
    clock: Clock

    def publish(self, change: Unpublished) -> None:
        """Publish the state of a subscription, and remove the mark of its change. Raises Retry or Stop."""
        for _ in range(_ATTEMPTS):
            subscription = self._current(change.key)
            errors: list[Exception | None] = []
            value = None
            if subscription is not None:
                record = subscription.to_record().to_avro()
                value = self.codec.encode(topics.SUBSCRIPTION, "SubscriptionChanged", record)
            self.producer.produce(topics.SUBSCRIPTION, change.key.id.encode(), value, [], errors.append)
            self.producer.flush(API_FLUSH_S)
            if error := next(iter(errors), None):
                raise Retry(f"Kafka has not taken the subscription: {error}") from error
            # guard: subscriptions.changed_while_published
            if self._current(change.key) == subscription:
                self.store.published(change)
                return
        raise Retry("the subscription is changed by other requests at the same time")

    def _current(self, key: SubscriptionKey) -> Subscription | None:
        """Return a subscription as its endpoint is now; None if there is none."""
        subscription = self.store.find(key)
        if subscription is None:
            return None
        endpoint = self.endpoints.find(key.endpoint)
        # guard: subscriptions.batched_endpoint
        return replace(subscription, batched=endpoint is not None and endpoint.is_batched)

    def publish_missing(self, remaining_s: Callable[[], float]) -> int:
        """Publish the changes whose request has ended without doing so. Return their number. Raises Retry or Stop."""
        count = 0
        before_ms = self.clock.now_ms() - round(SUBSCRIPTIONS_SWEPT_AFTER_S * 1000)
        for change in self.store.unpublished():
            if remaining_s() < SUBSCRIPTIONS_SWEEP_RESERVE_S:
                break
            if change.at_ms <= before_ms:
                self.publish(change)
                count += 1
        return count
