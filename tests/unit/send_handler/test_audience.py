"""POST /v1/sends with an audience: one record for audience_expander, whose chunks the send gets later."""

import json
from typing import Any

import pytest

from masscomm.domain.records import AudienceRequested, SendRequested
from masscomm.domain.saved_audiences import SavedAudience
from masscomm.domain.send_content import content_of_send
from masscomm.domain.sends import Send, SendKey, Source
from masscomm.errors import Retry
from masscomm.http.audiences import MAX_BYTES
from masscomm.kafka import topics
from tests.support.harness.chain import NOW
from tests.support.harness.send_api import Answered, SendApi
from tests.support.inputs.api_gateway_events import EVERY_SCOPE

WHERE = {"field": "locale", "is": "dé\U0001f600"}
AUDIENCE: dict[str, Any] = {"where": WHERE, "except_users": [42]}


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> SendApi:
    return SendApi(monkeypatch)


def post(
    api: SendApi, *, key: str = "", authorizer: dict[str, Any] | None = None, path: str = "/v1/sends", **fields: Any
) -> Answered:
    body = {"type": "news", "club_id": 7, "audience": AUDIENCE, **fields}
    headers = {"Idempotency-Key": key} if key else {}
    return api.call(json.dumps(body), headers=headers, authorizer=authorizer, path=path)


def requested(api: SendApi) -> list[AudienceRequested]:
    return api._decoded(AudienceRequested, topics.AUDIENCE)


def test_send_to_an_audience_is_expanding(api: SendApi) -> None:
    status, body, headers = post(api, data={"opponent": "Ä"}, send_at="2023-11-15T00:00:00Z", reference="r")
    send_id = body["send_id"]
    assert (status, headers["Location"]) == (202, f"/v1/sends/{send_id}")
    assert body == {
        "send_id": send_id,
        "status": "expanding",
        "requested": None,
        "duplicates": 0,
        "links": {"self": f"/v1/sends/{send_id}"},
    }
    (record,) = requested(api)
    assert (record.send_id, record.club_id, record.timestamp, record.chunk_size) == (send_id, 7, NOW, 5_000)
    assert json.loads(record.audience) == AUDIENCE
    send = SendRequested.from_avro(json.loads(record.send))
    assert (send.send_id, send.to_users, send.type, send.club_id) == (send_id, [], "news", 7)
    assert (send.data, send.reference, send.timestamp) == ({"opponent": "Ä"}, "r", NOW)
    assert api.sends() == []
    (key,) = [key for topic, key, _, _ in api.producer.produced if topic == topics.AUDIENCE]
    assert key == send_id.encode()
    accepted = Send(
        key=SendKey(7, send_id),
        source=Source.REST,
        requested_at_ms=NOW,
        send_at_ms=send.send_at,
        is_to_audience=True,
        principal=send.principal,
        type="news",
        channels=("push",),
        reference="r",
        content=content_of_send(send),
    )
    assert api.register.sends == {send_id: accepted}


def test_repeated_request_with_a_key_is_one_send(api: SendApi) -> None:
    first, again = (post(api, key="k") for _ in range(2))
    assert (again[1], again[2]["Idempotency-Replayed"]) == (first[1], "true")
    assert len(requested(api)) == 1
    assert post(api, key="k", audience={"all_users": True})[0] == 422


