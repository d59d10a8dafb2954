"""The tests that every store of webhook endpoints and of deliveries must pass, in memory and real."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from masscomm.domain.webhooks import (
    MAX_ENDPOINTS,
    Attempt,
    BodyFormat,
    Delivery,
    DeliveryStatus,
    Endpoint,
    EndpointKey,
    Event,
)
from masscomm.errors import Retry
from masscomm.stores.webhook_deliveries.port import Due, WebhookDeliveries
from masscomm.stores.webhook_endpoints.port import CreatedBefore, CreationRequest, TooManyEndpoints, WebhookEndpoints

NOW = 1_700_000_000_500
KEY, OTHER = EndpointKey(7, "ep_7_aaaaaaaaaaaaaaaaaaaa"), EndpointKey(8, "ep_8_aaaaaaaaaaaaaaaaaaaa")
SECOND = EndpointKey(7, "ep_7_bbbbbbbbbbbbbbbbbbbb")
REQUEST = CreationRequest(id="k", digest="r" * 64, at_s=1_000)


def endpoint(key: EndpointKey = KEY, **fields: Any) -> Endpoint:
    given: dict[str, Any] = {"url": "https://hooks.example.org/a?b=c", "created_at_ms": NOW, "key_id": "1"}
    return Endpoint(key=key, **given | fields)


def event(id_: str = "evt_1", *, at_ms: int = NOW) -> Event:
    return Event(id=id_, type="send.completed", club_id=7, at_ms=at_ms, body='{"type":"send.completed","a":"ö"}')


def delivery(id_: str = "evt_1", *, key: EndpointKey = KEY, at_ms: int = NOW, due_ms: int | None = None) -> Delivery:
    return Delivery(
        endpoint=key, event_id=id_, event_type="send.completed", at_ms=at_ms, due_ms=at_ms if due_ms is None else due_ms
    )


def numbered(number: int) -> Endpoint:
    return endpoint(EndpointKey(7, f"ep_7_{number:020d}"))


class WebhookEndpointsContract:
    """Subclasses define the fixture `endpoints`, an empty store."""

    def test_a_created_endpoint_is_found(self, endpoints: WebhookEndpoints) -> None:
        assert endpoints.find(KEY) is None
        full = endpoint(
            event_types=("send.cancelled", "send.completed"),
            description="shop",
            format=BodyFormat.CLOUD_EVENTS,
            previous_key_id="0",
            previous_until_ms=NOW + 1,
            failing_since_ms=NOW - 1,
            enabled_at_ms=NOW + 2,
            rotation_digest="d",
            previous_rotation_digest="e",
            rotation_request="f",
            previous_rotation_request="g",
            secret_version=3,
            probe_at_ms=NOW + 3,
            failed_probes=2,
            is_slow=True,
            max_count=100,
            max_bytes=5_000,
            max_concurrency=3,
            rate_per_s=7,
        )
        endpoints.create(full)
        assert endpoints.find(KEY) == full
        assert endpoints.find(EndpointKey(8, KEY.id)) is None
        endpoints.create(endpoint(SECOND))
        assert endpoints.find_all([KEY, OTHER, SECOND, KEY]) == {KEY: full, SECOND: endpoint(SECOND)}

    def test_a_repeated_request_creates_one_endpoint(self, endpoints: WebhookEndpoints) -> None:
        assert endpoints.create(endpoint(), REQUEST) is None
        second = endpoint(SECOND)
        for later in (REQUEST, replace(REQUEST, digest="s" * 64, at_s=1_001)):
            assert endpoints.create(second, later) == CreatedBefore(REQUEST.digest, KEY)
        assert list(endpoints.of_club(7)) == [endpoint()]
        # The key belongs to the club.
        assert endpoints.create(endpoint(OTHER), REQUEST) is None

    def test_a_deleted_endpoint_is_not_created_again(self, endpoints: WebhookEndpoints) -> None:
        endpoints.create(endpoint(), REQUEST)
        endpoints.delete(KEY)
        assert endpoints.create(endpoint(SECOND), REQUEST) == CreatedBefore(REQUEST.digest, KEY)
        assert list(endpoints.of_club(7)) == []

    def test_a_request_a_day_later_creates_an_endpoint(self, endpoints: WebhookEndpoints) -> None:
        endpoints.create(endpoint(), REQUEST)
        a_day_later = replace(REQUEST, at_s=REQUEST.at_s + 86_400)
        assert endpoints.create(endpoint(SECOND), a_day_later) is None
        assert endpoints.create(endpoint(), a_day_later) == CreatedBefore(REQUEST.digest, SECOND)

    def test_a_club_has_a_maximum_of_endpoints(self, endpoints: WebhookEndpoints) -> None:
        for number in range(MAX_ENDPOINTS):
            endpoints.create(numbered(number), replace(REQUEST, id=f"{number}"))
        with pytest.raises(TooManyEndpoints):
            endpoints.create(numbered(99))
        # A repeated creation needs no room.
        assert endpoints.create(numbered(99), replace(REQUEST, id="0")) is not None
        assert endpoints.create(endpoint(OTHER)) is None
        endpoints.delete(numbered(3).key)
        assert endpoints.create(numbered(99)) is None

    def test_endpoints_are_those_of_a_club(self, endpoints: WebhookEndpoints) -> None:
        second = endpoint(EndpointKey(7, "ep_7_0aaaaaaaaaaaaaaaaaaa"), created_at_ms=NOW + 1)
        for each in (second, endpoint(), endpoint(OTHER)):
            endpoints.create(each)
        assert list(endpoints.of_club(7)) == [endpoint(), second]
        assert list(endpoints.of_club(9)) == []
        assert sorted(endpoints.clubs()) == [7, 8]

    @pytest.mark.kills(guard="webhooks.endpoint_revision")
    def test_a_change_replaces_the_previous_revision(self, endpoints: WebhookEndpoints) -> None:
        changed = replace(endpoint(), enabled=False, disabled_reason="x", revision=2)
        assert not endpoints.replace(changed)
        endpoints.create(endpoint())
        assert endpoints.replace(changed)
        assert not endpoints.replace(replace(endpoint(), revision=2))
        assert endpoints.find(KEY) == changed
        assert endpoints.replace(replace(changed, enabled=True, disabled_reason="", revision=3))
        assert endpoints.find(KEY) == replace(endpoint(), revision=3)

    @pytest.mark.kills(guard="webhooks.lost_response")
    def test_a_repeated_change_has_succeeded(self, endpoints: WebhookEndpoints) -> None:
        """DynamoDB's client repeats a request whose response was lost."""
        endpoints.create(endpoint())
        rotated = replace(endpoint(event_types=("a", "b")).rotated(key_id="2", now_ms=NOW), revision=2)
        assert endpoints.replace(rotated)
        assert endpoints.replace(rotated)
        assert endpoints.find(KEY) == rotated
        assert not endpoints.replace(replace(rotated, description="another change"))

    def test_a_deleted_endpoint_is_gone(self, endpoints: WebhookEndpoints) -> None:
        endpoints.create(endpoint())
        assert endpoints.delete(KEY)
        assert not endpoints.delete(KEY)
        assert endpoints.find(KEY) is None
        assert not endpoints.replace(replace(endpoint(), revision=2))


