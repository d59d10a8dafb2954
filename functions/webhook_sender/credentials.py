"""The credentials with which requests to endpoints are authenticated, beside their signature."""

import asyncio
import base64
from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from http import HTTPStatus
from typing import Any, Self

from functions.webhook_sender.access_tokens import AccessToken, AccessTokens, SharedCalls
from functions.webhook_sender.http import Http
from masscomm.aws.kms import DataKeys
from masscomm.aws.sealed_secrets import NotOpened, OpenSecrets, SecretBox
from masscomm.channels.guarded_http import Answer, ClientCertificate, NoAnswer
from masscomm.channels.public_urls import UrlRefused
from masscomm.clock import Clock
from masscomm.domain.time_limits import WEBHOOK_TOKEN_RENEWED_S
from masscomm.domain.webhook_authentication import Authentication, AuthenticationType, sealing_context
from masscomm.domain.webhooks import Endpoint
from masscomm.errors import Retry, Stop
from masscomm.stores.webhook_tokens.port import WebhookTokens

# The endpoints whose secrets an environment remembers.
_KNOWN = 1_000
_REFUSED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


class NoCredentials(Exception):
    """The credentials of an endpoint cannot be read now: its messages wait."""


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """The part of a request that authenticates it."""

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    client: ClientCertificate | None = None

    def refused_by(self, result: Answer | UrlRefused | NoAnswer) -> bool:
        """Return whether an endpoint has refused them. A server may end a connection with a wrong certificate."""
        if isinstance(result, Answer):
            return result.status in _REFUSED
        return isinstance(result, NoAnswer) and self.client is not None


@dataclass(frozen=True, kw_only=True)
class EndpointCredentials:
    """The credentials of endpoints, for one environment."""

    box: SecretBox
    tokens: AccessTokens
    # The secrets by their sealed form, those that were used last at the end.
    _known: OrderedDict[bytes, OpenSecrets] = field(default_factory=OrderedDict)
    _calls: SharedCalls = field(default_factory=SharedCalls)

    @classmethod
    def of(cls, *, keys: DataKeys, http: Http, tokens: WebhookTokens, clock: Clock) -> Self:
        return cls(box=SecretBox(keys), tokens=AccessTokens(http=http, store=tokens, clock=clock))

    async def candidates(self, endpoint: Endpoint, at_ms: int, *, timeout_s: float) -> AsyncGenerator[Credentials]:
        """Yield the credentials for a request, and then others for the case that the endpoint refuses these: a new
        access token, and those of the previous authentication.

        Args:
            endpoint: The endpoint.
            at_ms: The time of the request.
            timeout_s: The time limit of each step.

        Raises:
            NoCredentials: Secrets cannot be read now.
            NoAnswer: The secrets can never be read, or there is no access token.
        """
        failure: NoAnswer | None = None
        for authentication in endpoint.authentications(at_ms):
            try:
                secrets = await self._secrets(endpoint, authentication, timeout_s)
                if authentication.type is not AuthenticationType.OAUTH2:
                    yield _credentials(authentication, secrets.values)
                    continue
                token = await self._token(endpoint, secrets, timeout_s)
                yield _bearer(token.value)
                # An endpoint that refuses every token must not get a new one for each request.
                # guard: webhook_tokens.age_of_refused
                if at_ms - token.received_at_ms >= WEBHOOK_TOKEN_RENEWED_S * 1000:
                    yield _bearer((await self._token(endpoint, secrets, timeout_s, token)).value)
            except NoAnswer as error:
                failure = error
        if failure is not None:
            raise failure

    async def _secrets(self, endpoint: Endpoint, authentication: Authentication, timeout_s: float) -> OpenSecrets:
        sealed = authentication.sealed
        if sealed not in self._known:
            context = sealing_context(endpoint.key.id, endpoint.url)
            try:
                async with asyncio.timeout(timeout_s):
                    self._known[sealed] = await self._calls.result(
                        sealed, lambda: asyncio.to_thread(self.box.open, sealed, context)
                    )
            except NotOpened as error:
                raise NoAnswer("the stored authentication cannot be read: set it again") from error
            except (Retry, Stop, TimeoutError) as error:
                raise NoCredentials(f"{type(error).__name__}: {error}") from error
        self._known.move_to_end(sealed)
        if len(self._known) > _KNOWN:
            self._known.popitem(last=False)
        return self._known[sealed]

    async def _token(
        self, endpoint: Endpoint, secrets: OpenSecrets, timeout_s: float, refused: AccessToken | None = None
    ) -> AccessToken:
        try:
            return await self.tokens.token(endpoint.key, secrets, timeout_s=timeout_s, refused=refused)
        except (Retry, Stop) as error:
            raise NoCredentials(f"{type(error).__name__}: {error}") from error


def _credentials(authentication: Authentication, values: Mapping[str, Any]) -> Credentials:
    match authentication.type:
        case AuthenticationType.BASIC:
            pair = base64.b64encode(f"{values['username']}:{values['password']}".encode()).decode()
            return Credentials(headers={"authorization": f"Basic {pair}"})
        case AuthenticationType.HEADERS:
            return Credentials(headers=values["headers"])
        case AuthenticationType.MTLS:
            # Two endpoints never share connections, even with the same certificate.
            id_ = sha256(authentication.sealed).hexdigest()
            certificate, private_key = values["certificate"], values["private_key"]
            return Credentials(client=ClientCertificate(id=id_, certificate=certificate, private_key=private_key))
    return _bearer(values["token"])


def _bearer(token: str) -> Credentials:
    return Credentials(headers={"authorization": f"Bearer {token}"})
