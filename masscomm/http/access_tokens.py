"""Verifies the access tokens of people: JWTs that an OpenID Connect issuer signed for this API.

A token has an authorizer context like an API key: the claim `clubs` names its clubs (tenants), `roles` its scopes.

    clubs    [1, 2], or "*" for every club; any other value permits no club
    roles    ["viewer"], of masscomm.http.scopes.Role; an unknown role permits nothing; limits_of_roles

An issuer that cannot add claims of these names has others (Issuer.roles_claim, clubs_claim).

Sources: RFC 7519 (JWT), RFC 8725 (best current practices of JWTs), RFC 9068 (access tokens in this form).
"""

import json
import math
import os
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from masscomm.clock import Clock
from masscomm.domain.limits import END_OF_TIME_MS
from masscomm.domain.time_limits import TOKEN_KEYS_KEPT_S, TOKEN_KEYS_REFETCH_S, TOKEN_KEYS_TIMEOUT_S, TOKEN_LEEWAY_S
from masscomm.environment import required
from masscomm.errors import Retry, Stop
from masscomm.http.scopes import (
    ROLE_LIMITS,
    SCOPES,
    Role,
    limits_of_roles,
    role_limits,
    scopes_of_roles,
    scopes_text,
)
from masscomm.http.tenant import CLUB_IDS, EVERY_CLUB

if TYPE_CHECKING:
    from jwt import PyJWK

MAX_TOKEN_BYTES = 8_192
# The maximum size of the issuer's document of keys; large issuers have about ten keys of 1 kB.
MAX_KEYS_BYTES = 131_072
# The only algorithm of each type of key. A token cannot choose another one, such as none or HS256.
_ALGORITHMS = {"RSA": "RS256", "EC": "ES256"}
_MIN_RSA_BITS = 2_048
# The media types of access tokens. Logout tokens, for example, have another one.
_TYPES = {"jwt", "at+jwt", "application/at+jwt"}
_SUBJECT = re.compile(r"[\x21-\x7e]{1,200}")
_LARGEST_CLUB = 2**63 - 1
_LOOPBACK = {"127.0.0.1", "localhost", "::1"}


class InvalidToken(Exception):
    """The token is malformed, expired, or not from the issuer for this API."""


@dataclass(frozen=True, kw_only=True)
class Issuer:
    """The OpenID Connect issuer whose tokens are accepted."""

    # The issuer's identifier, the claim `iss` of its tokens.
    issuer: str
    # The identifier of this API at the issuer, the claim `aud`.
    audience: str
    # The address of the issuer's public keys (`jwks_uri` of its metadata).
    keys_url: str
    # The names of the claims with a person's roles and clubs.
    roles_claim: str = "roles"
    clubs_claim: str = "clubs"
    role_limits: Mapping[Role, Mapping[str, int]] = ROLE_LIMITS

    def __post_init__(self) -> None:
        """Check the address. Raises Stop if it is neither HTTPS nor on this machine."""
        url = urlsplit(self.keys_url)
        if url.scheme != "https" and not (url.scheme == "http" and url.hostname in _LOOPBACK):
            raise Stop(f"the address of the issuer's keys is not HTTPS: {self.keys_url}")

    @classmethod
    def from_environment(cls) -> "Issuer | None":
        """Return the issuer of OIDC_ISSUER, OIDC_AUDIENCE and OIDC_KEYS_URL, with the claims of OIDC_ROLES_CLAIM and
        OIDC_CLUBS_CLAIM and the limits of OIDC_ROLE_LIMITS; None if OIDC_ISSUER is not set. Raises Stop.
        """
        issuer = os.environ.get("OIDC_ISSUER")
        if not issuer:
            return None
        return cls(
            issuer=issuer,
            audience=required("OIDC_AUDIENCE"),
            keys_url=required("OIDC_KEYS_URL"),
            roles_claim=os.environ.get("OIDC_ROLES_CLAIM") or cls.roles_claim,
            clubs_claim=os.environ.get("OIDC_CLUBS_CLAIM") or cls.clubs_claim,
            role_limits=_role_limits(os.environ.get("OIDC_ROLE_LIMITS", "")),
        )


