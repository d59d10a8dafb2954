"""Sends signed requests to an AWS service from an event loop. The caller interprets error responses.

Source: AWS documentation, "Making Query API requests".
"""

import asyncio
import importlib
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Unpack

from masscomm.aws.async_http import HttpClient
from masscomm.aws.http_answer import NotSent
from masscomm.aws.request import SIGNER_S, Limits, Service, ServiceOptions
from masscomm.aws.signature import Signer
from masscomm.errors import Stop

if TYPE_CHECKING:
    from masscomm.aws.async_http_aiohttp import AiohttpClient


def _client(http: str, url: str, answer_s: float) -> "HttpClient | AiohttpClient":
    if http == "aiohttp":
        # aiohttp is imported only when the setting selects it, because deployment packages do not contain it.
        try:
            twin = importlib.import_module("masscomm.aws.async_http_aiohttp")
        except ImportError as error:
            raise Stop(f"PROVIDER_HTTP is aiohttp, which the package does not contain: {error}") from error
        client: AiohttpClient = twin.AiohttpClient(url, answer_s=answer_s)
        return client
    if http != "own":
        raise Stop(f"PROVIDER_HTTP is {http!r}, and neither own nor aiohttp")
    return HttpClient(url, answer_s=answer_s)


class AsyncRequests:
    """Sends POST requests that differ only in their bodies to one service. An instance belongs to one event loop.

    Args:
        service: The service's name in its address and in signatures, such as `sns`.
        limits: The time limits. `connect_s` includes the look-up of credentials; a complete response arrives within
            `read_s`.
        headers: The headers of every request.
        http: The name of the HTTP client: our own, or aiohttp.
        options: The options of the Service. `credentials` is called in a thread, because it may send a request.

    Raises:
        Stop: No region is set, or there is no HTTP client of that name.
    """

    def __init__(
        self,
        service: str,
        limits: Limits,
        *,
        headers: Mapping[str, str],
        http: str = "own",
        **options: Unpack[ServiceOptions],
    ) -> None:
        self._service = Service(service, **options)
        self.url = self._service.url
        self._limits = limits
        self._headers = headers
        self._http = _client(http, self.url, limits.read_s)
        self._signer: Signer | None = None
        self._renewing: asyncio.Task[Signer] | None = None
        self._signed_at = 0.0

    async def post(self, body: bytes) -> tuple[int, bytes]:
        """Send a request and return the status and the body of its response, also of an error response.

        Raises:
            NotSent: The request was not sent.
            AnswerLost: The request was sent, and no complete response arrived.
            Stop: There are no credentials.
            Retry: The local address that returns credentials does not respond.
        """
        loop = asyncio.get_running_loop()
        connect_until = loop.time() + self._limits.connect_s
        signer = self._signer
        if signer is None or not 0 <= time.time() - self._signed_at < SIGNER_S:
            signer = await self._renewed(loop, connect_until)
        return await self._http.post(signer.headers(body), body, connect_until=connect_until)

    async def close(self) -> None:
        await self._http.close()

    async def _renewed(self, loop: asyncio.AbstractEventLoop, until: float) -> Signer:
        """Return a signer with the current credentials and time. Concurrent calls share one look-up of credentials."""
        if self._renewing is None or self._renewing.done():
            self._renewing = loop.create_task(self._renew(loop))
        try:
            async with asyncio.timeout_at(until):
                return await asyncio.shield(self._renewing)
        except TimeoutError as error:
            raise NotSent("the credentials did not arrive in time") from error

    async def _renew(self, loop: asyncio.AbstractEventLoop) -> Signer:
        credentials = await loop.run_in_executor(None, self._service.credentials)
        scope = self._service.scope()
        self._signer = Signer("POST", self.url, self._headers, scope=scope, credentials=credentials)
        self._signed_at = time.time()
        return self._signer
