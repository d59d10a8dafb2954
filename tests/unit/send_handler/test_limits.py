"""The recipients of a key's sends are limited in each UTC day."""

import json
from typing import Any

import pytest

from masscomm.errors import Retry
from tests.support.harness.send_api import VALID, Answered, SendApi

KEY = {"principalId": "k1", "club_ids": "7", "scopes": "send", "recipients_a_day": "5"}
DAY_S = 86_400


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> SendApi:
    """The API an hour before the end of the day."""
    made = SendApi(monkeypatch)
    made.clock.advance(DAY_S - made.clock.now_ms() / 1000 % DAY_S - 3_600)
    return made


def post(api: SendApi, users: list[int], key: str | None = None, **context: Any) -> Answered:
    headers = {} if key is None else {"Idempotency-Key": key}
    return api.call(json.dumps(VALID | {"to_users": users}), authorizer=KEY | context, headers=headers)


@pytest.mark.guarantee("limits.recipients_a_day")
@pytest.mark.kills(guard="limits.recipients_of_a_send")
def test_send_above_the_recipients_of_a_day_is_refused(api: SendApi) -> None:
    """A refused send is not produced in part, and does not use the limit."""
    status, _, headers = post(api, [1, 2, 3])
    assert status == 202
    assert headers["RateLimit-Policy"] == '"recipients";q=5;w=86400'
    assert headers["RateLimit"] == '"recipients";r=2;t=3600'
    status, problem, headers = post(api, [1, 2, 3])
    assert (status, headers["Retry-After"], headers["RateLimit"]) == (429, "3600", '"recipients";r=2;t=3600')
    assert "2 remain until 2023-11-15T00:00:00Z" in problem["detail"]
    assert post(api, [4, 5])[0] == 202
    assert [send.to_users for send in api.sends()] == [[1, 2, 3], [4, 5]]
    api.clock.advance(3_600)
    assert post(api, [1, 2, 3])[0] == 202


@pytest.mark.guarantee("limits.first_maker")
@pytest.mark.kills(guard="limits.first_maker")
def test_keys_of_one_maker_share_its_recipients(api: SendApi) -> None:
    assert post(api, [1, 2], principalId="k2", counted_under="k1")[0] == 202
    assert post(api, [3, 4])[2]["RateLimit"] == '"recipients";r=1;t=3600'
    assert post(api, [5, 6], principalId="k3", counted_under="k1")[0] == 429
    assert post(api, [5, 6], principalId="k4")[0] == 202


def test_repeated_users_count_once(api: SendApi) -> None:
    assert post(api, [1] * 9)[2]["RateLimit"] == '"recipients";r=4;t=3600'


def test_an_invalid_send_does_not_use_the_limit(api: SendApi) -> None:
    assert post(api, [])[0] == 400
    assert api.call(json.dumps(VALID | {"send_at": "2001-01-01T00:00:00Z"}), authorizer=KEY)[0] == 400
    assert api.usage.used == {}


@pytest.mark.guarantee("limits.repeated_send_counts_once")
def test_a_repeated_request_counts_once(api: SendApi) -> None:
    """The first attempt fails after its recipients are counted, the second completes it, the third is replayed."""
    accept = api.producer.fail
    api.producer.fail = lambda _topic, _value: Retry("Kafka is away")
    assert post(api, [1, 2, 3], "a")[0] == 503
    api.producer.fail = accept
    assert [post(api, [1, 2, 3], "a")[0] for _ in range(2)] == [202, 202]
    assert list(api.usage.used.values()) == [3]


def test_a_refused_request_is_counted_when_it_is_repeated(api: SendApi) -> None:
    post(api, [1, 2, 3])
    assert [post(api, [4, 5, 6], "a")[0] for _ in range(2)] == [429, 429]
    api.clock.advance(3_600)
    assert post(api, [4, 5, 6], "a")[0] == 202
    assert post(api, [7, 8, 9], "b")[0] == 429
    assert [send.to_users for send in api.sends()] == [[1, 2, 3], [4, 5, 6]]


def test_send_is_refused_while_the_store_of_limits_is_down(api: SendApi) -> None:
    api.usage.failing = Retry("DynamoDB is away")
    assert [post(api, [1], key)[0] for key in (None, "a")] == [503, 503]
    assert post(api, [1], recipients_a_day=None)[0] == 202
    assert len(api.sends()) == 1


def post_batch(api: SendApi, *sends: list[int], key: str = "a") -> Answered:
    body = {"sends": [VALID | {"to_users": users} for users in sends]}
    headers = {"Idempotency-Key": key}
    return api.call(json.dumps(body), path="/v1/sends/batch", authorizer=KEY, headers=headers)


@pytest.mark.kills(guard="limits.recipients_of_a_batch")
def test_a_batch_is_counted_as_a_whole(api: SendApi) -> None:
    """Invalid sends do not count; a repeated batch counts once."""
    assert post_batch(api, [1, 2], [], [3, 3])[2]["RateLimit"] == '"recipients";r=2;t=3600'
    assert post_batch(api, [1, 2], [], [3, 3])[0] == 200
    assert post_batch(api, [4], [5, 6], key="b")[0] == 429
    assert post_batch(api, [4], [5], key="c")[0] == 200
    assert [send.to_users for send in api.sends()] == [[1, 2], [3], [4], [5]]
