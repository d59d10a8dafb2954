"""A function in on-demand mode, whose invocations are processes: a marked record ends its process with SIGKILL."""

import json
import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any

from masscomm.chain.batch import Batch, BatchDriver, Item
from masscomm.clock import SystemClock
from masscomm.domain.records import SendRequested
from masscomm.kafka import topics
from masscomm.kafka.producer import InMemoryProducer
from masscomm.stores.batch_marks.dynamodb import DynamoDbBatchMarks
from tests.support.harness.chain import Chain
from tests.support.harness.on_demand import whole_batches
from tests.support.harness.relay import Relay, relay
from tests.support.inputs.api_gateway_events import lambda_context

# The user whose send crashes the function.
CRASHING_USER = 13
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload([__name__])


class FileProducer(InMemoryProducer):
    """A producer whose acknowledged records are lines of a file."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def flush(self, timeout_s: float) -> None:
        before = len(self.produced)
        super().flush(timeout_s)
        with self._path.open("a") as file:
            for topic, key, value, _ in self.produced[before:]:
                text = value.decode() if topic == topics.ON_FAILURE and value is not None else (key or b"").decode()
                file.write(json.dumps([topic, text]) + "\n")


def invoke(payload: bytes, produced: Path, retries: int) -> int | None:
    """Invoke the function with an event in a process of its own; return its exit code."""
    process = _processes.Process(target=_invoke, args=(json.loads(payload), produced, retries))
    process.start()
    process.join(60)
    return process.exitcode


def produced_records(produced: Path, topic: str) -> list[str]:
    """Return the keys of the records of a topic, or their values for on-failure records."""
    lines = produced.read_text().splitlines() if produced.exists() else []
    return [text for name, text in map(json.loads, lines) if name == topic]


def _invoke(event: dict[str, Any], produced: Path, retries: int) -> None:
    driver = BatchDriver(
        function="under_test", codec=Chain().codec, producer=FileProducer(produced), clock=SystemClock()
    )
    driver = whole_batches(driver, DynamoDbBatchMarks.from_environment(), retries)

    def work(batch: Batch[SendRequested], item: Item[SendRequested]) -> None:
        if CRASHING_USER in item.value.to_users:
            os.kill(os.getpid(), signal.SIGKILL)
        relay(batch, item)

    driver.run(event, lambda_context(), Relay(work=work))
