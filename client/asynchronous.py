"""The client for asyncio: the methods of Client as coroutines and asynchronous iterators."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from types import TracebackType
from typing import Any, Self, Unpack, cast

import httpx

from .calls import Call, Pause, Steps, execute, send_call, send_path
from .errors import ApiError
from .types import (
    AcceptedBody,
    BatchBody,
    CancelBody,
    ListedSend,
    MetricsBody,
    SendBody,
    SendRequest,
    SmallSend,
    UserNotification,
)


class AsyncClient:
    """A client of the API.

    Args:
        url: The base URL.
        key: The API key.
        attempts: The maximum number of attempts of each request.
        timeout_s: The seconds that one attempt may take.
        transport: A transport of httpx, for tests.
        sleep: The function that waits between two attempts.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str,
        attempts: int = 4,
        timeout_s: float = 30,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._http = httpx.AsyncClient(
            base_url=url, headers={"x-api-key": key}, timeout=timeout_s, trust_env=False, transport=transport
        )
        self._attempts = attempts
        self._sleep = sleep

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def send(self, *, idempotency_key: str | None = None, **fields: Unpack[SendRequest]) -> AcceptedBody:
        """Request a send. Without a key, one is made for the attempts of this call."""
        return cast("AcceptedBody", await self._execute(send_call("/v1/sends", fields, idempotency_key)))

    async def send_batch(self, sends: Iterable[SmallSend], *, idempotency_key: str | None = None) -> BatchBody:
        """Request up to 1,000 small sends, with a result for each."""
        call = send_call("/v1/sends/batch", {"sends": list(sends)}, idempotency_key)
        return cast("BatchBody", await self._execute(call))

    async def get_send(self, send_id: str) -> SendBody:
        """Return a send with its notifications by status. A new send is a 404 until a chunk of it is counted."""
        return cast("SendBody", await self._execute(Call("GET", send_path(send_id))))

    async def cancel(self, send_id: str) -> CancelBody:
        """Cancel the notifications of a send that are not published yet."""
        return cast("CancelBody", await self._execute(Call("POST", send_path(send_id, "/cancel"))))

    def sends(self, **filters: Any) -> AsyncIterator[ListedSend]:
        """Yield the sends of the caller's clubs, the latest first, from all pages."""
        return cast("AsyncIterator[ListedSend]", self._rows("/v1/sends", filters))

    def user_notifications(self, user_id: int, **filters: Any) -> AsyncIterator[UserNotification]:
        """Yield a user's notifications, the latest first, from all pages."""
        return cast("AsyncIterator[UserNotification]", self._rows(f"/v1/users/{user_id}/notifications", filters))

    async def metrics(self, **query: Any) -> MetricsBody:
        """Return one page of counts by bucket."""
        return cast("MetricsBody", await self._execute(Call("GET", "/v1/metrics", query)))

    async def follow(self, send_id: str, *, timeout_s: float = 3_600, poll_s: float = 1) -> AsyncIterator[SendBody]:
        """Yield a send each time that it is read, until each of its notifications has ended.

        Raises TimeoutError after `timeout_s` seconds.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                send = await self.get_send(send_id)
            except ApiError as error:
                if error.status != httpx.codes.NOT_FOUND:
                    raise
            else:
                yield send
                if send["complete"]:
                    return
            if time.monotonic() + poll_s > deadline:
                raise TimeoutError(f"Send {send_id} has not ended after {timeout_s:.0f} s.")
            await self._sleep(poll_s)

    async def _rows(self, path: str, query: dict[str, Any]) -> AsyncIterator[Any]:
        while True:
            page = await self._execute(Call("GET", path, query))
            for row in page["rows"]:
                yield row
            if page["next_cursor"] is None:
                return
            query = {**query, "cursor": page["next_cursor"]}

    async def _execute(self, call: Call) -> Any:
        steps: Steps = execute(call, self._attempts)
        answer: httpx.Response | httpx.TransportError | None = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as done:
                return done.value
            answer = None
            if isinstance(step, Pause):
                await self._sleep(step.seconds)
                continue
            try:
                answer = await self._http.request(**step.arguments)
            except httpx.TransportError as error:
                answer = error
