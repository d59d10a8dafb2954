"""Access tokens of OAuth 2.0 for client credentials.

All environments share the token of an endpoint: it is in DynamoDB, encrypted, and one environment at a time requests
another one. The server of tokens is the tenant's: it is called with the guards of endpoints.

Source: RFC 6749, "The OAuth 2.0 Authorization Framework", sections 2.3.1, 4.4 and 5.
"""

import asyncio
import base64
import json
import re
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Hashable, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import quote_plus, urlencode
from uuid import uuid4

from functions.webhook_sender.http import Http
from masscomm.aws.sealed_secrets import NotOpened, OpenSecrets, decrypted, encrypted
from masscomm.channels.guarded_http import Answer, NoAnswer
from masscomm.channels.public_urls import UrlRefused
from masscomm.clock import Clock
from masscomm.domain.time_limits import (
    WEBHOOK_TOKEN_LONGEST_S,
    WEBHOOK_TOKEN_PAUSE_S,
    WEBHOOK_TOKEN_RENEWED_S,
    WEBHOOK_TOKEN_REQUEST_S,
    WEBHOOK_TOKEN_VALID_S,
)
from masscomm.domain.webhooks import EndpointKey
from masscomm.errors import Retry
from masscomm.stores.webhook_tokens.port import StoredToken, WebhookTokens

# The endpoints whose tokens an environment remembers, and the bytes of a server's answer.
_KNOWN, _MOST_BYTES = 1_000, 16_000
_TOKEN = re.compile(r"[!-~]{1,8000}", re.ASCII)


class AccessToken(NamedTuple):
    """A token. Times are in milliseconds since the epoch."""

    value: str
    received_at_ms: int
    expires_at_ms: int

    @property
    def renewed_from_ms(self) -> int:
        """Return the time from which it is renewed, although it is still valid."""
        return self.expires_at_ms - min(
            round(WEBHOOK_TOKEN_RENEWED_S * 1000), (self.expires_at_ms - self.received_at_ms) // 2
        )


@dataclass(frozen=True)
class SharedCalls:
    """Concurrent tasks that need the same result share one call."""

    _running: dict[Hashable, "asyncio.Task[Any]"] = field(default_factory=dict)

    async def result[R](self, key: Hashable, call: Callable[[], Coroutine[Any, Any, R]]) -> R:
        task = self._running.get(key)
        if task is None:
            task = self._running[key] = asyncio.create_task(call())
            task.add_done_callback(lambda _: self._running.pop(key, None))
        found: R = await asyncio.shield(task)
        return found


@dataclass(frozen=True, kw_only=True)
class AccessTokens:
    """The tokens of endpoints, for one environment."""

    http: Http
    store: WebhookTokens
    clock: Clock
    _known: OrderedDict[EndpointKey, tuple[bytes, AccessToken]] = field(default_factory=OrderedDict)
    _calls: SharedCalls = field(default_factory=SharedCalls)

    async def token(
        self, endpoint: EndpointKey, secrets: OpenSecrets, *, timeout_s: float, refused: AccessToken | None = None
    ) -> AccessToken:
        """Return a valid token.

        Args:
            endpoint: The endpoint.
            secrets: Its authentication.
            timeout_s: The time limit.
            refused: A token that the endpoint has refused: another one is returned.

        Raises:
            NoAnswer: The server of tokens returned none.
            Retry, Stop: The store of tokens did not answer, or another environment needs too long.
        """
        data_key, known = self._known.get(endpoint, (b"", None))
        is_usable = known is not None and data_key == secrets.data_key and known != refused
        if known is not None and is_usable and self.clock.now_ms() < known.renewed_from_ms:
            return known
        call = _Renewal(self, endpoint, secrets, timeout_s, refused)
        token = await self._calls.result((endpoint, secrets.data_key, refused), call.token)
        self._known[endpoint] = secrets.data_key, token
        self._known.move_to_end(endpoint)
        if len(self._known) > _KNOWN:
            self._known.popitem(last=False)
        return token


