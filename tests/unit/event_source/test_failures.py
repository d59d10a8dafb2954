import asyncio
import json
from typing import Any

import pytest

from local.emulators.event_source import PartialFailures
from local.emulators.event_source.memory import MemoryDestination
from local.emulators.event_source.ports import RecordTooLargeError
from tests.support.harness.event_source import (
    ARN,
    BROKEN,
    Function,
    FunctionResponse,
    SourcePosition,
    broker,
    failing,
    running,
    spec,
    until,
)

POISON: SourcePosition = ("in-0", 3)


def fails_whole(*poison: SourcePosition, times: int | None = None) -> Function:
    """Return a function that raises for each batch with one of these positions, always or `times` times."""
    left = [times]

    def behave(batch: list[SourcePosition]) -> FunctionResponse:
        if not set(batch) & set(poison) or left[0] == 0:
            return FunctionResponse()
        if left[0] is not None:
            left[0] -= 1
        return BROKEN

    return Function(behave)


def names(*poison: SourcePosition, times: int | None = None) -> Function:
    """Return a function that reports these positions as failed, always or `times` times."""
    left = [times]

    def behave(batch: list[SourcePosition]) -> FunctionResponse:
        found = [position for position in batch if position in poison]
        if not found or left[0] == 0:
            return FunctionResponse()
        if left[0] is not None:
            left[0] -= 1
        return failing(found)

    return Function(behave)


def one_batch(count: int = 6, partitions: int = 1) -> Any:
    made = broker()
    for number in range(partitions):
        for _ in range(count):
            made.produce("in", b"v", partition=number, timestamp_ms=1_700_000_000_000)
    return made


# --- responses that mean success ---


@pytest.mark.parametrize(
    "payload",
    [b"", b"null", b'""', b"{}", b'{"batchItemFailures": []}', b'{"batchItemFailures": null}', b'{"statusCode": 200}'],
)
async def test_an_empty_answer_is_success(payload: bytes) -> None:
    async with running(Function(lambda _: FunctionResponse(payload)), one_batch()) as bench:
        await bench.until_committed(6)
    assert len(bench.function.batches) == 1


# --- responses that mean that all records failed ---


@pytest.mark.parametrize(
    "payload",
    [
        b"not json",
        b"[]",
        b'"text"',
        b"7",
        b'{"batchItemFailures": {}}',
        b'{"batchItemFailures": [null]}',
        b'{"batchItemFailures": [{}]}',
        b'{"batchItemFailures": [{"itemIdentifier": ""}]}',
        b'{"batchItemFailures": [{"itemIdentifier": null}]}',
        b'{"batchItemFailures": [{"itemIdentifier": "in-0"}]}',
        b'{"batchItemFailures": [{"itemIdentifier": {"partition": "in-0", "offset": "3"}}]}',
        b'{"batchItemFailures": [{"itemIdentifier": {"partition": "in-0", "offset": 99}}]}',
        b'{"batchItemFailures": [{"itemIdentifier": {"partition": "in-9", "offset": 3}}]}',
        b'{"batchItemFailures": [{"itemIdentifier": {"topic": "in", "partition": 0, "offset": 3}}]}',
        # An invalid identifier fails the whole batch, even if another identifier is valid.
        b'{"batchItemFailures": [{"itemIdentifier": {"partition": "in-0", "offset": 3}}, {"itemIdentifier": 1}]}',
    ],
)
@pytest.mark.parametrize("reading", PartialFailures)
async def test_malformed_response_fails_the_whole_batch(payload: bytes, reading: PartialFailures) -> None:
    """A response that names a record outside the batch is malformed, too."""
    answers = [FunctionResponse(payload), FunctionResponse()]
    async with running(Function(lambda _: answers.pop(0)), one_batch(), partial_failures=reading) as bench:
        await bench.until_committed(6)
    assert bench.function.batches[0] == bench.function.batches[1]
    assert len(bench.function.batches[0]) == 6


async def test_function_error_fails_the_batch_and_commits_no_offset() -> None:
    function = fails_whole(POISON)
    async with running(function, one_batch()) as bench:
        await until(lambda: len(function.batches) >= 4)
        assert bench.committed() == 0
    assert all(len(batch) == 6 for batch in function.batches)


async def test_refused_invocation_is_retried_and_not_counted() -> None:
    refusals = [OSError("throttled")] * 5

    def behave(_batch: list[SourcePosition]) -> FunctionResponse:
        if refusals:
            raise refusals.pop()
        return FunctionResponse()

    async with running(Function(behave), one_batch(), max_retries=0, on_failure="on-failure") as bench:
        await bench.until_committed(6)
        assert bench.on_failure() == []


