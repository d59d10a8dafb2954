"""Emulates the subscriptions to SNS and EventBridge with which AWS passes answers to SMS, and reports about them, to a
function: it reads them from the stand-in of SMS.
"""

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import httpx

from local.emulators.lambda_host.invocation import InvocationResult

log = logging.getLogger(__name__)

_POLL_S = 0.5


@dataclass(kw_only=True, eq=False)
class SmsEvents:
    """Invokes a function with each event, in their order. A failed invocation is repeated, as AWS does.

    Args:
        url: The address of the stand-in.
        invoke: Invokes the function with an event as JSON.
    """

    url: str
    invoke: Callable[[bytes], Awaitable[InvocationResult]]

    def __post_init__(self) -> None:
        self._task: asyncio.Task[None] | None = None
        self._done = 0

    def start(self) -> None:
        """Start to pass events on."""
        self._task = asyncio.create_task(self._run(), name="sms-events")

    async def stop(self) -> None:
        """Stop; an event whose invocation is in progress is passed on again after the next start."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        async with httpx.AsyncClient(base_url=self.url, trust_env=False) as client:
            while True:
                # The stand-in may start later, and the function may be busy.
                with contextlib.suppress(httpx.HTTPError):
                    await self._pass_on(client)
                await asyncio.sleep(_POLL_S)

    async def _pass_on(self, client: httpx.AsyncClient) -> None:
        answer = await client.get("/_control/events", params={"since": self._done})
        events: list[Any] = answer.raise_for_status().json()
        for event in events:
            try:
                result = await self.invoke(json.dumps(event).encode())
            except Exception:
                log.warning("an event of SMS was not passed on", exc_info=True)
                return
            if result.function_error is not None:
                return
            self._done += 1
