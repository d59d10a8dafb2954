"""POST /v1/sends: rejected by field, or accepted once its topic has the records."""

import base64
import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from functions.send_handler.send_request import ContentRequest, RecurringSend
from masscomm.domain.ids import chunk_id
from masscomm.domain.limits import CHUNK_SIZE, MAX_RECIPIENTS
from masscomm.domain.records import SendRequested
from masscomm.domain.time_limits import CATEGORY_BEGINS_AFTER_S
from masscomm.environment import complete_receipts
from masscomm.errors import DeadLetter, Retry, Stop
from masscomm.observability import traces
from masscomm.stores.categories.in_memory import InMemoryCategories
from tests.support.categories import put_version
from tests.support.harness.chain import NOW
from tests.support.harness.send_api import VALID, SendApi
from tests.support.inputs.api_gateway_events import EVERY_SCOPE

PAST = "2001-01-01T00:00:00Z"
FALLBACK = [{"channel": "push"}, {"channel": "email", "if": "not_sent", "after": "10m"}]


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> SendApi:
    return SendApi(monkeypatch)


def test_accepted_send_is_on_its_topic(api: SendApi) -> None:
    status, body, headers = api.post(
        data={"headline": "Win"}, locale="de-CH", reference="r", collapse_key="k", template="final"
    )
    assert status == 202
    (record,) = api.sends()
    assert record == SendRequested(
        type="news",
        club_id=7,
        timestamp=NOW,
        to_users=[1, 2, 3],
        send_id=body["send_id"],
        template="final",
        data={"headline": "Win"},
        locale="de-CH",
        priority="bulk",
        collapse_key="k",
        reference="r",
        principal="operator",
    )
    assert body == {
        "send_id": record.send_id,
        "status": "accepted",
        "requested": 3,
        "duplicates": 0,
        "links": {"self": f"/v1/sends/{record.send_id}"},
    }
    assert headers["Location"] == body["links"]["self"]
    assert headers["Content-Type"] == "application/json"
    assert [key for _, key, _, _ in api.producer.produced] == [chunk_id(body["send_id"], 0).encode()]


def test_repeated_users_are_reported_and_channels_counted(api: SendApi) -> None:
    _, body, _ = api.post(to_users=[1, 2, 1, 1], channels=["push", "email"])
    assert (body["requested"], body["duplicates"]) == (4, 2)
    assert api.sends()[0].to_users == [1, 2]
    assert api.sends()[0].channels == ["push", "email"]


def test_category_sets_the_number_of_requested_channels(api: SendApi) -> None:
    assert api.post(type="security_alert")[1]["requested"] == 6


def test_new_category_is_accepted_at_once(api: SendApi, stored_categories: InMemoryCategories) -> None:
    """Its version is not valid yet, so that the records name its channels."""
    assert api.post(type="offers")[0] == 400
    put_version(
        stored_categories, "offers", {"channels": ["email", "push"], "tenants": {"8": {"channels": ["push"]}}}, NOW
    )
    status, body, _ = api.post(type="offers")
    assert (status, body["requested"]) == (202, 6)
    assert api.sends()[0].channels == ["email", "push"]


@pytest.mark.kills(guard="sends.retired_category")
def test_retired_category_is_refused(api: SendApi, stored_categories: InMemoryCategories) -> None:
    put_version(stored_categories, "news", {"channels": ["push"], "retired": True})
    status, body, _ = api.post(type="news")
    assert (status, [error["field"] for error in body["errors"]]) == (400, ["type"])
    assert api.sends() == []


def test_unknown_versions_refuse_a_send(api: SendApi, stored_categories: InMemoryCategories) -> None:
    stored_categories.failing = Retry("down")
    assert api.post()[0] == 503
    assert api.sends() == []


def test_a_long_send_travels_in_chunks(api: SendApi) -> None:
    status, body, _ = api.post(to_users=list(range(1, 2 * CHUNK_SIZE + 2)))
    assert (status, body["requested"]) == (202, 2 * CHUNK_SIZE + 1)
    records = api.sends()
    assert [(record.chunk_index, record.chunk_count, len(record.to_users)) for record in records] == [
        (0, 3, CHUNK_SIZE),
        (1, 3, CHUNK_SIZE),
        (2, 3, 1),
    ]
    assert [user_id for record in records for user_id in record.to_users] == list(range(1, 2 * CHUNK_SIZE + 2))
    assert {record.send_id for record in records} == {body["send_id"]}
    assert api.producer.flushes == 1