def test_request_that_was_interrupted_is_the_same_send(api: SendApi, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(api.producer, "flush", lambda _: (_ for _ in ()).throw(Retry("down")))
        assert post(api, key="k")[0] == 503
    assert post(api, key="k")[0] == 202
    first, again = requested(api)
    assert first == again


def save(api: SendApi, **definition: Any) -> None:
    api.saved_audiences.put(SavedAudience(club_id=7, name="fans", definition=definition, changed_at_ms=NOW))


def test_send_copies_a_saved_audience_at_its_request(api: SendApi) -> None:
    save(api, where={"field": "locale", "is": "de"})
    status, _, _ = post(api, key="k", audience={"saved": "fans", "except_users": [42]})
    assert status == 202
    save(api, all_users=True)
    assert post(api, key="k", audience={"saved": "fans", "except_users": [42]})[2]["Idempotency-Replayed"] == "true"
    (record,) = requested(api)
    assert json.loads(record.audience) == {"where": {"field": "locale", "is": "de"}, "except_users": [42]}


@pytest.mark.kills(guard="audiences.changed_definition")
def test_repeated_send_id_is_one_part_after_a_change(api: SendApi) -> None:
    fields: dict[str, Any] = {"audience": {"saved": "fans"}, "send_id": "11111111-1111-4111-8111-111111111111"}
    save(api, where={"field": "locale", "is": "de"})
    first = post(api, **fields)
    save(api, all_users=True)
    again = post(api, **fields)
    assert (first[0], again[:2]) == (202, first[:2])
    assert len(requested(api)) == 1


def test_saved_audience_is_read_for_its_sends_only(api: SendApi) -> None:
    api.saved_audiences.failing = Retry("down")
    assert post(api)[0] == 202
    assert post(api, audience={"saved": "fans"}, key="k")[0] == 503
    api.saved_audiences.failing = None
    save(api, all_users=True)
    assert post(api, audience={"saved": "fans"}, key="k")[0] == 202


@pytest.mark.parametrize(
    ("audience", "definition", "field"),
    [
        ({"saved": "others"}, {"all_users": True}, "audience.saved"),
        ({"saved": "a b"}, {"all_users": True}, "audience.saved"),
        ({"saved": None}, {"all_users": True}, "audience.saved"),
        ({"saved": "fans", "all_users": True}, {"all_users": True}, "audience.saved"),
        ({"saved": "fans", "tenant": 8}, {"all_users": True}, "audience.tenant"),
        ({"saved": "fans", "except_users": [0]}, {"all_users": True}, "audience.except_users[0]"),
        ({"saved": "fans"}, {"where": {"field": "attributes.gone", "is": 1}}, "audience.where.field"),
    ],
)
def test_unusable_saved_audience_is_refused(
    api: SendApi, audience: dict[str, Any], definition: dict[str, Any], field: str
) -> None:
    save(api, **definition)
    for path in ("/v1/sends", "/v1/dry-runs"):
        status, body, _ = post(api, audience=audience, path=path)
        assert (status, [each["field"] for each in body["errors"]]) == (400, [field])
    assert (requested(api), api.register.sends) == ([], {})


@pytest.mark.parametrize(
    ("fields", "errors"),
    [
        ({"to_users": [1]}, ["to_users"]),
        ({"audience": None}, ["to_users"]),
        ({"audience": "all"}, ["audience"]),
        ({"audience": {}}, ["audience.where"]),
        ({"audience": {"where": {"field": "locale"}}}, ["audience.where"]),
        (
            {"audience": {"where": {"field": "club_id", "is": 8}, "tenant": 8}},
            ["audience.tenant", "audience.where.field"],
        ),
        ({"priority": "critical"}, ["priority"]),
        ({"audience": {"where": {"any": [{"field": "locale", "in": ["x" * 200] * 1_000}] * 3}}}, ["audience"]),
    ],
)
def test_invalid_request_names_its_fields(api: SendApi, fields: dict[str, Any], errors: list[str]) -> None:
    status, problem, _ = post(api, **fields)
    assert (status, [error["field"] for error in problem["errors"]]) == (400, errors)
    assert api.producer.produced == []


@pytest.mark.parametrize("condition", ['"is": 1e400', '"in": [-1e400]', '"after": 1e400'])
def test_infinite_number_is_refused_at_once(api: SendApi, condition: str) -> None:
    """JSON has no infinity, so that audience_expander could not read the record of an accepted send."""
    where = f'{{"field": "locale", {condition}}}'
    status, problem, _ = api.call(f'{{"type": "news", "club_id": 7, "audience": {{"where": {where}}}}}')
    assert (status, problem["errors"][0]["field"].startswith("audience.where.")) == (400, True)


def test_request_without_recipients_names_the_field(api: SendApi) -> None:
    status, problem, _ = api.call(json.dumps({"type": "news", "club_id": 7}))
    assert (status, problem["errors"]) == (
        400,
        [{"field": "to_users", "message": "Field required", "code": "field_required", "parameters": {}}],
    )
    status, problem, _ = api.call(json.dumps({"type": "news", "club_id": 7, "to_users": None}))
    assert (status, [error["field"] for error in problem["errors"]]) == (400, ["to_users"])


def test_largest_audience_is_a_record_that_kafka_accepts(api: SendApi) -> None:
    values = [f"{number:0200}" for number in range(1_000)]
    audience = {"where": {"field": "locale", "in": values}, "except_users": [10**18 + n for n in range(8_500)]}
    assert MAX_BYTES - 20_000 < len(json.dumps(audience)) <= MAX_BYTES
    assert post(api, audience=audience, data={"text": "\U0001f600" * 24_000})[0] == 202
    (value,) = api.values(topics.AUDIENCE)
    assert len(value) < 1_000_000


@pytest.mark.kills(guard="simulator.audience")
def test_audience_of_a_test_key_is_the_simulator_recipients(api: SendApi) -> None:
    """No request can name them as an audience, and an expander of an earlier version refuses it."""
    assert post(api, authorizer=EVERY_SCOPE | {"all_clubs": "true", "mode": "test"})[0] == 202
    (record,) = requested(api)
    assert json.loads(record.audience) == {"simulator_recipients": True}
    assert post(api, audience={"simulator_recipients": True})[0] == 400


def test_limit_of_the_key_is_in_the_record(api: SendApi) -> None:
    """The expander counts the users when they are known."""
    authorizer = EVERY_SCOPE | {"all_clubs": "true", "principalId": "k", "recipients_a_day": "5"}
    assert post(api, authorizer=authorizer)[0] == 202
    assert [(each.key_id, each.recipients_a_day) for each in requested(api)] == [("k", 5)]
    assert api.usage.used == {}
    assert post(api, authorizer=EVERY_SCOPE | {"all_clubs": "true", "recipients_a_day": "5"})[0] == 500


def test_audience_of_another_club_is_refused(api: SendApi) -> None:
    assert post(api, authorizer=EVERY_SCOPE | {"club_ids": "8"})[0] == 403
    assert api.producer.produced == []


def test_own_texts_need_their_scope(api: SendApi) -> None:
    own = {"title": "a", "body": "b"}
    assert post(api, data=own, authorizer={"club_ids": "7", "scopes": "send users:read"})[0] == 403
    assert post(api, data=own, authorizer={"club_ids": "7", "scopes": "send send:content users:read"})[0] == 202


def test_sends_of_a_batch_have_no_audience(api: SendApi) -> None:
    sends = [{"type": "news", "club_id": 7, "audience": AUDIENCE}, {"type": "news", "club_id": 7, "to_users": [1]}]
    status, body, _ = api.call(json.dumps({"sends": sends}), path="/v1/sends/batch", headers={"Idempotency-Key": "k"})
    assert (status, [result["status"] for result in body["results"]]) == (200, [400, 202])
    assert requested(api) == []


IN_AN_HOUR, IN_AN_HOUR_MS = "2023-11-14T23:13:20Z", NOW + 3_600_000


@pytest.mark.parametrize(
    ("fields", "expand_at"),
    [
        ({}, None),
        ({"send_at": IN_AN_HOUR}, IN_AN_HOUR_MS),
        ({"send_at": IN_AN_HOUR, "audience_at": "due"}, IN_AN_HOUR_MS),
        ({"send_at": IN_AN_HOUR, "audience_at": "request"}, None),
        ({"audience_at": "request"}, None),
        # The first clocks show a time 14 hours before UTC does.
        ({"send_at_local": "2023-11-16T12:00:00"}, NOW + 85_600_000),
    ],
)
def test_users_of_a_scheduled_send_are_sought_at_its_time(
    api: SendApi, fields: dict[str, Any], expand_at: int | None
) -> None:
    status, body, _ = post(api, **fields)
    assert (status, body["requested"]) == (202, None)
    assert [each.expand_at for each in requested(api)] == [expand_at]


@pytest.mark.parametrize(
    "fields",
    [
        {"audience_at": "due"},
        {"audience_at": "request", "audience": None, "to_users": [1]},
        {"audience_at": "later", "send_at": IN_AN_HOUR},
    ],
)
def test_time_of_an_audience_without_reason_is_refused(api: SendApi, fields: dict[str, Any]) -> None:
    status, body, _ = post(api, **fields)
    assert (status, [error["field"] for error in body["errors"]]) == (400, ["audience_at"])
