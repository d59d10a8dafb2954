"""The tests that every store of webhook endpoints must pass, in memory and real."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from masscomm.domain.webhook_authentication import Authentication, AuthenticationType
from masscomm.domain.webhooks import MAX_ENDPOINTS, BodyFormat, Endpoint, EndpointKey
from masscomm.errors import Retry
from masscomm.stores.webhook_endpoints.port import CreatedBefore, CreationRequest, TooManyEndpoints, WebhookEndpoints
from masscomm.stores.webhook_tokens.port import StoredToken, WebhookTokens

NOW = 1_700_000_000_500
KEY, OTHER = EndpointKey(7, "ep_7_aaaaaaaaaaaaaaaaaaaa"), EndpointKey(8, "ep_8_aaaaaaaaaaaaaaaaaaaa")
SECOND = EndpointKey(7, "ep_7_bbbbbbbbbbbbbbbbbbbb")
AUTHENTICATION = Authentication(
    type=AuthenticationType.BASIC, shown={"username": "ö"}, sealed=b"\x00\xff", since_ms=NOW
)
TOKEN = StoredToken(sealed=b"\x00token", expires_at_ms=NOW + 1, requested_until_ms=NOW, version="token")
REQUEST = CreationRequest(id="k", digest="r" * 64, at_s=1_000)


def endpoint(key: EndpointKey = KEY, **fields: Any) -> Endpoint:
    given: dict[str, Any] = {"url": "https://hooks.example.org/a?b=c", "created_at_ms": NOW, "key_id": "1"}
    return Endpoint(key=key, **given | fields)


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
            max_wait_s=300,
            ordered_since_ms=NOW + 5,
            max_concurrency=3,
            rate_per_s=7,
            authentication=AUTHENTICATION,
            previous_authentication=replace(AUTHENTICATION, type=AuthenticationType.BEARER, shown={}, sealed=b"\x01"),
            previous_authentication_until_ms=NOW + 4,
            contact_user_id=42,
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


class WebhookTokensContract:
    """Subclasses define the fixture `tokens`, an empty store."""

    def test_a_stored_token_is_found(self, tokens: WebhookTokens) -> None:
        assert tokens.find(KEY) is None
        assert tokens.replace(KEY, TOKEN, None)
        assert tokens.find(KEY) == TOKEN
        assert tokens.find(OTHER) is None

    @pytest.mark.kills(guard="webhook_tokens.one_request")
    def test_a_token_replaces_the_state_that_was_read(self, tokens: WebhookTokens) -> None:
        claim = StoredToken(requested_until_ms=NOW, version="1")
        assert tokens.replace(KEY, claim, None)
        assert not tokens.replace(KEY, replace(claim, version="2"), None)
        # The client repeats a request whose response was lost.
        assert tokens.replace(KEY, claim, None)
        assert tokens.replace(KEY, TOKEN, claim)
        assert not tokens.replace(KEY, replace(TOKEN, version="3"), claim)
        assert tokens.replace(KEY, TOKEN, claim)
        assert tokens.find(KEY) == TOKEN

    def test_an_expired_state_is_not_replaced(self, tokens: WebhookTokens) -> None:
        """DynamoDB has deleted the state that was read."""
        assert not tokens.replace(KEY, TOKEN, StoredToken(version="1"))
        assert tokens.find(KEY) is None


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
