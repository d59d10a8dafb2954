"""A development issuer for the console: OpenID Connect's authorization code flow with PKCE, with three ready users.

It is a part of the local gateway, on 127.0.0.1, and needs no password: its page has one button for each user. Every
process on this machine can sign in as any of them. Its key is created at each start, so earlier tokens end with a
restart.

Sources: OpenID Connect Core 1.0 (section 3.1), RFC 7636 (PKCE), RFC 9700 (best current practices of OAuth 2.0).
"""

import html
import json
import re
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode, urlsplit

import jwt
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec

from masscomm.clock import Clock
from masscomm.http.access_tokens import Issuer
from masscomm.http.html_page import html_page
from masscomm.http.scopes import Role

PATH = "/-/sign-in"
CLIENT_ID = "masscomm-console"
AUDIENCE = "masscomm"
TOKEN_S = 3_600
# The time within which a code is exchanged, and the number of codes kept, and of refresh tokens.
_CODE_S = 60
_MAX_KEPT = 100
_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
# The parameters of a request that the page sends again with the chosen user.
_PARAMETERS = (
    *("response_type", "client_id", "redirect_uri", "scope", "state"),
    *("code_challenge", "code_challenge_method", "nonce", "ui_locales"),
)
# The texts of the page by language: title, text, one tenant, every tenant.
_TEXTS = {
    "en": ("Sign in", "Users of the local stack, without passwords.", "tenant", "every tenant"),
    "de": ("Anmelden", "Nutzer des lokalen Systems, ohne Passwörter.", "Mandant", "jeder Mandant"),
}


@dataclass(frozen=True, kw_only=True)
class User:
    """A ready user."""

    role: Role
    # The claim `clubs`: the ids of the clubs (tenants), or `*`.
    clubs: tuple[int, ...] | str

    @property
    def claims(self) -> dict[str, Any]:
        clubs = self.clubs if isinstance(self.clubs, str) else list(self.clubs)
        return {"sub": str(self.role), "name": self.role.title(), "roles": [self.role], "clubs": clubs}


USERS: Mapping[str, User] = MappingProxyType(
    {
        user.role: user
        for user in (
            User(role=Role.VIEWER, clubs=(1,)),
            User(role=Role.SENDER, clubs=(1,)),
            User(role=Role.DEVELOPER, clubs=(1,)),
            User(role=Role.ADMIN, clubs="*"),
        )
    }
)


@dataclass(frozen=True, kw_only=True)
class _Grant:
    """A code that was not exchanged yet."""

    user: User
    challenge: str
    nonce: str | None
    offline: bool
    # The time of the clock's monotonic() at which the code ends.
    until: float


