"""A test key sends to simulator recipients only."""

import json
from typing import Any

import pytest

from masscomm.domain.simulator import FIRST_ID, LAST_ID
from tests.support.harness.send_api import VALID, Answered, SendApi

KEY = {"principalId": "k1", "club_ids": "7", "scopes": "send", "mode": "test"}


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> SendApi:
    return SendApi(monkeypatch)


def post(api: SendApi, users: list[int], **context: Any) -> Answered:
    return api.call(json.dumps(VALID | {"to_users": users}), authorizer=KEY | context)


@pytest.mark.guarantee("simulator.test_key_reaches_no_user")
@pytest.mark.kills(guard="simulator.test_key")
@pytest.mark.parametrize("other", [1, FIRST_ID - 1, LAST_ID + 1])
@pytest.mark.parametrize("mode", ["test", "", "Live", "unknown"])
def test_a_send_of_a_test_key_to_a_user_is_refused(api: SendApi, other: int, mode: str) -> None:
    """Any mode but `live` is that of a test key. Nothing of the send is produced."""
    status, body, _ = post(api, [FIRST_ID + 1, other, FIRST_ID + 2], mode=mode)
    assert (status, [error["field"] for error in body["errors"]]) == (403, ["to_users[1]"])
    assert api.sends() == []


def test_a_test_key_sends_to_simulator_recipients(api: SendApi) -> None:
    assert post(api, [FIRST_ID + 1, LAST_ID])[0] == 202
    assert [send.to_users for send in api.sends()] == [[FIRST_ID + 1, LAST_ID]]


def test_a_live_key_sends_to_both(api: SendApi) -> None:
    assert post(api, [FIRST_ID + 1, 1], mode="live")[0] == 202


def test_the_sends_of_a_batch_are_checked_one_by_one(api: SendApi) -> None:
    body = {"sends": [VALID, VALID | {"to_users": [FIRST_ID]}]}
    headers = {"Idempotency-Key": "a"}
    status, answer, _ = api.call(json.dumps(body), path="/v1/sends/batch", authorizer=KEY, headers=headers)
    assert (status, [result["status"] for result in answer["results"]]) == (200, [403, 202])
    assert [send.to_users for send in api.sends()] == [[FIRST_ID]]
