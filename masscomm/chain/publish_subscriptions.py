"""Publishes subscriptions to the compacted topic `subscription`: those of the table, and an implicit one for each
endpoint.

DynamoDB has the truth. A change has a mark until the topic has it, so that a sweep publishes what a crash left out. A
subscription that changes while it is published is published again: the last record of the topic is the stored state. A
subscription whose endpoint is deleted is deleted, too.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from dataclasses import dataclass, replace

from masscomm.clock import Clock
from masscomm.domain.subscriptions import Subscription, SubscriptionKey, implicit_subscription
from masscomm.domain.time_limits import API_FLUSH_S, SUBSCRIPTIONS_SWEEP_RESERVE_S, SUBSCRIPTIONS_SWEPT_AFTER_S
from masscomm.domain.webhooks import Endpoint, EndpointKey
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
            self._produce([(change.key, subscription)])
            # guard: subscriptions.changed_while_published
            if self._current(change.key) != subscription:
                continue
            if subscription is None:
                # Its endpoint may be deleted. The deletion has a mark of its own.
                change = self.store.delete(change.key, self.clock.now_ms()) or change
            self.store.published(change)
            return
        raise Retry("the subscription is changed by other requests at the same time")

    def publish_implicit(self, pool: Executor) -> None:
        """Publish the implicit subscription of each endpoint. Raises Retry or Stop.

        Those of an earlier version were not published, and a new topic has none.
        """
        before = self._all_endpoints(pool)
        self._produce((SubscriptionKey.implicit(key), implicit_subscription(each)) for key, each in before.items())
        after = self._all_endpoints(pool)
        for key in before:
            # guard: subscriptions.endpoint_changed_meanwhile
            if after.get(key) != before[key]:
                self.publish(self.store.mark([SubscriptionKey.implicit(key)], self.clock.now_ms())[0])

    def _all_endpoints(self, pool: Executor) -> dict[EndpointKey, Endpoint]:
        found = pool.map(self.endpoints.of_club, list(self.endpoints.clubs()))
        return {endpoint.key: endpoint for endpoints in found for endpoint in endpoints}

    def _produce(self, subscriptions: Iterable[tuple[SubscriptionKey, Subscription | None]]) -> None:
        """Produce subscriptions, and deletions of those that do not exist. Raises Retry."""
        errors: list[Exception | None] = []
        for key, subscription in subscriptions:
            value = None
            if subscription is not None:
                record = subscription.to_record().to_avro()
                value = self.codec.encode(topics.SUBSCRIPTION, "SubscriptionChanged", record)
            self.producer.produce(topics.SUBSCRIPTION, key.id.encode(), value, [], errors.append)
        self.producer.flush(API_FLUSH_S)
        if error := next(filter(None, errors), None):
            raise Retry(f"Kafka has not taken each subscription: {error}") from error

    def _current(self, key: SubscriptionKey) -> Subscription | None:
        """Return a subscription as its endpoint is now; None if there is none, or no endpoint."""
        endpoint = self.endpoints.find(key.endpoint)
        if key == SubscriptionKey.implicit(key.endpoint):
            return None if endpoint is None else implicit_subscription(endpoint)
        subscription = self.store.find(key)
        if subscription is None:
            return None
        if endpoint is None:
            # A rule has no endpoint.
            # guard: subscriptions.deleted_endpoint
            return None if subscription.notification is None else subscription
        # guard: subscriptions.batched_endpoint
        return replace(subscription, batched=endpoint.is_batched)

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
