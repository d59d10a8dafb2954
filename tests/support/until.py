import time
from collections.abc import Callable


class WaitTimeoutError(AssertionError):
    """A condition was not true in time; the message names it."""


def until(
    condition: str,
    holds: Callable[[], bool],
    timeout_s: float = 60.0,
    *,
    every_s: float = 0.02,
    progress: Callable[[], object] = lambda: None,
) -> None:
    """Check a condition repeatedly until it is true.

    Args:
        condition: The condition in words, for the error.
        holds: Whether it is true.
        timeout_s: The time after which the wait ends; it starts again whenever `progress` returns another value.
        every_s: The time between two checks.
        progress: Returns the state of a long wait, whose duration depends on the machine.

    Raises:
        WaitTimeoutError: The time passed, and neither the condition became true nor `progress` changed.
    """
    deadline, reached = time.monotonic() + timeout_s, progress()
    while not holds():
        if (state := progress()) != reached:
            deadline, reached = time.monotonic() + timeout_s, state
        if time.monotonic() > deadline:
            raise WaitTimeoutError(f"{condition}: not within {timeout_s:.0f} s")
        time.sleep(every_s)
