"""AWS's signature, version 4, for every request that is made without an SDK.

botocore does the same and takes a tenth of a second to import, which a cold start would spend on a few hashes. The
tests hold every signature made here against botocore's, over random input.

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
    request = "\n".join(["GET", _path(parts.path), text, f"host:{_host(url)}\n", "host", _EMPTY])
    return f"{url}?{text}&X-Amz-Signature={signature(string_to_sign(request, scope), scope, credentials)}"


def signed_headers(
    method: str, url: str, headers: Mapping[str, str], body: bytes, *, scope: Scope, credentials: Credentials
) -> dict[str, str]:
    """All headers to send, but for Host, which the HTTP client writes, and Content-Length; each of them is signed.

    url: as it is sent, its path and query quoted; headers: that the request has without a signature.
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
    """The request as it is signed. headers: all, Host included, their names in lower case."""
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
    """The text whose keyed hash is the signature. request: canonical."""
    return "\n".join([_ALGORITHM, scope.stamp, scope.name, hashlib.sha256(request.encode()).hexdigest()])


def signature(text: str, scope: Scope, credentials: Credentials) -> str:
    """The signature of a string to sign, in hexadecimal digits."""
    return _hmac(_signing_key(credentials.secret_key, scope.stamp[:8], scope.region, scope.service), text).hex()


# One a day for each service: four of the six hashes of a signature.
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
    """The path quoted once more than it is sent, without empty and relative parts: every service but S3 wants it so."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return quote("/" + "/".join(parts) + ("/" if parts and path.endswith("/") else ""), safe="/~")


def _host(url: str) -> str:
    """The Host header of a request: without user, and without the port that goes without saying."""
    parts = urlsplit(url)
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    name = parts.hostname or ""
    return name if parts.port in (None, usual) else f"{name}:{parts.port}"
