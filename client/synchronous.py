"""The client for synchronous code."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
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


class Client:
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
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._http = httpx.Client(
            base_url=url, headers={"x-api-key": key}, timeout=timeout_s, trust_env=False, transport=transport
        )
        self._attempts = attempts
        self._sleep = sleep

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def send(self, *, idempotency_key: str | None = None, **fields: Unpack[SendRequest]) -> AcceptedBody:
        """Request a send. Without a key, one is made for the attempts of this call."""
        return cast("AcceptedBody", self._execute(send_call("/v1/sends", fields, idempotency_key)))

    def send_batch(self, sends: Iterable[SmallSend], *, idempotency_key: str | None = None) -> BatchBody:
        """Request up to 1,000 small sends, with a result for each."""
        call = send_call("/v1/sends/batch", {"sends": list(sends)}, idempotency_key)
        return cast("BatchBody", self._execute(call))

    def get_send(self, send_id: str) -> SendBody:
        """Return a send with its notifications by status. A new send is a 404 until a chunk of it is counted."""
        return cast("SendBody", self._execute(Call("GET", send_path(send_id))))

    def cancel(self, send_id: str) -> CancelBody:
        """Cancel the notifications of a send that are not published yet."""
        return cast("CancelBody", self._execute(Call("POST", send_path(send_id, "/cancel"))))

    def sends(self, **filters: Any) -> Iterator[ListedSend]:
        """Yield the sends of the caller's clubs, the latest first, from all pages."""
        return cast("Iterator[ListedSend]", self._rows("/v1/sends", filters))

    def user_notifications(self, user_id: int, **filters: Any) -> Iterator[UserNotification]:
        """Yield a user's notifications, the latest first, from all pages."""
        return cast("Iterator[UserNotification]", self._rows(f"/v1/users/{user_id}/notifications", filters))

    def metrics(self, **query: Any) -> MetricsBody:
        """Return one page of counts by bucket."""
        return cast("MetricsBody", self._execute(Call("GET", "/v1/metrics", query)))

    def follow(self, send_id: str, *, timeout_s: float = 3_600, poll_s: float = 1) -> Iterator[SendBody]:
        """Yield a send each time that it is read, until each of its notifications has ended.

        Raises TimeoutError after `timeout_s` seconds.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                send = self.get_send(send_id)
            except ApiError as error:
                if error.status != httpx.codes.NOT_FOUND:
                    raise
            else:
                yield send
                if send["complete"]:
                    return
            if time.monotonic() + poll_s > deadline:
                raise TimeoutError(f"Send {send_id} has not ended after {timeout_s:.0f} s.")
            self._sleep(poll_s)

    def _rows(self, path: str, query: dict[str, Any]) -> Iterator[Any]:
        while True:
            page = self._execute(Call("GET", path, query))
            yield from page["rows"]
            if page["next_cursor"] is None:
                return
            query = {**query, "cursor": page["next_cursor"]}

    def _execute(self, call: Call) -> Any:
        steps: Steps = execute(call, self._attempts)
        answer: httpx.Response | httpx.TransportError | None = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as done:
                return done.value
            answer = None
            if isinstance(step, Pause):
                self._sleep(step.seconds)
                continue
            try:
                answer = self._http.request(**step.arguments)
            except httpx.TransportError as error:
                answer = error
