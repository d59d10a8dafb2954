"""AWS's signature, version 4, for the three places that are signed without an SDK: Kafka, OpenSearch and Postgres.

botocore does the same and takes a tenth of a second to import, which a cold start would spend on a few hashes. The
tests hold every signature made here against botocore's, over random input.

Source: AWS documentation, "Create a signed AWS API request".
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import quote, urlsplit

_ALGORITHM = "AWS4-HMAC-SHA256"
_EMPTY = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True)
class Credentials:
    """token: of a role's temporary credentials, None for a user's own."""

    access_key: str
    secret_key: str = field(repr=False)
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True)
class Scope:
    """What a signature is good for. at: the time it is made."""

    service: str
    region: str
    at: datetime

    @property
    def stamp(self) -> str:
        """The time as AWS writes it."""
        return self.at.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")

    @property
    def name(self) -> str:
        """The scope as a signature names it."""
        return f"{self.stamp[:8]}/{self.region}/{self.service}/aws4_request"


def signed_url(url: str, params: Mapping[str, str], *, scope: Scope, credentials: Credentials, expires_s: int) -> str:
    """A URL whose GET is signed by its query. url: without a query; params: of the query, as they are meant."""
    parts = urlsplit(url)
    query = {
        **params,
        "X-Amz-Algorithm": _ALGORITHM,
        "X-Amz-Credential": f"{credentials.access_key}/{scope.name}",
        "X-Amz-Date": scope.stamp,
        "X-Amz-Expires": str(expires_s),
        "X-Amz-SignedHeaders": "host",
    }
    if credentials.token:
        query["X-Amz-Security-Token"] = credentials.token
    text = "&".join(sorted(f"{_quoted(name)}={_quoted(value)}" for name, value in query.items()))
    request = ["GET", _path(parts.path), text, f"host:{_host(url)}\n", "host", _EMPTY]
    return f"{url}?{text}&X-Amz-Signature={_signature(request, scope, credentials)}"


def signed_headers(method: str, url: str, body: bytes, *, scope: Scope, credentials: Credentials) -> dict[str, str]:
    """The headers that sign a request. url: as it is sent, its path and query quoted."""
    parts = urlsplit(url)
    headers = {"host": _host(url), "x-amz-content-sha256": hashlib.sha256(body).hexdigest(), "x-amz-date": scope.stamp}
    if credentials.token:
        headers["x-amz-security-token"] = credentials.token
    names = ";".join(sorted(headers))
    pairs = sorted(tuple(pair.partition("=")[::2]) for pair in parts.query.split("&")) if parts.query else []
    request = [
        method.upper(),
        _path(parts.path),
        "&".join(f"{name}={value}" for name, value in pairs),
        "".join(f"{name}:{' '.join(headers[name].split())}\n" for name in sorted(headers)),
        names,
        headers["x-amz-content-sha256"],
    ]
    del headers["host"]  # whoever sends it writes it
    headers["authorization"] = (
        f"{_ALGORITHM} Credential={credentials.access_key}/{scope.name}, SignedHeaders={names},"
        f" Signature={_signature(request, scope, credentials)}"
    )
    return headers


def _signature(request: list[str], scope: Scope, credentials: Credentials) -> str:
    digest = hashlib.sha256("\n".join(request).encode()).hexdigest()
    key = f"AWS4{credentials.secret_key}".encode()
    for part in (scope.stamp[:8], scope.region, scope.service, "aws4_request"):
        key = _hmac(key, part)
    return _hmac(key, "\n".join([_ALGORITHM, scope.stamp, scope.name, digest])).hex()


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def _quoted(text: str) -> str:
    return quote(text, safe="-_.~")


def _path(path: str) -> str:
    """The path quoted once more than it is sent: every service but S3 wants it so."""
    return quote(path or "/", safe="/~")


def _host(url: str) -> str:
    """The Host header of a request: without user, and without the port that goes without saying."""
    parts = urlsplit(url)
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    name = parts.hostname or ""
    return name if parts.port in (None, usual) else f"{name}:{parts.port}"
