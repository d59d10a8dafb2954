"""The webhook_receiver function in a process of its own, with DynamoDB Local, and its events in a file."""

import json
import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from functions.webhook_receiver import handler as webhook_receiver
from functions.webhook_receiver.known_sources import KnownSources
from functions.webhook_receiver.receive_webhooks import ReceiveWebhooks
from local.emulators.lambda_host.invocation import InvocationResult
from masscomm.aws.kms import KmsDataKeys
from masscomm.aws.sealed_secrets import SecretBox
from masscomm.clock import SystemClock
from masscomm.domain.records import EventOccurred
from masscomm.stores.event_ids.dynamodb import DynamoDbEventIds
from masscomm.stores.event_types.checks import KnownTypes
from masscomm.stores.event_types.dynamodb import DynamoDbEventTypes
from masscomm.stores.webhook_sources.dynamodb import DynamoDbWebhookSources
from tests.support.harness.chain import Chain
from tests.support.inputs.api_gateway_events import lambda_context

EVENTS_FILE = "RECEIVED_EVENTS"
# When the function is killed: before Kafka has the events, after it, and before its own answer.
type Moment = Literal["before", "after", "answer"]


class FileProducer:
    """Appends the events that it produces to a file, which a killed process leaves."""

    def __init__(self, killed: Moment | None = None) -> None:
        self._killed = killed
        self._chain = Chain()

    def produce(
        self, _topic: str, _key: bytes, value: bytes, _headers: Any, report: Callable[[Exception | None], None]
    ) -> None:
        if self._killed == "before":
            _kill()
        event = EventOccurred.from_avro(self._chain.codec.decode("EventOccurred", value))
        with Path(os.environ[EVENTS_FILE]).open("a") as file:
            file.write(json.dumps(event.to_avro()) + "\n")
        report(None)

    def flush(self, _timeout_s: float) -> None:
        if self._killed == "after":
            _kill()


def produced() -> Sequence[Any]:
    """Return the events in the file."""
    path = Path(os.environ[EVENTS_FILE])
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def in_a_process(payload: bytes, killed: Moment | None = None) -> InvocationResult:
    """Invoke the function in a process of its own, which may be killed."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_invoke, args=(payload, theirs, killed))
    process.start()
    process.join(60)
    if process.exitcode == 0:
        return InvocationResult(payload=ours.recv(), request_id="r")
    return InvocationResult(payload=b"{}", request_id="r", function_error="Unhandled")


def use_case(killed: Moment | None = None) -> ReceiveWebhooks:
    """Return the use case of the function over the stores that the environment names."""
    chain, clock = Chain(), SystemClock()
    store = DynamoDbWebhookSources.from_environment()
    box = SecretBox(KmsDataKeys(os.environ["WEBHOOK_KMS_KEY"]))
    return ReceiveWebhooks(
        sources=KnownSources(store=store, box=box, clock=clock),
        store=store,
        types=KnownTypes(store=DynamoDbEventTypes.from_environment(), clock=clock),
        event_ids=DynamoDbEventIds.from_environment(),
        codec=chain.codec,
        producer=FileProducer(killed),  # type: ignore[arg-type]
        clock=clock,
        logger=webhook_receiver.logger,
    )


def _invoke(payload: bytes, answers: Any, killed: Moment | None) -> None:
    cases = use_case(killed)
    webhook_receiver.bootstrap = lambda: cases  # type: ignore[assignment]
    answer = json.dumps(webhook_receiver.handler(json.loads(payload), lambda_context())).encode()
    if killed == "answer":
        _kill()
    answers.send(answer)


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
