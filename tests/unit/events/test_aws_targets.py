"""webhook_sender sends messages to queues and event buses in accounts of tenants."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from masscomm.aws.assumed_role import AssumedRole, RoleRefused
from masscomm.aws.request import Limits, Requests
from masscomm.channels.customer_aws import CustomerAws
from masscomm.domain.aws_targets import role_account, target_of
from masscomm.domain.webhooks import MAX_ATTEMPTS
from tests.support.harness.events import WebhookSender, occurred
from tests.support.harness.webhooks import KEY
from tests.support.servers.customer_account import ACCOUNT, BUS, FIFO, QUEUE, ROLE, CustomerAccount, customer_account


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[CustomerAccount]:
    with customer_account(monkeypatch, KEY.id) as served:
        yield served


@pytest.fixture
def sender(account: CustomerAccount) -> Iterator[WebhookSender]:
    aws = CustomerAws()
    with asyncio.Runner() as runner:
        yield WebhookSender(aws, runner.run)
        runner.run(aws.close())


def events(count: int) -> list[Any]:
    return [occurred(f"e{number:02d}", key=f"order {number % 2}") for number in range(count)]


@pytest.mark.parametrize("arn", [QUEUE, FIFO, BUS])
def test_messages_arrive_ten_a_request(sender: WebhookSender, account: CustomerAccount, arn: str) -> None:
    sender.endpoint(url=arn, role_arn=ROLE)
    given = events(25)
    assert sender.send(sender.request(given)) == []
    assert sorted(len(each) for each in account.requests) == [5, 10, 10]
    assert sorted(account.accepted) == [each.event_id for each in given]
    assert {status for _, status, _, _ in sender.results()} == {"delivered"}
    assert sender.waiting() == []
    entry = account.requests[0][0]
    if arn == FIFO:
        message = json.loads(entry["MessageBody"])
        groups = {each["MessageGroupId"] for entries in account.requests for each in entries}
        assert (len(groups), entry["MessageDeduplicationId"]) == (2, message["id"])
    if arn == BUS:
        assert (entry["Source"], entry["DetailType"], entry["EventBusName"]) == ("masscomm", "match.goal", BUS)


def test_a_role_is_assumed_for_one_action_with_its_id(sender: WebhookSender, account: CustomerAccount) -> None:
    sender.endpoint(url=QUEUE, role_arn=ROLE)
    for _ in range(2):
        sender.send(sender.request(events(1)))
    without, with_id = account.assumed
    assert ("ExternalId" not in without, with_id["ExternalId"]) == (True, KEY.id)
    (statement,) = json.loads(with_id["Policy"])["Statement"]
    assert (statement["Action"], statement["Resource"]) == ("sqs:SendMessage", QUEUE)


@pytest.mark.guarantee("events.partial_failure_is_repeated")
@pytest.mark.kills(guard="aws_targets.partial_failure")
@pytest.mark.parametrize("arn", [QUEUE, BUS])
def test_refused_messages_are_repeated_alone(sender: WebhookSender, account: CustomerAccount, arn: str) -> None:
    """The delay store has those that were refused, and not the endpoint's others."""
    sender.endpoint(url=arn, role_arn=ROLE)
    account.refused = {"e03": 1, "e07": 1}
    assert sender.send(sender.request(events(10))) == []
    assert len(account.accepted) == 8
    waiting = [each.event_id for record in sender.waiting() for each in record.events]
    assert sorted(waiting) == ["e03", "e07"]
    assert sender.endpoints.stored[KEY].failing_since_ms is None
    assert sender.retry() == []
    assert sorted(account.accepted) == [each.event_id for each in events(10)]
    assert [row[:3] for row in sender.results() if row[0] == "e03"] == [
        ("e03", "delivered", 2),
        ("e03", "retried", 1),
    ]


