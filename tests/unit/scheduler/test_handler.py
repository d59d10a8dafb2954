"""The sweeps of a scheduled invocation do not depend on each other."""

from collections.abc import Callable
from typing import Any

import pytest

from functions.scheduler import handler as scheduler
from functions.scheduler.mark_changelogs import MarkChangelogs
from functions.scheduler.release_due_records import SweepResult
from masscomm.clock import FixedClock
from masscomm.domain.time_limits import CHANGELOG_MARKED_S
from masscomm.errors import Retry

type RemainingS = Callable[[], float]


class Sweep:
    """Records how much time each sweep has."""

    def __init__(self, error: Exception | None = None) -> None:
        self.seconds: list[float] = []
        self._error = error

    def sweep(self, remaining_s: RemainingS) -> SweepResult:
        self.seconds.append(remaining_s())
        if self._error is not None:
            raise self._error
        return SweepResult(released=3)


class Context:
    aws_request_id = "a-request"
    function_name = "scheduler"
    memory_limit_in_mb = 512
    invoked_function_arn = "arn:aws:lambda:us-east-1:000000000000:function:scheduler"

    def get_remaining_time_in_millis(self) -> int:
        return 60_000


class CountedMarks:
    def __init__(self) -> None:
        self.count = 0
        self.error: Retry | None = None

    def mark(self) -> None:
        self.count += 1
        if self.error is not None:
            raise self.error


def invoke(
    monkeypatch: pytest.MonkeyPatch,
    batches: Sweep | None,
    due: Sweep,
    documents: Sweep | None = None,
    *,
    marks: MarkChangelogs | None = None,
) -> Any:
    marks = marks or marking(CountedMarks(), FixedClock(0))
    monkeypatch.setattr(scheduler, "bootstrap", lambda: (None, None, due, batches, marks))
    monkeypatch.setattr(scheduler, "publish_documents", lambda: documents or Sweep())
    return scheduler.handler({"source": "aws.events"}, Context())


def test_each_sweep_leaves_time_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    batches, due, documents = Sweep(), Sweep(), Sweep()
    assert invoke(monkeypatch, batches, due, documents)["released"] == 3
    assert (batches.seconds, due.seconds, documents.seconds) == ([30.0], [45.0], [15.0])


def marking(marks: CountedMarks, clock: FixedClock) -> MarkChangelogs:
    return MarkChangelogs(changelogs=marks, clock=clock, logger=scheduler.logger)


def test_changelogs_are_marked_at_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    marks, clock = CountedMarks(), FixedClock(1_700_000_000_000)
    sweep = marking(marks, clock)
    for _ in range(2):
        invoke(monkeypatch, None, Sweep(), marks=sweep)
    assert marks.count == 1
    clock.advance(CHANGELOG_MARKED_S)
    invoke(monkeypatch, None, Sweep(), marks=sweep)
    assert marks.count == 2


def test_refused_marks_are_repeated_by_the_next_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    marks = CountedMarks()
    marks.error = Retry("Kafka is down")
    sweep = marking(marks, FixedClock(1_700_000_000_000))
    for _ in range(2):
        assert invoke(monkeypatch, None, Sweep(), marks=sweep)["released"] == 3
    assert marks.count == 2


def test_records_are_released_without_a_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    assert invoke(monkeypatch, None, Sweep())["released"] == 3


@pytest.mark.parametrize("broken", ["the bucket", "the delay store", "the directory"])
def test_error_of_one_sweep_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    stores = ("the bucket", "the delay store", "the directory")
    batches, due, documents = (Sweep(Retry(each) if each == broken else None) for each in stores)
    with pytest.raises(Retry, match=broken):
        invoke(monkeypatch, batches, due, documents)
    assert len(batches.seconds) == len(due.seconds) == len(documents.seconds) == 1


def test_errors_of_all_sweeps_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = (Sweep(Retry(each)) for each in ("the bucket", "the delay store", "the directory"))
    with pytest.raises(Retry, match="the directory") as raised:
        invoke(monkeypatch, *broken)
    second = raised.value.__context__
    assert (str(second), str(second and second.__context__)) == ("the delay store", "the bucket")
