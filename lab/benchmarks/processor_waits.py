"""Measures the time for which runnable processes wait for a processor, by kind of process."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from lab.benchmarks.processor_time import of_process

NANOSECONDS = 1e9


@dataclass(frozen=True, kw_only=True)
class Turns:
    """The seconds that processes ran; for their living threads, the seconds that they waited for a processor, and how
    many times they ran.
    """

    ran_s: float
    waited_s: float
    count: int

    def since(self, before: "Turns") -> "Turns":
        return Turns(
            ran_s=self.ran_s - before.ran_s, waited_s=self.waited_s - before.waited_s, count=self.count - before.count
        )

    @property
    def wait_ms(self) -> float:
        """Return the mean wait before a thread runs, in milliseconds."""
        return self.waited_s / self.count * 1000 if self.count else 0.0


def turns(processes: Mapping[str, Sequence[int]]) -> dict[str, Turns]:
    """Return the totals of the processes of each kind. Ended processes are not counted.

    Args:
        processes: The process ids by kind.

    Source: Linux, Documentation/scheduler/sched-stats: /proc/PID/task/TID/schedstat.
    """
    return {kind: _together(pids) for kind, pids in processes.items()}


def _together(pids: Sequence[int]) -> Turns:
    rows = [row for pid in pids for row in _of_threads(pid)]
    waited, count = (sum(column) for column in zip(*rows, strict=True)) if rows else (0, 0)
    return Turns(ran_s=sum(map(_ran_s, pids)), waited_s=waited / NANOSECONDS, count=count)


def _ran_s(pid: int) -> float:
    try:
        return of_process(psutil.Process(pid))
    except psutil.NoSuchProcess:
        return 0.0


def _of_threads(pid: int) -> Iterator[tuple[int, int]]:
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            _ran, waited, count = map(int, path.read_text().split())
        except OSError:  # The thread has ended.
            continue
        yield waited, count
