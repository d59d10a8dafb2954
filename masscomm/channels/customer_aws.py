"""Sends messages with events to queues (SQS) and event buses (EventBridge) in accounts of tenants.

The requests are signed with the credentials of a role of the tenant. Up to 10 messages share a request, and each has an
answer of its own. A service in AWS answers in the place of a server, so that no address of a tenant is called.

Source: AWS documentation, API references of Amazon SQS (SendMessageBatch) and Amazon EventBridge (PutEvents).
"""

import asyncio
import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from masscomm import fast_json
from masscomm.aws import endpoint as addresses
from masscomm.aws.assumed_role import AssumedRole, RoleRefused
from masscomm.aws.async_requests import AsyncRequests
from masscomm.aws.http_answer import AnswerLost, NotSent
from masscomm.aws.request import Limits, Requests
from masscomm.channels.guarded_http import Answer, NoAnswer
from masscomm.domain.aws_targets import AwsTarget, TargetService
from masscomm.domain.time_limits import EVENT_ATTEMPT_S, WEBHOOK_ATTEMPT_S
from masscomm.domain.webhooks import Endpoint

# The endpoints whose connections and credentials are kept: Lambda has 1,024 file descriptors.
MAX_CLIENTS = 64
# The name of the sender in the events of a bus.
SOURCE = "masscomm"
_OK, _SENDERS_FAULT, _FAILED = 200, 400, 500
_HEADERS = {
    TargetService.SQS: {
        "content-type": "application/x-amz-json-1.0",
        "x-amz-target": "AmazonSQS.SendMessageBatch",
    },
    TargetService.EVENTBRIDGE: {
        "content-type": "application/x-amz-json-1.1",
        "x-amz-target": "AWSEvents.PutEvents",
    },
}


class Entry(NamedTuple):
    """A message of a request."""

    id: str
    # The event type, and what the event is about: messages of one group of a FIFO queue keep their order.
    type: str
    group: str
    body: bytes


@dataclass(kw_only=True)
class CustomerAws:
    """The services in accounts of tenants. An instance belongs to one event loop."""

    # Whether a role that can be assumed without its external id is refused.
    checks_trust: bool = True
    # Returns the client of a service for an endpoint.
    connect: Callable[[Endpoint, AwsTarget], AsyncRequests] | None = None
    # (endpoint, target, role) → the client, the one used last at the end.
    _clients: OrderedDict[tuple[str, str, str | None], AsyncRequests] = field(default_factory=OrderedDict)
    _sts: Requests | None = None

    async def send(
        self, endpoint: Endpoint, target: AwsTarget, entries: Sequence[Entry], timeout_s: float
    ) -> Sequence[Answer]:
        """Send messages, at most MAX_ENTRIES, and return the answer to each.

        Raises:
            NoAnswer: The service has not answered, or the role cannot be assumed.
            Stop, Retry: There are no credentials of our own.
        """
        client = await self._client(endpoint, target)
        body = _body(target, client.url, entries)
        try:
            async with asyncio.timeout(timeout_s):
                status, answer = await client.post(body)
        except (RoleRefused, NotSent, AnswerLost) as error:
            raise NoAnswer(str(error)) from error
        except TimeoutError as error:
            raise NoAnswer(f"no answer in {timeout_s:.0f} s") from error
        return _answers(target, len(entries), status, _document(answer))

    async def close(self) -> None:
        for client in self._clients.values():
            await client.close()
        self._clients.clear()

    async def _client(self, endpoint: Endpoint, target: AwsTarget) -> AsyncRequests:
        key = (endpoint.key.id, target.arn, endpoint.role_arn)
        if (client := self._clients.get(key)) is None:
            client = self._clients[key] = (self.connect or self._connected)(endpoint, target)
        self._clients.move_to_end(key)
        if len(self._clients) > MAX_CLIENTS:
            _, oldest = self._clients.popitem(last=False)
            await oldest.close()
        return client

    def _connected(self, endpoint: Endpoint, target: AwsTarget) -> AsyncRequests:
        if self._sts is None:
            self._sts = Requests("sts", Limits(connections=4, connect_s=1, read_s=1))
        role = AssumedRole(
            self._sts,
            role_arn=endpoint.role_arn or "",
            external_id=endpoint.key.id,
            action=target.permission,
            resource=target.arn,
            checks_trust=self.checks_trust,
        )
        return AsyncRequests(
            target.service,
            Limits(connect_s=EVENT_ATTEMPT_S, read_s=WEBHOOK_ATTEMPT_S),
            headers=_HEADERS[target.service],
            url=addresses.endpoint(target.service, target.region),
            region=target.region,
            credentials=role,
        )


def _body(target: AwsTarget, url: str, entries: Sequence[Entry]) -> bytes:
    if target.service is TargetService.SQS:
        messages = [_queued(target, number, entry) for number, entry in enumerate(entries)]
        return fast_json.encoded({"QueueUrl": f"{url}{target.account}/{target.name}", "Entries": messages})
    events = [
        {"Source": SOURCE, "DetailType": entry.type, "Detail": entry.body.decode(), "EventBusName": target.arn}
        for entry in entries
    ]
    return fast_json.encoded({"Entries": events})


def _queued(target: AwsTarget, number: int, entry: Entry) -> dict[str, str]:
    message = {"Id": str(number), "MessageBody": entry.body.decode()}
    if target.is_fifo:
        group = hashlib.sha256(entry.group.encode()).hexdigest()
        message |= {"MessageGroupId": group, "MessageDeduplicationId": entry.id}
    return message


def _answers(target: AwsTarget, count: int, status: int, document: Mapping[str, Any]) -> list[Answer]:
    """Return the answer to each message of a request. A message without a result has not been accepted."""
    if status != _OK:
        code = str(document.get("__type", "")).rpartition("#")[2]
        return [_answer(status, code or str(status))] * count
    if target.service is TargetService.SQS:
        # guard: aws_targets.partial_failure
        accepted = {str(each.get("Id")) for each in document.get("Successful", [])}
        failed = {str(each.get("Id")): each for each in document.get("Failed", [])}
        found = [failed.get(str(number), {}) for number in range(count)]
        return [
            _answer(_OK, "")
            if str(number) in accepted
            else _answer(_SENDERS_FAULT if each.get("SenderFault") else _FAILED, str(each.get("Code", "no result")))
            for number, each in enumerate(found)
        ]
    rows = document.get("Entries", [])
    rows = [*rows, *[{}] * (count - len(rows))]
    return [
        _answer(_OK, "") if row.get("EventId") else _answer(_FAILED, str(row.get("ErrorCode", "no result")))
        for row in rows[:count]
    ]


def _answer(status: int, code: str) -> Answer:
    return Answer(status=status, retry_after=None, body=code)


def _document(answer: bytes) -> Mapping[str, Any]:
    """Return the JSON object of a response; {} for another body, such as that of a proxy."""
    try:
        document = json.loads(answer)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
