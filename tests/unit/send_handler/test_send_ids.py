"""A send whose id the caller chose: one send, in one or several requests."""

import json
from dataclasses import replace
from typing import Any

import pytest

from masscomm.domain.ids import chunk_id
from masscomm.domain.key_limits import Use
from masscomm.domain.records import SendRequested
from masscomm.domain.sends import Expansion, Send, SendKey, Source
from masscomm.domain.time_limits import TOO_OLD_S
from masscomm.errors import DeadLetter, Retry
from tests.support.harness.chain import NOW
from tests.support.harness.send_api import Answered, SendApi
from tests.support.inputs.api_gateway_events import EVERY_SCOPE

ID = "0b8e2f0e-7a1c-4c1e-9d53-2f3f0f9a6c11"


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> SendApi:
    return SendApi(monkeypatch)


def part(api: SendApi, index: int, users: list[int], **values: Any) -> Answered:
    return api.post(send_id=ID, part_index=index, part_count=3, to_users=users, **values)


def by_chunk(sends: list[SendRequested]) -> dict[int, list[int]]:
    return {send.chunk_index: list(send.to_users) for send in sends}


@pytest.mark.guarantee("send_ids.repeated_send_is_one")
@pytest.mark.kills(guard="named_sends.produced_part")
def test_repeated_send_produces_nothing(api: SendApi) -> None:
    first = api.post(send_id=ID, expires_at="2023-11-14T23:00:00Z")
    produced = len(api.producer.produced)
    api.clock.advance(3_600)  # The time has passed, and was valid when the send was accepted.
    again = api.post(send_id=ID, expires_at="2023-11-14T23:00:00Z")
    assert (first[0], again[0], again[1]) == (202, 202, first[1])
    assert (produced, len(api.producer.produced)) == (1, 1)
    assert api.producer.produced[0][1] == chunk_id(ID, 0).encode()


@pytest.mark.guarantee("send_ids.repeated_send_is_one")
def test_repetition_after_a_refused_record_has_the_same_records(api: SendApi) -> None:
    """The broker has a part of the records, or the function was killed before the part was marked."""
    large = list(range(1, 5_002))
    errors = iter([None, Retry("no leader")])
    api.producer.fail = lambda _topic, _value: next(errors, None)
    assert api.post(send_id=ID, to_users=large)[0] == 503
    api.clock.advance(3_600)
    assert api.post(send_id=ID, to_users=large)[0] == 202
    records = api.sends()
    assert records == [records[0], *records[-2:]] == [records[-2], *records[-2:]]


def test_repeated_audience_has_the_state_of_its_expansion(api: SendApi) -> None:
    body = json.dumps({"type": "news", "club_id": 7, "audience": {"all_users": True}, "send_id": ID})
    found = [api.call(body)[1]]
    for error in (None, "the audience is invalid"):
        expansion = Expansion(chunks=1, users=2, requested=4, ended_at_ms=NOW, error=error)
        api.register.put(replace(api.register.sends[ID], expansion=expansion))
        found.append(api.call(body)[1])
    assert [(each["status"], each["requested"]) for each in found] == [
        ("expanding", None),
        ("accepted", 4),
        ("failed", 4),
    ]
    assert len(api.producer.produced) == 1