class ConcurrentWebhookEndpointsContract:
    """The tests of stores whose writes are atomic across threads. Subclasses define the fixture `endpoints`."""

    def test_concurrent_creations_keep_the_maximum(self, endpoints: WebhookEndpoints) -> None:
        for number in range(MAX_ENDPOINTS - 1):
            endpoints.create(numbered(number))
        assert sorted(created(endpoints, [numbered(90 + number) for number in range(8)])) == [False] * 7 + [True]
        assert len(endpoints.of_club(7)) == MAX_ENDPOINTS

    @pytest.mark.kills(guard="webhooks.created_once")
    def test_of_concurrent_repetitions_one_creates(self, endpoints: WebhookEndpoints) -> None:
        assert sorted(created(endpoints, [numbered(n) for n in range(8)], REQUEST)) == [False] * 7 + [True]
        assert len(endpoints.of_club(7)) == 1


def created(endpoints: WebhookEndpoints, new: list[Endpoint], request: CreationRequest | None = None) -> list[bool]:
    """Create endpoints concurrently, and return whether each was created. Callers repeat refused requests."""

    def create(each: Endpoint) -> bool:
        while True:
            with suppress(Retry):
                try:
                    return endpoints.create(each, request) is None
                except TooManyEndpoints:
                    return False

    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(create, new))