@dataclass(frozen=True)
class _Renewal:
    """The search for a token that this environment does not have."""

    tokens: AccessTokens
    endpoint: EndpointKey
    secrets: OpenSecrets
    timeout_s: float
    refused: AccessToken | None

    async def token(self) -> AccessToken:
        clock, store = self.tokens.clock, self.tokens.store
        until = clock.monotonic() + self.timeout_s
        while True:
            stored = await asyncio.to_thread(store.find, self.endpoint)
            now_ms = clock.now_ms()
            token = None if stored is None else self._opened(stored)
            is_requested = stored is not None and now_ms < stored.requested_until_ms
            if token is not None and token != self.refused:
                until_ms = token.expires_at_ms if is_requested else token.renewed_from_ms
                if now_ms < until_ms:
                    return token
            if not is_requested:  # guard: webhook_tokens.one_environment
                claim = StoredToken(
                    sealed=b"" if stored is None else stored.sealed,
                    expires_at_ms=0 if stored is None else stored.expires_at_ms,
                    requested_until_ms=now_ms + round(WEBHOOK_TOKEN_REQUEST_S * 1000),
                    version=str(uuid4()),
                )
                if await asyncio.to_thread(store.replace, self.endpoint, claim, stored):
                    return await self._requested(claim, until)
                continue
            if clock.monotonic() >= until:
                raise Retry("another environment requests an access token")
            await clock.pause(WEBHOOK_TOKEN_PAUSE_S)

    async def _requested(self, claim: StoredToken, until: float) -> AccessToken:
        """Request and store a token. Raises NoAnswer, and the claim ends."""
        store = self.tokens.store
        try:
            token = await self._request(max(0.0, until - self.tokens.clock.monotonic()))
        except NoAnswer:
            ended = replace(claim, requested_until_ms=0, version=str(uuid4()))
            await asyncio.to_thread(store.replace, self.endpoint, ended, claim)
            raise
        sealed = encrypted(self.secrets.data_key, json.dumps(token).encode(), _context(self.endpoint))
        new = StoredToken(sealed=sealed, expires_at_ms=token.expires_at_ms, version=str(uuid4()))
        await asyncio.to_thread(store.replace, self.endpoint, new, claim)
        return token

    def _opened(self, stored: StoredToken) -> AccessToken | None:
        """Return the stored token; None for one of an earlier authentication, whose data key was another one."""
        try:
            return AccessToken(*json.loads(decrypted(self.secrets.data_key, stored.sealed, _context(self.endpoint))))
        except NotOpened:
            return None

    async def _request(self, timeout_s: float) -> AccessToken:
        values, now_ms = self.secrets.values, self.tokens.clock.now_ms()
        headers, body = _token_request(values)
        try:
            answer = await self.tokens.http.post(
                values["token_url"], body=body, headers=headers, timeout_s=timeout_s, most_bytes=_MOST_BYTES
            )
        except UrlRefused as refused:
            raise NoAnswer(f"the token URL {refused}") from refused
        except NoAnswer as error:
            raise NoAnswer(f"the token server: {error}") from error
        return _token(answer, now_ms)


def _context(endpoint: EndpointKey) -> Mapping[str, str]:
    return {"purpose": "webhook-token", "endpoint": endpoint.id}


def _token_request(values: Mapping[str, Any]) -> tuple[Mapping[str, str], bytes]:
    """Return headers and body of a request for a token."""
    headers = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}
    form = {"grant_type": "client_credentials"}
    form |= {name: values[name] for name in ("scope", "audience") if name in values}
    if values["client_authentication"] == "body":
        form |= {"client_id": values["client_id"], "client_secret": values["client_secret"]}
    else:
        pair = f"{quote_plus(values['client_id'])}:{quote_plus(values['client_secret'])}"
        headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    return headers, urlencode(form).encode()


def _token(answer: Answer, now_ms: int) -> AccessToken:
    """Return the token in an answer. Raises NoAnswer, without the answer's content."""
    if answer.status != HTTPStatus.OK:
        raise NoAnswer(f"the token server answered {answer.status}")
    try:
        document = json.loads(answer.body)
        value, kind = document["access_token"], document["token_type"]
        valid_s = float(document.get("expires_in", WEBHOOK_TOKEN_VALID_S))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise NoAnswer("the token server answered without a token") from error
    is_bearer = isinstance(kind, str) and kind.lower() == "bearer"
    if not is_bearer or not isinstance(value, str) or not _TOKEN.fullmatch(value) or not valid_s > 0:
        raise NoAnswer("the token server answered with a token that cannot be used")
    return AccessToken(value, now_ms, now_ms + round(min(valid_s, WEBHOOK_TOKEN_LONGEST_S) * 1000))
