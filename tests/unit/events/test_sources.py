"""events_api: sources of incoming webhooks, whose secrets no response has."""

from typing import Any

import pytest

from masscomm.domain.webhook_sources import (
    MAX_SOURCES,
    AcceptedWebhook,
    Refusal,
    RefusedWebhook,
    SourceKey,
    sealing_context,
)
from masscomm.http.tenant import ALL_CLUBS
from tests.support.harness.events_api import EventsApi, in_memory_api
from tests.support.harness.webhook_sources import BOX, SECRET, STANDARD_SECRET

SOURCE: dict[str, Any] = {
    "club_id": 1,
    "scheme": "github",
    "secret": SECRET,
    "mapping": {"type": {"value": "match.finished"}, "club_id": {"path": "club"}},
}


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> EventsApi:
    return in_memory_api(monkeypatch)


def created(api: EventsApi, **changes: Any) -> Any:
    status, body = api.request("POST", "/v1/sources", SOURCE | changes)
    assert status == 201
    return body


def stored(api: EventsApi, id_: str) -> Any:
    key = SourceKey.of_id(id_)
    assert key is not None
    return api.cases.sources.store.find([key])[key]


def test_created_source_is_read_without_its_secret(api: EventsApi) -> None:
    made = created(api)
    assert made["url"] == f"https://in.masscomm.example/v1/in/{made['id']}"
    assert made["club_ids"] == [1]
    assert SECRET not in str(made)
    assert api.request("GET", f"/v1/sources/{made['id']}")[1] == {**made, "accepted": [], "refused": 0, "refusals": []}
    assert made["id"] in [each["id"] for each in api.cases.sources.of_club({"club_id": ["1"]}, ALL_CLUBS)["rows"]]
    sealed = stored(api, made["id"]).sealed
    assert SECRET.encode() not in sealed
    assert BOX.open(sealed, sealing_context(made["id"])).values == {"secret": SECRET}


def test_changed_secret_leaves_the_previous_one_for_a_day(api: EventsApi) -> None:
    path = f"/v1/sources/{created(api)['id']}"
    before = stored(api, path.rpartition("/")[2])
    without = {name: value for name, value in SOURCE.items() if name != "secret"}
    assert api.request("PUT", path, without | {"description": "The shop"})[0] == 200
    kept = stored(api, before.key.id)
    assert (kept.sealed, kept.previous_sealed, kept.description) == (before.sealed, None, "The shop")
    assert api.request("PUT", path, SOURCE | {"secret": "another secret"})[0] == 200
    changed = stored(api, before.key.id)
    assert (changed.previous_sealed, changed.created_at_ms) == (before.sealed, before.created_at_ms)
    assert changed.previous_until_ms == api.clock.now_ms() + 86_400_000
    assert api.request("PUT", path, without | {"scheme": "stripe"})[1]["errors"][0]["field"] == "secret"
    assert api.request("PUT", path, SOURCE | {"club_id": 2}, clubs="1,2")[1]["errors"][0]["field"] == "club_id"


def test_last_webhooks_are_listed(api: EventsApi) -> None:
    made = created(api)
    accepted = AcceptedWebhook(api.clock.now_ms(), "e-1", "match.finished", 1)
    api.cases.sources.store.accept(stored(api, made["id"]).key, [accepted])
    refused = RefusedWebhook(at_ms=api.clock.now_ms(), message_id="m", reason=Refusal.UNMAPPED, detail="club_id")
    api.cases.sources.store.refuse(stored(api, made["id"]).key, [refused])
    shown = api.request("GET", f"/v1/sources/{made['id']}")[1]
    assert [(each["event_id"], each["type"], each["club_id"]) for each in shown["accepted"]] == [accepted[1:]]
    assert shown["refused"] == 1
    assert [(each["reason"], each["detail"]) for each in shown["refusals"]] == [("unmapped", "club_id")]


def test_deleted_source_is_unknown(api: EventsApi) -> None:
    path = f"/v1/sources/{created(api)['id']}"
    assert api.request("DELETE", path)[0] == 200
    for method in ("GET", "PUT", "DELETE"):
        assert api.request(method, path, SOURCE if method == "PUT" else None)[0] == 404


@pytest.mark.kills(guard="tenancy.source")
def test_source_of_another_club_is_unknown(api: EventsApi) -> None:
    path = f"/v1/sources/{created(api)['id']}"
    for method in ("GET", "PUT", "DELETE"):
        assert api.request(method, path, SOURCE if method == "PUT" else None, clubs="2")[0] == 404


@pytest.mark.kills(guard="tenancy.clubs_of_source")
@pytest.mark.parametrize("fields", [{"club_id": 2}, {"club_ids": [1, 2]}, {"club_ids": None}])
def test_source_for_other_clubs_is_refused(api: EventsApi, fields: Any) -> None:
    assert api.request("POST", "/v1/sources", SOURCE | fields)[0] == 403


def test_a_club_has_a_limited_number_of_sources(api: EventsApi) -> None:
    for _ in range(MAX_SOURCES - 1):  # The harness has one.
        created(api)
    assert api.request("POST", "/v1/sources", SOURCE)[0] == 409


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"scheme": "md5"}, "scheme"),
        ({"scheme": ["github"]}, "scheme"),
        ({"secret": "short"}, "secret"),
        ({"secret": None}, "secret"),
        ({"scheme": "standard"}, "secret"),
        ({"scheme": "hmac"}, "header"),
        ({"scheme": "hmac", "header": "X-Shop"}, "header"),
        ({"scheme": "hmac", "header": "x-shop", "id_header": "a b"}, "id_header"),
        ({"encoding": "base32"}, "encoding"),
        ({"prefix": "x" * 21}, "prefix"),
        ({"description": 7}, "description"),
        ({"club_id": "1"}, "club_id"),
        ({"club_ids": []}, "club_ids"),
        ({"club_ids": ["1"]}, "club_ids"),
        ({"colour": "red"}, "colour"),
        ({"mapping": []}, "mapping"),
        ({"mapping": {"type": {"value": "a"}}}, "mapping.club_id"),
        ({"mapping": SOURCE["mapping"] | {"data": {"value": {"a": "x" * 20_000}}}}, "mapping"),
    ],
)
def test_invalid_field_is_refused(api: EventsApi, fields: Any, field: str) -> None:
    status, problem = api.request("POST", "/v1/sources", SOURCE | fields)
    assert (status, [each["field"] for each in problem["errors"]]) == (400, [field])


def test_standard_webhooks_secret_is_accepted(api: EventsApi) -> None:
    assert created(api, scheme="standard", secret=STANDARD_SECRET)["scheme"] == "standard"
