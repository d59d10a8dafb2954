from collections.abc import Callable

from masscomm.stores.delayed_records.in_memory import InMemoryDelayStore
from masscomm.stores.delayed_records.port import DelayedRecord


class KilledError(BaseException):
    """Simulates a kill of the process; the code under test does not handle this exception."""


class Fuse:
    """Kills the process at the nth step, once."""

    def __init__(self, at: int = 0) -> None:
        # The number of steps before the crash; 0: no crash.
        self.left = at

    def step(self, *_: object) -> None:
        self.left -= 1
        if self.left == 0:
            raise KilledError

    def around[**P, R](self, method: Callable[P, R]) -> Callable[P, R]:
        """Return the method with a step before and after each call."""

        def call(*arguments: P.args, **options: P.kwargs) -> R:
            self.step()
            answer = method(*arguments, **options)
            self.step()
            return answer

        return call


class FusedDelayStore(InMemoryDelayStore):
    """A delay store whose process may crash before or after each put."""

    def __init__(self, fuse: Fuse) -> None:
        super().__init__()
        self.fuse = fuse

    def put(self, item: DelayedRecord, now_ms: int) -> None:
        self.fuse.step()
        super().put(item, now_ms)
        self.fuse.step()
