"""/metrics: the functions' metrics since the start of the host, as Prometheus' own parser reads them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from local.emulators.gateway import Gateway, Route
from local.emulators.prometheus import (
    BUCKETS_S,
    CONTENT_TYPE,
    FunctionLines,
    GatewayMetrics,
    Latencies,
    Sends,
    exposition,
)
from masscomm.domain.latencies import bin_of
from masscomm.domain.statuses import Status
from masscomm.errors import Retry
from masscomm.observability import metrics
from masscomm.observability.metric_names import (
    ALL,
    BACKLOG,
    COUNTED,
    DURATION,
    METRICS_AGE,
    RECIPIENTS,
    RECORDS_IN,
    STAGE_LATENCY,
    Kind,
)
from masscomm.stores.metrics.port import Latencies as StoredLatencies
from masscomm.stores.metrics.port import LatencyQuery, LatencyRow

STATUS: Mapping[str, Any] = {
    "functions": {
        "builder": {"invocations": 3, "errors": 1, "crashes": 0, "cold_starts": 1, "in_flight": 2, "queued": 0}
    },
    "mappings": {"builder": {"records": 10, "succeeded": 9, "discarded": 0}},
}


def _line(**found: Any) -> str:
    return json.dumps(metrics.embedded(found, {"service": "s", "environment": "local"}, {"lane": "bulk"}, now_ms=1))


def _samples(lines: FunctionLines) -> dict[tuple[str, ...], float]:
    """(name, *label values) → value, read by Prometheus' own parser."""
    page = exposition(lines, lambda: STATUS).decode()
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def _write(path: Path, *lines: str) -> None:
    with path.open("a") as file:
        file.writelines(f"{line}\n" for line in lines)


def test_log_lines_add_up_from_the_start_of_the_host(tmp_path: Path) -> None:
    _write(tmp_path / "builder.log", _line(RecordsIn=1_000))
    lines = FunctionLines(tmp_path)
    sent, failed = RECIPIENTS[Status.SENT].name, RECIPIENTS[Status.FAILED].name
    _write(tmp_path / "builder.log", "no JSON", _line(**{RECORDS_IN.name: 3, DURATION.name: [1.5, 2.5], failed: 1}))
    _write(tmp_path / "builder.log", _line(**{RECORDS_IN.name: 4, DURATION.name: [4.0]}))
    _write(tmp_path / "delivery-critical.log", _line(**{sent: 7}))
    _write(tmp_path / "scheduler.log", _line(**{BACKLOG.name: 9}), _line(**{BACKLOG.name: 2}))
    for _ in range(2):  # a scrape does not change the values of the next scrape
        found = _samples(lines)
        assert found["masscomm_records_in_total", "builder"] == 7
        assert found["masscomm_invocation_duration_seconds_sum", "builder"] == pytest.approx(0.008)
        assert found["masscomm_invocation_duration_seconds_count", "builder"] == 3
        assert found["masscomm_invocation_duration_seconds_bucket", "builder", "0.005"] == 3
        assert found["masscomm_recipients_total", "delivery-critical", "sent"] == 7
        assert found["masscomm_recipients_total", "builder", "failed"] == 1
        assert found["masscomm_waiting_backlog", "scheduler"] == 2
        assert found["masscomm_function_invocations_total", "builder"] == 3
        assert found["masscomm_function_in_flight", "builder"] == 2
        assert found["masscomm_mapping_records_total", "builder"] == 10
        assert found["masscomm_unreadable_lines_total",] == 0


def test_sends_have_their_states(tmp_path: Path) -> None:
    def page(states: Any) -> str:
        return exposition(FunctionLines(tmp_path), lambda: STATUS, Sends(states)).decode()

    def down(_start: datetime, _limit: int) -> Mapping[str, int]:
        raise Retry("the database is down")

    assert 'masscomm_sends{status="ended"} 3.0' in page(lambda _start, _limit: {"ended": 3, "accepted": 0})
    assert "masscomm_sends{" not in page(down)
    assert "masscomm_function_invocations_total" in page(down), "the page has everything else"


def test_latencies_are_those_of_all_counted_minutes(tmp_path: Path) -> None:
    minutes = [{bin_of(700): 9}, {bin_of(700): 80, bin_of(4_000): 11}]

    def page(latencies: Any) -> dict[str, float]:
        text = exposition(FunctionLines(tmp_path), lambda: STATUS, Latencies(latencies)).decode()
        families = [
            f for f in text_string_to_metric_families(text) if f.name == "masscomm_notification_latency_seconds"
        ]
        samples = [sample for family in families for sample in family.samples]
        assert {(each.labels["status"], each.labels["channel"]) for each in samples} <= {("sent", "push")}
        return {each.labels["quantile"]: each.value for each in samples}

    def down(_query: LatencyQuery) -> StoredLatencies:
        raise Retry("the database is down")

    found = page(lambda query: StoredLatencies([LatencyRow(query.start, ("push", "sent"), m) for m in minutes], None))
    assert found == {
        "0.5": pytest.approx(0.7, rel=0.05),
        "0.95": pytest.approx(4, rel=0.05),
        "0.99": pytest.approx(4, rel=0.05),
    }
    assert page(down) == {}