# --- for both readings of a partial batch response ---


async def test_only_failed_retries_the_named_records() -> None:
    function = names(("in-0", 1), ("in-0", 4), times=1)
    async with running(function, one_batch(), partial_failures=PartialFailures.ONLY_FAILED) as bench:
        await bench.until_committed(6)
    assert function.batches[1] == [("in-0", 1), ("in-0", 4)]


async def test_from_lowest_retries_from_the_lowest_failed_offset() -> None:
    function = names(("in-0", 4), ("in-0", 2), ("in-1", 5), times=1)
    reading = PartialFailures.FROM_LOWEST
    async with running(function, one_batch(partitions=3), batch_size=18, partial_failures=reading) as bench:
        await until(lambda: bench.mapping.statistics.succeeded == 18)
    assert sorted(function.batches[1]) == [("in-0", 2), ("in-0", 3), ("in-0", 4), ("in-0", 5), ("in-1", 5)]


@pytest.mark.parametrize("reading", PartialFailures)
async def test_offsets_are_committed_up_to_the_first_failed_record(reading: PartialFailures) -> None:
    function = names(POISON)
    async with running(function, one_batch(), partial_failures=reading) as bench:
        await until(lambda: function.invocations_with(POISON) >= 3)
        await until(lambda: bench.committed() == 3)
        assert bench.committed() == 3


@pytest.mark.parametrize("reading", PartialFailures)
async def test_failing_partition_does_not_block_the_others(reading: PartialFailures) -> None:
    function = names(POISON)
    async with running(function, one_batch(partitions=2), batch_size=12, partial_failures=reading) as bench:
        await bench.until_committed(6, partition=1)
        bench.produce(partition=1)
        await bench.until_committed(7, partition=1)
        assert bench.committed(0) <= 3


async def test_delayed_retry_does_not_block_other_partitions() -> None:
    function = fails_whole(("in-0", 0))
    async with running(function, first_backoff_s=3600, last_backoff_s=3600, drain_s=1) as bench:
        bench.produce(partition=0)
        await until(lambda: bench.mapping.statistics.failures == 1)
        bench.produce(5, partition=1)
        await bench.until_committed(5, partition=1)


async def test_retry_delays_double_up_to_the_last() -> None:
    waits: list[float] = []
    function = fails_whole(("in-0", 0), times=6)
    async with running(function, first_backoff_s=0.001, last_backoff_s=0.008) as bench:
        original = asyncio.timeout

        def timeout(delay: float | None) -> Any:
            if delay is not None and delay < 1:
                waits.append(delay)
            return original(delay)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(asyncio, "timeout", timeout)
            bench.produce()
            while bench.committed() < 1:
                await asyncio.sleep(0.001)
    assert waits == [0.001, 0.002, 0.004, 0.008, 0.008, 0.008]


# --- maximum number of attempts ---


async def test_batch_without_destination_is_retried_for_ever() -> None:
    function = fails_whole(POISON)
    async with running(function, one_batch()) as bench:
        await until(lambda: len(function.batches) > 15)
        assert bench.committed() == 0


@pytest.mark.parametrize("given", [None, -1])
async def test_infinite_retries_with_a_destination_are_ten(given: int | None) -> None:
    function = fails_whole(POISON)
    async with running(function, one_batch(), max_retries=given, on_failure="on-failure") as bench:
        await bench.until_committed(6)
    assert len(function.batches) == 1 + 10


@pytest.mark.parametrize("retries", [0, 1, 3])
async def test_max_retries_counts_after_the_first_invocation(retries: int) -> None:
    function = fails_whole(POISON)
    async with running(function, one_batch(), max_retries=retries, on_failure="on-failure") as bench:
        await bench.until_committed(6)
        assert bench.on_failure_records() == [("in-0", offset) for offset in range(6)]
    assert len(function.batches) == 1 + retries


async def test_exhausted_batch_without_destination_is_discarded() -> None:
    async with running(fails_whole(POISON), one_batch(), max_retries=2) as bench:
        await bench.until_committed(6)
        assert bench.mapping.statistics.discarded == 6


@pytest.mark.parametrize("reading", PartialFailures)
async def test_attempts_of_named_records_are_limited(reading: PartialFailures) -> None:
    function = names(POISON)
    config: dict[str, Any] = {"partial_failures": reading, "max_retries": 4, "on_failure": "on-failure"}
    async with running(function, one_batch(), **config) as bench:
        await bench.until_committed(6)
        expected = [POISON] if reading is PartialFailures.ONLY_FAILED else [("in-0", n) for n in (3, 4, 5)]
        assert bench.on_failure_records() == expected
    assert function.invocations_with(POISON) == 5


