"""Stores the results of attempts on their endpoints, and disables an endpoint that fails for days or is gone."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from masscomm.domain.audit import Action
from masscomm.domain.webhooks import Attempt, Endpoint
from masscomm.errors import Retry
from masscomm.observability import metrics
from masscomm.observability.metric_names import WEBHOOK_ENDPOINTS_DISABLED
from masscomm.stores.audit_log.port import Audit
from masscomm.stores.webhook_endpoints.port import WebhookEndpoints

# The attempts to store a change of an endpoint while other requests change it.
_CHANGE_ATTEMPTS = 5


@dataclass(frozen=True, kw_only=True)
class EndpointResults:
    endpoints: WebhookEndpoints
    # Records that masscomm disabled an endpoint.
    audit: Audit
    # Announces that masscomm disables an endpoint.
    announce: Callable[[Endpoint], None]

    def claim_probe(self, endpoint: Endpoint, now_ms: int) -> bool:
        """Claim the probe of a failing endpoint: return whether this caller may attempt one message. Raises Retry."""
        stored = self.endpoints.find(endpoint.key)
        if stored is None or not stored.enabled or now_ms < (stored.probe_at_ms or 0):  # guard: events.one_probe
            return False
        return self.endpoints.replace(replace(stored.probed(now_ms), revision=stored.revision + 1))

    def record(self, endpoint: Endpoint, attempt: Attempt, *, tried_since_ms: int, is_probe: bool = False) -> Endpoint:
        """Store on the endpoint that an attempt failed, or succeeded after failures. It may disable the endpoint.
        Return the endpoint as it is then.

        Args:
            endpoint: The endpoint as it was when the attempt was made.
            attempt: The attempt.
            tried_since_ms: The time of the first attempt of the same delivery.
            is_probe: Whether the attempt is the probe of a failing endpoint.

        Raises:
            Retry: Other requests change the endpoint at the same time, or the store does not answer.
        """
        for _ in range(_CHANGE_ATTEMPTS):
            stored = self.endpoints.find(endpoint.key)
            # The attempt says nothing about the server of another URL, nor about one that was enabled or got another
            # authentication meanwhile.
            # guard: webhooks.result_of_the_present_endpoint
            if stored is None or _attempted(stored) != _attempted(endpoint):
                return stored or endpoint
            after = stored.after(attempt, tried_since_ms=tried_since_ms, is_probe=is_probe)
            if after == stored:
                return stored
            is_disabled = stored.enabled and not after.enabled
            # Before the change: a crash in between announces it again under the same id, and loses nothing.
            if is_disabled:  # guard: events.announced_endpoint
                self.announce(after)
            if self.endpoints.replace(replace(after, revision=stored.revision + 1)):
                if is_disabled:
                    metrics.add(WEBHOOK_ENDPOINTS_DISABLED)
                    self.audit(
                        Action.WEBHOOK_DISABLED,
                        subject=endpoint.key.id,
                        clubs=[endpoint.key.club_id],
                        detail=after.disabled_reason,
                    )
                return after
        raise Retry(f"endpoint {endpoint.key.id} is changed by other requests at the same time")


def _attempted(endpoint: Endpoint) -> object:
    """Return the parts of an endpoint on which the result of an attempt depends."""
    return endpoint.url, endpoint.enabled_at_ms, endpoint.authentication