@pytest.mark.parametrize(("priority", "topic"), [("bulk", "send.api"), ("critical", "send.api.critical")])
def test_the_priority_is_the_lane(api: SendApi, priority: str, topic: str) -> None:
    api.post(priority=priority)
    assert [name for name, *_ in api.producer.produced] == [topic]


def put_critical(store: InMemoryCategories, begins: timedelta = timedelta()) -> None:
    """Put the category alarms, whose version begins at this time from now."""
    at_ms = NOW - round(CATEGORY_BEGINS_AFTER_S * 1000) + round(begins.total_seconds() * 1000)
    put_version(store, "alarms", {"channels": ["push"], "critical": True}, at_ms)


@pytest.mark.parametrize("begins", [timedelta(), timedelta(minutes=1)], ids=["valid", "announced"])
def test_critical_category_has_the_critical_lane(
    api: SendApi, stored_categories: InMemoryCategories, begins: timedelta
) -> None:
    put_critical(stored_categories, begins)
    assert [api.post(type="alarms", **more)[0] for more in ({}, {"priority": "bulk"})] == [202, 202]
    assert [name for name, *_ in api.producer.produced] == ["send.api.critical"] * 2


def test_critical_category_ends_with_its_version(api: SendApi, stored_categories: InMemoryCategories) -> None:
    """In the minute before, its sends are still critical."""
    put_critical(stored_categories)
    put_version(stored_categories, "alarms", {"channels": ["push"]}, NOW)
    assert api.post(type="alarms")[0] == 202
    assert [name for name, *_ in api.producer.produced] == ["send.api.critical"]
    assert api.post(type="alarms", per_minute=5)[0] == 400


@pytest.mark.kills(guard="scopes.critical")
def test_critical_category_needs_the_scope_of_its_lane(api: SendApi, stored_categories: InMemoryCategories) -> None:
    put_critical(stored_categories)
    body = json.dumps(VALID | {"type": "alarms"})
    status, answer, _ = api.call(body, authorizer={"club_ids": "7", "scopes": "send read admin"})
    assert (status, answer["detail"]) == (403, "These credentials do not have the scope send:critical.")
    assert api.call(body, authorizer={"club_ids": "7", "scopes": "send send:critical"})[0] == 202


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"per_minute": 5}, "per_minute"),
        ({"spread_over": "1h"}, "spread_over"),
        ({"digest": {"template": "news_digest", "window": "1h"}}, "digest"),
        ({"to_users": None, "audience": {"all_users": True}}, "type"),
    ],
)
def test_critical_category_refuses_each_delay(
    api: SendApi, stored_categories: InMemoryCategories, fields: dict[str, Any], wrong: str
) -> None:
    put_critical(stored_categories, timedelta(minutes=1))
    body = {name: value for name, value in (VALID | {"type": "alarms"} | fields).items() if value is not None}
    status, answer, _ = api.call(json.dumps(body))
    assert (status, [error["field"] for error in answer["errors"]]) == (400, [wrong])
    assert api.producer.produced == []


def test_every_send_has_an_id_of_its_own(api: SendApi) -> None:
    assert api.post()[1]["send_id"] != api.post()[1]["send_id"]


def test_a_body_in_base64_is_read(api: SendApi) -> None:
    text = json.dumps(VALID | {"data": {"headline": "Züri"}}, ensure_ascii=False)
    assert api.call(base64.b64encode(text.encode()).decode(), is_base64=True)[0] == 202
    assert api.sends()[0].data == {"headline": "Züri"}


@pytest.mark.guarantee("api_keys.request_needs_its_scopes")
@pytest.mark.kills(guard="scopes.mandatory")
@pytest.mark.parametrize(
    ("values", "scope"),
    [
        ({"priority": "critical"}, "send:critical"),
        ({"data": {"title": "t", "body": "b"}}, "send:content"),
        ({"type": "one_time_password", "data": {"title": "t", "body": "b", "more": "m"}}, "send:mandatory"),
        ({"type": "one_time_password"}, "send:mandatory"),
        ({"type": "security_alert", "template": "password_changed"}, "send:mandatory"),
    ],
)
def test_a_request_needs_the_scopes_of_its_fields(api: SendApi, values: dict[str, Any], scope: str) -> None:
    body = json.dumps(VALID | values)
    status, answer, _ = api.call(body, authorizer={"club_ids": "7", "scopes": "send read admin"})
    assert (status, answer["detail"]) == (403, f"These credentials do not have the scope {scope}.")
    assert api.producer.produced == []
    assert api.call(body, authorizer={"club_ids": "7", "scopes": f"send {scope}"})[0] == 202
    assert api.call(json.dumps(VALID), authorizer={"club_ids": "7", "scopes": "send"})[0] == 202