# --- maximum age of records ---


async def test_record_over_its_age_goes_to_on_failure_uninvoked() -> None:
    made = broker()
    made.produce("in", b"old", timestamp_ms=1_000_000)
    made.produce("in", b"new", timestamp_ms=1_090_000)
    config: dict[str, Any] = {"max_age_s": 60, "on_failure": "on-failure", "wall_clock": lambda: 1_100.0}
    async with running(made=made, **config) as bench:
        await bench.until_committed(2)
        (record,) = bench.on_failure()
    assert bench.function.batches == [[("in-0", 1)]]
    assert record["requestContext"]["condition"] == "MaximumRecordAgeExceeded"
    assert record["requestContext"]["approximateInvokeCount"] == 0
    assert record["responseContext"] is None


async def test_failing_record_over_its_age_goes_to_on_failure() -> None:
    now = [1_000.0]
    made = broker()
    made.produce("in", b"v", timestamp_ms=1_000_000)
    function = fails_whole(("in-0", 0))
    config: dict[str, Any] = {"max_age_s": 60, "on_failure": "on-failure", "max_retries": 10_000}
    async with running(function, made, wall_clock=lambda: now[0], **config) as bench:
        await until(lambda: len(function.batches) >= 2)
        now[0] = 1_061.0
        await bench.until_committed(1)
        (record,) = bench.on_failure()
    assert record["requestContext"]["condition"] == "MaximumRecordAgeExceeded"
    assert record["requestContext"]["approximateInvokeCount"] >= 2


# --- bisecting a failed batch ---


async def test_bisect_isolates_the_poison_record() -> None:
    function = fails_whole(POISON)
    config: dict[str, Any] = {"bisect": True, "max_retries": 2, "on_failure": "on-failure"}
    async with running(function, one_batch(8), **config) as bench:
        await bench.until_committed(8)
        assert bench.on_failure_records() == [POISON]
    assert bench.mapping.statistics.succeeded == 7


async def test_bisect_splits_in_halves_in_order() -> None:
    function = fails_whole(POISON, times=2)
    async with running(function, one_batch(8), bisect=True) as bench:
        await bench.until_committed(8)
    offsets = [[offset for _name, offset in batch] for batch in function.batches]
    assert offsets == [[0, 1, 2, 3, 4, 5, 6, 7], [0, 1, 2, 3], [0, 1], [2, 3], [4, 5, 6, 7]]


async def test_splitting_does_not_use_up_attempts() -> None:
    function = fails_whole(POISON)
    config: dict[str, Any] = {"bisect": True, "max_retries": 1, "on_failure": "on-failure"}
    async with running(function, one_batch(8), **config) as bench:
        await bench.until_committed(8)
    alone = [batch for batch in function.batches if batch == [POISON]]
    assert len(alone) == 2
    assert function.invocations_with(POISON) == 3 + 2


async def test_several_poison_records_are_each_isolated() -> None:
    poison = [("in-0", 0), ("in-0", 5), ("in-0", 6)]
    config: dict[str, Any] = {"bisect": True, "max_retries": 0, "on_failure": "on-failure"}
    async with running(fails_whole(*poison), one_batch(8), **config) as bench:
        await bench.until_committed(8)
        assert bench.on_failure_records() == poison


async def test_bisect_sends_only_failed_records_to_on_failure() -> None:
    function = names(POISON, ("in-0", 6))
    config: dict[str, Any] = {
        "bisect": True,
        "max_retries": 1,
        "on_failure": "on-failure",
        "partial_failures": PartialFailures.FROM_LOWEST,
    }
    async with running(function, one_batch(8), **config) as bench:
        await bench.until_committed(8)
        assert bench.on_failure_records() == [POISON, ("in-0", 6)]


# --- exhausted attempts ---


