"""Variables of single recipients are in the chunk of their recipient, within its limits."""

import json
from typing import Any

import pytest

from masscomm.chain.chunks import fault_of_send
from masscomm.domain.limits import MAX_RECIPIENT_DATA
from masscomm.kafka import topics
from masscomm.kafka.event import KafkaRecord
from tests.support.harness.chain import NOW
from tests.support.harness.send_api import VALID, SendApi


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> SendApi:
    return SendApi(monkeypatch)


def test_variables_have_the_position_of_their_recipient(api: SendApi) -> None:
    own = {"3": {"seat": "A3"}, "1": {"seat": "A1"}}
    assert api.post(to_users=[2, 1, 2, 3], recipient_data=own)[0] == 202
    (record,) = api.sends()
    assert record.to_users == [2, 1, 3]
    assert record.recipient_data == {"1": {"seat": "A1"}, "2": {"seat": "A3"}}


def test_long_variables_are_divided_among_chunks(api: SendApi) -> None:
    """Each recipient is in one chunk, which no function that consumes it dead-letters."""
    users = list(range(1, 201))
    own = {str(user_id): {"text": "ä" * (200 * (user_id % 7))} for user_id in users} | {"50": {"x": "y" * 99_999}}
    data = {"text": "z" * 99_000}
    assert api.post(to_users=users, recipient_data=own, data=data)[0] == 202
    records = api.sends()
    assert [user_id for record in records for user_id in record.to_users] == users
    assert [record.chunk_index for record in records] == list(range(len(records)))
    assert {record.chunk_count for record in records} == {len(records)}
    found = {
        str(record.to_users[int(position)]): variables
        for record in records
        for position, variables in record.recipient_data.items()
    }
    assert found == own
    for (topic, key, value, _), record in zip(api.producer.produced, records, strict=True):
        consumed = KafkaRecord(topic=topic, partition=0, offset=0, timestamp_ms=NOW, key=key, value=value)
        assert fault_of_send(record, consumed, NOW) is None


def test_repeated_request_has_the_same_chunks(api: SendApi) -> None:
    values: dict[str, Any] = {
        "to_users": list(range(1, 101)),
        "recipient_data": {str(user_id): {"x": "y" * 5_000} for user_id in range(1, 101)},
    }
    api.post(**values)
    first = [len(record.to_users) for record in api.sends()]
    api.producer.produced.clear()
    api.post(**values)
    assert [len(record.to_users) for record in api.sends()] == first


@pytest.mark.parametrize(
    ("own", "field"),
    [
        ({"9": {"seat": "A1"}}, "recipient_data"),
        ({"one": {"seat": "A1"}}, "recipient_data"),
        ({"01": {"seat": "A1"}}, "recipient_data"),
        ({"1": {"seat": 1}}, "recipient_data.1.seat"),
        ({"1": {"": "x"}}, "recipient_data.1"),
        ({"1": {"x": "y" * 100_001}}, "recipient_data.1"),
        ({"1": {str(number): "" for number in range(201)}}, "recipient_data.1"),
        ([], "recipient_data"),
    ],
)
def test_invalid_variables_name_their_field(api: SendApi, own: Any, field: str) -> None:
    status, answer, _ = api.post(recipient_data=own)
    assert status == 400
    assert answer["errors"][0]["field"].startswith(field)
    assert api.producer.produced == []


def test_variables_have_limits_a_request(api: SendApi) -> None:
    users = list(range(1, MAX_RECIPIENT_DATA + 2))
    many = {str(user_id): {"a": "b"} for user_id in users}
    assert api.post(to_users=users, recipient_data=many)[0] == 400
    del many["1"]
    assert api.post(to_users=users, recipient_data=many)[0] == 202
    large = {str(user_id): {"a": "b" * 99_999} for user_id in range(1, 52)}
    assert api.post(to_users=users, recipient_data=large)[0] == 400
    del large["1"]
    assert api.post(to_users=users, recipient_data=large)[0] == 202


@pytest.mark.kills(guard="scopes.own_words")
def test_own_words_of_a_recipient_need_their_scope(api: SendApi) -> None:
    """The title may be the send's and the body the recipient's."""
    body = json.dumps(VALID | {"data": {"title": "t"}, "recipient_data": {"1": {"body": "b"}}})
    status, answer, _ = api.call(body, authorizer={"club_ids": "7", "scopes": "send"})
    assert (status, answer["detail"]) == (403, "These credentials do not have the scope send:content.")
    assert api.call(body, authorizer={"club_ids": "7", "scopes": "send send:content"})[0] == 202


def test_consumer_of_the_earlier_form_reads_the_record(api: SendApi) -> None:
    """A producer of the earlier form writes no variables of single recipients."""
    api.post()
    (record,) = api.sends(topics.SEND_API)
    assert record.recipient_data == {}
