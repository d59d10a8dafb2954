"""How masscomm authenticates its requests to an endpoint, in addition to their signature."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

# The purpose of the KMS key, which its policies name.
PURPOSE = "webhook-authentication"
MAX_SECRET, MAX_NAME, MAX_HEADERS = 4_000, 200, 10
MAX_PEM = 16_000


class AuthenticationType(StrEnum):
    BEARER = "bearer"  # Authorization: Bearer, with a token that does not change.
    BASIC = "basic"  # Authorization: Basic, with user name and password.
    HEADERS = "headers"  # The tenant's own headers.
    OAUTH2 = "oauth2"  # Authorization: Bearer, with a token for client credentials (RFC 6749, section 4.4).
    MTLS = "mtls"  # A client certificate.


@dataclass(frozen=True, kw_only=True)
class Authentication:
    """The credentials of an endpoint."""

    type: AuthenticationType
    # What is shown of them, as the REST API has it: no secret.
    shown: Mapping[str, Any]
    # All of them (masscomm.aws.sealed_secrets), for the context of the endpoint.
    sealed: bytes = field(repr=False)
    # The time at which they were set, in milliseconds since the epoch.
    since_ms: int


def sealing_context(endpoint_id: str, url: str) -> Mapping[str, str]:
    """Return the context for which the credentials of an endpoint are sealed. It has the server that gets them: they
    are of no use for another one.
    """
    return {"purpose": PURPOSE, "endpoint": endpoint_id, "server": server_of(url)}


def server_of(url: str) -> str:
    """Return the scheme, host and port of a checked URL."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()
