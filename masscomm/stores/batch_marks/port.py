"""The interface of the store of batch marks: the progress of a batch that its event source mapping retries whole.

An event does not contain the number of invocations with its batch, and the end of the last one. The mark has both, and
the records that are done.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol


class BatchKey(NamedTuple):
    """Identifies a batch by its first record. A topic that was made anew has the same offsets, with other times."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


@dataclass(frozen=True, kw_only=True)
class BatchMark:
    """The progress of a batch. Records are named by their positions, topic-partition@offset."""

    # The number of invocations with the batch, the present one included.
    invocations: int = 1
    # Whether the previous invocation did not end: its process crashed, or its time was over.
    crashed: bool = False
    # The records that are processed.
    done: Collection[str] = ()
    # The records that were being processed when the previous invocation crashed; empty: all that are not done.
    begun: Collection[str] = ()
    # The number of invocations that crashed while they processed a record alone.
    crashes: Mapping[str, int] = field(default_factory=dict)


class BatchMarks(Protocol):
    """Methods raise Retry (down, slow) or Stop (no table, no permission)."""

    def begin(self, batch: BatchKey, at_s: int) -> BatchMark:
        """Count an invocation with the batch at `at_s` (seconds since the epoch), and return its mark. A mark is kept
        for BATCH_MARKS_KEPT_S after the last invocation.
        """
        ...

    def record(self, batch: BatchKey, mark: BatchMark, *, ended: bool) -> None:
        """Record the progress of the present invocation.

        Args:
            batch: The batch.
            mark: Its mark, of which `crashed` is not stored.
            ended: Whether the invocation ends now. One that has not ended when the batch comes again has crashed.
        """
        ...