def _role_limits(text: str) -> Mapping[Role, Mapping[str, int]]:
    try:
        return role_limits(text) if text else ROLE_LIMITS
    except ValueError as error:
        raise Stop(f"OIDC_ROLE_LIMITS: {error}") from error


def bearer_token(authorization: str | None) -> str | None:
    """Return the token in a header Authorization; None if the header is absent or has another scheme."""
    scheme, _, token = (authorization or "").strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def fetch(url: str) -> bytes:
    """Return a document over HTTP. Redirects are not followed. Raises Retry."""
    import urllib3

    try:
        response = urllib3.PoolManager().request(
            "GET", url, redirect=False, retries=False, timeout=TOKEN_KEYS_TIMEOUT_S, preload_content=False
        )
        with response:
            body: bytes = response.read(MAX_KEYS_BYTES + 1, decode_content=True)
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise Retry(f"the issuer's keys: {error}") from error
    if response.status != 200 or len(body) > MAX_KEYS_BYTES:
        raise Retry(f"the issuer's keys: status {response.status}, {len(body)} bytes")
    return body


@dataclass(kw_only=True)
class SigningKeys:
    """The issuer's public keys. They are read again after an hour, and earlier for an unknown key id, but at most once
    in TOKEN_KEYS_REFETCH_S. It may be called by several threads.
    """

    url: str
    clock: Clock
    fetch: Callable[[str], bytes] = fetch
    _keys: Mapping[str, "PyJWK"] = field(default_factory=dict)
    _read_at: float = -math.inf
    _attempted_at: float = -math.inf
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def find(self, key_id: str) -> "PyJWK | None":
        """Return the key with this id; None if the issuer has none. Raises Retry if the issuer does not answer."""
        if self._is_fresh() and (key := self._keys.get(key_id)):
            return key
        with self._lock:
            if key_id not in self._keys or not self._is_fresh():
                self._read_again()
            return self._keys.get(key_id)

    def _is_fresh(self) -> bool:
        return self.clock.monotonic() - self._read_at < TOKEN_KEYS_KEPT_S

    def _read_again(self) -> None:
        now = self.clock.monotonic()
        if now - self._attempted_at < TOKEN_KEYS_REFETCH_S:  # guard: tokens.bounded_refetch
            if self._is_fresh():
                return
            raise Retry("the issuer's keys could not be read a moment ago")
        self._attempted_at = now
        self._keys = _keys_in(self.fetch(self.url))
        self._read_at = now