async def test_on_failure_record_is_lambdas_with_the_payload() -> None:
    made = broker()
    made.produce("in", b"value", key=b"key", headers=[("h", b"\xff")], timestamp_ms=1_700_000_000_123)
    config: dict[str, Any] = {"max_retries": 2, "on_failure": "on-failure", "wall_clock": lambda: 1_700_000_060.5}
    async with running(fails_whole(("in-0", 0)), made, **config) as bench:
        await bench.until_committed(1)
        (record,) = bench.on_failure()
        event = json.loads(bench.function.payloads[0])
    assert record["requestContext"] == {
        "requestId": "request",
        "functionArn": f"{ARN}:$LATEST",
        "condition": "RetryAttemptsExhausted",
        "approximateInvokeCount": 3,
    }
    assert record["responseContext"] == {"statusCode": 200, "executedVersion": "$LATEST", "functionError": "Unhandled"}
    assert record["version"] == "1.0"
    assert record["timestamp"] == "2023-11-14T22:14:20.500Z"
    batch = record["KafkaBatchInfo"]
    assert batch["batchSize"] == 1
    assert batch["eventSourceArn"] == event["eventSourceArn"]
    assert batch["bootstrapServers"] == event["bootstrapServers"]
    assert batch["payloadSize"] == len(bench.function.payloads[0])
    assert batch["recordInfo"] == {"offset": "0", "timestamp": "2023-11-14T22:13:20.123Z"}
    assert batch["recordsInfo"] == {
        "in-0": {
            "firstRecordOffset": "0",
            "lastRecordOffset": "0",
            "firstRecordTimestamp": "2023-11-14T22:13:20.123Z",
            "lastRecordTimestamp": "2023-11-14T22:13:20.123Z",
        }
    }
    assert record["payload"] == event


async def test_on_failure_records_keep_their_key() -> None:
    made = broker()
    made.produce("in", b"v", key=b"\x00key")
    async with running(fails_whole(("in-0", 0)), made, max_retries=0, on_failure="on-failure") as bench:
        await bench.until_committed(1)
    ((record,),) = [log for partition, log in made.logs.items() if partition.topic == "on-failure"]
    assert record.key == b"\x00key"


async def test_offset_is_committed_after_the_on_failure_record() -> None:
    made = one_batch(1)
    gate = asyncio.Event()

    class Slow(MemoryDestination):
        async def send(self, topic: str, key: bytes | None, value: bytes) -> None:
            await gate.wait()
            await super().send(topic, key, value)

    config: dict[str, Any] = {"max_retries": 0, "on_failure": "on-failure", "destination": Slow(made)}
    async with running(fails_whole(("in-0", 0)), made, **config) as bench:
        await until(lambda: bench.mapping.statistics.failures == 1)
        for _ in range(20):
            await asyncio.sleep(0)
        assert bench.committed() == 0
        gate.set()
        await bench.until_committed(1)
        assert len(bench.on_failure()) == 1


async def test_unreachable_on_failure_topic_is_retried() -> None:
    made = one_batch(2)
    failures = [OSError("down")] * 4

    class Down(MemoryDestination):
        async def send(self, topic: str, key: bytes | None, value: bytes) -> None:
            if failures:
                raise failures.pop()
            await super().send(topic, key, value)

    config: dict[str, Any] = {"max_retries": 0, "on_failure": "on-failure", "destination": Down(made)}
    async with running(fails_whole(("in-0", 0)), made, **config) as bench:
        await bench.until_committed(2)
        assert bench.on_failure_records() == [("in-0", 0), ("in-0", 1)]


async def test_too_large_on_failure_record_omits_the_payload() -> None:
    made = one_batch(1)

    class Small(MemoryDestination):
        async def send(self, topic: str, key: bytes | None, value: bytes) -> None:
            if b'"payload"' in value:
                raise RecordTooLargeError("too large")
            await super().send(topic, key, value)

    config: dict[str, Any] = {"max_retries": 0, "on_failure": "on-failure", "destination": Small(made)}
    async with running(fails_whole(("in-0", 0)), made, **config) as bench:
        await bench.until_committed(1)
        (record,) = bench.on_failure()
    assert "payload" not in record
    assert record["KafkaBatchInfo"]["recordsInfo"]["in-0"]["firstRecordOffset"] == "0"


async def test_record_too_large_for_an_event_goes_to_on_failure() -> None:
    made = broker()
    made.produce("in", b"small")
    made.produce("in", b"v" * 5_000)
    made.produce("in", b"small")
    async with running(made=made, max_payload_bytes=5_000, on_failure="on-failure") as bench:
        await bench.until_committed(3)
        (record,) = bench.on_failure()
    assert record["requestContext"]["condition"] == "MaximumPayloadSizeExceeded"
    assert record["responseContext"] is None
    assert record["payload"]["records"]["in-0"][0]["offset"] == 1
    assert [position for batch in bench.function.batches for position in batch] == [("in-0", 0), ("in-0", 2)]


def test_ten_attempts_are_only_for_mappings_with_a_destination() -> None:
    assert spec(on_failure="on-failure").retries == 10
    assert spec(on_failure="on-failure", max_retries=3).retries == 3
    assert spec().retries == -1
