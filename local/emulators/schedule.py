"""Emulates an EventBridge schedule: it invokes a function at an interval."""

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import uuid4

from local.emulators.lambda_host.invocation import InvocationResult

log = logging.getLogger(__name__)


@dataclass(kw_only=True, eq=False)
class Schedule:
    """Invokes a function at an interval. If an invocation takes longer, the next one waits for its end."""

    # The name of the function, for the event and the log.
    function: str
    # The seconds from the end of an invocation to the next one.
    every_s: float
    # Invokes the function with an event as JSON.
    invoke: Callable[[bytes], Awaitable[InvocationResult]]

    def __post_init__(self) -> None:
        self._stopped = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._invocations = 0
        self._errors = 0

    def start(self) -> None:
        """Start the schedule; the first invocation begins at once."""
        self._task = asyncio.create_task(self._run(), name=f"schedule-{self.function}")

    async def stop(self) -> None:
        """Stop the schedule, and wait for an invocation in progress."""
        self._stopped.set()
        if self._task is not None:
            await self._task

    def status(self) -> dict[str, float]:
        """Return the number of invocations, and the number of failed ones."""
        return {"every_s": self.every_s, "invocations": self._invocations, "errors": self._errors}

    async def _run(self) -> None:
        while not self._stopped.is_set():
            await self._once()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopped.wait(), self.every_s)

    async def _once(self) -> None:
        self._invocations += 1
        try:
            result = await self.invoke(scheduled_event(self.function, datetime.now(UTC)))
        except Exception:
            # The host refused the invocation; the next invocation follows at the next interval.
            self._errors += 1
            log.exception("scheduled invocation of %s", self.function)
            return
        if result.function_error is not None:
            self._errors += 1
            log.error("scheduled invocation of %s: %s", self.function, result.payload[:1_000])


def scheduled_event(function: str, now: datetime) -> bytes:
    """Return EventBridge's event for a rule with a schedule, as JSON.

    Source: Amazon EventBridge user guide, "Scheduled Event" of the AWS events reference.
    """
    return json.dumps(
        {
            "version": "0",
            "id": str(uuid4()),
            "detail-type": "Scheduled Event",
            "source": "aws.events",
            "account": "000000000000",
            "time": now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "region": "us-east-1",
            "resources": [f"arn:aws:events:us-east-1:000000000000:rule/{function}"],
            "detail": {},
        }
    ).encode()