def test_a_message_that_is_always_refused_becomes_a_dead_letter(
    sender: WebhookSender, account: CustomerAccount
) -> None:
    sender.endpoint(url=QUEUE, role_arn=ROLE)
    account.refused = {"e00": MAX_ATTEMPTS}
    sender.send(sender.request(events(2)))
    while sender.waiting():
        assert sender.retry() == []
    assert account.accepted == ["e01"]
    (letter,) = sender.given_up.stored.values()
    assert (letter.event.event_id, letter.attempts) == ("e00", MAX_ATTEMPTS)


@pytest.mark.kills(guard="assumed_roles.external_id_is_required")
def test_a_role_without_an_external_id_is_refused(sender: WebhookSender, account: CustomerAccount) -> None:
    """Another tenant who knows the role's ARN could name it."""
    account.external_id = None
    sender.endpoint(url=QUEUE, role_arn=ROLE)
    assert sender.send(sender.request(events(3))) == []
    assert account.requests == []
    assert len(account.assumed) == 1
    assert sender.endpoints.stored[KEY].failing_since_ms is not None
    assert sum(len(each.events) for each in sender.waiting()) == 3


@pytest.mark.parametrize("fields", [{"external_id": "other"}, {"status": 400}, {"status": 503}])
def test_a_target_that_refuses_all_is_failing(
    sender: WebhookSender, account: CustomerAccount, fields: dict[str, Any]
) -> None:
    for name, value in fields.items():
        setattr(account, name, value)
    sender.endpoint(url=QUEUE, role_arn=ROLE)
    assert sender.send(sender.request(events(40))) == []
    assert account.accepted == []
    assert sender.endpoints.stored[KEY].failing_since_ms is not None
    assert sum(len(each.events) for each in sender.waiting()) == 40


def test_messages_wait_while_sts_is_away(
    sender: WebhookSender, account: CustomerAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender.endpoint(url=QUEUE, role_arn=ROLE)
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", "http://127.0.0.1:1")
    assert sender.send(sender.request(events(3))) == []
    assert (account.assumed, sum(len(each.events) for each in sender.waiting())) == ([], 3)


def test_credentials_are_kept_until_they_end(account: CustomerAccount) -> None:
    now = [0.0]
    role = AssumedRole(
        Requests("sts", Limits(connect_s=1, read_s=1)),
        role_arn=ROLE,
        external_id=KEY.id,
        action="sqs:SendMessage",
        resource=QUEUE,
        now=lambda: now[0],
    )
    first = role()
    assert (role(), len(account.assumed)) == (first, 2)
    now[0] = 4_102_444_800.0
    role()
    assert len(account.assumed) == 4
    account.external_id = "other"
    with pytest.raises(RoleRefused, match="AccessDenied"):
        role()


@pytest.mark.parametrize(
    "arn",
    [
        "https://sqs.eu-central-1.amazonaws.com/111122223333/orders",
        f"arn:aws:sqs:evil.example/:{ACCOUNT}:orders",
        f"arn:aws:sqs:eu-central-1:{ACCOUNT}:event-bus/orders",
        f"arn:aws:events:eu-central-1:{ACCOUNT}:orders",
        f"arn:aws:sqs:eu-central-1:{ACCOUNT}:../orders",
        f"arn:aws:sns:eu-central-1:{ACCOUNT}:orders",
        f"{QUEUE}\n",
    ],
)
def test_only_queues_and_buses_are_targets(arn: str) -> None:
    assert target_of(arn) is None


@pytest.mark.parametrize(
    ("arn", "account_id"),
    [
        (ROLE, ACCOUNT),
        (f"arn:aws:iam::{ACCOUNT}:role/admin", None),
        (f"arn:aws:iam::{ACCOUNT}:user/masscomm-events", None),
        (f"{ROLE}/x", None),
        (7, None),
    ],
)
def test_only_named_roles_are_assumed(arn: Any, account_id: str | None) -> None:
    assert role_account(arn) == account_id
