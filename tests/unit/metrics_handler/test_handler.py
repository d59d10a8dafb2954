"""The routes and the responses to errors, without a server."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from functions.metrics_handler import handler as module
from masscomm.clock import FixedClock
from masscomm.errors import Retry
from masscomm.operations.waiting import Waiting
from masscomm.stores.metrics.in_memory import InMemoryMetricsStore
from masscomm.stores.metrics.port import MetricsQuery
from masscomm.stores.request_slots.in_memory import InMemoryRequestSlots
from tests.support.inputs.api_gateway_events import get, lambda_context

ASKED = {"granularity": ["day"], "start": ["2026-11-21T00:00:00Z"], "end": ["2026-11-22T00:00:00Z"]}


class AwayStore(InMemoryMetricsStore):
    def counts(self, query: MetricsQuery) -> Any:
        raise Retry("the metrics database does not answer")


class BrokenStore(InMemoryMetricsStore):
    def counts(self, query: MetricsQuery) -> Any:
        raise ZeroDivisionError("secret detail")


@pytest.fixture(autouse=True)
def _nothing_is_kept() -> Iterator[None]:
    module.bootstrap.cache_clear()
    yield
    module.bootstrap.cache_clear()


def answer(
    monkeypatch: pytest.MonkeyPatch, store: InMemoryMetricsStore, event: dict[str, Any]
) -> tuple[int, dict[str, list[str]], dict[str, Any]]:
    clock = FixedClock()
    cases = module.use_cases(store, clock, timedelta(), Waiting(clock, InMemoryRequestSlots()))
    monkeypatch.setattr(module, "bootstrap", lambda: cases)
    found = module.handler(event, lambda_context())
    return found["statusCode"], found["multiValueHeaders"], json.loads(found["body"])


def test_counts_are_json_that_is_revalidated(monkeypatch: pytest.MonkeyPatch) -> None:
    status, headers, body = answer(monkeypatch, InMemoryMetricsStore(), get("/v1/metrics", **ASKED))
    assert (status, headers["Content-Type"], headers["Cache-Control"]) == (
        200,
        ["application/json"],
        ["private, no-cache"],
    )
    assert {"watermark", "complete", "generated_at", "rows", "truncated"} <= body.keys()


def test_a_wrong_parameter_is_problem_json(monkeypatch: pytest.MonkeyPatch) -> None:
    status, headers, body = answer(monkeypatch, InMemoryMetricsStore(), get("/v1/metrics", **ASKED, colour=["red"]))
    assert (status, headers["Content-Type"]) == (400, ["application/problem+json"])
    assert body["errors"][0]["field"] == "colour"


def test_unknown_path_is_problem_json(monkeypatch: pytest.MonkeyPatch) -> None:
    status, headers, body = answer(monkeypatch, InMemoryMetricsStore(), get("/v1/nothing"))
    assert (status, headers["Content-Type"], body["status"]) == (404, ["application/problem+json"], 404)


def test_database_down_is_503_with_retry_after(monkeypatch: pytest.MonkeyPatch) -> None:
    status, headers, body = answer(monkeypatch, AwayStore(), get("/v1/metrics", **ASKED))
    assert (status, headers["Retry-After"], body["title"]) == (503, ["2"], "Service Unavailable")


def test_internal_error_reveals_no_details(monkeypatch: pytest.MonkeyPatch) -> None:
    status, headers, body = answer(monkeypatch, BrokenStore(), get("/v1/metrics", **ASKED))
    assert (status, headers["Content-Type"]) == (500, ["application/problem+json"])
    assert "secret" not in json.dumps(body)


def test_a_missing_setting_is_500(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("METRICS_DATABASE_URL", raising=False)
    found = module.handler(get("/v1/metrics", **ASKED), lambda_context())
    assert found["statusCode"] == 500
