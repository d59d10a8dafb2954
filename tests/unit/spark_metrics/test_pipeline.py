"""Up to two batches are in progress; they are merged one by one in order, and no batch is merged after a failed one."""

import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from devstack.config import ROOT
from spark_metrics.batches import Staged
from spark_metrics.pipeline import Pipeline
from spark_metrics.sink import Attempt, Merged

WAIT_S = 10.0
MERGED = Merged(records=1, refused=0, quarantined=0, replayed=0)
RECORDS: Any = None


class Lost(Exception):
    """A temporary error."""


@dataclass
class PausableStages:
    """Fake stages of a batch; the test decides when each merge continues."""

    numbers: Iterator[int] = field(default_factory=lambda: iter(range(1, 100)))
    # (attempt, batch, attempts that ran concurrently)
    staged: list[tuple[int, int, set[int]]] = field(default_factory=list)
    merged: list[int] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)
    may_merge: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(100))
    merging: int = 0
    most_merging: int = 0
    changed: threading.Condition = field(default_factory=threading.Condition)

    def stage(self, _records: object, batch: int, beside: Collection[int]) -> Staged:
        with self.changed:
            attempt = Attempt(next(self.numbers), datetime.now(UTC))
            self.staged.append((attempt.number, batch, set(beside)))
            self.changed.notify_all()
        return Staged(RECORDS, RECORDS, batch, attempt, RECORDS, RECORDS, "")

    def merge(self, staged: Staged) -> Merged:
        with self.changed:
            self.merging += 1
            self.most_merging = max(self.most_merging, self.merging)
        assert self.may_merge.acquire(timeout=WAIT_S)
        with self.changed:
            self.merging -= 1
            if self.errors:
                raise self.errors.pop(0)
            self.merged.append(staged.batch_id)
        return MERGED

    def wait_for_staged(self, number: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.staged) == number, WAIT_S)


def patiently(attempt: Any) -> Any:
    while True:
        try:
            return attempt()
        except Lost:
            continue


def pipeline_of(stages: PausableStages) -> Pipeline:
    return Pipeline(stages.stage, stages.merge, patiently)


def putting(pipeline: Pipeline, *batches: int) -> threading.Thread:
    def put() -> None:
        for batch in batches:
            pipeline.put(RECORDS, batch)

    thread = threading.Thread(target=put)
    thread.start()
    return thread


def test_next_batch_is_staged_during_the_merge() -> None:
    stages = PausableStages(may_merge=threading.Semaphore(0))
    pipeline = pipeline_of(stages)
    pipeline.put(RECORDS, 0)
    thread = putting(pipeline, 1, 2)
    stages.wait_for_staged(2)
    assert stages.staged == [(1, 0, set()), (2, 1, {1})]
    assert pipeline.merged_up_to == -1
    stages.may_merge.release()
    stages.wait_for_staged(3)
    assert stages.staged[2] == (3, 2, {2})
    stages.may_merge.release(2)
    thread.join(WAIT_S)
    pipeline.drain(WAIT_S)
    assert (stages.merged, stages.most_merging, pipeline.merged_up_to) == ([0, 1, 2], 1, 2)


@pytest.mark.kills(guard="metrics.two_batches")
def test_a_third_batch_waits_for_the_first() -> None:
    """At most two batches are in progress."""
    stages = PausableStages(may_merge=threading.Semaphore(0))
    pipeline = pipeline_of(stages)
    pipeline.put(RECORDS, 0)
    thread = putting(pipeline, 1, 2)
    stages.wait_for_staged(2)
    thread.join(0.05)
    assert thread.is_alive()
    assert len(stages.staged) == 2
    stages.may_merge.release(3)
    thread.join(WAIT_S)
    pipeline.drain(WAIT_S)
    assert stages.merged == [0, 1, 2]


@pytest.mark.kills(guard="metrics.staged_again_first")
def test_failed_merge_is_staged_again_before_the_next() -> None:
    """If a merge loses its staged rows while the next batch is already staged, both are still merged in order."""
    stages = PausableStages(may_merge=threading.Semaphore(0), errors=[Lost()])
    pipeline = pipeline_of(stages)
    pipeline.put(RECORDS, 0)
    thread = putting(pipeline, 1)
    stages.wait_for_staged(2)
    stages.may_merge.release(3)
    thread.join(WAIT_S)
    pipeline.drain(WAIT_S)
    assert stages.staged == [(1, 0, set()), (2, 1, {1}), (3, 0, {2})]
    assert stages.merged == [0, 1]


@pytest.mark.kills(guard="metrics.failed_merge")
def test_permanently_failed_merge_ends_the_pipeline() -> None:
    """If a later batch were merged, the failed batch would look counted."""
    stages = PausableStages(may_merge=threading.Semaphore(0), errors=[ValueError("this cannot be")])
    pipeline = pipeline_of(stages)
    pipeline.put(RECORDS, 0)
    failed: list[Exception] = []

    def put() -> None:
        try:
            pipeline.put(RECORDS, 1)
        except ValueError as error:
            failed.append(error)

    thread = threading.Thread(target=put)
    thread.start()
    stages.wait_for_staged(2)
    stages.may_merge.release(5)
    thread.join(WAIT_S)
    assert [str(error) for error in failed] == ["this cannot be"]
    for again in (pipeline.check, lambda: pipeline.put(RECORDS, 2), lambda: pipeline.drain(WAIT_S)):
        with pytest.raises(ValueError, match="this cannot be"):
            cast("Any", again)()
    assert stages.merged == []
    assert pipeline.merged_up_to == -1


def test_drain_ends_at_its_timeout() -> None:
    stages = PausableStages(may_merge=threading.Semaphore(0))
    pipeline = pipeline_of(stages)
    pipeline.put(RECORDS, 0)
    pipeline.drain(0.01)
    assert stages.merged == []
    stages.may_merge.release()
    pipeline.drain(WAIT_S)
    assert stages.merged == [0]


def test_merged_batch_is_garbage_collected() -> None:
    """Cycles of py4j's objects keep plans in the JVM, so the pipeline collects garbage after each batch.

    The test has a process of its own, because other tests' threads may be collecting garbage in this one.
    """
    command = [sys.executable, "-c", "from tests.unit.spark_metrics.test_pipeline import let_go; let_go()"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def let_go() -> None:
    """Merge a batch. Raises AssertionError if the batch's records are not garbage-collected."""

    class Cycle:
        def __init__(self) -> None:
            self.itself = self

    stages = PausableStages(may_merge=threading.Semaphore(0))
    pipeline = pipeline_of(stages)
    gone = threading.Event()
    records: Any = Cycle()
    weakref.finalize(records, gone.set)
    gc.disable()
    pipeline.put(records, 0)
    del records
    stages.may_merge.release()
    assert gone.wait(WAIT_S)
