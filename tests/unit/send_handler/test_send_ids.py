"""A send whose id the caller chose: one send, in one or several requests."""

import json
from typing import Any

import pytest

from masscomm.domain.ids import chunk_id
from masscomm.domain.records import SendRequested
from tests.support.harness.send_api import Answered, SendApi

ID = "evening-news"


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> SendApi:
    return SendApi(monkeypatch)


def part(api: SendApi, index: int, users: list[int], **values: Any) -> Answered:
    return api.post(send_id=ID, part_index=index, part_count=3, to_users=users, **values)


def by_chunk(sends: list[SendRequested]) -> dict[int, list[int]]:
    return {send.chunk_index: list(send.to_users) for send in sends}


@pytest.mark.guarantee("send_ids.repeated_send_is_one")
def test_a_repeated_send_has_the_same_records(api: SendApi) -> None:
    first = api.post(send_id=ID, expires_at="2023-11-14T23:00:00Z")
    api.clock.advance(3_600)  # The time has passed, and was valid when the send was accepted.
    again = api.post(send_id=ID, expires_at="2023-11-14T23:00:00Z")
    assert (first[0], again[0], again[1]["send_id"]) == (202, 202, ID)
    records = api.sends()
    assert records[: len(records) // 2] == records[len(records) // 2 :]
    assert {record.send_id for record in records} == {ID}
    assert api.producer.produced[0][1] == chunk_id(ID, 0).encode()


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
    assert api.sends()[4:] == sends[1:3]


@pytest.mark.guarantee("send_ids.other_content_is_refused")
@pytest.mark.parametrize(
    "values",
    [
        {"type": "offer"},
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
    limited = {"club_ids": "7", "principalId": "k", "recipients_a_day": "5"}
    body = api.valid(send_id=ID, part_count=2)
    for _ in range(2):
        for index, users in enumerate(([1, 2, 3], [4, 5])):
            asked = json.dumps(body | {"part_index": index, "to_users": users})
            assert api.call(asked, authorizer=limited)[0] == 202
    assert api.call(json.dumps(api.valid(send_id="next")), authorizer=limited)[0] == 429


def test_a_keyed_request_with_a_send_id_is_replayed(api: SendApi) -> None:
    first, again = (api.post_with("k", send_id=ID) for _ in range(2))
    assert (first[0], first[1]) == (202, again[1])
    assert again[2]["Idempotency-Replayed"] == "true"
    assert api.post_with("other", send_id=ID)[0] == 202
    assert by_chunk(api.sends()) == {0: [1, 2, 3]}
    assert len({json.dumps(send.to_avro(), sort_keys=True) for send in api.sends()}) == 1
