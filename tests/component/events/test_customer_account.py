"""Messages in SQS and EventBridge, as LocalStack emulates their protocols."""

import asyncio
import json
from uuid import uuid4

import pytest

from local.devstack.config import StackConfig
from local.devstack.service import AWS_CREDENTIALS
from local.emulators.local import REGION
from masscomm.channels.customer_aws import CustomerAws, Entry
from masscomm.domain.aws_targets import target_of
from masscomm.domain.webhooks import Endpoint, EndpointKey
from tests.support.servers.localstack_client import localstack_client

ROLE = "arn:aws:iam::000000000000:role/masscomm-events"
ENTRIES = [Entry(f"evt_{number}", "match.goal", "m", json.dumps({"number": number}).encode()) for number in range(10)]


async def send(endpoint: Endpoint) -> list[int]:
    """Send the entries twice, and return the status of each."""
    # The emulated STS checks no trust policy.
    aws, target = CustomerAws(checks_trust=False), target_of(endpoint.url)
    assert target is not None
    found = [each.status for _ in range(2) for each in await aws.send(endpoint, target, ENTRIES, 15)]
    await aws.close()
    return found


@pytest.mark.parametrize("kind", ["sqs", "fifo", "events"])
def test_messages_arrive_in_a_queue_and_through_a_bus(
    localstack: StackConfig, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    sqs, events = (localstack_client(localstack.aws_url, each) for each in ("sqs", "events"))
    for variable, value in {**AWS_CREDENTIALS, "AWS_ENDPOINT_URL": localstack.aws_url, "AWS_REGION": REGION}.items():
        monkeypatch.setenv(variable, value)
    # LocalStack loads a service at its first request, which may take longer than the client waits.
    localstack_client(localstack.aws_url, "sts").get_caller_identity()
    name = f"events-{uuid4()}" + (".fifo" if kind == "fifo" else "")
    queue = sqs.create_queue(QueueName=name, Attributes={"FifoQueue": "true"} if kind == "fifo" else {})["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    url = arn
    if kind == "events":
        url = events.create_event_bus(Name=name)["EventBusArn"]
        events.put_rule(Name=name, EventBusName=name, EventPattern=json.dumps({"source": ["masscomm"]}))
        events.put_targets(Rule=name, EventBusName=name, Targets=[{"Id": "1", "Arn": arn}])
    key = EndpointKey(7, "ep_7_aaaaaaaaaaaaaaaaaaaa")
    endpoint = Endpoint(key=key, url=url, role_arn=ROLE, created_at_ms=1, key_id="1")
    assert asyncio.run(send(endpoint)) == [200] * 20
    # A FIFO queue recognises a repeated message by its id.
    wanted, numbers = (10 if kind == "fifo" else 20), list[int]()
    while len(numbers) < wanted:
        answer = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=10)
        messages = answer.get("Messages", [])
        assert messages, f"{len(numbers)} of {wanted} messages have arrived"
        for message in messages:
            body = json.loads(message["Body"])
            numbers.append((body["detail"] if kind == "events" else body)["number"])
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    assert sorted(numbers) == sorted([*range(10)] * (wanted // 10))
