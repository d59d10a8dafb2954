"""Overlaps two batches: one is staged while the previous one is merged.

Merges run on a thread of their own, in the order of the batches, each in one transaction. For Spark, a batch is
finished once it is staged. Only the table stream_offsets has the counted offsets, at which a stream begins.
"""

import gc
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame

from spark_metrics.batches import Staged
from spark_metrics.sink import Merged

# Stages a batch. The arguments are its records, Spark's number of the batch, and the numbers of the unmerged attempts.
type Stage = Callable[[DataFrame, int, Collection[int]], Staged]


@dataclass
class _Batch:
    records: DataFrame
    number: int
    staged: Staged | None  # None: the batch must be staged again


class Pipeline:
    """Stages batches, and merges them on another thread.

    Args:
        stage: Stages a batch. It is called again before a merge is repeated.
        merge: Merges a staged batch.
        patiently: Calls `stage` or `merge` with retries. An error that it raises ends the pipeline.
    """

    def __init__(
        self,
        stage: Stage,
        merge: Callable[[Staged], Merged],
        patiently: Callable[[Callable[[], object]], object] = lambda attempt: attempt(),
    ) -> None:
        self._stage, self._merge, self._patiently = stage, merge, patiently
        # One thread stages at a time, because all use one connection, and only one thread may write to the archive.
        self._staging = threading.Lock()
        # Protects the attributes below.
        self._turn = threading.Condition()
        self._merging: _Batch | None = None
        self._on_their_way: set[int] = set()
        self._failure: BaseException | None = None
        self._merged_up_to = -1
        threading.Thread(target=self._merge_each, name="merge", daemon=True).start()

    @property
    def merged_up_to(self) -> int:
        """Return Spark's number of the last merged batch; -1 before the first merge."""
        with self._turn:
            return self._merged_up_to

    def put(self, records: DataFrame, number: int) -> None:
        """Stage a batch, wait for the merge of the previous one, and start the merge of this one.

        Raises the errors of `stage`, and the error that ended an earlier merge. After such an error no batch is merged.
        """
        self.check()
        batch = _Batch(records, number, None)
        self._patiently(lambda: self._stage_now(batch))
        with self._turn:
            self._turn.wait_for(lambda: self._merging is None or self._failure)  # guard: metrics.two_batches
            self._raise()
            self._merging = batch
            self._turn.notify_all()

    def check(self) -> None:
        """Raise the error that ended a merge permanently, if there is one."""
        with self._turn:
            self._raise()

    def drain(self, timeout_s: float | None = None) -> None:
        """Wait until every batch is merged, for at most timeout_s. Raises the error that ended a merge permanently."""
        with self._turn:
            self._turn.wait_for(lambda: self._merging is None or self._failure, timeout_s)
            self._raise()

    def _raise(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _stage_now(self, batch: _Batch) -> None:
        with self._staging:
            with self._turn:
                beside = frozenset(self._on_their_way)
            batch.staged = self._stage(batch.records, batch.number, beside)
            with self._turn:
                self._on_their_way.add(batch.staged.attempt.number)

    def _merge_each(self) -> None:
        while self._merge_next():
            # py4j's objects form reference cycles, and each may keep a query plan alive in the JVM. Python starts a
            # collection by the number of objects, which is small, so that without this call tens of megabytes would
            # stay in the JVM.
            gc.collect()

    def _merge_next(self) -> bool:
        """Merge the next batch, and return whether that succeeded."""
        with self._turn:
            self._turn.wait_for(lambda: self._merging)
            batch = self._merging
        assert batch is not None  # noqa: S101 - it was waited for
        failure: BaseException | None = None
        try:
            self._patiently(partial(self._merge_now, batch))
        except BaseException as error:
            failure = error
        with self._turn:
            self._merging, self._failure = None, failure  # guard: metrics.failed_merge
            self._turn.notify_all()
        return failure is None

    def _merge_now(self, batch: _Batch) -> None:
        if batch.staged is None:
            self._stage_now(batch)  # guard: metrics.staged_again_first
        staged, batch.staged = batch.staged, None
        assert staged is not None  # noqa: S101 - it was staged just now
        try:
            self._merge(staged)
        finally:
            with self._turn:
                self._on_their_way.discard(staged.attempt.number)
        with self._turn:
            self._merged_up_to = batch.number
