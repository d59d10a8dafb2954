"""A call to a dependency that is down is repeated until it succeeds, the time is over or the job stops."""

import logging

import psycopg
import pytest

from masscomm.errors import Retry
from spark_metrics.common.waiting import DependencyWaiter


class Calls:
    """Raises the errors in turn, then returns the number of calls."""

    def __init__(self, *errors: Exception) -> None:
        self.errors, self.made = list(errors), 0

    def __call__(self) -> int:
        self.made += 1
        if self.errors:
            raise self.errors.pop(0)
        return self.made


@pytest.fixture
def waiter(monkeypatch: pytest.MonkeyPatch) -> DependencyWaiter:
    waiter = DependencyWaiter(wait_s=60)
    monkeypatch.setattr(waiter, "pause", lambda: False)
    return waiter


def test_temporary_errors_are_retried_and_logged_once(
    waiter: DependencyWaiter, caplog: pytest.LogCaptureFixture
) -> None:
    down = [psycopg.OperationalError("the server is down\nsecond line") for _ in range(3)]
    with caplog.at_level(logging.WARNING):
        assert waiter.call("Postgres", Calls(*down, Retry("gone"), Retry("not yet"))) == 6
    assert [record.getMessage() for record in caplog.records] == [
        "waiting for Postgres: the server is down",
        "waiting for Postgres: gone",
        "waiting for Postgres: not yet",
    ]


def test_other_errors_are_raised_at_once(waiter: DependencyWaiter) -> None:
    calls = Calls(ValueError("a mistake"))
    with pytest.raises(ValueError, match="a mistake"):
        waiter.call("Postgres", calls)
    assert calls.made == 1


def test_dependency_that_stays_down_raises_retry() -> None:
    with pytest.raises(Retry, match=r"Kafka stayed down .*: no broker"):
        DependencyWaiter(wait_s=-1).call("Kafka", Calls(Retry("no broker")))


def test_stopped_job_waits_for_nothing(waiter: DependencyWaiter) -> None:
    waiter.stopped.set()
    calls = Calls(Retry("no broker"))
    with pytest.raises(Retry, match="no broker"):
        waiter.call("Kafka", calls)
    assert calls.made == 1
