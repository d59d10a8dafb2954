"""The results of webhook messages over the store in memory, which passes the contract of the one in Postgres."""

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from functions.metrics_handler import handler as module
from masscomm.clock import FixedClock
from masscomm.operations.waiting import Waiting
from masscomm.stores.metrics.in_memory import InMemoryMetricsStore, StoredWebhookCount
from masscomm.stores.metrics.port import MetricsStore, WebhookLogRow
from masscomm.stores.request_slots.in_memory import InMemoryRequestSlots
from tests.support.contracts.webhook_results import (
    COUNTS,
    ENDPOINT,
    NOON,
    ROWS,
    Stored,
    WebhookResultsContract,
    attempt,
)
from tests.support.inputs.api_gateway_events import EVERY_SCOPE, get, lambda_context

type Parameters = dict[str, list[str]]

HOURS = {"granularity": ["hour"], "start": ["2026-11-21T12:00:00Z"], "end": ["2026-11-21T14:00:00Z"]}


class TestInMemoryMetricsStore(WebhookResultsContract):
    @pytest.fixture
    def stored(self) -> Stored:
        def store(rows: Sequence[WebhookLogRow], counts: Sequence[StoredWebhookCount]) -> MetricsStore:
            return InMemoryMetricsStore(webhook_rows=list(rows), stored_webhooks=list(counts))

        return store


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> InMemoryMetricsStore:
    store = InMemoryMetricsStore(webhook_rows=list(ROWS), stored_webhooks=list(COUNTS))
    waiting = Waiting(FixedClock(), InMemoryRequestSlots())
    cases = module.use_cases(store, FixedClock(), timedelta(), waiting)
    monkeypatch.setattr(module, "bootstrap", lambda: cases)
    return store


def ask(
    what: str, parameters: Parameters | None = None, *, club_ids: str | None = None, endpoint_id: str = ENDPOINT
) -> tuple[int, Any]:
    event = get(f"/v1/webhooks/{endpoint_id}/{what}", **(parameters or {}))
    if club_ids is not None:
        event["requestContext"]["authorizer"] = EVERY_SCOPE | {"club_ids": club_ids}
    found = module.handler(event, lambda_context())
    return found["statusCode"], json.loads(found["body"])


@pytest.mark.usefixtures("store")
def test_log_shows_each_attempt() -> None:
    status, body = ask("log", {"status": ["retried"]})
    assert status == 200
    assert body["rows"] == [
        {
            "at": "2026-11-21T12:00:00Z",
            "message_id": "a",
            "event_id": "e",
            "type": "match.finished",
            "club_id": 7,
            "status": "retried",
            "attempt": 1,
            "http_status": None,
            "duration_ms": 12,
            "error": "no answer",
        }
    ]
    assert (body["truncated"], body["next_cursor"], body["kept_since"]) == (False, None, None)


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(("what", "given"), [("log", {}), ("metrics", HOURS)])
def test_pages_together_are_all_rows(what: str, given: Parameters) -> None:
    everything, rows, cursor = ask(what, given)[1]["rows"], list[Any](), dict[str, list[str]]()
    assert len(everything) == 5
    while True:
        _, page = ask(what, given | cursor | {"limit": ["2"]})
        rows += page["rows"]
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": [page["next_cursor"]]}
    assert rows == everything
    assert ask(what, given | cursor | {"type": ["match.started"]})[0] == 400


@pytest.mark.usefixtures("store")
def test_counts_have_the_mean_duration() -> None:
    status, body = ask("metrics", HOURS | {"status": ["retried"]})
    assert (status, body["granularity"]) == (200, "hour")
    assert body["rows"] == [
        {
            "bucket": "2026-11-21T12:00:00Z",
            "club_id": 7,
            "type": "match.finished",
            "status": "retried",
            "count_total": 2,
            "duration_ms_mean": 10,
        }
    ]


@pytest.mark.kills(guard="tenancy.webhook")
@pytest.mark.kills(guard="tenancy.events_of_an_endpoint")
@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(("what", "given"), [("log", {}), ("metrics", HOURS)])
def test_a_tenant_sees_its_endpoints_and_events_only(what: str, given: Parameters) -> None:
    status, body = ask(what, given, club_ids="7")
    assert status == 200
    assert {row["club_id"] for row in body["rows"]} == {7}
    assert {row["club_id"] for row in ask(what, given, club_ids="7,8")[1]["rows"]} == {7, 8}
    for club_ids, endpoint_id in (("8", ENDPOINT), ("7", "ep_8_aaaaaaaaaaaaaaaaaaaa"), ("7", "unknown")):
        status, body = ask(what, given, club_ids=club_ids, endpoint_id=endpoint_id)
        assert (status, body["code"]) == (404, "endpoint_unknown")


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("what", "given", "wrong"),
    [
        ("log", {"status": ["lost"]}, ["status"]),
        ("log", {"start": ["2026-11-21"], "end": ["noon"]}, ["start", "end"]),
        ("log", {"start": ["2026-11-21T12:00:00Z"], "end": ["2026-11-21T12:00:00Z"]}, ["end"]),
        ("log", {"limit": ["201"]}, ["limit"]),
        ("log", {"granularity": ["hour"]}, ["granularity"]),
        ("log", {"cursor": ["x"]}, ["cursor"]),
        ("metrics", {}, ["granularity", "start", "end"]),
        ("metrics", HOURS | {"granularity": ["week"]}, ["granularity"]),
        ("metrics", HOURS | {"limit": ["1001"], "type": [""]}, ["type", "limit"]),
        ("metrics", HOURS | {"cursor": ["x"]}, ["cursor"]),
    ],
)
def test_wrong_parameters_are_refused(what: str, given: Parameters, wrong: list[str]) -> None:
    status, body = ask(what, given)
    assert (status, [error["field"] for error in body["errors"]]) == (400, wrong)


def test_deleted_days_are_named(store: InMemoryMetricsStore) -> None:
    store.kept_since = {"webhook_log": NOON, "webhook_counts_hour": NOON}
    store.webhook_rows.append(attempt("late"))
    assert ask("log")[1]["kept_since"] == "2026-11-21T12:00:00Z"
    assert ask("metrics", HOURS)[1]["kept_since"] == "2026-11-21T12:00:00Z"