@dataclass(kw_only=True)
class SignIn:
    """The development issuer."""

    # The address of the gateway, such as http://127.0.0.1:8080.
    address: str
    clock: Clock
    _grants: dict[str, _Grant] = field(default_factory=dict)
    # The users of the refresh tokens that are not used yet.
    _refresh_tokens: dict[str, User] = field(default_factory=dict)
    _key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    _key_id: str = field(default_factory=lambda: secrets.token_hex(8))

    @property
    def issuer(self) -> Issuer:
        """Return the issuer as the API knows it."""
        base = self.address + PATH
        return Issuer(issuer=base, audience=AUDIENCE, keys_url=f"{base}/keys")

    @property
    def redirect_uri(self) -> str:
        """Return the only address to which codes are sent."""
        return f"{self.address}/"

    @property
    def console_settings(self) -> dict[str, str]:
        """Return the content of the console's file console.json."""
        return {
            "issuer": self.issuer.issuer,
            "client_id": CLIENT_ID,
            "redirect_uri": self.redirect_uri,
            "scope": "openid offline_access",
        }

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/console.json", self._serve_settings),
            web.get(f"{PATH}/.well-known/openid-configuration", self._serve_metadata),
            web.get(f"{PATH}/keys", self._serve_keys),
            web.get(f"{PATH}/authorize", self._serve_page),
            web.post(f"{PATH}/authorize", self._authorize),
            web.post(f"{PATH}/token", self._exchange),
        ]

    async def _serve_settings(self, request: web.Request) -> web.Response:
        self._check_host(request)
        return web.json_response(self.console_settings, headers={"Cache-Control": "no-cache"})

    async def _serve_metadata(self, request: web.Request) -> web.Response:
        self._check_host(request)
        base = self.issuer.issuer
        return web.json_response(
            {
                "issuer": base,
                "authorization_endpoint": f"{base}/authorize",
                "token_endpoint": f"{base}/token",
                "jwks_uri": self.issuer.keys_url,
                "response_types_supported": ["code"],
                "grant_types_supported": ["authorization_code", "refresh_token"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["ES256"],
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["none"],
            }
        )

    async def _serve_keys(self, request: web.Request) -> web.Response:
        self._check_host(request)
        public = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(self._key.public_key()))
        return web.json_response({"keys": [{**public, "kid": self._key_id, "use": "sig", "alg": "ES256"}]})

    async def _serve_page(self, request: web.Request) -> web.Response:
        self._check_host(request)
        asked = self._checked(request.query)
        nonce = secrets.token_urlsafe(16)
        policy = f"default-src 'none'; style-src 'nonce-{nonce}'; form-action 'self'; frame-ancestors 'none'"
        # With no-referrer, the form's request would have the origin null.
        headers = {"Content-Security-Policy": policy, "Cache-Control": "no-store", "Referrer-Policy": "same-origin"}
        return web.Response(text=_page(asked, nonce), content_type="text/html", charset="utf-8", headers=headers)

    async def _authorize(self, request: web.Request) -> web.Response:
        self._check_host(request)
        # A page of another origin cannot sign its reader in.
        if request.headers.get("Origin", self.address) != self.address:
            raise web.HTTPForbidden(text="another origin")
        form = _texts(await request.post())
        asked = self._checked(form)
        user = USERS.get(form.get("user", ""))
        if user is None:
            raise web.HTTPBadRequest(text="unknown user")
        code = secrets.token_urlsafe(32)
        grant = _Grant(
            user=user,
            challenge=asked["code_challenge"],
            nonce=asked.get("nonce"),
            offline="offline_access" in asked["scope"].split(),
            until=self.clock.monotonic() + _CODE_S,
        )
        _keep(self._grants, code, grant)
        answer = urlencode({"code": code, "state": asked.get("state", "")})
        raise web.HTTPSeeOther(f"{self.redirect_uri}?{answer}", headers={"Cache-Control": "no-store"})

    async def _exchange(self, request: web.Request) -> web.Response:
        self._check_host(request)
        form = _texts(await request.post())
        if form.get("grant_type") == "refresh_token":
            return self._refresh(form)
        if form.get("grant_type") != "authorization_code":
            return _refused("unsupported_grant_type")
        # A code is used once, even if the exchange fails.
        grant = self._grants.pop(form.get("code", ""), None)
        verifier = form.get("code_verifier", "")
        if (
            grant is None
            or grant.until <= self.clock.monotonic()
            or (form.get("client_id"), form.get("redirect_uri")) != (CLIENT_ID, self.redirect_uri)
            or not _VERIFIER.fullmatch(verifier)
            or not secrets.compare_digest(challenge_of(verifier), grant.challenge)
        ):
            return _refused("invalid_grant")
        return self._tokens(grant.user, grant.nonce, offline=grant.offline)

    def _refresh(self, form: Mapping[str, str]) -> web.Response:
        # A refresh token is used once: the response has the next one.
        user = self._refresh_tokens.pop(form.get("refresh_token", ""), None)
        if user is None or form.get("client_id") != CLIENT_ID:
            return _refused("invalid_grant")
        return self._tokens(user, None, offline=True)

    def _tokens(self, user: User, nonce: str | None, *, offline: bool) -> web.Response:
        tokens = {
            "access_token": self._signed(user.claims | {"aud": AUDIENCE}, "at+jwt"),
            "id_token": self._signed(user.claims | {"aud": CLIENT_ID, "nonce": nonce}, "JWT"),
            "token_type": "Bearer",
            "expires_in": TOKEN_S,
            "scope": "openid offline_access" if offline else "openid",
        }
        if offline:
            tokens["refresh_token"] = refresh_token = secrets.token_urlsafe(32)
            _keep(self._refresh_tokens, refresh_token, user)
        return web.json_response(tokens, headers={"Cache-Control": "no-store"})

    def _signed(self, claims: Mapping[str, Any], media_type: str) -> str:
        now_s = self.clock.now_ms() // 1000
        times = {"iss": self.issuer.issuer, "iat": now_s, "exp": now_s + TOKEN_S}
        given = {name: value for name, value in claims.items() if value is not None}
        return jwt.encode(given | times, self._key, "ES256", headers={"kid": self._key_id, "typ": media_type})

    def _check_host(self, request: web.Request) -> None:
        """Check that the browser asked for this address: a name of another site may lead here (DNS rebinding)."""
        if request.host != urlsplit(self.address).netloc:
            raise web.HTTPForbidden(text=f"The issuer is at {self.address} only.")

    def _checked(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return the parameters of an authorization request. Raises HTTPBadRequest: there is no redirect to an address
        that is not registered.
        """
        asked = {name: given[name] for name in _PARAMETERS if name in given}
        wanted = {
            "response_type": "code",
            "client_id": CLIENT_ID,
            "redirect_uri": self.redirect_uri,
            "code_challenge_method": "S256",
        }
        for name, value in wanted.items():
            if asked.get(name) != value:
                raise web.HTTPBadRequest(text=f"{name} must be {value}")
        if not _CHALLENGE.fullmatch(asked.get("code_challenge", "")):
            raise web.HTTPBadRequest(text="code_challenge is malformed")
        if "openid" not in asked.get("scope", "").split():
            raise web.HTTPBadRequest(text="scope must have openid")
        return asked


def challenge_of(verifier: str) -> str:
    """Return PKCE's S256 challenge of a verifier."""
    return urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def _keep[Value](kept: dict[str, Value], name: str, value: Value) -> None:
    """Add a value, in the place of the oldest one if there are too many."""
    while len(kept) >= _MAX_KEPT:
        del kept[next(iter(kept))]
    kept[name] = value


def _texts(form: Mapping[str, Any]) -> dict[str, str]:
    return {name: value for name, value in form.items() if isinstance(value, str)}


def _refused(error: str) -> web.Response:
    return web.json_response({"error": error}, status=400, headers={"Cache-Control": "no-store"})


def _page(asked: Mapping[str, str], nonce: str) -> str:
    hidden = "".join(
        f'<input type="hidden" name="{name}" value="{html.escape(value)}">' for name, value in asked.items()
    )
    language = next((each for each in asked.get("ui_locales", "").split() if each in _TEXTS), "en")
    title, text, one, every = _TEXTS[language]
    buttons = "".join(
        f'<button class="choice" name="user" value="{name}">'
        f"<b>{user.role.title()}</b>"
        f"<span>{every if user.clubs == '*' else f'{one} {", ".join(map(str, user.clubs))}'}</span></button>"
        for name, user in USERS.items()
    )
    content = f'<p>{text}</p><form method="post" action="{PATH}/authorize">{hidden}{buttons}</form>'
    return html_page(title, content, above="masscomm", language=language, nonce=nonce)
