"""The two sweeps of a scheduled invocation do not depend on each other."""

from collections.abc import Callable
from typing import Any

import pytest

from functions.scheduler import handler as scheduler
from functions.scheduler.release_due_records import SweepResult
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


def invoke(monkeypatch: pytest.MonkeyPatch, batches: Sweep | None, due: Sweep) -> Any:
    monkeypatch.setattr(scheduler, "bootstrap", lambda: (None, None, due, batches))
    return scheduler.handler({"source": "aws.events"}, Context())


def test_discarded_batches_have_half_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    batches, due = Sweep(), Sweep()
    assert invoke(monkeypatch, batches, due)["released"] == 3
    assert (batches.seconds, due.seconds) == ([30.0], [60.0])


def test_records_are_released_without_a_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    assert invoke(monkeypatch, None, Sweep())["released"] == 3


@pytest.mark.parametrize("broken", ["the bucket", "the delay store"])
def test_error_of_one_sweep_does_not_stop_the_other(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    batches, due = (Sweep(Retry(each) if each == broken else None) for each in ("the bucket", "the delay store"))
    with pytest.raises(Retry, match=broken):
        invoke(monkeypatch, batches, due)
    assert len(batches.seconds) == len(due.seconds) == 1


def test_errors_of_both_sweeps_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Retry, match="the delay store") as raised:
        invoke(monkeypatch, Sweep(Retry("the bucket")), Sweep(Retry("the delay store")))
    assert str(raised.value.__context__) == "the bucket"