INVALID: list[tuple[dict[str, Any], str]] = [
    ({"type": ""}, "type"),
    ({"type": "two words"}, "type"),
    ({"type": "news\n"}, "type"),
    ({"type": "x" * 129}, "type"),
    ({"type": None}, "type"),
    ({"club_id": 0}, "club_id"),
    ({"club_id": "7"}, "club_id"),
    ({"club_id": True}, "club_id"),
    ({"club_id": 2**63}, "club_id"),
    ({"to_users": []}, "to_users"),
    ({"to_users": None}, "to_users"),
    ({"to_users": {"1": 1}}, "to_users"),
    ({"to_users": [1, "2"]}, "to_users[1]"),
    ({"to_users": [1, -2]}, "to_users[1]"),
    ({"to_users": [1.5]}, "to_users[0]"),
    ({"to_users": [1] * (MAX_RECIPIENTS + 1)}, "to_users"),
    ({"channels": ["pigeon"]}, "channels[0]"),
    ({"channels": ["push"] * 4}, "channels"),
    ({"template": "no name"}, "template"),
    ({"data": {"all_users": True, "x": 1}}, "data.x"),
    ({"data": {"x": "y" * 100_001}}, "data"),
    ({"data": {str(place): "" for place in range(201)}}, "data"),
    ({"data": {"x": "\ud800"}}, "data.x"),
    ({"reference": "\ud800"}, "reference"),
    ({"locale": "not a locale"}, "locale"),
    ({"priority": "express"}, "priority"),
    ({"expires_at": "tomorrow"}, "expires_at"),
    ({"expires_at": "2099-01-01T00:00:00"}, "expires_at"),
    ({"expires_at": "2099-01-01"}, "expires_at"),
    ({"expires_at": 4_000_000_000}, "expires_at"),
    ({"expires_at": "4000000000"}, "expires_at"),
    ({"expires_at": "2001-01-01T00:00:00Z"}, "expires_at"),
    ({"send_at": "tomorrow"}, "send_at"),
    ({"send_at": "2023-11-15T00:00:00"}, "send_at"),
    ({"send_at": 1_700_000_060}, "send_at"),
    ({"send_at": "2023-11-14T22:13:20Z"}, "send_at"),
    ({"send_at": "2024-11-14T00:00:00Z"}, "send_at"),
    ({"send_at": "2023-11-15T00:00:00Z", "expires_at": "2023-11-15T00:00:00Z"}, "send_at"),
    ({"send_at_local": "2023-11-15T09:00Z"}, "send_at_local"),
    ({"send_at_local": "09:00"}, "send_at_local"),
    ({"send_at_local": "2023-11-14T10:13"}, "send_at_local"),
    ({"send_at_local": "2024-11-15T09:00"}, "send_at_local"),
    ({"send_at_local": "2023-11-15T09:00", "send_at": "2023-11-15T00:00:00Z"}, "send_at_local"),
    ({"send_at_local": "2023-11-16T09:00", "expires_at": "2023-11-15T19:00:00Z"}, "send_at_local"),
    ({"collapse_key": ""}, "collapse_key"),
    ({"collapse_key": "x" * 65}, "collapse_key"),
    ({"reference": "x" * 256}, "reference"),
    ({"surprise": 1}, "surprise"),
    ({"channels": [{"channel": "email", "if": "not_sent", "after": "10m"}]}, "channels[0]"),
    ({"channels": ["push", {"channel": "email", "if": "not_sent"}]}, "channels[1]"),
    ({"channels": ["push", {"channel": "email", "if": "unread", "after": "10m"}]}, "channels[1]"),
    ({"channels": ["push", {"channel": "email", "if": "not_sent", "after": "8d"}]}, "channels[1]"),
    ({"channels": ["push", {"channel": "email", "if": "not_sent", "after": 10}]}, "channels[1]"),
    ({"channels": ["push", {"channel": ["email"], "if": "not_sent", "after": "10m"}]}, "channels[1]"),
    ({"channels": ["push", {"channel": "email", "if": "not_sent", "after": "10m", "more": 1}]}, "channels[1]"),
    ({"channels": ["push", {"channel": "push", "if": "not_sent", "after": "10m"}]}, "channels"),
    ({"channels": FALLBACK, "digest": {"template": "t", "window": "1h"}}, "channels"),
    ({"channels": FALLBACK, "push": {"silent": True}}, "channels"),
    ({"per_minute": 0}, "per_minute"),
    ({"per_minute": 1_000_001}, "per_minute"),
    ({"per_minute": 5, "spread_over": "1h"}, "per_minute"),
    ({"per_minute": 1, "to_users": list(range(1, 10_082))}, "per_minute"),
    ({"per_minute": 5, "priority": "critical"}, "per_minute"),
    ({"spread_over": "1h", "priority": "critical"}, "spread_over"),
    ({"spread_over": "8d"}, "spread_over"),
    ({"spread_over": "0m"}, "spread_over"),
    ({"spread_over": 60}, "spread_over"),
    ({"spread_over": "2h", "expires_at": "2023-11-15T00:13:19Z"}, "spread_over"),
    ({"spread_over": "2h", "send_at": "2023-11-14T23:00:00Z", "expires_at": "2023-11-15T00:30:00Z"}, "spread_over"),
    ({"spread_over": "2h", "send_at_local": "2023-11-16T09:00", "expires_at": "2023-11-15T20:00:00Z"}, "spread_over"),
]


