"""An event source mapping on an in-memory broker, and a function whose failures a test chooses."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from local.emulators.event_source import EventSourceMapping, MappingSpec, Partition
from local.emulators.event_source.memory import MemoryBroker, MemoryDestination, MemorySource
from local.emulators.event_source.record import EventEnvelope

TIMEOUT_S = 20.0
ENVELOPE = EventEnvelope(event_source_arn="arn:aws:kafka:us-east-1:0:cluster/c/1", bootstrap_servers="b:9092")
ARN = "arn:aws:lambda:us-east-1:000000000000:function:f"
SourcePosition = tuple[str, int]


@dataclass(frozen=True)
class FunctionResponse:
    payload: bytes = b"null"
    function_error: str | None = None
    request_id: str = "request"
    status_code: int = 200
    executed_version: str = "$LATEST"


BROKEN = FunctionResponse(b'{"errorType": "E", "errorMessage": "m"}', "Unhandled")


def failing(positions: Iterable[SourcePosition]) -> FunctionResponse:
    """Return a partial batch response with these (topic-partition, offset)."""
    items = [{"itemIdentifier": {"partition": name, "offset": offset}} for name, offset in positions]
    return FunctionResponse(json.dumps({"batchItemFailures": items}).encode())


def positions(event: Mapping[str, Any]) -> list[SourcePosition]:
    """Return the (topic-partition, offset) of the records in an event, in its order."""
    return [(name, record["offset"]) for name, records in event["records"].items() for record in records]


@dataclass
class Function:
    """Records its events and returns `behave(positions)`; invocations wait while `gate` is closed."""

    behave: Callable[[list[SourcePosition]], FunctionResponse] = lambda _positions: FunctionResponse()
    gate: asyncio.Event | None = None
    payloads: list[bytes] = field(default_factory=list)
    batches: list[list[SourcePosition]] = field(default_factory=list)
    running: list[list[SourcePosition]] = field(default_factory=list)

    async def __call__(self, payload: bytes) -> FunctionResponse:
        batch = positions(json.loads(payload))
        self.payloads.append(payload)
        self.batches.append(batch)
        self.running.append(batch)
        await asyncio.sleep(0)
        try:
            if self.gate is not None:
                await self.gate.wait()
            return self.behave(batch)
        finally:
            self.running.remove(batch)

    def invocations_with(self, position: SourcePosition) -> int:
        return sum(position in batch for batch in self.batches)


def spec(**changes: Any) -> MappingSpec:
    values: dict[str, Any] = {
        "name": "f",
        "group": "masscomm.f",
        "topics": ("in",),
        "function_arn": ARN,
        "batch_size": 10,
        "first_backoff_s": 0.001,
        "last_backoff_s": 0.004,
        "drain_s": TIMEOUT_S,
    }
    return MappingSpec(**(values | changes))


@dataclass
class RunningMapping:
    """A running mapping with its broker, function and on-failure destination."""

    broker: MemoryBroker
    source: MemorySource
    function: Function
    mapping: EventSourceMapping

    def produce(self, count: int = 1, *, topic: str = "in", partition: int = 0, **more: Any) -> None:
        for _ in range(count):
            self.broker.produce(topic, more.get("value", b"v"), partition=partition, **_without(more, "value"))

    def committed(self, partition: int = 0, topic: str = "in") -> int:
        return self.broker.committed["masscomm.f"].get(Partition(topic, partition), 0)

    async def until_committed(self, offset: int, partition: int = 0, topic: str = "in") -> None:
        await until(lambda: self.committed(partition, topic) >= offset)
        assert self.committed(partition, topic) == offset

    def on_failure(self) -> list[dict[str, Any]]:
        return [json.loads(record.value or b"") for record in self.broker.logs[Partition("on-failure", 0)]]

    def on_failure_records(self) -> list[SourcePosition]:
        """Return the positions in all documents; the payload of an object in S3 is a string."""
        payloads = [document["payload"] for document in self.on_failure()]
        events = [json.loads(payload) if isinstance(payload, str) else payload for payload in payloads]
        return [position for event in events for position in positions(event)]


def broker(partitions: int = 4) -> MemoryBroker:
    made = MemoryBroker()
    made.create_topic("in", partitions)
    made.create_topic("other", 1)
    made.create_topic("on-failure", 1)
    return made


@contextlib.asynccontextmanager
async def running(
    function: Function | None = None,
    made: MemoryBroker | None = None,
    *,
    wall_clock: Callable[[], float] | None = None,
    destination: Any = None,
    **changes: Any,
) -> AsyncIterator[RunningMapping]:
    """Run a mapping on the broker `made`; records that were produced to it before form one batch."""
    made = made or broker()
    function = function or Function()
    config = spec(**changes)
    source = MemorySource(made, group=config.group, topics=config.topics)
    clock: dict[str, Any] = {} if wall_clock is None else {"wall_clock": wall_clock}
    mapping = EventSourceMapping(
        spec=config,
        source=source,
        destination=destination or MemoryDestination(made),
        envelope=ENVELOPE,
        invoke=function,
        **clock,
    )
    await mapping.start()
    try:
        yield RunningMapping(made, source, function, mapping)
    finally:
        if function.gate is not None:
            function.gate.set()
        await mapping.stop()


async def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition is true; fails the test after TIMEOUT_S."""
    async with asyncio.timeout(TIMEOUT_S):
        while not condition():
            await asyncio.sleep(0.001)


def _without(values: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key != name}
