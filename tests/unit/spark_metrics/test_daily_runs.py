"""Each daily run emits a metric when it is completed, and none after an error: an alarm watches for missing ones."""

import json
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Any
from unittest.mock import MagicMock

import pytest

from masscomm.errors import Retry
from masscomm.observability.metric_names import DAILY_RUNS, METRICS_DIFFERENCES
from spark_metrics import maintenance, recompute, retention
from spark_metrics.common import command
from spark_metrics.common.span import Span

type Answers = Callable[..., Any]


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KAFKA_BOOTSTRAP_SERVERS", "SCHEMA_REGISTRY_URL", "METRICS_DATABASE_URL"):
        monkeypatch.setenv(name, "somewhere")


def run(monkeypatch: pytest.MonkeyPatch, module: str, work: Answers) -> int:
    """Run a module's command; `work` is done in the place of its work."""
    if module == "maintenance":
        monkeypatch.setattr(command, "spark_session", MagicMock())
        monkeypatch.setattr(maintenance, "ArchiveTable", MagicMock())
        monkeypatch.setattr(maintenance, "UncountedTable", MagicMock())
        monkeypatch.setattr(maintenance, "connect", lambda *_: nullcontext(MagicMock()))
        monkeypatch.setattr(maintenance, "check_table", lambda *_: None)
        monkeypatch.setattr(maintenance, "maintain", work)
        return maintenance.main(["--keep-days", "400"])
    if module == "recompute":
        monkeypatch.setattr(command, "spark_session", MagicMock())
        found = MagicMock(run=lambda **options: comparison(work(**options)))
        monkeypatch.setattr(recompute, "Recompute", MagicMock(return_value=found))
        return recompute.main(["--day-before"])
    monkeypatch.setattr(retention, "connect", lambda *_: nullcontext(MagicMock()))
    monkeypatch.setattr(retention, "drop_before", lambda *_: work() and [])
    monkeypatch.setattr(retention, "delete_sends", lambda *_: 0)
    monkeypatch.setattr(retention, "delete_quarantined", work)
    return retention.main([])


def comparison(differing_rows: int) -> recompute.Comparison:
    """Return what a run has found."""
    return recompute.Comparison(
        differences=[], differing_rows=differing_rows, counted_twice=0, differing_positions=None, swapped=False
    )


def emitted(capsys: pytest.CaptureFixture[str]) -> dict[str, int]:
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    names = {metric.name for metric in (*DAILY_RUNS.values(), METRICS_DIFFERENCES)}
    return {name: value for line in lines for name, value in line.items() if name in names}


@pytest.mark.parametrize(
    ("module", "status", "also"),
    [("retention", 0, {}), ("maintenance", 0, {}), ("recompute", 1, {METRICS_DIFFERENCES.name: 3})],
)
def test_completed_daily_run_is_a_metric(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    module: str,
    status: int,
    also: dict[str, int],
) -> None:
    """A recomputation with differing rows is completed: these have an alarm of their own."""
    assert run(monkeypatch, module, lambda *_, **__: 3) == status
    assert emitted(capsys) == {DAILY_RUNS[module].name: 1} | also


def test_arguments_of_recompute_are_its_span(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "spark_session", MagicMock())
    made = MagicMock(return_value=MagicMock(run=lambda **_: comparison(0)))
    monkeypatch.setattr(recompute, "Recompute", made)
    assert recompute.main(["--from", "2026-11-20", "--to", "2026-11-21T09:30:00Z"]) == 0
    span = Span(datetime(2026, 11, 20, tzinfo=UTC), datetime(2026, 11, 21, 9, 30, tzinfo=UTC))
    assert made.call_args.args[2] == span


@pytest.mark.parametrize("module", DAILY_RUNS)
def test_failed_daily_run_emits_no_metric(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], module: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise Retry("the database is down")

    assert run(monkeypatch, module, fail) == 2
    assert emitted(capsys) == {}