def test_log_of_the_job_is_read(tmp_path: Path) -> None:
    functions, job = tmp_path / "functions", tmp_path / "spark.log"
    functions.mkdir()
    lines = FunctionLines(functions, job)
    _write(job, _line(**{METRICS_AGE.name: 4, STAGE_LATENCY[COUNTED].name: [900, 1_500]}))
    found = _samples(lines)
    assert found["masscomm_metrics_age_seconds", "spark"] == 4
    stage = {
        frozenset(labels): value for (name, *labels), value in found.items() if name.endswith("latency_seconds_bucket")
    }
    assert stage[frozenset({"spark", "counted", "1.0"})] == 1


def test_partial_line_is_read_once_whole_and_bad_ones_counted(tmp_path: Path) -> None:
    lines, path = FunctionLines(tmp_path), tmp_path / "builder.log"
    text = _line(RecordsIn=3)
    path.write_text(text[:40])
    assert ("masscomm_records_in_total", "builder") not in _samples(lines)
    _write(path, text[40:], '{"_aws": 1', '{"_aws": {"CloudWatchMetrics": [{}]}}')
    found = _samples(lines)
    assert found["masscomm_records_in_total", "builder"] == 3
    assert found["masscomm_unreadable_lines_total",] == 2


def test_every_metric_of_the_vocabulary_can_be_read(tmp_path: Path) -> None:
    lines = FunctionLines(tmp_path)
    _write(tmp_path / "all.log", _line(**dict.fromkeys(ALL, 1)))
    found = _samples(lines)
    of_ours = {name for name in found if "all" in name}
    distributions = sum(metric.kind is Kind.DISTRIBUTION for metric in ALL.values())
    # A histogram has a sum, a count and its buckets.
    assert len(of_ours) == len(ALL) + distributions * (1 + len(BUCKETS_S) + 1)
    assert {found[name] for name in of_ours if not name[0].endswith("_sum")} == {1}


async def test_gateway_serves_prometheus_metrics(tmp_path: Path) -> None:
    lines = FunctionLines(tmp_path)

    async def never(_name: str, _payload: bytes) -> Any:
        pytest.fail("no function is asked")

    gateway = Gateway(
        [],
        invoke=never,
        ready=lambda: {"ready": True},
        status=dict,
        authorize=lambda _headers: None,
        metrics=lambda: (exposition(lines, lambda: STATUS), CONTENT_TYPE),
    )
    await gateway.start(0)
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{gateway.port}/metrics") as answer,
        ):
            assert (answer.status, answer.headers["Content-Type"]) == (200, CONTENT_TYPE)
            families = list(text_string_to_metric_families(await answer.text()))
    finally:
        await gateway.close()
    assert "masscomm_function_invocations" in {family.name for family in families}


def test_a_value_is_in_each_bucket_up_to_its_bound(tmp_path: Path) -> None:
    lines = FunctionLines(tmp_path)
    _write(tmp_path / "builder.log", _line(**{DURATION.name: [5, 5.1, 70_000]}))
    found = _samples(lines)
    name = "masscomm_invocation_duration_seconds_bucket"
    assert [found[name, "builder", bound] for bound in ("0.005", "0.01", "60.0", "+Inf")] == [1, 2, 2, 3]


async def test_requests_are_counted_by_route_and_status(tmp_path: Path) -> None:
    """Paths and methods without a route share one label: their number would be unlimited."""
    requests = GatewayMetrics()

    @dataclass(frozen=True)
    class Response:
        payload: bytes = b'{"statusCode": 404}'
        function_error: str | None = None

    async def invoke(_name: str, _payload: bytes) -> Response:
        return Response()

    gateway = Gateway(
        [Route(method="GET", path="/v1/sends/{send_id}", function="f")],
        invoke=invoke,
        ready=lambda: {"ready": True},
        status=dict,
        authorize=lambda headers: {} if headers.get("x-api-key") else None,
        observe=requests.observe,
    )
    await gateway.start(0)
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{gateway.port}") as session:
            for method, path, key in (
                ("GET", "/v1/sends/a", "k"),
                ("GET", "/v1/sends/b?x=1", "k"),
                ("GET", "/v1/sends/b", ""),
                ("GET", "/etc/passwd", "k"),
                ("DELETE", "/v1/sends/a", "k"),
            ):
                async with session.request(method, path, headers={"x-api-key": key}):
                    pass
    finally:
        await gateway.close()
    page = exposition(FunctionLines(tmp_path), lambda: STATUS, requests).decode()
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if "gateway" in sample.name and not sample.name.endswith(("_sum", "_bucket"))
    }
    assert found == {
        ("masscomm_gateway_requests_total", "GET", "/v1/sends/{send_id}", "404"): 2,
        ("masscomm_gateway_requests_total", "GET", "/v1/sends/{send_id}", "401"): 1,
        ("masscomm_gateway_requests_total", "other", "other", "404"): 2,
        ("masscomm_gateway_request_duration_seconds_count", "GET", "/v1/sends/{send_id}"): 3,
        ("masscomm_gateway_request_duration_seconds_count", "other", "other"): 2,
    }