@pytest.mark.kills(guard="sends.late_part")
def test_part_requested_weeks_later_is_countable(api: SendApi) -> None:
    """Its chunks would be older than the metrics count, and dead-lettered."""
    later = {"send_at": "2024-06-01T00:00:00Z"}
    part(api, 0, [1], **later)
    api.clock.advance(60 * 86_400)
    assert part(api, 1, [2], **later)[0] == 202
    first, second = (send.timestamp for send in api.sends())
    assert (first, second) == (NOW, NOW + 60 * 86_400_000 - TOO_OLD_S * 1000 // 2)


@pytest.mark.guarantee("send_ids.parts_are_one_send")
def test_parts_of_a_send_share_its_chunks(api: SendApi) -> None:
    """The number of chunks is known with the last part: until then the send is not whole."""
    large = list(range(1, 5_002))
    for index, users in ((2, [7, 8]), (0, large), (1, [9])):
        status, body, headers = part(api, index, users, recipient_data={str(users[0]): {"seat": "A1"}})
        assert (status, body["send_id"], body["requested"]) == (202, ID, len(users))
        assert headers["Location"] == f"/v1/sends/{ID}"
    sends = api.sends()
    assert by_chunk(sends) == {0: [7, 8], 1: large[:5_000], 2: large[5_000:], 3: [9]}
    assert [send.chunk_count for send in sends] == [2, 4, 4, 4]
    assert part(api, 0, large, recipient_data={"1": {"seat": "A1"}})[0] == 202
    assert len(api.sends()) == 4


@pytest.mark.guarantee("send_ids.other_content_is_refused")
@pytest.mark.parametrize(
    "values",
    [
        {"type": "match_reminder"},
        {"data": {"headline": "other"}},
        {"club_id": 8},
        {"to_users": [1]},
        {"recipient_data": {"1": {"seat": "A2"}}},
        {"part_count": 2},
        {"reference": "r"},
        {"expires_at": "2023-11-14T23:00:00Z"},
        {"to_users": None, "audience": {"all_users": True}},
    ],
)
def test_other_content_under_a_send_id_is_409(api: SendApi, values: dict[str, Any]) -> None:
    assert api.post(send_id=ID)[0] == 202
    before = len(api.producer.produced)
    body = api.valid(send_id=ID) | values
    status, problem, _ = api.call(json.dumps({name: value for name, value in body.items() if value is not None}))
    assert (status, [each["field"] for each in problem["errors"]]) == (409, ["send_id"])
    assert len(api.producer.produced) == before


def test_the_id_of_a_send_without_one_is_409(api: SendApi) -> None:
    send_id = api.post()[1]["send_id"]
    assert api.post(send_id=send_id)[0] == 409


@pytest.mark.parametrize(
    ("values", "fields"),
    [
        ({"part_count": 2}, ["send_id"]),
        ({"send_id": ID, "part_index": 1}, ["part_index"]),
        ({"part_index": 2, "part_count": 2}, ["send_id", "part_index"]),
        ({"send_id": ID, "part_count": 1_001}, ["part_count"]),
        ({"send_id": ID, "part_index": -1}, ["part_index"]),
        ({"send_id": "a#b"}, ["send_id"]),
        ({"send_id": ""}, ["send_id"]),
        ({"send_id": "x" * 65}, ["send_id"]),
    ],
)
def test_each_wrong_field_of_a_part_is_named(api: SendApi, values: dict[str, Any], fields: list[str]) -> None:
    status, problem, _ = api.post(**values)
    assert (status, [each["field"] for each in problem["errors"]]) == (400, fields)
    assert api.producer.produced == []


def test_an_audience_has_one_part(api: SendApi) -> None:
    body = {"type": "news", "club_id": 7, "audience": {"all_users": True}, "send_id": ID}
    status, problem, _ = api.call(json.dumps(body | {"part_count": 2}))
    assert (status, [each["field"] for each in problem["errors"]]) == (400, ["part_count"])
    assert api.call(json.dumps(body))[0] == 202


def test_each_part_counts_once_for_a_limit(api: SendApi) -> None:
    limited = EVERY_SCOPE | {"club_ids": "7", "principalId": "k", "recipients_a_day": "5"}
    body = api.valid(send_id=ID, part_count=2)
    for _ in range(2):
        for index, users in enumerate(([1, 2, 3], [4, 5])):
            asked = json.dumps(body | {"part_index": index, "to_users": users})
            assert api.call(asked, authorizer=limited)[0] == 202
    assert api.call(json.dumps(api.valid(send_id=ID.replace("0b", "1b"))), authorizer=limited)[0] == 429


@pytest.mark.kills(guard="limits.recipients_of_a_part")
@pytest.mark.parametrize(("users", "others"), [([1], list(range(1, 101))), ([1, 2, 3], [4, 5, 6])])
def test_concurrent_parts_are_counted_each(
    api: SendApi, monkeypatch: pytest.MonkeyPatch, users: list[int], others: list[int]
) -> None:
    """Two requests of other recipients under one id pass the check of the id before one of them is registered."""
    limited = EVERY_SCOPE | {"club_ids": "7", "principalId": "k", "recipients_a_day": "5"}
    take, second = api.usage.take, list[Answered]()

    def taken(*args: Any, **kwargs: Any) -> Use:
        use = take(*args, **kwargs)
        if not second:
            second.append((0, {}, {}))
            second[0] = api.call(json.dumps(api.valid(send_id=ID, to_users=others)), authorizer=limited)
        return use

    monkeypatch.setattr(api.usage, "take", taken)
    first = api.call(json.dumps(api.valid(send_id=ID, to_users=users)), authorizer=limited)
    assert (first[0], second[0][0]) == (202, 429)
    assert by_chunk(api.sends()) == {0: users}


def test_a_keyed_request_with_a_send_id_is_replayed(api: SendApi) -> None:
    first, again = (api.post_with("k", send_id=ID) for _ in range(2))
    assert (first[0], first[1]) == (202, again[1])
    assert again[2]["Idempotency-Replayed"] == "true"
    assert api.post_with("other", send_id=ID)[0] == 202
    assert by_chunk(api.sends()) == {0: [1, 2, 3]}
    assert len({json.dumps(send.to_avro(), sort_keys=True) for send in api.sends()}) == 1


def test_an_id_that_can_be_guessed_is_refused(api: SendApi) -> None:
    """Another tenant could use such an id first, so that the tenant's own send by Kafka would be refused."""
    for guessable in ("match-4711", ID.upper(), "evening-news", ID.replace("-", ""), f"{ID}0"):
        status, problem, _ = api.post(send_id=guessable)
        assert (status, [each["field"] for each in problem["errors"]]) == (400, ["send_id"])
    assert api.producer.produced == []


def test_ids_of_other_tenants_and_own_ones_are_refused_alike(api: SendApi) -> None:
    """The answer says neither that the id belongs to another tenant, nor that the service made it."""
    others, own, made = ID, ID.replace("0b", "1b"), api.post()[1]["send_id"]
    api.post(send_id=others, club_id=8)
    api.post(send_id=own, type="match_reminder")
    answers = [api.post(send_id=send_id) for send_id in (others, own, made)]
    assert answers[0][0] == 409
    assert answers[0] == answers[1] == answers[2]


def test_spellings_of_one_instant_are_the_same_content(api: SendApi) -> None:
    times = {"send_at": "2023-11-14T23:00:00Z", "expires_at": "2023-11-15T23:00:00.000Z"}
    again = {"send_at": "2023-11-15T00:00:00+01:00", "expires_at": "2023-11-16T00:00:00+01:00"}
    assert [api.post(send_id=ID, **values)[0] for values in (times, again)] == [202, 202]
    assert api.post(send_id=ID, **again | {"send_at": "2023-11-15T00:00:01+01:00"})[0] == 409


def test_a_field_with_its_default_is_the_same_content(api: SendApi) -> None:
    """A later version may add a field; requests of earlier clients do not have it."""
    defaults: dict[str, Any] = {"channels": [], "data": {}, "priority": "bulk", "locale": None, "recipient_data": {}}
    assert [api.post(send_id=ID, **values)[0] for values in ({}, defaults)] == [202, 202]
    for other in ({"channels": ["email"]}, {"priority": "critical"}):
        assert api.post(send_id=ID, **other)[0] == 409


@pytest.mark.guarantee("send_ids.refused_request_leaves_the_id")
@pytest.mark.parametrize("key", [None, "k"])
def test_a_refused_request_leaves_its_id_and_key(api: SendApi, key: str | None) -> None:
    """Above the limit of recipients, nothing is stored: the corrected request may use both."""
    limited = EVERY_SCOPE | {"club_ids": "7", "principalId": "k", "recipients_a_day": "2"}
    headers = {} if key is None else {"Idempotency-Key": key}
    answers = []
    for users in ([1, 2, 3], [1, 2]):
        body = json.dumps(api.valid(send_id=ID, to_users=users))
        answers.append(api.call(body, authorizer=limited, headers=headers)[0])
        assert (ID in api.register.sends) == (answers[-1] == 202)
    assert answers == [429, 202]


@pytest.mark.kills(guard="idempotency.refused_request")
def test_a_key_is_free_after_the_409_of_its_send_id(api: SendApi) -> None:
    api.post(send_id=ID)
    assert api.post_with("k", send_id=ID, type="match_reminder")[0] == 409
    assert api.post_with("k", type="match_reminder")[0] == 202


@pytest.mark.kills(guard="idempotency.partly_refused")
def test_a_key_is_free_after_a_413_without_effect(api: SendApi) -> None:
    """If Kafka has accepted another chunk, the key belongs to the send: the corrected request would be a second one."""
    large = list(range(1, 5_002))
    refusals = iter([DeadLetter("too_large", "x"), None, DeadLetter("too_large", "x")])
    api.producer.fail = lambda _topic, _value: next(refusals, None)
    assert api.post_with("a")[0] == 413
    assert api.post_with("a", to_users=[1])[0] == 202
    assert api.post_with("b", to_users=large)[0] == 413
    assert api.post_with("b", to_users=[1])[0] == 422


def test_a_refused_repetition_keeps_the_key(api: SendApi) -> None:
    """The first attempt may have notified a part of the recipients."""
    limited = EVERY_SCOPE | {"club_ids": "7", "principalId": "k", "recipients_a_day": "3"}
    headers, body = {"Idempotency-Key": "k"}, json.dumps(api.valid())
    api.producer.fail = lambda _topic, _value: Retry("no leader")
    assert api.call(body, headers=headers)[0] == 503
    api.call(json.dumps(api.valid(to_users=[9])), authorizer=limited)
    assert api.call(body, headers=headers, authorizer=limited)[0] == 429
    assert api.call(json.dumps(api.valid(to_users=[1])), headers=headers)[0] == 422


@pytest.mark.guarantee("send_ids.kafka_and_rest_are_one_send")
def test_the_id_of_a_send_by_kafka_is_409(api: SendApi) -> None:
    api.register.put(Send(key=SendKey(7, ID), source=Source.KAFKA, requested_at_ms=NOW, content="other"))
    assert api.post(send_id=ID)[0] == 409
    assert api.producer.produced == []