@pytest.mark.kills(guard="sends.critical_fields")
@pytest.mark.kills(guard="pace.after_the_end")
@pytest.mark.parametrize(("values", "field"), INVALID, ids=lambda value: str(value)[:40])
def test_an_invalid_field_is_named_and_nothing_is_sent(api: SendApi, values: dict[str, Any], field: str) -> None:
    status, body, headers = api.post(**values)
    assert status == 400
    assert headers["Content-Type"] == "application/problem+json"
    assert (body["type"], body["title"], body["status"]) == ("about:blank", "Bad Request", 400)
    assert field in [error["field"] for error in body["errors"]]
    assert all(error["message"] for error in body["errors"])
    assert api.producer.produced == []


def test_one_answer_names_every_invalid_field(api: SendApi) -> None:
    """A field with many errors leaves room for the others, and passed times are named with them."""
    wrong: dict[str, Any] = {
        "to_users": ["a"] * 1_000,
        "locale": "not a locale",
        "surprise": 1,
        "expires_at": "2001-01-01T00:00:00Z",
        "send_at": "2001-01-01T00:00:00Z",
    }
    status, body, _ = api.post(**wrong)
    assert (status, {error["field"].partition("[")[0] for error in body["errors"]}) == (400, set(wrong))


@pytest.mark.kills(guard="sends.half_surrogates")
@pytest.mark.parametrize("path", ["/v1/sends", "/v1/sends/batch", "/v1/previews"])
def test_each_half_of_a_surrogate_pair_is_named(api: SendApi, path: str) -> None:
    """Neither Avro nor a log line can hold it."""
    half = "\ud800"
    body = {"reference": half, "data": {"title": half, half: "x"}, "recipient_data": {half: {}}, "to_users": [1, half]}
    status, problem, _ = api.call(json.dumps(body), path=path, headers={"Idempotency-Key": "k"})
    fields = ["reference", "data.title", "data.\\ud800", "recipient_data.\\ud800", "to_users[1]"]
    assert (status, [each["field"] for each in problem["errors"]]) == (400, fields)
    assert api.sends() == []


def test_a_whole_surrogate_pair_is_accepted(api: SendApi) -> None:
    assert '"\\ud83d\\ude00"' in json.dumps({"title": "\U0001f600"})
    assert api.post(data={"title": "\U0001f600"})[0] == 202


def test_both_passed_times_are_named(api: SendApi) -> None:
    _, body, _ = api.post(expires_at="2002-01-01T00:00:00Z", send_at="2002-01-01T00:00:00Z")
    assert [error["field"] for error in body["errors"]] == ["expires_at", "send_at"]


@pytest.mark.kills(guard="sends.unit_of_written_time")
@pytest.mark.parametrize("field", ["expires_at", "send_at"])
def test_time_converted_from_seconds_names_the_unit(api: SendApi, field: str) -> None:
    status, body, _ = api.post(**{field: "1970-01-21T08:00:00Z"})
    (error,) = body["errors"]
    assert (status, error["field"], error["code"]) == (400, field, "time_of_other_unit")
    assert "seconds" in error["message"]


