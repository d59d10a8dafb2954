"""The messages of sends over REST are kept with their items in the register."""

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import boto3
import pytest
from moto import mock_aws

from functions.send_handler.registration import Registration
from local.emulators.local import REGION
from masscomm.domain.kept_messages import KeptMessage
from masscomm.stores.sends.dynamodb import DynamoDbSends
from tests.support.harness.counted import Counted
from tests.support.harness.send_api import SendApi
from tests.support.servers.dynamodb_table import new_table

ID = "0b8e2f0e-7a1c-4c1e-9d53-2f3f0f9a6c11"
DATA = {"title": "Hello", "body": "It works."}
CODE = {"type": "one_time_password", "data": {"title": "Your code", "body": "123456"}}


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> SendApi:
    return SendApi(monkeypatch)


def kept(api: SendApi) -> list[KeptMessage]:
    return [each.message for each in api.register.messages.values()]


@pytest.mark.parametrize(
    ("values", "user_ids"),
    [
        ({}, {1, 2, 3}),
        ({"to_users": [1, *range(1, 20)]}, set(range(1, 20))),
        ({"to_users": list(range(1, 21))}, set()),
        ({"send_id": ID}, {1, 2, 3}),
        ({"send_id": ID, "part_index": 1, "part_count": 2}, set()),
    ],
    ids=["service", "few", "many", "named", "part"],
)
def test_message_of_a_send_is_kept(api: SendApi, values: dict[str, Any], user_ids: set[int]) -> None:
    assert api.post(data=DATA, channels=["email", "push"], locale="de", **values)[0] == 202
    (message,) = kept(api)
    assert (message.data, message.channels, message.locale) == (DATA, ("email", "push"), "de")
    assert set(message.user_ids) == user_ids


def test_message_of_a_send_to_an_audience_is_kept(api: SendApi) -> None:
    api.call(json.dumps({"type": "news", "club_id": 7, "audience": {"all_users": True}, "data": DATA}))
    assert [(each.data, each.user_ids) for each in kept(api)] == [(DATA, ())]


def test_values_of_single_recipients_are_not_kept(api: SendApi) -> None:
    api.post(data=DATA, recipient_data={"1": {"seat": "A1", "title": "Hello Ada"}})
    assert [each.data for each in kept(api)] == [DATA]


@pytest.mark.parametrize(
    ("values", "reason"),
    [(CODE, "category"), ({"priority": "critical", "data": DATA}, "critical")],
    ids=["code", "lane"],
)
def test_confidential_message_is_kept_nowhere(api: SendApi, values: dict[str, Any], reason: str) -> None:
    for named in ({}, {"send_id": ID}):
        assert api.post(**values, **named)[0] == 202
    assert kept(api) == []
    assert [each.not_kept for each in api.register.sends.values()] == [reason] * 2


def test_repeated_request_keeps_the_first_message(api: SendApi) -> None:
    first = api.post_with("k", data=DATA)
    assert api.post_with("k", data=DATA)[1] == first[1]
    assert api.post(send_id=ID, data=DATA)[0] == 202
    before = dict(api.register.messages)
    api.clock.advance(3_600)
    assert api.post(send_id=ID, data=DATA)[0] == 202
    assert api.register.messages == before


@pytest.mark.parametrize("values", [CODE, {"data": DATA}, {"data": DATA, "send_id": ID}], ids=["code", "text", "named"])
def test_message_needs_no_further_request(api: SendApi, values: dict[str, Any]) -> None:
    """A one-time password writes its item alone; another send writes both items in one transaction."""
    with mock_aws():
        calls: Counter[str] = Counter()
        dynamodb: Any = boto3.client("dynamodb", region_name=REGION)
        client: Any = Counted(dynamodb, calls)
        register = DynamoDbSends(table=new_table(dynamodb, "sends"), client=client, clock=api.clock)
        requests = replace(api.use_cases.requests, registration=Registration(sends=register))
        api.use_cases = replace(api.use_cases, requests=requests)
        assert api.post(**values)[0] == 202
    writes = {"put_item": 1} if values is CODE else {"transact_write_items": 1}
    assert {name: count for name, count in calls.items() if name in ("put_item", "transact_write_items")} == writes
