"""Runs webhook_events in processes of its own, with its real adapters, which kill themselves at a step.

    python -m tests.support.harness.webhook_process

Each line of the input is a JSON list: later_s, and optionally a step. Each line of the output is the exit
status of the process that ran it, negative for the signal that killed it.

later_s: the number of seconds by which the process is later than the machine's clock.
step: adapter.method:before or adapter.method:after, such as sends.move:after; the first such call is the last one.
"""

import importlib
import json
import os
import signal
import sys
import traceback
from dataclasses import replace
from typing import Any

from functions.webhook_events import handler as webhook_events
from masscomm.clock import SystemClock

REMAINING_S = 60.0
# The modules that the processes share, so that they start fast.
AHEAD = (
    "functions.webhook_events.find_events",
    "functions.webhook_events.send_counts",
    "masscomm.stores.event_ids.dynamodb",
    "masscomm.stores.sends.dynamodb",
    "masscomm.stores.subscriptions.dynamodb",
    "masscomm.stores.webhook_endpoints.dynamodb",
    "psycopg_pool",
)


class LaterClock(SystemClock):
    """A clock that is ahead of the machine's, and moves instead of sleeping."""

    def __init__(self, later_s: float) -> None:
        self._later_s = later_s

    def now_ms(self) -> int:
        return super().now_ms() + round(self._later_s * 1000)

    def sleep(self, seconds: float) -> None:
        self._later_s += seconds


def kill_at(use_case: Any, step: str) -> None:
    """Replace the method of an adapter by one that kills the process before or after it."""
    place, _, when = step.partition(":")
    name, _, method = place.partition(".")
    adapter = getattr(use_case, name)
    original = getattr(adapter, method)

    def last(*arguments: Any, **options: Any) -> None:
        if when == "after":
            original(*arguments, **options)
        os.kill(os.getpid(), signal.SIGKILL)

    vars(adapter)[method] = last


def run(later_s: float, *step: str) -> None:
    use_case = replace(webhook_events.bootstrap(), clock=LaterClock(later_s))
    for each in step:
        kill_at(use_case, each)
    use_case.sweep(lambda: REMAINING_S)


def in_a_process(arguments: list[Any]) -> int:
    """Run the function in a forked process and return its exit status."""
    if pid := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    status = 1
    try:
        run(*arguments)
        status = 0
    except BaseException:  # The status says so.
        traceback.print_exc()
    finally:
        os._exit(status)


if __name__ == "__main__":
    for name in AHEAD:
        importlib.import_module(name)
    for line in sys.stdin:
        sys.stdout.write(f"{in_a_process(json.loads(line))}\n")
        sys.stdout.flush()
