"""Waits for conditions until a deadline, shows the missing items, and names them if the deadline passes."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from cli.terminal import Terminal
from local.devstack.handle import StackHandle
from local.devstack.stack import Stack

LOG_LINES = 12


class DemoError(Exception):
    """The demo cannot continue; the message is shown to the user."""


@dataclass(frozen=True)
class Pending:
    """The items that are still missing."""

    missing: str
    done: int | None = None  # `done` of `total` items exist, if they can be counted.
    total: int | None = None


class Waiter:
    """Waits for one condition after another, and shows the progress on the terminal."""

    def __init__(self, stack: StackHandle, console: Terminal) -> None:
        self._stack = stack
        self._console = console

    def until(
        self,
        label: str,
        probe: Callable[[], Pending | None],
        *,
        timeout_s: float,
        logs: Sequence[str] = (),
        every_s: float = 0.1,
        quiet: bool = False,
    ) -> float:
        """Call `probe` repeatedly until the result is None; return the seconds that this took.

        Args:
            what: The name of the condition, for the terminal.
            probe: Returns the missing items, or None.
            timeout_s: The seconds until the deadline.
            logs: Services; if the deadline passes, the message contains the last lines of their logs.
            every_s: The pause between calls in seconds.
            quiet: Whether to print no line.

        Raises:
            DemoError: The deadline passed, or a service crashed. Exceptions of `probe` are raised unchanged.
        """
        began = time.monotonic()
        terminal = self._console.is_terminal
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn("{task.fields[missing]}", style="dim", markup=False),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self._console, transient=True, disable=quiet or not terminal) as progress:
            task = progress.add_task(label, total=None, missing="")
            while (pending := probe()) is not None:
                progress.update(
                    task,
                    completed=pending.done or 0,
                    total=pending.total,
                    missing=pending.missing if not pending.total else "",
                )
                if isinstance(self._stack, Stack) and self._stack.crashes:
                    raise DemoError(f"{label}: {self._stack.crashes[0]}")
                if time.monotonic() - began > timeout_s:
                    raise DemoError(self._too_late(label, pending, timeout_s, logs))
                time.sleep(every_s)
        seconds = time.monotonic() - began
        if not quiet:
            self._console.done(label, f"{seconds:.1f} s")
        return seconds

    def _too_late(self, label: str, pending: Pending, timeout_s: float, logs: Sequence[str]) -> str:
        counted = f" ({pending.done:,} of {pending.total:,})" if pending.total and pending.done is not None else ""
        lines = [f"{label}: not within {timeout_s:.0f} s. Still missing: {pending.missing}{counted}"]
        for name in logs:
            path = self._stack.config.log(name)
            if path.exists():
                lines.append(f"The end of {path}:")
                lines.extend(path.read_text(errors="replace").splitlines()[-LOG_LINES:])
        return "\n".join(lines)
