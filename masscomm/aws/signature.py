"""AWS's signature, version 4, for requests without an SDK.

botocore also computes it, but its import adds a tenth of a second to a cold start for a few hashes. Tests compare the
signatures of this module with botocore's, over random input.

Source: AWS documentation, IAM user guide, "Create a signed AWS API request": the signed headers must include Host,
Content-Type if the request has one, and all x-amz-* headers. Here every header is signed.
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from urllib.parse import quote, urlsplit

_ALGORITHM = "AWS4-HMAC-SHA256"
_EMPTY = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True)
class Credentials:
    """AWS credentials of a role or a user."""

    access_key: str
    secret_key: str = field(repr=False)
    # Session token of a role's temporary credentials, None for a user's own.
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True)
class Scope:
    """Service, region and time for which a signature is valid."""

    service: str
    region: str
    # The time of the signature.
    at: datetime

    @property
    def stamp(self) -> str:
        """The time in AWS's format, such as 20260102T030405Z."""
        return self.at.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")

    @property
    def name(self) -> str:
        """The credential scope in AWS's format."""
        return f"{self.stamp[:8]}/{self.region}/{self.service}/aws4_request"


def signed_url(url: str, params: Mapping[str, str], *, scope: Scope, credentials: Credentials, expires_s: int) -> str:
    """Return a URL for a GET request that is signed in its query.

    Args:
        url: without a query.
        params: of the query, not quoted.
        scope: service, region and time of the signature.
        credentials: the signing key, and the session token if there is one.
        expires_s: seconds for which the URL is valid.
    """
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
    request = "\n".join(["GET", _path(parts.path), text, f"host:{_host(url)}\n", "host", _EMPTY])
    return f"{url}?{text}&X-Amz-Signature={signature(string_to_sign(request, scope), scope, credentials)}"


def signed_headers(
    method: str, url: str, headers: Mapping[str, str], body: bytes, *, scope: Scope, credentials: Credentials
) -> dict[str, str]:
    """Return all headers to send except Host and Content-Length, which the HTTP client adds. All of them are signed.

    Args:
        method: of the request.
        url: as it is sent, with its path and query quoted.
        headers: of the request without a signature.
        body: as it is sent.
        scope: service, region and time of the signature.
        credentials: the signing key, and the session token if there is one.
    """
    signed = {name.lower(): value for name, value in headers.items()}
    signed["x-amz-date"] = scope.stamp
    if credentials.token:
        signed["x-amz-security-token"] = credentials.token
    sent = {"host": _host(url), **signed}  # guard: signatures.all_headers
    request = canonical_request(method, url, sent, body)
    names = ";".join(sorted(sent))
    signed["authorization"] = (
        f"{_ALGORITHM} Credential={credentials.access_key}/{scope.name}, SignedHeaders={names},"
        f" Signature={signature(string_to_sign(request, scope), scope, credentials)}"
    )
    return signed


def canonical_request(method: str, url: str, headers: Mapping[str, str], body: bytes) -> str:
    """Return the request in AWS's canonical form.

    Args:
        method: of the request.
        url: as it is sent.
        headers: all headers, Host included, with names in lower case.
        body: as it is sent; not read if headers include x-amz-content-sha256.
    """
    parts = urlsplit(url)
    pairs = sorted(tuple(pair.partition("=")[::2]) for pair in parts.query.split("&")) if parts.query else []
    names = sorted(headers)
    return "\n".join(
        [
            method.upper(),
            _path(parts.path),
            "&".join(f"{name}={value}" for name, value in pairs),
            "".join(f"{name}:{' '.join(headers[name].split())}\n" for name in names),
            ";".join(names),
            headers.get("x-amz-content-sha256") or hashlib.sha256(body).hexdigest(),
        ]
    )


def string_to_sign(request: str, scope: Scope) -> str:
    """Return the text whose keyed hash is the signature, for a canonical request."""
    return "\n".join([_ALGORITHM, scope.stamp, scope.name, hashlib.sha256(request.encode()).hexdigest()])


def signature(text: str, scope: Scope, credentials: Credentials) -> str:
    """The signature of a string to sign, in hexadecimal digits."""
    return _hmac(_signing_key(credentials.secret_key, scope.stamp[:8], scope.region, scope.service), text).hex()


# The key changes once a day per service. The cache saves four of the six hashes of a signature.
@lru_cache(maxsize=8)
def _signing_key(secret_key: str, *parts: str) -> bytes:
    key = f"AWS4{secret_key}".encode()
    for part in (*parts, "aws4_request"):
        key = _hmac(key, part)
    return key


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def _quoted(text: str) -> str:
    return quote(text, safe="-_.~")


def _path(path: str) -> str:
    """Quote the sent path once more and remove empty and relative parts, as every service except S3 requires."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return quote("/" + "/".join(parts) + ("/" if parts and path.endswith("/") else ""), safe="/~")


def _host(url: str) -> str:
    """Return the Host header of a request, without the user and without the scheme's default port."""
    parts = urlsplit(url)
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    name = parts.hostname or ""
    return name if parts.port in (None, usual) else f"{name}:{parts.port}"