@pytest.mark.parametrize(
    "media_type", ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", "+json"]
)
def test_another_media_type_is_415(api: SendApi, media_type: str) -> None:
    status, body, _ = api.call(json.dumps(VALID), several={"Content-Type": [media_type]})
    assert (status, [error["field"] for error in body["errors"]]) == (415, ["Content-Type"])
    assert api.producer.produced == []


@pytest.mark.parametrize("media_type", ["APPLICATION/JSON; charset=utf-8", "application/problem+json"])
def test_any_json_media_type_is_accepted(api: SendApi, media_type: str) -> None:
    assert api.call(json.dumps(VALID), several={"Content-Type": [media_type]})[0] == 202


def test_replaced_bytes_of_a_body_are_refused(api: SendApi) -> None:
    """API Gateway replaces bytes that are not UTF-8: they would be sent as the character U+FFFD."""
    text = json.dumps(VALID | {"data": {"body": "Z\ufffdri"}}, ensure_ascii=False)
    status, body, _ = api.call(text)
    assert (status, [error["field"] for error in body["errors"]]) == (400, [""])
    assert api.producer.produced == []


@pytest.mark.parametrize("field", ["type", "club_id", "to_users"])
def test_a_missing_field_is_named(api: SendApi, field: str) -> None:
    status, body, _ = api.call(json.dumps({name: value for name, value in VALID.items() if name != field}))
    assert (status, [error["field"] for error in body["errors"]]) == (400, [field])


@pytest.mark.parametrize(
    "text",
    [None, "", "{", "[]", "null", '"text"', '{"club_id": NaN}', "[" * 100_000, '{"club_id": ' + "9" * 5000 + "}"],
)
def test_a_body_that_is_no_json_object_is_refused(api: SendApi, text: str | None) -> None:
    status, body, headers = api.call(text)
    assert (status, headers["Content-Type"]) == (400, "application/problem+json")
    assert body["errors"]
    assert api.producer.produced == []


@pytest.mark.parametrize("text", ["not base64!", base64.b64encode(b"\xff\xfe").decode()])
def test_a_body_that_is_no_text_is_refused(api: SendApi, text: str) -> None:
    assert api.call(text, is_base64=True)[0] == 400


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner), max_leaves=5))
def test_any_field_value_is_accepted_or_refused(value: Any) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        api = SendApi(monkeypatch)
        for field in ("type", "club_id", "to_users", "channels", "data", "expires_at", value):
            if isinstance(field, str):
                assert api.call(json.dumps(VALID | {field: value}))[0] in (202, 400)


def test_an_answer_does_not_grow_with_the_callers_names(api: SendApi) -> None:
    for values in ({"x" * 100_000: 1}, {"to_users": ["a"] * 1000}):
        assert len(json.dumps(api.post(**values)[1])) < 10_000


@pytest.mark.guarantee("sends_api.accepted_send_is_stored")
def test_send_with_an_unacknowledged_chunk_is_not_accepted(api: SendApi) -> None:
    refusals = iter([None, Retry("no leader")])
    api.producer.fail = lambda _topic, _value: next(refusals)
    status, body, headers = api.post(to_users=list(range(1, CHUNK_SIZE + 2)))
    assert (status, headers["Retry-After"]) == (503, "5")
    assert headers["Content-Type"] == "application/problem+json"
    assert "no leader" in body["detail"]


@pytest.mark.guarantee("sends_api_answer.send_too_large")
def test_send_too_large_for_kafka_is_413_without_retry(api: SendApi) -> None:
    api.producer.fail = lambda _topic, _value: DeadLetter("too_large", "too large")
    status, _, headers = api.post()
    assert status == 413
    assert "Retry-After" not in headers


@pytest.mark.parametrize(
    ("error", "status", "retry_after"),
    [(Retry("the schema registry answered 500"), 503, "5"), (Stop("not deployed"), 500, None), (KeyError(), 500, None)],
)
def test_unavailable_registry_accepts_no_send(
    api: SendApi, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int, retry_after: str | None
) -> None:
    def id_of(_subject: str, _schema: Any) -> int:
        raise error

    monkeypatch.setattr(api.registry, "id_of", id_of)
    answered, body, headers = api.post()
    assert (answered, headers.get("Retry-After")) == (status, retry_after)
    assert headers["Content-Type"] == "application/problem+json"
    assert "not deployed" not in body["detail"]
    assert ("misconfigured" in body["detail"]) is isinstance(error, Stop)
    assert api.producer.produced == []


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/v1/sends"), ("POST", "/v1/sends/1"), ("POST", "/v2/sends"), ("DELETE", "/")]
)
def test_unknown_route_is_problem_json(api: SendApi, method: str, path: str) -> None:
    status, body, headers = api.call(json.dumps(VALID), method=method, path=path)
    assert (status, body["status"]) == (404, 404)
    assert headers["Content-Type"] == "application/problem+json"
    assert api.producer.produced == []


