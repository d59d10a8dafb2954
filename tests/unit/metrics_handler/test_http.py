"""HTTP features: media types, entity tags, the next page, and responses to tenants."""

import csv
import io
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from functions.metrics_handler import handler as module
from masscomm.clock import FixedClock
from masscomm.domain.grains import Grain
from masscomm.http.rest import Request
from masscomm.operations.waiting import Waiting
from masscomm.stores.metrics.in_memory import InMemoryMetricsStore, StoredCount
from masscomm.stores.request_slots.in_memory import InMemoryRequestSlots
from masscomm.stores.request_slots.port import Kind
from tests.support.inputs.api_gateway_events import EVERY_SCOPE, get, lambda_context

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
ASKED = {"granularity": ["hour"], "start": ["2026-11-21T12:00:00Z"], "end": ["2026-11-21T13:00:00Z"]}


class Api:
    """The handler over a store in memory, with the counts of two clubs."""

    def __init__(self) -> None:
        self.clock = FixedClock()
        self.store = InMemoryMetricsStore([row(1, 3), row(2, 4), row(2, 5, "=cmd()")], watermark=NOON)
        self.slots = InMemoryRequestSlots()
        waiting = Waiting(self.clock, self.slots, open_polls=1)
        self.cases = module.use_cases(self.store, self.clock, timedelta(), waiting)

    def get(
        self,
        path: str,
        parameters: dict[str, list[str]] | None = None,
        *,
        headers: dict[str, str] | None = None,
        club_ids: str | None = None,  # None means an operator with access to every club
    ) -> tuple[int, dict[str, str], str]:
        event = get(path, **(parameters or {}))
        event["headers"] = headers
        event["multiValueHeaders"] = {name: [value] for name, value in (headers or {}).items()} or None
        if club_ids is not None:
            event["requestContext"]["authorizer"] = EVERY_SCOPE | {"club_ids": club_ids}
        found = module.handler(event, lambda_context())
        return found["statusCode"], {n: v[0] for n, v in found["multiValueHeaders"].items()}, found.get("body") or ""


def row(club_id: int, count_total: int, category: str = "news") -> StoredCount:
    return StoredCount(
        granularity=Grain.HOUR,
        bucket=NOON,
        club_id=club_id,
        type=category,
        channel="push",
        measure="sent",
        count_total=count_total,
    )


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Api:
    api = Api()
    monkeypatch.setattr(module, "bootstrap", lambda: api.cases)
    return api


def clubs(answer: tuple[int, dict[str, str], str]) -> set[int]:
    assert answer[0] == 200
    return {row["club_id"] for row in json.loads(answer[2])["rows"]}


def test_rows_are_csv_if_accepted(api: Api) -> None:
    status, headers, body = api.get("/v1/metrics", ASKED | {"limit": ["2"]}, headers={"accept": "text/csv"})
    assert (status, headers["Content-Type"]) == (200, "text/csv; charset=utf-8; header=present")
    assert list(csv.reader(io.StringIO(body, newline=""))) == [
        ["bucket", "club_id", "type", "channel", "measure", "count_total"],
        ["2026-11-21T12:00:00Z", "1", "news", "push", "sent", "3"],
        ["2026-11-21T12:00:00Z", "2", "'=cmd()", "push", "sent", "5"],
    ]
    assert (headers["Masscomm-Watermark"], headers["Masscomm-Complete"]) == ("2026-11-21T12:00:00Z", "false")
    assert "Masscomm-Generated-At" in headers
    more = api.get("/v1/metrics", ASKED | {"limit": ["2"], "cursor": [headers["Masscomm-Next-Cursor"]]})
    assert [each["count_total"] for each in json.loads(more[2])["rows"]] == [4]
    assert f'cursor={headers["Masscomm-Next-Cursor"]}>; rel="next"' in headers["Link"]


@pytest.mark.parametrize("path", ["/v1/metrics", "/v1/metrics/trending", "/v1/metrics/stream"])
def test_unsupported_media_type_is_406(api: Api, path: str) -> None:
    status, headers, body = api.get(path, headers={"Accept": "application/xml"})
    assert (status, headers["Content-Type"]) == (406, "application/problem+json")
    assert "application/json" in json.loads(body)["detail"]


def test_an_entity_tag_stays_while_the_numbers_do(api: Api) -> None:
    _, headers, _ = api.get("/v1/metrics", ASKED)
    api.clock.advance(5)
    api.store.watermark = NOON + timedelta(seconds=5)
    status, now, body = api.get("/v1/metrics", ASKED, headers={"If-None-Match": f'"x", {headers["ETag"]}'})
    assert (status, body, now["ETag"]) == (304, "", headers["ETag"])
    assert now["Masscomm-Watermark"] == "2026-11-21T12:00:05Z"
    api.store.stored.append(row(3, 1))
    assert api.get("/v1/metrics", ASKED, headers={"If-None-Match": headers["ETag"]})[0] == 200
    as_csv = api.get("/v1/metrics", ASKED, headers={"Accept": "text/csv"})[1]["ETag"]
    assert api.get("/v1/metrics", ASKED, headers={"If-None-Match": as_csv})[0] == 200


