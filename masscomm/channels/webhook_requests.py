"""Builds the requests of webhooks, and the attempts from their answers."""

from collections.abc import Mapping

from masscomm.channels.guarded_http import Answer, NoAnswer
from masscomm.channels.public_urls import UrlRefused
from masscomm.domain.cloud_events import content_type_of
from masscomm.domain.signing_keys import KeySet
from masscomm.domain.webhook_signatures import headers, secret_of
from masscomm.domain.webhooks import Attempt, Endpoint, retry_after_s

_USER_AGENT = "masscomm-webhooks/1"


def signed_headers(keys: KeySet, endpoint: Endpoint, *, message_id: str, at_ms: int, body: bytes) -> Mapping[str, str]:
    """Return the headers of one attempt, signed with each secret of the endpoint. Raises Stop if a signing key was
    removed.
    """
    secrets = [
        secret_of(keys, key_id=key_id, endpoint_id=endpoint.key.id, version=version)
        for key_id, version in endpoint.secret_versions(at_ms)
    ]
    signed = headers(secrets, message_id=message_id, at_s=at_ms // 1000, body=body)
    return {"content-type": content_type_of(body), "user-agent": _USER_AGENT, **signed}


def attempt_of(result: Answer | UrlRefused | NoAnswer, *, at_ms: int, duration_ms: int) -> Attempt:
    """Return the attempt with this result."""
    match result:
        case Answer():
            return Attempt(
                at_ms=at_ms,
                duration_ms=duration_ms,
                status=result.status,
                retry_after_s=retry_after_s(result.retry_after, at_ms),
            )
        case UrlRefused():
            return Attempt(at_ms=at_ms, duration_ms=duration_ms, error=f"the URL {result}")
        case NoAnswer():
            return Attempt(at_ms=at_ms, duration_ms=duration_ms, error=str(result))