class WebhookDeliveriesContract:
    """Subclasses define the fixture `deliveries`, an empty store."""

    @pytest.mark.kills(guard="webhooks.recorded_event")
    def test_the_first_event_of_an_id_is_kept(self, deliveries: WebhookDeliveries) -> None:
        assert deliveries.event("evt_1") is None
        assert deliveries.record(event()) == event()
        assert deliveries.record(event(at_ms=NOW + 5)) == event()
        assert deliveries.event("evt_1") == event()

    def test_an_added_delivery_is_pending(self, deliveries: WebhookDeliveries) -> None:
        assert deliveries.add(delivery(due_ms=NOW + 5)) == delivery(due_ms=NOW + 5)
        assert deliveries.find(KEY, delivery().id) == delivery(due_ms=NOW + 5)
        assert deliveries.find(OTHER, delivery().id) is None
        assert list(deliveries.due(KEY, limit=9)) == [Due(NOW + 5, delivery().id)]
        assert list(deliveries.due(OTHER, limit=9)) == []
        assert [queue.endpoint for queue in deliveries.queues()] == [KEY]

    def test_a_delivery_is_added_once(self, deliveries: WebhookDeliveries) -> None:
        first = deliveries.add(delivery())
        done = replace(first, status=DeliveryStatus.SUCCEEDED, due_ms=None, revision=2)
        assert deliveries.replace(done, first)
        assert deliveries.add(delivery()) == done
        assert list(deliveries.due(KEY, limit=9)) == []

    def test_pending_deliveries_are_ordered_by_time(self, deliveries: WebhookDeliveries) -> None:
        for number, due_ms in ((1, 3), (2, 1), (3, 2)):
            deliveries.add(delivery(f"evt_{number}", due_ms=NOW + due_ms))
        assert [due.due_ms - NOW for due in deliveries.due(KEY, limit=2)] == [1, 2]

    @pytest.mark.kills(guard="webhooks.delivery_revision")
    def test_a_change_replaces_the_previous_revision(self, deliveries: WebhookDeliveries) -> None:
        first = deliveries.add(delivery())
        attempt = Attempt(at_ms=NOW, duration_ms=3, status=503, error="", body="öx", retry_after_s=9)
        second = replace(first, due_ms=NOW + 9, attempts=1, tries=1, last=(attempt,), resend_digest="d", revision=2)
        assert deliveries.replace(second, first)
        assert deliveries.find(KEY, first.id) == second
        assert list(deliveries.due(KEY, limit=9)) == [Due(NOW + 9, first.id)]
        assert not deliveries.replace(replace(first, status=DeliveryStatus.FAILED, due_ms=None, revision=2), first)
        assert deliveries.find(KEY, first.id) == second
        last = replace(second, status=DeliveryStatus.SUCCEEDED, due_ms=None, revision=3)
        assert deliveries.replace(last, second)
        assert list(deliveries.due(KEY, limit=9)) == []

    def test_an_entry_is_forgotten(self, deliveries: WebhookDeliveries) -> None:
        deliveries.add(delivery())
        deliveries.forget(KEY, Due(NOW, delivery().id))
        assert list(deliveries.due(KEY, limit=9)) == []
        assert deliveries.find(KEY, delivery().id) == delivery()
        # Adding the delivery again writes the entry that a crash prevented.
        deliveries.add(delivery())
        assert list(deliveries.due(KEY, limit=9)) == [Due(NOW, delivery().id)]

    def test_pages_have_the_latest_deliveries_first(self, deliveries: WebhookDeliveries) -> None:
        for number in range(5):
            deliveries.add(delivery(f"evt_{number}", at_ms=NOW + number))
        deliveries.add(delivery("evt_9", key=OTHER))
        first, more = deliveries.page(KEY, limit=3)
        assert ([each.event_id for each in first], more) == (["evt_4", "evt_3", "evt_2"], True)
        rest, more = deliveries.page(KEY, limit=2, before=first[-1].id)
        assert ([each.event_id for each in rest], more) == (["evt_1", "evt_0"], False)

    @pytest.mark.kills(guard="webhooks.large_deliveries")
    def test_pages_of_large_deliveries_have_all(self, deliveries: WebhookDeliveries) -> None:
        """DynamoDB answers 1 MB at a time. 200 deliveries with ten error pages each are larger."""
        attempt = Attempt(at_ms=NOW, duration_ms=3, status=500, body="x" * 300_000)
        for number in range(5):
            deliveries.add(replace(delivery(f"evt_{number}", at_ms=NOW + number), last=(attempt,)))
        found: list[str] = []
        page = deliveries.page(KEY, limit=5)
        while page.deliveries:
            found += [each.event_id for each in page.deliveries]
            if not page.more:
                break
            page = deliveries.page(KEY, limit=5, before=page.deliveries[-1].id)
        assert found == ["evt_4", "evt_3", "evt_2", "evt_1", "evt_0"]

    @pytest.mark.kills(guard="webhooks.claimed_queue")
    def test_a_queue_is_claimed_by_one_sweep(self, deliveries: WebhookDeliveries) -> None:
        assert not deliveries.claim(KEY, now_ms=NOW, until_ms=NOW + 10)
        deliveries.add(delivery())
        assert deliveries.claim(KEY, now_ms=NOW, until_ms=NOW + 10)
        assert not deliveries.claim(KEY, now_ms=NOW + 9, until_ms=NOW + 20)
        deliveries.release(KEY, until_ms=NOW + 20)
        assert not deliveries.claim(KEY, now_ms=NOW + 9, until_ms=NOW + 20)
        deliveries.release(KEY, until_ms=NOW + 10)
        assert deliveries.claim(KEY, now_ms=NOW + 9, until_ms=NOW + 20)
        # The claim of a crashed sweep ends.
        assert deliveries.claim(KEY, now_ms=NOW + 20, until_ms=NOW + 30)

    @pytest.mark.kills(guard="webhooks.empty_queue")
    def test_a_queue_with_a_new_delivery_is_not_dropped(self, deliveries: WebhookDeliveries) -> None:
        deliveries.add(delivery())
        (before,) = deliveries.queues()
        deliveries.add(delivery("evt_2"))
        deliveries.drop(before)
        (after,) = deliveries.queues()
        deliveries.drop(after)
        assert list(deliveries.queues()) == []

    def test_of_concurrent_claims_one_succeeds(self, deliveries: WebhookDeliveries) -> None:
        deliveries.add(delivery())
        with ThreadPoolExecutor(8) as pool:
            claims = list(pool.map(lambda n: deliveries.claim(KEY, now_ms=NOW, until_ms=NOW + n), range(1, 9)))
        assert claims.count(True) == 1
