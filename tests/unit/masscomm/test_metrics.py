"""Metrics have names from one vocabulary, and one log line per invocation."""

import json
from itertools import pairwise
from typing import Any

import pytest
from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit
from hypothesis import given
from hypothesis import strategies as st

from masscomm.domain.statuses import Status
from masscomm.errors import Retry
from masscomm.kafka import topics
from masscomm.observability import logs, metric_names, metrics, traces
from masscomm.observability.invocation import observed
from masscomm.observability.metric_names import ALL, BACKLOG, DURATION, PROVIDER_LATENCY, RECORDS_IN
from tests.support.harness.chain import Chain, send
from tests.support.harness.relay import Relay


@pytest.fixture(autouse=True)
def _nothing_gathered() -> None:
    """Discard the metrics and spans of other tests."""
    metrics.taken()
    traces.taken()


def test_counters_add_gauges_hold_distributions_keep_values() -> None:
    meter = metrics.Meter()
    for value in (2, 3):
        meter.add(RECORDS_IN, value)
        meter.add(BACKLOG, value)
        meter.add(DURATION, value)
    meter.note(reasons={"a": 1})
    expected = {"RecordsIn": 5, "WaitingBacklog": 3, "InvocationDuration": [2, 3]}
    assert meter.taken() == (expected, {"reasons": {"a": 1}})
    assert meter.taken() == ({}, {})


@given(st.integers(0, 2_000))
def test_at_most_a_hundred_evenly_spaced_values_are_kept(count: int) -> None:
    meter = metrics.Meter()
    for value in range(count):
        meter.add(PROVIDER_LATENCY["push"], value)
    found, _ = meter.taken()
    kept: Any = found.get("PushLatency", [])
    assert len(kept) == count if count <= 100 else 50 <= len(kept) <= 100
    steps = {after - before for before, after in pairwise(kept)}
    assert len(steps) <= 1
    assert not steps or count - kept[-1] <= max(steps)


def test_metrics_line_equals_powertools(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = EphemeralMetrics(namespace=metric_names.NAMESPACE, service="builder")
    theirs.add_dimension("environment", "prod")
    theirs.add_metric(name="RecordsIn", unit=MetricUnit.Count, value=3)
    document: Any = theirs.serialize_metric_set()
    ours = metrics.embedded({"RecordsIn": 3}, {"service": "builder", "environment": "prod"}, {}, now_ms=1)
    assert ours["_aws"].keys() == document["_aws"].keys()
    (our_directive,), (their_directive,) = (each["_aws"]["CloudWatchMetrics"] for each in (ours, document))
    assert [sorted(each) for each in our_directive.pop("Dimensions")] == [
        sorted(each) for each in their_directive.pop("Dimensions")
    ]
    assert our_directive == their_directive
    assert ours.keys() - {"RecordsIn"} == document.keys() - {"RecordsIn"}


def test_invocation_writes_one_metrics_line_without_ids(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MASSCOMM_ENVIRONMENT", "staging")
    monkeypatch.setenv("MASSCOMM_LANE", "critical")
    chain = Chain()
    chain.producer.fail = lambda _topic, value: Retry("down") if value == unlucky else None
    unlucky = chain.codec.encode(topics.SEND_API, "SendRequested", send([2]).to_avro())

    @observed(logs.logger("test_metrics"))
    def handler(event: dict[str, Any], context: object) -> list[int]:
        return chain.run(Relay(), *event["entries"])

    entries = [chain.encoded(send([place]), topics.SEND_MONOLITH, offset=place) for place in range(3)]
    assert handler({"entries": entries}, None) == [2]
    (line,) = (json.loads(text) for text in capsys.readouterr().out.splitlines() if '"_aws"' in text)
    (directive,) = line["_aws"]["CloudWatchMetrics"]
    assert directive["Namespace"] == "masscomm"
    assert directive["Dimensions"] == [["environment", "service"]]
    assert (line["environment"], line["service"], line["lane"]) == ("staging", "test_metrics", "critical")
    assert (line["RecordsIn"], line["RecordsOut"], line["RecordsFailed"]) == (3, 2, 1)
    assert len(line["InvocationDuration"]) == 1
    assert {metric["Name"] for metric in directive["Metrics"]} <= ALL.keys()
    assert not {"send_id", "record_id", "club_id", "position"} & line.keys()


def test_a_handler_that_raises_has_its_metrics_written(capsys: pytest.CaptureFixture[str]) -> None:
    @observed(logs.logger("test_metrics"))
    def handler(event: dict[str, Any], context: object) -> None:
        raise ValueError("no event")

    with pytest.raises(ValueError, match="no event"):
        handler({}, None)
    assert '"InvocationDuration":[' in capsys.readouterr().out


def test_statuses_have_metrics_and_dimensions_few_values() -> None:
    assert {metric.labels["status"] for metric in ALL.values() if metric.family == "Recipients"} == set(Status)
    assert {name for metric in ALL.values() for name in metric.dimensions} == {"environment", "service", "application"}
    assert all(metric.name == name and metric.meaning for name, metric in ALL.items())