@dataclass(frozen=True, kw_only=True)
class AccessTokens:
    """Verifies the tokens of one issuer."""

    issuer: Issuer
    keys: SigningKeys
    clock: Clock

    @classmethod
    def of(cls, issuer: Issuer, clock: Clock) -> "AccessTokens":
        return cls(issuer=issuer, keys=SigningKeys(url=issuer.keys_url, clock=clock), clock=clock)

    def context(self, token: str) -> dict[str, str]:
        """Return the authorizer context of a token, with its principal.

        Raises:
            InvalidToken: The token is not valid now.
            Retry: The issuer's keys cannot be read.
        """
        claims = self._claims(token)
        self._check_times(claims)
        subject = claims["sub"]
        if not _SUBJECT.fullmatch(subject):
            raise InvalidToken("sub is malformed")
        roles, clubs = claims.get(self.issuer.roles_claim), claims.get(self.issuer.clubs_claim)
        limits = limits_of_roles(roles, self.issuer.role_limits)  # guard: limits.people
        return {
            "principalId": f"person:{subject}",
            **_clubs(clubs),
            SCOPES: scopes_text(scopes_of_roles(roles)),
            **{name: str(maximum) for name, maximum in limits.items()},
        }

    def _claims(self, token: str) -> dict[str, Any]:
        """Return the claims of a token that the issuer signed for this API; its times are not checked yet."""
        if not token.isascii() or len(token) > MAX_TOKEN_BYTES:  # guard: tokens.size
            raise InvalidToken("too large")
        # The library is imported for the first token: API keys do not need it.
        import jwt

        try:
            key = self._key(jwt.get_unverified_header(token))
            return jwt.decode(
                token,
                key,
                algorithms=[key.algorithm_name],
                issuer=self.issuer.issuer,
                audience=self.issuer.audience,
                options={
                    "require": ["exp", "iat", "sub", "iss", "aud"],
                    # The library would compare with its own clock.
                    "verify_exp": False,
                    "verify_iat": False,
                    "verify_nbf": False,
                },
            )
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
            raise InvalidToken(str(error)) from error

    def _key(self, header: Mapping[str, Any]) -> "PyJWK":
        key_id, media_type = header.get("kid"), header.get("typ", "JWT")
        if not isinstance(key_id, str) or not key_id:
            raise InvalidToken("the token names no key")
        if header.get("alg") not in _ALGORITHMS.values():
            raise InvalidToken("the algorithm is not accepted")
        if "crit" in header or not isinstance(media_type, str) or media_type.lower() not in _TYPES:
            raise InvalidToken("the header is not that of an access token")
        key = self.keys.find(key_id)
        if key is None:
            raise InvalidToken("the issuer has no such key")
        return key

    def _check_times(self, claims: Mapping[str, Any]) -> None:
        now_s = self.clock.now_ms() / 1000
        if _time(claims, "exp") + TOKEN_LEEWAY_S <= now_s:  # guard: tokens.expired
            raise InvalidToken("the token has expired")
        for name in ("iat", "nbf"):
            if name in claims and _time(claims, name) - TOKEN_LEEWAY_S > now_s:
                raise InvalidToken(f"{name} lies ahead")


def _time(claims: Mapping[str, Any], name: str) -> float:
    value = claims[name]
    # The comparison is exact for integers of any size, and false for infinity and NaN.
    # guard: tokens.time_of_any_size
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) * 1000 < END_OF_TIME_MS:
        raise InvalidToken(f"{name} is no time")
    return value


def _clubs(value: object) -> dict[str, str]:
    """Return the clubs (tenants) of a claim in the form of an authorizer context."""
    if value == "*":
        return {EVERY_CLUB: "true"}
    if isinstance(value, list) and all(type(each) is int and 1 <= each <= _LARGEST_CLUB for each in value):
        return {CLUB_IDS: ",".join(map(str, value))}
    return {CLUB_IDS: ""}  # guard: tokens.malformed_clubs


def _keys_in(document: bytes) -> dict[str, "PyJWK"]:
    """Return the keys in a JSON Web Key Set that may verify tokens. Raises Retry if the document is malformed."""
    try:
        entries = json.loads(document)["keys"]
        return {entry["kid"]: key for entry in entries if (key := _readable(entry)) is not None}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Retry(f"the issuer's keys are malformed: {error!r}") from error


def _readable(entry: Mapping[str, Any]) -> "PyJWK | None":
    """Return the key of an entry; None if it has another purpose, or an algorithm that is not accepted."""
    import jwt
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    algorithm = _ALGORITHMS.get(str(entry.get("kty")))
    if algorithm is None or not isinstance(entry.get("kid"), str):
        return None
    if entry.get("use", "sig") != "sig" or entry.get("alg", algorithm) != algorithm:
        return None
    if algorithm == "ES256" and entry.get("crv") != "P-256":
        return None
    try:
        key = jwt.PyJWK(dict(entry), algorithm)
    except jwt.PyJWTError:
        return None
    if isinstance(key.key, RSAPublicKey) and key.key.key_size < _MIN_RSA_BITS:
        return None
    return key
