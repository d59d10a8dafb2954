"""Polls Kafka for the deployed event source mappings: Lambda in AWS does this itself, LocalStack only stores the
mappings.

The properties of a mapping (topics, group, batch, retries, age, destination) are read from Lambda's API, so that a
record reaches its function as deployed. The function is also invoked through Lambda's API.
"""

import asyncio
import functools
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

from botocore.config import Config

from local.emulators.event_source import EventSourceMapping, MappingSpec
from local.emulators.event_source.kafka import KafkaDestination, KafkaSource
from local.emulators.event_source.record import EventEnvelope
from local.emulators.lambda_host import InvocationResult
from local.emulators.serverless import CLUSTER_ARN

READY_S = 60.0
# The read time-out is Lambda's own limit of a synchronous invocation.
INVOKE = Config(read_timeout=900, retries={"total_max_attempts": 1}, max_pool_connections=64)


def spec_of(mapping: Mapping[str, Any]) -> MappingSpec:
    """Return the specification of a mapping in a response to ListEventSourceMappings.

    Raises:
        ValueError: The mapping lacks a property that our functions need.
    """
    if mapping.get("FunctionResponseTypes") != ["ReportBatchItemFailures"]:
        raise ValueError(f"{mapping['UUID']}: without partial responses a failed record fails its whole batch")
    destination = mapping.get("DestinationConfig", {}).get("OnFailure", {}).get("Destination")
    return MappingSpec(
        name=f"{mapping['FunctionArn'].split(':function:')[1]} {mapping['Topics'][0]}",
        group=mapping["SelfManagedKafkaEventSourceConfig"]["ConsumerGroupId"],
        topics=tuple(mapping["Topics"]),
        function_arn=mapping["FunctionArn"],
        batch_size=mapping["BatchSize"],
        window_s=mapping.get("MaximumBatchingWindowInSeconds", 0),
        max_retries=mapping.get("MaximumRetryAttempts"),
        max_age_s=mapping.get("MaximumRecordAgeInSeconds", -1),
        bisect=mapping.get("BisectBatchOnFunctionError", False),
        on_failure=None if destination is None else destination.removeprefix("kafka://"),
    )


class Pollers:
    """Polls the topics of every deployed mapping and invokes its function, from __enter__ to __exit__.

    Args:
        bootstrap_servers: The address of the Kafka broker.
        client: Returns a boto3 Lambda client with the given configuration.
    """

    def __init__(self, *, bootstrap_servers: str, client: Callable[[Config], Any]) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._lambda = client(INVOKE)
        pages = self._lambda.get_paginator("list_event_source_mappings").paginate()
        # LocalStack itself polls queues.
        mappings = (each for page in pages for each in page["EventSourceMappings"])
        self.specs = [spec_of(each) for each in mappings if "Topics" in each]
        self._threads = ThreadPoolExecutor(max(1, len(self.specs)), "invocation")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="pollers", daemon=True)
        self._destination = KafkaDestination(bootstrap_servers=bootstrap_servers)
        self._mappings: list[EventSourceMapping] = []

    def __enter__(self) -> Self:
        """Start polling, and wait until every mapping has its partitions. Raises TimeoutError."""
        self._thread.start()
        try:
            self._run(self._start(self.specs))
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop polling; invocations in flight may finish."""
        self._run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._threads.shutdown()

    def status(self) -> dict[str, dict[str, object]]:
        """Return the status of each mapping by its name."""

        async def statuses() -> dict[str, dict[str, object]]:
            return {mapping.spec.name: mapping.status() for mapping in self._mappings}

        return self._run(statuses())

    async def _start(self, specs: Sequence[MappingSpec]) -> None:
        envelope = EventEnvelope(event_source_arn=CLUSTER_ARN, bootstrap_servers=self._bootstrap_servers)
        for spec in specs:
            mapping = EventSourceMapping(
                spec=spec,
                source=KafkaSource(bootstrap_servers=self._bootstrap_servers, group=spec.group, topics=spec.topics),
                destination=self._destination,
                envelope=envelope,
                invoke=functools.partial(self._invoke, spec.function_arn),
            )
            self._mappings.append(mapping)
            await mapping.start()
        async with asyncio.timeout(READY_S):
            await asyncio.gather(*(mapping.ready.wait() for mapping in self._mappings))

    async def _stop(self) -> None:
        await asyncio.gather(*(mapping.stop() for mapping in self._mappings))
        await self._destination.close()

    async def _invoke(self, function: str, payload: bytes) -> InvocationResult:
        call = functools.partial(self._lambda.invoke, FunctionName=function, Payload=payload)
        answer = await asyncio.get_running_loop().run_in_executor(self._threads, call)
        body = await asyncio.get_running_loop().run_in_executor(self._threads, answer["Payload"].read)
        return InvocationResult(
            payload=body,
            request_id=answer["ResponseMetadata"]["RequestId"],
            function_error=answer.get("FunctionError"),
            status_code=answer["StatusCode"],
            executed_version=answer.get("ExecutedVersion", "$LATEST"),
        )

    def _run[T](self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()
