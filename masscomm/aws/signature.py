"""Computes AWS signatures, version 4, without an SDK.

botocore also computes them, but importing it adds a tenth of a second to a cold start. Tests compare the signatures of
this module with botocore's, over random input.

Source: AWS documentation, IAM user guide, "Create a signed AWS API request": the signed headers must include Host,
Content-Type if the request has one, and all x-amz-* headers. Here every header is signed.
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from urllib.parse import quote, urlsplit

_ALGORITHM = "AWS4-HMAC-SHA256"
_EMPTY = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True)
class Credentials:
    access_key: str
    secret_key: str = field(repr=False)
    # The session token of a role's temporary credentials; None for a user's own credentials.
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True)
class Scope:
    """The service, region and time for which a signature is valid."""

    service: str
    region: str
    # The time at which the signature is made.
    at: datetime

    # The date is computed once: a signature needs it five times, and strftime takes 3 µs.
    @cached_property
    def stamp(self) -> str:
        """Return the time in AWS's format, such as 20260102T030405Z."""
        return self.at.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")

    @cached_property
    def name(self) -> str:
        """Return the credential scope in AWS's format."""
        return f"{self.stamp[:8]}/{self.region}/{self.service}/aws4_request"


def signed_url(url: str, params: Mapping[str, str], *, scope: Scope, credentials: Credentials, expires_s: int) -> str:
    """Return a URL for a GET request with the signature in its query parameters.

    Args:
        url: The URL without a query.
        params: The query parameters, not quoted.
        scope: The service, region and time of the signature.
        credentials: The credentials that sign the request.
        expires_s: The validity of the URL in seconds.
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
    request = "\n".join(["GET", _path(parts.path), text, f"host:{host_header(url)}\n", "host", _EMPTY])
    return f"{url}?{text}&X-Amz-Signature={signature(string_to_sign(request, scope), scope, credentials)}"


def signed_headers(
    method: str, url: str, headers: Mapping[str, str], body: bytes, *, scope: Scope, credentials: Credentials
) -> dict[str, str]:
    """Return all headers to send except Host and Content-Length, which the HTTP client adds. The signature covers
    all of them.

    Args:
        method: The HTTP method.
        url: The URL as it is sent, with quoted path and query.
        headers: The headers of the request before it is signed.
        body: The body as it is sent.
        scope: The service, region and time of the signature.
        credentials: The credentials that sign the request.
    """
    return Signer(method, url, headers, scope=scope, credentials=credentials).headers(body)


class Signer:
    """Signs requests that differ only in their bodies; the rest of the signature is computed once.

    It has the same arguments as signed_headers.
    """

    def __init__(
        self, method: str, url: str, headers: Mapping[str, str], *, scope: Scope, credentials: Credentials
    ) -> None:
        signed = {name.lower(): value for name, value in headers.items()}
        signed["x-amz-date"] = scope.stamp
        if credentials.token:
            signed["x-amz-security-token"] = credentials.token
        sent = {"host": host_header(url), **signed}  # guard: signatures.all_headers
        self._signed = signed
        self._body_hash = sent.get("x-amz-content-sha256")
        self._request = _without_body(method, url, sent)
        self._text = f"{_ALGORITHM}\n{scope.stamp}\n{scope.name}\n"
        self._key = _signing_key(credentials.secret_key, scope.stamp[:8], scope.region, scope.service)
        self._authorization = (
            f"{_ALGORITHM} Credential={credentials.access_key}/{scope.name}, SignedHeaders={';'.join(sorted(sent))},"
            " Signature="
        )

    def headers(self, body: bytes) -> dict[str, str]:
        """Return all headers of the request with this body, except Host and Content-Length."""
        text = self._text + hashlib.sha256(self.canonical_request(body).encode()).hexdigest()
        return {**self._signed, "authorization": self._authorization + _hmac(self._key, text).hex()}

    def canonical_request(self, body: bytes) -> str:
        """Return the request with this body in AWS's canonical form. It contains the header x-amz-content-sha256
        with the body's hash.
        """
        return f"{self._request}\n{self._body_hash or hashlib.sha256(body).hexdigest()}"


def _without_body(method: str, url: str, headers: Mapping[str, str]) -> str:
    """Return the canonical request without its last line, which is the hash of the body."""
    path, query = _canonical(url)
    names = sorted(headers)
    return "\n".join(
        [
            method.upper(),
            path,
            query,
            "".join(f"{name}:{' '.join(headers[name].split())}\n" for name in names),
            ";".join(names),
        ]
    )


def string_to_sign(request: str, scope: Scope) -> str:
    """Return the string to sign for a canonical request: the text from which the signature is computed."""
    return "\n".join([_ALGORITHM, scope.stamp, scope.name, hashlib.sha256(request.encode()).hexdigest()])


def signature(text: str, scope: Scope, credentials: Credentials) -> str:
    """Return the signature of a string to sign, in hexadecimal digits."""
    return _hmac(_signing_key(credentials.secret_key, scope.stamp[:8], scope.region, scope.service), text).hex()


# The signing key of a service changes once a day. Caching it saves four of a signature's six hashes.
@lru_cache(maxsize=8)
def _signing_key(secret_key: str, *parts: str) -> bytes:
    key = f"AWS4{secret_key}".encode()
    for part in (*parts, "aws4_request"):
        key = _hmac(key, part)
    return key


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")


# A function sends all requests to DynamoDB, SNS or SES to a few URLs, so the cache needs few entries.
@lru_cache(maxsize=16)
def _canonical(url: str) -> tuple[str, str]:
    """Return the path and the query of a URL in AWS's canonical form."""
    parts = urlsplit(url)
    pairs = sorted(tuple(pair.partition("=")[::2]) for pair in parts.query.split("&")) if parts.query else []
    return _path(parts.path), "&".join(f"{name}={value}" for name, value in pairs)


def _quoted(text: str) -> str:
    return quote(text, safe="-_.~")


def _path(path: str) -> str:
    """Quote the sent path a second time and remove empty and relative segments, as every AWS service except S3
    requires.
    """
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return quote("/" + "/".join(parts) + ("/" if parts and path.endswith("/") else ""), safe="/~")


@lru_cache(maxsize=16)
def host_header(url: str) -> str:
    """Return the Host header for a URL, without the user and without the scheme's default port."""
    parts = urlsplit(url)
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    name = parts.hostname or ""
    return name if parts.port in (None, usual) else f"{name}:{parts.port}"