def test_local_time_is_accepted_until_the_last_zone_has_it(api: SendApi) -> None:
    status, _, _ = api.post(to_users=[1, 2], send_at_local="2023-11-14T10:14", expires_at="2023-11-15T00:00:00Z")
    assert status == 202
    assert [record.send_at_local for record in api.sends()] == ["2023-11-14T10:14"]


def test_each_chunk_has_the_pace(api: SendApi) -> None:
    users = list(range(1, CHUNK_SIZE + 2))
    assert api.post(to_users=users, per_minute=100)[0] == 202
    assert api.post(to_users=users, spread_over="2h", expires_at="2023-11-15T00:13:20Z")[0] == 202
    found = [(record.per_minute, record.spread_over_ms) for record in api.sends()]
    assert found == [(100, None)] * 2 + [(None, 7_200_000)] * 2


def test_each_chunk_has_send_at(api: SendApi) -> None:
    users = list(range(1, CHUNK_SIZE + 2))
    status, _, _ = api.post(to_users=users, send_at="2023-11-15T00:13:20+02:00", expires_at="2023-11-15T00:00:00Z")
    assert status == 400
    status, _, _ = api.post(to_users=users, send_at="2023-11-15T01:13:20+02:00", expires_at="2023-11-15T00:00:00Z")
    assert status == 202
    assert [record.send_at for record in api.sends()] == [NOW + 3_600_000] * 2


@pytest.mark.parametrize("club_ids", ["8", "8,9"])
def test_send_for_another_club_is_403(monkeypatch: pytest.MonkeyPatch, club_ids: str) -> None:
    api = SendApi(monkeypatch)
    status, problem, _ = api.call(json.dumps(VALID), authorizer=EVERY_SCOPE | {"club_ids": club_ids})
    assert (status, problem["errors"][0]["field"]) == (403, "club_id")
    assert api.sends() == []


@pytest.mark.parametrize("club_ids", ["7", "8,7"])
def test_a_tenant_sends_for_its_own_clubs(monkeypatch: pytest.MonkeyPatch, club_ids: str) -> None:
    api = SendApi(monkeypatch)
    assert api.call(json.dumps(VALID), authorizer=EVERY_SCOPE | {"club_ids": club_ids})[0] == 202
    assert [send.club_id for send in api.sends()] == [7]


