"""Waiting for a condition with a deadline."""

import time
from collections.abc import Callable


class WaitTimeoutError(AssertionError):
    """It did not come in time; the message says what."""


def until(what: str, holds: Callable[[], bool], timeout_s: float = 60.0, *, every_s: float = 0.02) -> None:
    """Ask again and again until it holds. Errors: WaitTimeoutError."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > deadline:
            raise WaitTimeoutError(f"{what}: not within {timeout_s:.0f} s")
        time.sleep(every_s)
