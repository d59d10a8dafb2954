"""Emulates Lambda's event source mappings of SQS queues, and API Gateway's integration that writes to a queue.

Source: AWS documentation, "Using Lambda with Amazon SQS" and "Handling errors for an SQS event source in Lambda".
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from mypy_boto3_sqs import SQSClient

from local.emulators.lambda_host.invocation import InvocationResult
from local.emulators.local import REGION
from masscomm.domain.incoming_messages import message_of

log = logging.getLogger(__name__)

# How long a message that a function has not processed is hidden. Lambda's documentation advises six times the time
# limit of the function, which is long for trials on one machine.
VISIBILITY_S = 30
# How long a request waits for a message: the end of the mapping waits for it.
_WAIT_S = 1
_PAUSE_S = 1.0


class MessageTooLarge(Exception):
    """SQS accepts no message of this size."""


class QueueDown(Exception):
    """SQS does not take the message now."""


def sqs_client(environment: Mapping[str, str]) -> SQSClient:
    """Return a client with the addresses and credentials of the functions."""
    return boto3.client(
        "sqs",
        endpoint_url=environment.get("AWS_ENDPOINT_URL_SQS") or environment.get("AWS_ENDPOINT_URL"),
        region_name=environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or REGION,
        aws_access_key_id=environment.get("AWS_ACCESS_KEY_ID"),
        aws_secret_access_key=environment.get("AWS_SECRET_ACCESS_KEY"),
        config=Config(connect_timeout=2, read_timeout=10, retries={"total_max_attempts": 1}),
    )


@dataclass(frozen=True, kw_only=True)
class Door:
    """Writes the webhooks that the gateway receives to a queue, as the mapping template of the deployed API does
    (infra/cdk/resources/door.py).
    """

    client: SQSClient
    queue: str

    def put(self, source: str, headers: Mapping[str, str], body: bytes, received_at_ms: int) -> None:
        """Write a webhook to the queue. Raises MessageTooLarge or QueueDown."""
        text = message_of(source, headers, body, received_at_ms)
        try:
            url = self.client.get_queue_url(QueueName=self.queue)["QueueUrl"]
            self.client.send_message(QueueUrl=url, MessageBody=text, MessageGroupId=group_of(source))
        except ClientError as error:
            if "must be shorter" in str(error):
                raise MessageTooLarge from error
            raise QueueDown(str(error)) from error
        except BotoCoreError as error:
            raise QueueDown(str(error)) from error


def group_of(source: str) -> str:
    """Return the message group of a source: a fair queue delays no group by the backlog of another one."""
    letters = "".join(each for each in source if each.isascii() and (each.isalnum() or each == "_"))
    return letters if 0 < len(letters) <= 100 else "other"


@dataclass(kw_only=True, eq=False)
class QueueMapping:
    """Invokes a function with the messages of a queue, and deletes those that it has processed."""

    function: str
    queue: str
    batch_size: int
    client: SQSClient
    # Invokes the function with an event as JSON.
    invoke: Callable[[bytes], Awaitable[InvocationResult]]
    visibility_s: int = VISIBILITY_S
    _stopped: asyncio.Event = field(default_factory=asyncio.Event)
    _task: asyncio.Task[None] | None = None
    _processed: int = 0
    _failed: int = 0

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"queue-{self.function}")

    async def stop(self) -> None:
        """Stop the mapping, and wait for an invocation in progress."""
        self._stopped.set()
        if self._task is not None:
            await self._task

    def status(self) -> dict[str, int]:
        """Return the numbers of processed messages, and of messages that were left in the queue."""
        return {"processed": self._processed, "failed": self._failed}

    async def _run(self) -> None:
        url = ""
        while not self._stopped.is_set():
            try:
                url = url or (await asyncio.to_thread(self.client.get_queue_url, QueueName=self.queue))["QueueUrl"]
                messages = await asyncio.to_thread(self._receive, url)
                if messages:
                    await self._process(url, messages)
            except (BotoCoreError, ClientError) as error:
                log.warning("queue %s: %s", self.queue, error)
                await self._pause()

    async def _pause(self) -> None:
        try:
            await asyncio.wait_for(self._stopped.wait(), _PAUSE_S)
        except TimeoutError:
            return

    def _receive(self, url: str) -> Sequence[Any]:
        return self.client.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=self.batch_size,
            WaitTimeSeconds=_WAIT_S,
            VisibilityTimeout=self.visibility_s,
            MessageSystemAttributeNames=["All"],
        ).get("Messages", [])

    async def _process(self, url: str, messages: Sequence[Any]) -> None:
        failed = await self._invoked(messages)
        done = [each for each in messages if each["MessageId"] not in failed]
        self._processed += len(done)
        self._failed += len(messages) - len(done)
        if done:
            entries: list[Any] = [
                {"Id": str(number), "ReceiptHandle": each["ReceiptHandle"]} for number, each in enumerate(done)
            ]
            await asyncio.to_thread(self.client.delete_message_batch, QueueUrl=url, Entries=entries)

    async def _invoked(self, messages: Sequence[Any]) -> set[str]:
        """Invoke the function. Return the ids of the messages that stay in the queue."""
        every = {each["MessageId"] for each in messages}
        try:
            result = await self.invoke(queue_event(self.queue, messages))
        except Exception:
            # The host refused the invocation.
            log.exception("invocation of %s", self.function)
            return every
        if result.function_error is not None:
            log.error("%s: %s", self.function, result.payload[:1_000])
            return every
        try:
            failures = (json.loads(result.payload) or {}).get("batchItemFailures", [])
            failed = {each["itemIdentifier"] for each in failures}
        except (ValueError, KeyError, TypeError, AttributeError):
            return every
        # An unknown id fails the whole batch.
        return failed if failed <= every else every


def queue_event(queue: str, messages: Sequence[Mapping[str, Any]]) -> bytes:
    """Return Lambda's event for messages of a queue, as JSON."""
    records = [
        {
            "messageId": each["MessageId"],
            "receiptHandle": each["ReceiptHandle"],
            "body": each["Body"],
            "attributes": each.get("Attributes", {}),
            "messageAttributes": {},
            "md5OfBody": each.get("MD5OfBody", ""),
            "eventSource": "aws:sqs",
            "eventSourceARN": f"arn:aws:sqs:{REGION}:000000000000:{queue}",
            "awsRegion": REGION,
        }
        for each in messages
    ]
    return json.dumps({"Records": records}).encode()
