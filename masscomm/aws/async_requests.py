"""Sends signed requests to an AWS service from an event loop. The caller interprets error responses.

Source: AWS documentation, "Making Query API requests".
"""

import asyncio
import time
from collections.abc import Mapping
from typing import Unpack

from masscomm.aws.async_http import HttpClient
from masscomm.aws.http_answer import AnswerReader, NotSent
from masscomm.aws.request import SIGNER_S, Limits, Service, ServiceOptions
from masscomm.aws.signature import Signer


class AsyncRequests:
    """Sends POST requests that differ only in their bodies to one service. An instance belongs to one event loop.

    Args:
        service: The service's name in its address and in signatures, such as `sns`.
        limits: The time limits. `connect_s` includes the look-up of credentials; a complete response arrives within
            `read_s`.
        headers: The headers of every request.
        path: The path of every request, without the leading slash.
        options: The options of the Service. `credentials` is called in a thread, because it may send a request.

    Raises:
        Stop: No region is set.
    """

    def __init__(
        self,
        service: str,
        limits: Limits,
        *,
        headers: Mapping[str, str],
        path: str = "",
        **options: Unpack[ServiceOptions],
    ) -> None:
        self._service = Service(service, **options)
        self.url = f"{self._service.url}{path}"
        self._limits = limits
        self._headers = headers
        self._http = HttpClient(self.url, answer_s=limits.read_s)
        self._signer: Signer | None = None
        self._renewing: asyncio.Task[Signer] | None = None
        self._signed_at = 0.0

    async def post(self, body: bytes) -> tuple[int, bytes]:
        """Send a request and return the status and the body of its response, also of an error response. Raises the
        errors of `answer`.
        """
        answer = await self.answer(body)
        return answer.status, answer.body

    async def answer(self, body: bytes) -> AnswerReader:
        """Send a request and return its response with the headers, also an error response.

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
        return await self._http.answer(signer.headers(body), body, connect_until=connect_until)

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
