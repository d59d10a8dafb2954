"""An HTTP client over aiohttp with the interface of masscomm/aws/async_http.py. Both pass the same contract tests."""

import asyncio
import io
from collections.abc import Mapping
from typing import Any

import aiohttp

from masscomm.aws.http_answer import AnswerLost, NotSent

# aiohttp adds these headers to a request after it has been signed; the signature would not cover them.
_ADDED = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")


class AiohttpClient:
    """An HTTP client like HttpClient, over aiohttp. An instance belongs to one event loop at a time."""

    def __init__(self, url: str, *, answer_s: float) -> None:
        self._url = url
        self._answer_s = answer_s
        self._session: Any = None

    async def post(self, headers: Mapping[str, str], body: bytes, *, connect_until: float) -> tuple[int, bytes]:
        """Send a POST request and return the status and the body of its response, like HttpClient.post."""
        loop = asyncio.get_running_loop()
        if self._session is None:
            tracing = aiohttp.TraceConfig()
            tracing.on_request_headers_sent.append(self._note_sent)
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                skip_auto_headers=_ADDED,
                auto_decompress=False,
                trace_configs=[tracing],
            )
        for _ in range(2):  # Let the event loop read what servers sent while it did not run.
            await asyncio.sleep(0)
        progress: dict[str, bool] = {}
        deadline = connect_until + self._answer_s
        try:
            async with (
                asyncio.timeout_at(deadline),
                self._session.post(
                    self._url,
                    data=io.BytesIO(body),
                    headers=headers,
                    allow_redirects=False,
                    timeout=aiohttp.ClientTimeout(connect=max(0.001, connect_until - loop.time())),
                    trace_request_ctx=progress,
                ) as answer,
            ):
                transport = None if answer.connection is None else answer.connection.transport
                content = await answer.read()
                if transport is not None and transport.get_write_buffer_size():
                    # The server answered before it had read the whole request. On a reused connection it would read the
                    # rest as another request.
                    transport.abort()
                return int(answer.status), content
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            text = f"{type(error).__name__}: {error}"
            raise (AnswerLost if progress else NotSent)(text) from error

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _note_sent(self, _session: Any, context: Any, _params: Any) -> None:
        context.trace_request_ctx["sent"] = True
