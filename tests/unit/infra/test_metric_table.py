"""The documentation lists exactly the metrics of the vocabulary, and code and alarms use no other metric."""

import json
import re
from pathlib import Path

import pytest

from infra.cdk.handlers import keep_job
from infra.metric_table import PAGE, with_table
from masscomm.observability.metric_names import ALL, JOB_RUNNING, JOB_STARTS, NAMESPACE

ROOT = Path(__file__).parents[3]


def test_metrics_page_agrees_with_the_vocabulary() -> None:
    assert with_table(PAGE.read_text()) == PAGE.read_text(), "python -m infra.metric_table"


def test_metric_of_the_job_keeper_is_in_the_vocabulary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APPLICATION", "an application")
    (directive,) = json.loads(keep_job._metric("running"))["_aws"]["CloudWatchMetrics"]
    assert directive["Namespace"] == NAMESPACE
    assert directive["Dimensions"] == [list(JOB_RUNNING.dimensions)] == [list(JOB_STARTS.dimensions)]
    assert [metric["Name"] for metric in directive["Metrics"]] == [JOB_RUNNING.name, JOB_STARTS.name]


def test_no_metric_is_named_by_a_literal_of_its_own() -> None:
    named = re.compile("|".join(f'"{name}"' for name in ALL))
    spark = ("spark_events", "spark_metrics")
    folders = ("masscomm", "functions", *spark, "infra/cdk/stacks", "infra/cdk/resources", "local/devstack")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py") if path.name != "metric_names.py"]
    assert [path.name for path in files if named.search(path.read_text())] == []
