"""Two batches on their way: merged in their order, one at a time, and none after one that cannot be."""

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
    """What is worth another try."""


@dataclass
class Half:
    """Both halves of counting, told when to go on."""

    numbers: Iterator[int] = field(default_factory=lambda: iter(range(1, 100)))
    # (attempt, batch, attempts beside it)
    staged: list[tuple[int, int, set[int]]] = field(default_factory=list)
    merged: list[int] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)
    may_merge: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(100))
    merging: int = 0
    most_merging: int = 0
    told: threading.Condition = field(default_factory=threading.Condition)

    def stage(self, _records: object, batch: int, beside: Collection[int]) -> Staged:
        with self.told:
            attempt = Attempt(next(self.numbers), datetime.now(UTC))
            self.staged.append((attempt.number, batch, set(beside)))
            self.told.notify_all()
        return Staged(RECORDS, RECORDS, batch, attempt, RECORDS, RECORDS, "")

    def merge(self, staged: Staged) -> Merged:
        with self.told:
            self.merging += 1
            self.most_merging = max(self.most_merging, self.merging)
        assert self.may_merge.acquire(timeout=WAIT_S)
        with self.told:
            self.merging -= 1
            if self.errors:
                raise self.errors.pop(0)
            self.merged.append(staged.batch_id)
        return MERGED

    def wait_for_staged(self, number: int) -> None:
        with self.told:
            assert self.told.wait_for(lambda: len(self.staged) == number, WAIT_S)


def patiently(attempt: Any) -> Any:
    while True:
        try:
            return attempt()
        except Lost:
            continue


def pipeline_of(half: Half) -> Pipeline:
    return Pipeline(half.stage, half.merge, patiently)


def putting(pipeline: Pipeline, *batches: int) -> threading.Thread:
    def put() -> None:
        for batch in batches:
            pipeline.put(RECORDS, batch)

    thread = threading.Thread(target=put)
    thread.start()
    return thread


def test_next_batch_is_staged_during_the_merge() -> None:
    half = Half(may_merge=threading.Semaphore(0))
    pipeline = pipeline_of(half)
    pipeline.put(RECORDS, 0)
    thread = putting(pipeline, 1, 2)
    half.wait_for_staged(2)
    assert half.staged == [(1, 0, set()), (2, 1, {1})]
    assert pipeline.merged_up_to == -1
    half.may_merge.release()
    half.wait_for_staged(3)
    assert half.staged[2] == (3, 2, {2})
    half.may_merge.release(2)
    thread.join(WAIT_S)
    pipeline.drain(WAIT_S)
    assert (half.merged, half.most_merging, pipeline.merged_up_to) == ([0, 1, 2], 1, 2)


@pytest.mark.kills(guard="metrics.two_batches")
def test_a_third_batch_waits_for_the_first() -> None:
    """Guard: what is on its way is bounded."""
    half = Half(may_merge=threading.Semaphore(0))
    pipeline = pipeline_of(half)
    pipeline.put(RECORDS, 0)
    thread = putting(pipeline, 1, 2)
    half.wait_for_staged(2)
    thread.join(0.05)
    assert thread.is_alive()
    assert len(half.staged) == 2
    half.may_merge.release(3)
    thread.join(WAIT_S)
    pipeline.drain(WAIT_S)
    assert half.merged == [0, 1, 2]


@pytest.mark.kills(guard="metrics.staged_again_first")
def test_failed_merge_is_staged_again_before_the_next() -> None:
    """Guard: the order. Postgres has lost what was staged while the next batch is staged already."""
    half = Half(may_merge=threading.Semaphore(0), errors=[Lost()])
    pipeline = pipeline_of(half)
    pipeline.put(RECORDS, 0)
    thread = putting(pipeline, 1)
    half.wait_for_staged(2)
    half.may_merge.release(3)
    thread.join(WAIT_S)
    pipeline.drain(WAIT_S)
    assert half.staged == [(1, 0, set()), (2, 1, {1}), (3, 0, {2})]
    assert half.merged == [0, 1]


@pytest.mark.kills(guard="metrics.failed_merge")
def test_after_a_merge_that_cannot_be_nothing_is_merged() -> None:
    """Guard: the failure that stops it. A later batch would say that the lost one was counted, too."""
    half = Half(may_merge=threading.Semaphore(0), errors=[ValueError("this cannot be")])
    pipeline = pipeline_of(half)
    pipeline.put(RECORDS, 0)
    failed: list[Exception] = []

    def put() -> None:
        try:
            pipeline.put(RECORDS, 1)
        except ValueError as error:
            failed.append(error)

    thread = threading.Thread(target=put)
    thread.start()
    half.wait_for_staged(2)
    half.may_merge.release(5)
    thread.join(WAIT_S)
    assert [str(error) for error in failed] == ["this cannot be"]
    for again in (pipeline.check, lambda: pipeline.put(RECORDS, 2), lambda: pipeline.drain(WAIT_S)):
        with pytest.raises(ValueError, match="this cannot be"):
            cast("Any", again)()
    assert half.merged == []
    assert pipeline.merged_up_to == -1


def test_draining_ends_with_its_time() -> None:
    half = Half(may_merge=threading.Semaphore(0))
    pipeline = pipeline_of(half)
    pipeline.put(RECORDS, 0)
    pipeline.drain(0.01)
    assert half.merged == []
    half.may_merge.release()
    pipeline.drain(WAIT_S)
    assert half.merged == [0]


def test_merged_batch_is_garbage_collected() -> None:
    """Guard: the collection after each. py4j's objects are cycles, and hold plans in the JVM.

    In a process of its own: in this one another thread may be collecting what other tests left, and one at a time does.
    """
    command = [sys.executable, "-c", "from tests.unit.spark_metrics.test_pipeline import let_go; let_go()"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def let_go() -> None:
    """Ends once a batch's records are let go; raises AssertionError where they are not."""

    class Cycle:
        def __init__(self) -> None:
            self.itself = self

    half = Half(may_merge=threading.Semaphore(0))
    pipeline = pipeline_of(half)
    gone = threading.Event()
    records: Any = Cycle()
    weakref.finalize(records, gone.set)
    gc.disable()
    pipeline.put(records, 0)
    del records
    half.may_merge.release()
    assert gone.wait(WAIT_S)
