"""A process that ends at a chosen step."""

from masscomm.stores.delayed_records import DelayedRecord, InMemoryDelayStore


class KilledError(BaseException):
    """The process ends here: it runs no code after this."""


class Fuse:
    """Kills the process at the nth step, once."""

    def __init__(self, at: int = 0) -> None:
        # Steps until then; 0: never.
        self.left = at

    def step(self, *_: object) -> None:
        self.left -= 1
        if self.left == 0:
            raise KilledError


class FusedDelayStore(InMemoryDelayStore):
    """A delay store of a process that may end before or after each put."""

    def __init__(self, fuse: Fuse) -> None:
        super().__init__()
        self.fuse = fuse

    def put(self, item: DelayedRecord, now_ms: int) -> None:
        self.fuse.step()
        super().put(item, now_ms)
        self.fuse.step()
