"""How long processes were ready to run and did not: what they wait for a processor, by kind of process."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

NANOSECONDS = 1e9


@dataclass(frozen=True, kw_only=True)
class Turns:
    """Of all threads together: seconds that they ran, seconds that they waited to, and how many times they did."""

    ran_s: float
    waited_s: float
    count: int

    def since(self, before: "Turns") -> "Turns":
        """What came since then."""
        return Turns(
            ran_s=self.ran_s - before.ran_s, waited_s=self.waited_s - before.waited_s, count=self.count - before.count
        )

    @property
    def wait_ms(self) -> float:
        """Milliseconds waited for one turn, in the mean."""
        return self.waited_s / self.count * 1000 if self.count else 0.0


def turns(processes: Mapping[str, Sequence[int]]) -> dict[str, Turns]:
    """So far, of each kind's processes, given by their ids. Threads and processes that have ended are left out.

    Source: Linux, Documentation/scheduler/sched-stats: /proc/PID/task/TID/schedstat.
    """
    return {kind: _together(pids) for kind, pids in processes.items()}


def _together(pids: Sequence[int]) -> Turns:
    rows = [row for pid in pids for row in _of_threads(pid)]
    ran, waited, count = (sum(column) for column in zip(*rows, strict=True)) if rows else (0, 0, 0)
    return Turns(ran_s=ran / NANOSECONDS, waited_s=waited / NANOSECONDS, count=count)


def _of_threads(pid: int) -> Iterator[tuple[int, ...]]:
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            yield tuple(map(int, path.read_text().split()))
        except OSError:  # it has ended
            continue
