"""Clocks that are passed as arguments, so that tests can control the time."""

import time
from typing import Protocol


class Clock(Protocol):
    """A source of the time."""

    def now_ms(self) -> int:
        """Return the time in milliseconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Return a time in seconds that never decreases, for deadlines."""
        ...

    def sleep(self, seconds: float) -> None:
        """Block the thread for that many seconds."""
        ...

    async def pause(self, seconds: float) -> None:
        """Suspend the current task for that many seconds; other tasks of the event loop continue."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def pause(self, seconds: float) -> None:
        import asyncio  # asyncio is imported here, so that it is not part of a cold start.

        await asyncio.sleep(seconds)


class FixedClock:
    """A clock whose time only `advance`, `sleep` and `pause` change."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic(self) -> float:
        return self._now_ms / 1000

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)

    async def pause(self, seconds: float) -> None:
        import asyncio

        until_ms = self._now_ms + round(seconds * 1000)
        await asyncio.sleep(0)
        # Pauses of several tasks overlap, so the time moves to the latest end.
        self._now_ms = max(self._now_ms, until_ms)

    def advance(self, seconds: float) -> None:
        self._now_ms += round(seconds * 1000)