def test_a_tenant_sees_its_own_clubs_and_no_other(api: Api) -> None:
    assert clubs(api.get("/v1/metrics", ASKED)) == {1, 2}
    assert clubs(api.get("/v1/metrics", ASKED, club_ids="2")) == {2}
    assert clubs(api.get("/v1/metrics", ASKED | {"club_id": ["2"]}, club_ids="2,3")) == {2}
    assert api.get("/v1/metrics", ASKED | {"club_id": ["1"]}, club_ids="2")[0] == 403
    assert api.get("/v1/metrics", ASKED | {"club_id": ["1", "2"]}, club_ids="2")[0] == 403
    assert api.get("/v1/metrics", ASKED, club_ids="")[0] == 403


def test_trends_and_stream_hide_other_tenants(api: Api) -> None:
    minute = datetime.fromtimestamp(api.clock.now_ms() / 1000 // 60 * 60, UTC)
    api.store.stored += [replace(row(club, club), granularity=Grain.MINUTE, bucket=minute) for club in (1, 2)]
    by_club = {"by": ["club_id"], "measure": ["sent"]}
    assert clubs(api.get("/v1/metrics/trending", by_club)) == {1, 2}
    assert clubs(api.get("/v1/metrics/trending", by_club, club_ids="2")) == {2}
    for path, others in (("/v1/metrics/trending", {}), ("/v1/metrics/stream", ASKED)):
        assert api.get(path, others | {"club_id": ["1"]}, club_ids="2")[0] == 403
        assert api.get(path, club_ids="")[0] == 403
    _, _, body = api.get("/v1/metrics/stream", ASKED, club_ids="2")
    assert {each["club_id"] for each in json.loads(body)["metrics"]["rows"]} == {2}


def test_cursor_reads_no_other_tenants_rows(api: Api) -> None:
    _, _, body = api.get("/v1/metrics", ASKED | {"limit": ["1"]})
    cursor = json.loads(body)["next_cursor"]
    assert api.get("/v1/metrics", ASKED | {"cursor": [cursor]}, club_ids="1")[0] == 400


_strange = st.text(max_size=30)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(
        ["/v1/metrics", "/v1/metrics/trending", "/v1/metrics/stream", "/v1/sends/{}", "/v1/users/{}/notifications"]
    ),
    st.text(min_size=1, max_size=20) | st.integers().map(str),
    st.dictionaries(_strange, st.lists(_strange, min_size=1, max_size=2), max_size=3),
    st.dictionaries(st.sampled_from(["Accept", "If-None-Match", "x"]), _strange),
    st.none() | _strange,
)
def test_no_request_causes_a_500(
    api: Api,
    path: str,
    segment: str,
    parameters: dict[str, list[str]],
    headers: dict[str, str],
    club_ids: str | None,
) -> None:
    api.store.recipients = []
    valid = ASKED if path == "/v1/metrics" else {}
    status, _, _ = api.get(path.format(segment), valid | parameters, headers=headers, club_ids=club_ids)
    assert status < 500


def test_too_many_open_polls_are_429_with_retry_after(api: Api) -> None:
    """Polls are counted by API Gateway's id of the key, not by the authorizer's name of the caller."""
    cursor = json.loads(api.get("/v1/metrics/stream")[2])["cursor"]
    now_ms = api.clock.now_ms()
    assert api.slots.take(Kind.POLL, "operator", 1, now_ms=now_ms, until_ms=now_ms + 29_000)
    status, headers, body = api.get("/v1/metrics/stream", {"since": [cursor]})
    assert (status, headers["Content-Type"], headers["Retry-After"]) == (429, "application/problem+json", "5")
    assert json.loads(body)["title"] == "Too Many Requests"


@pytest.mark.parametrize(
    ("context", "caller"),
    [
        ({"identity": {"apiKeyId": "k1"}, "authorizer": {"principalId": "p"}}, "p"),
        ({"identity": {"apiKeyId": "k1"}, "authorizer": {}}, "k1"),
        ({"identity": {"apiKeyId": None}, "authorizer": {"principalId": "p"}}, "p"),
        ({"identity": None, "authorizer": None}, ""),
        (None, ""),
    ],
)
def test_a_caller_is_its_principal_else_its_key(context: object, caller: str) -> None:
    assert Request({"requestContext": context}, lambda: 0.0).caller == caller
