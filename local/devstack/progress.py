"""Shows the progress of starting and stopping the stack: a live table on a terminal, plain lines elsewhere."""

import threading
import time
from types import TracebackType
from typing import Self

from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from cli.terminal import Terminal

STYLES = {
    "waiting": "dim",
    "starting": "cyan",
    "ready": "green",
    "failed": "bold red",
    "stopping": "yellow",
    "stopped": "dim",
}


class Progress:
    """Shows one line for each service or provisioning step: its state, and once it is ready its start time and
    memory.
    """

    def __init__(self, console: Terminal) -> None:
        self.console = console
        self.begun = time.monotonic()
        self._lines: dict[str, tuple[str, str]] = {}
        self._lock = threading.Lock()
        self._live = Live(get_renderable=self._table, console=console, refresh_per_second=8, transient=True)
        self._plain = not console.is_terminal

    def __enter__(self) -> Self:
        if not self._plain:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._plain:
            self._live.stop()

    def __call__(self, name: str, state: str, text: str) -> None:
        """Show a change of state. The stack calls this object as `on_change`, from many threads."""
        with self._lock:
            self._lines[name] = (state, text)
            if self._plain and state != "waiting":
                elapsed = time.monotonic() - self.begun
                self.console.print(
                    f"{elapsed:6.1f} s  {name:<12} {state:<9} {text}".rstrip(),
                    soft_wrap=True,
                )

    def _table(self) -> Table:
        with self._lock:
            lines = dict(self._lines)
        table = Table(box=None, show_header=False, padding=(0, 1))
        for name, (state, text) in lines.items():
            busy = state in ("starting", "stopping")
            mark: Spinner | Text = Spinner("dots") if busy else Text({"ready": "✓", "failed": "✗"}.get(state, "·"))
            table.add_row(mark, name, Text(state, STYLES[state]), Text(text, overflow="ellipsis", no_wrap=True))
        return table
