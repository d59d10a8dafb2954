"""Two batches on their way: one is staged while the one before it is merged.

Merges keep the order of the batches, one transaction each, on a thread of their own. So Spark takes for done what is
staged: what is counted stands in Postgres alone (stream_offsets), and a stream begins there.
"""

import gc
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame

from spark_metrics.batches import Staged
from spark_metrics.sink import Merged

# Stages a batch, by its records, Spark's number of it and the numbers of the attempts that are on their way.
type Stage = Callable[[DataFrame, int, Collection[int]], Staged]


@dataclass
class _Batch:
    records: DataFrame
    number: int
    staged: Staged | None  # None: what was staged is gone, or not to be trusted


class Pipeline:
    """stage, merge: the two halves of counting a batch; what `merge` was given once is staged anew before it is called
    again. patiently: with which patience both are called; what it raises ends the pipeline.
    """

    def __init__(
        self,
        stage: Stage,
        merge: Callable[[Staged], Merged],
        patiently: Callable[[Callable[[], object]], object] = lambda attempt: attempt(),
    ) -> None:
        self._stage, self._merge, self._patiently = stage, merge, patiently
        # Held by whoever stages: they share a connection, and the archive's writer tidies up after itself alone.
        self._staging = threading.Lock()
        # Guards all that follows.
        self._turn = threading.Condition()
        self._merging: _Batch | None = None
        self._on_their_way: set[int] = set()
        self._failure: BaseException | None = None
        self._merged_up_to = -1
        threading.Thread(target=self._merge_each, name="merge", daemon=True).start()

    @property
    def merged_up_to(self) -> int:
        """Spark's number of the last batch that is merged; -1 before the first."""
        with self._turn:
            return self._merged_up_to

    def put(self, records: DataFrame, number: int) -> None:
        """Stage a batch, wait for the merge of the one before, and have this one merged.

        Errors: those of stage, and what ended an earlier merge; after one nothing is merged any more.
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
        """Errors: what ended a merge for good."""
        with self._turn:
            self._raise()

    def drain(self, timeout_s: float | None = None) -> None:
        """Wait until everything that was put is merged, or the time is over. Errors: what ended a merge for good."""
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
            # py4j's objects are cycles, and each may hold a plan in the JVM. They are few, so that Python, which counts
            # them, would let tens of megabytes wait there for a collection.
            gc.collect()

    def _merge_next(self) -> bool:
        """Whether it could be merged."""
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
