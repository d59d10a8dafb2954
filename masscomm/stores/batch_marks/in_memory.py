"""The batch marks in memory, for unit tests."""

from dataclasses import replace

from masscomm.domain.time_limits import BATCH_MARKS_KEPT_S
from masscomm.stores.batch_marks.port import BatchKey, BatchMark
from masscomm.stores.in_memory import InMemoryStore


class InMemoryBatchMarks(InMemoryStore):
    """A store in a dictionary, for unit tests."""

    def __init__(self) -> None:
        super().__init__()
        # The mark of a batch, whether its invocation has ended, and the end of its retention (seconds since the epoch).
        self.stored: dict[BatchKey, tuple[BatchMark, bool, int]] = {}

    def begin(self, batch: BatchKey, at_s: int) -> BatchMark:
        mark, ended, expires_at = self.stored.get(batch, (BatchMark(invocations=0), True, at_s))
        if expires_at <= at_s:
            mark, ended = BatchMark(invocations=0), True
        mark = replace(mark, invocations=mark.invocations + 1)
        self.stored[batch] = mark, False, at_s + BATCH_MARKS_KEPT_S
        return replace(mark, crashed=not ended)

    def record(self, batch: BatchKey, mark: BatchMark, *, ended: bool) -> None:
        self.stored[batch] = mark, ended, self.stored[batch][2]
