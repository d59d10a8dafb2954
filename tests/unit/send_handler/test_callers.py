"""What of a caller changes the effect of a request is part of what a repetition is compared with."""

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import pytest

from functions.send_handler.send_records import Caller
from masscomm.domain.simulator import FIRST_ID
from masscomm.errors import Retry
from tests.support.harness.send_api import VALID, Answered, SendApi
from tests.support.inputs.api_gateway_events import EVERY_SCOPE

SIMULATED = list(range(FIRST_ID, FIRST_ID + 3))
FIRST = EVERY_SCOPE | {"club_ids": "7", "principalId": "a", "recipients_a_day": "9"}
# By the field of Caller: how the authorizer's context of the second caller differs.
SECOND: Mapping[str, Mapping[str, str]] = {
    "principal": {"principalId": "b"},
    "counted_under": {"principalId": "b"},
    "recipients_a_day": {"recipients_a_day": "2"},
    "is_test": {"mode": "test"},
    "trace": {},
}


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> SendApi:
    return SendApi(monkeypatch)


def request(api: SendApi, path: str, context: Mapping[str, str]) -> Answered:
    send = VALID | {"to_users": SIMULATED}
    body = {"sends": [send]} if path.endswith("batch") else send
    return api.call(json.dumps(body), path=path, authorizer=dict(context), headers={"Idempotency-Key": "k"})


def test_each_field_of_a_caller_has_a_case() -> None:
    assert SECOND.keys() == {each.name for each in fields(Caller)}


@pytest.mark.kills(guard="limits.use_of_a_key")
@pytest.mark.kills(guard="idempotency.mode_of_a_key")
@pytest.mark.parametrize("path", ["/v1/sends", "/v1/sends/batch"])
@pytest.mark.parametrize("field", SECOND)
def test_repetition_by_another_caller_is_not_a_free_repeat(api: SendApi, field: str, path: str) -> None:
    """The first attempt is interrupted, so that the second one executes the request."""
    api.producer.fail = lambda _topic, _value: Retry("no leader")
    assert request(api, path, FIRST)[0] == 503
    api.producer.fail = lambda _topic, _value: None
    second = {**FIRST, **SECOND[field]}
    status = request(api, path, second)[0]
    sends = {(send.send_id, send.principal, send.is_test) for send in api.sends()}
    used = {window.split("#")[0]: use for window, use in api.usage.used.items() if "recipients" in window}
    match field:
        case "principal" | "counted_under":
            assert (status in (200, 202), len(sends), used) == (True, 1, {"a": 3, "b": 3})
        case "is_test":
            live = request(api, path, FIRST)
            assert (status in (200, 202), live[0] in (200, 202)) == (True, True)
            assert {send.is_test for send in api.sends()} == {True, False}
        case _:
            assert (status in (200, 202), len(sends), used) == (True, 1, {"a": 3})


def test_larger_accepted_set_of_a_batch_is_counted(api: SendApi) -> None:
    """A key with fewer scopes was refused for one of the sends. The repetition by another key accepts both."""
    critical: dict[str, Any] = VALID | {"to_users": [4, 5], "priority": "critical"}
    body = json.dumps({"sends": [VALID, critical]})
    first = {"principalId": "a", "club_ids": "7", "scopes": "send", "recipients_a_day": "3"}
    second = EVERY_SCOPE | {"principalId": "a", "club_ids": "7", "recipients_a_day": "3"}
    headers, path = {"Idempotency-Key": "k"}, "/v1/sends/batch"
    api.producer.fail = lambda _topic, _value: Retry("no leader")
    assert api.call(body, path=path, authorizer=first, headers=headers)[0] == 503
    api.producer.fail = lambda _topic, _value: None
    assert api.call(body, path=path, authorizer=dict(second), headers=headers)[0] == 429