CAME_WITH = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.mark.parametrize("name", ["traceparent", "Traceparent"])
def test_each_chunk_continues_the_callers_trace(api: SendApi, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    body = json.dumps(VALID | {"to_users": list(range(1, CHUNK_SIZE + 2))})
    api.call(body, headers={name: CAME_WITH, "tracestate": "a=b"})
    carried = [traces.of_headers(headers) for _, _, _, headers in api.producer.produced]
    assert len(carried) == 2
    assert len(set(carried)) == 1
    assert carried[0] is not None
    assert (carried[0].trace_id, carried[0].state) == (CAME_WITH[3:35], "a=b")
    (line,) = (json.loads(text) for text in capsys.readouterr().out.splitlines() if "resourceSpans" in text)
    (span,) = line["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert (span["traceId"], span["spanId"], span["parentSpanId"]) == (
        CAME_WITH[3:35],
        carried[0].span_id,
        CAME_WITH[36:52],
    )


@pytest.mark.parametrize("headers", [{}, {"traceparent": "00-abc"}])
def test_a_request_without_a_valid_trace_begins_that_of_its_send(api: SendApi, headers: dict[str, str]) -> None:
    _, body, _ = api.call(json.dumps(VALID), headers=headers)
    ((_, _, _, produced),) = api.producer.produced
    carried = traces.of_headers(produced)
    assert carried is not None
    assert carried.trace_id == traces.begun_by(body["send_id"]).trace_id


def test_log_keys_of_a_request_end_with_it(api: SendApi, capsys: pytest.CaptureFixture[str]) -> None:
    api.producer.fail = lambda _topic, _value: Retry("down")
    api.post(club_id=8)
    api.producer.fail = lambda _topic, _value: None
    _, body, _ = api.post()
    api.call("no JSON")
    lines = [json.loads(text) for text in capsys.readouterr().out.splitlines()]
    (accepted,) = (line for line in lines if line.get("message") == "send accepted")
    assert (accepted["send_id"], accepted["club_id"]) == (body["send_id"], 7)
    (counted,) = (line for line in lines if "RecipientsAccepted" in line)
    assert (counted["RecipientsAccepted"], counted["SendsAccepted"]) == (3, 1)
    assert not {"send_id", "club_id"} & counted.keys()


@pytest.mark.parametrize(
    "values",
    [
        {"to_users": list(range(1, 102))},
        {"send_at": "2023-11-15T00:00:00Z", "expires_at": "2023-11-16T00:00:00Z"},
        {"send_at_local": "2023-11-14T12:00", "expires_at": "2023-11-16T00:00:00Z"},
        {"to_users": [1, 2, 2], "channels": ["email", "push"]},
    ],
)
def test_each_send_is_recorded_when_it_is_accepted(api: SendApi, values: dict[str, Any]) -> None:
    _, body, _ = api.post(**values, reference="order-1")
    accepted = api.register.sends[body["send_id"]]
    assert (accepted.reference, accepted.is_test) == ("order-1", False)
    assert accepted.send_at_local == values.get("send_at_local")
    assert (accepted.key.club_id, accepted.type, accepted.requested_at_ms) == (7, "news", NOW)
    assert (accepted.users or 0) * len(accepted.channels) == body["requested"]
    if "send_at" in values:
        assert (accepted.send_at_ms, accepted.expires_at_ms) == (1_700_006_400_000, 1_700_092_800_000)


@pytest.mark.kills(guard="sends.registered_first")
@pytest.mark.parametrize(
    ("values", "is_first"),
    [
        ({"to_users": list(range(1, 101))}, False),
        ({"to_users": list(range(1, 102))}, True),
        ({"send_at": "2023-11-15T00:00:00Z"}, True),
        ({"send_at_local": "2023-11-16T12:00"}, True),
        ({"to_users": [1, 2], "recipient_data": {"1": {"a": "x" * 70_000}, "2": {"a": "x" * 70_000}}}, True),
    ],
    ids=["small", "large", "scheduled", "local", "chunks"],
)
def test_listed_send_is_registered_before_its_records(
    api: SendApi, monkeypatch: pytest.MonkeyPatch, values: dict[str, Any], is_first: bool
) -> None:
    """Without its item it could not be controlled. Another is registered while its record is produced."""
    found: list[bool] = []
    produce = api.producer.produce

    def produced(*record: Any) -> None:
        found.append(bool(api.register.sends))
        produce(*record)

    monkeypatch.setattr(api.producer, "produce", produced)
    assert api.post(**values)[0] == 202
    assert set(found) == {is_first}
    assert len(api.register.sends) == 1


def test_small_send_is_accepted_without_the_register(api: SendApi) -> None:
    """preference_checker registers it. A large one could be neither paused nor cancelled until then."""
    api.register.failing = Retry("DynamoDB does not answer")
    assert api.post()[0] == 202
    assert api.post(to_users=list(range(1, 102)))[0] == 503
    assert len(api.producer.produced) == 1


@pytest.mark.guarantee("sends.each_wrong_field_is_named")
@pytest.mark.parametrize(
    ("values", "fields"),
    [
        ({"type": 1, "audience": {"all_users": True, "x": 1}}, {"type", "audience.x"}),
        ({"audience": {"all_users": True, "x": 1}, "send_at": PAST}, {"audience.x", "send_at"}),
        (
            {"audience": {"all_users": True, "x": 1}, "priority": "critical", "type": 1},
            {"audience.x", "priority", "type"},
        ),
        ({"part_index": 1, "send_at": PAST, "to_users": [1]}, {"part_index", "send_at"}),
        ({"type": 1, "to_users": [1], "recipient_data": {"7": {"a": "b"}}}, {"type", "recipient_data.7"}),
        ({"to_users": [1], "recipient_data": {"7": {}, "1": {}, "8": {}}}, {"recipient_data.7", "recipient_data.8"}),
        (
            {"type": 1, "to_users": ["x"], "recipient_data": {"7": {}}, "part_count": 2},
            {"type", "to_users[0]", "send_id"},
        ),
        ({"to_users": [1], "send_id": "x", "part_count": 2, "part_index": 3}, {"send_id", "part_index"}),
    ],
)
def test_each_wrong_field_is_named_at_once(api: SendApi, values: dict[str, Any], fields: set[str]) -> None:
    """Rules about several fields are applied to fields that are valid themselves."""
    status, problem, _ = api.call(json.dumps({"type": "news", "club_id": 7} | values))
    assert (status, sorted(error["field"] for error in problem["errors"])) == (400, sorted(fields))


def test_errors_that_are_left_out_are_counted(api: SendApi) -> None:
    _, problem, _ = api.post(to_users=["x"] * 500, recipient_data={str(user): {} for user in range(100)})
    of_users = [error for error in problem["errors"] if error["field"].startswith("to_users")]
    assert (len(of_users), of_users[-1]) == (
        11,
        {
            "field": "to_users",
            "message": "490 further errors are not listed",
            "code": "further_errors",
            "parameters": {"left_out": 490},
        },
    )
    _, problem, _ = api.post(recipient_data={str(user): {} for user in range(11, 100)})
    assert problem["errors"][-1] == {
        "field": "recipient_data",
        "message": "79 further errors are not listed",
        "code": "further_errors",
        "parameters": {"left_out": 79},
    }


@pytest.mark.kills(guard="sends.unknown_category")
@pytest.mark.parametrize("name", ["no_such_category", "default", "New"])
def test_an_unknown_category_is_named(api: SendApi, name: str) -> None:
    """A misspelt category would lose its rules, such as that opt-outs do not apply to it."""
    status, problem, _ = api.post(type=name, locale="klingon-", template="a b")
    assert (status, [error["field"] for error in problem["errors"]]) == (400, ["template", "locale", "type"])


@pytest.mark.parametrize(
    "locale", ["de", "de-CH", "de_CH", "zh-Hant-TW", "sl-rozaj-1994", "en-u-ca-buddhist", "de-x-a"]
)
def test_a_well_formed_locale_is_accepted(api: SendApi, locale: str) -> None:
    assert api.post(locale=locale)[0] == 202


@pytest.mark.parametrize("locale", ["d", "de-", "de-C", "de-CH-DE", "123", "de-u", "de-x", "de CH"])
def test_a_malformed_locale_is_refused(api: SendApi, locale: str) -> None:
    status, problem, _ = api.post(locale=locale)
    assert (status, [error["field"] for error in problem["errors"]]) == (400, ["locale"])


def test_fallback_is_in_the_records_of_its_send(api: SendApi) -> None:
    assert api.post(channels=FALLBACK)[0] == 202
    (record,) = api.sends()
    assert record.channels == ["push", "email"]
    assert record.fallbacks == '[{"channel":"email","if":"not_sent","after":"10m"}]'


@pytest.mark.kills(guard="fallbacks.after_the_end")
def test_fallback_after_the_end_of_its_send_is_refused(api: SendApi) -> None:
    assert api.post(channels=FALLBACK, expires_at="2023-11-14T22:23:21Z")[0] == 202
    status, body, _ = api.post(channels=FALLBACK, expires_at="2023-11-14T22:23:19Z")
    assert (status, body["errors"][0]["field"]) == (400, "channels")


@pytest.mark.kills(guard="fallbacks.complete_receipts")
def test_fallback_without_complete_receipts_is_refused(api: SendApi, monkeypatch: pytest.MonkeyPatch) -> None:
    channels = ["push", "email", {"channel": "sms", "if": "not_delivered", "after": "10m"}]
    status, body, _ = api.post(channels=channels)
    assert (status, body["errors"][0]["code"]) == (400, "fallback_without_receipts")
    monkeypatch.setenv("COMPLETE_RECEIPTS", "email")
    assert api.post(channels=channels)[0] == 202
    assert api.post(channels=[channels[0], {**FALLBACK[1], "if": "not_delivered"}])[0] == 400


@pytest.mark.parametrize("text", ["push", "email,fax"])
def test_channels_without_complete_receipts_stop(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPLETE_RECEIPTS", text)
    with pytest.raises(Stop):
        complete_receipts()


def test_previews_refuse_fallbacks_that_schedules_accept() -> None:
    content = {"type": "news", "club_id": 7}
    assert ContentRequest.model_validate(content | {"channels": ["push", "email"]})
    with pytest.raises(ValidationError):
        ContentRequest.model_validate(content | {"channels": FALLBACK})
    assert RecurringSend.model_validate(content | {"to_users": [1], "channels": FALLBACK})
