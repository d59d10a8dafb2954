import asyncio
import json

import pytest

from local.emulators.event_source import Partition, SourceRecord
from local.emulators.event_source.record import EventEnvelope
from tests.support.harness.event_source import ENVELOPE, Function, FunctionResponse, broker, running, spec, until


async def test_a_batch_has_at_most_batch_size_records() -> None:
    made = broker()
    for _ in range(25):
        made.produce("in", b"v")
    async with running(made=made, batch_size=10) as bench:
        await bench.until_committed(25)
    assert [len(batch) for batch in bench.function.batches] == [10, 10, 5]


async def test_batch_spans_partitions_and_keeps_their_order() -> None:
    made = broker()
    for number in (0, 1, 2, 0, 1, 0):
        made.produce("in", b"v", partition=number)
    made.produce("other", b"v")
    async with running(made=made, topics=("in", "other")) as bench:
        await bench.until_committed(3)
    assert len(bench.function.batches) == 1
    event = json.loads(bench.function.payloads[0])
    offsets = {name: [record["offset"] for record in records] for name, records in event["records"].items()}
    assert offsets == {"in-0": [0, 1, 2], "in-1": [0, 1], "in-2": [0], "other-0": [0]}


async def test_a_batch_has_at_most_the_payload_in_encoded_bytes() -> None:
    made = broker()
    for number in range(30):
        made.produce("in", b"v" * 1000, partition=number % 4, key=b"key", headers=[("h", b"\xff")])
    async with running(made=made, batch_size=100, max_payload_bytes=6_000) as bench:
        await until(lambda: sum(bench.committed(number) for number in range(4)) == 30)
    sizes = [len(payload) for payload in bench.function.payloads]
    assert max(sizes) <= 6_000
    # Each full batch is as large as possible: one more record would exceed the limit.
    assert all(size > 6_000 - 1_700 for size in sizes[:-4])


async def test_records_that_arrive_during_an_invocation_are_batched() -> None:
    function = Function(gate=asyncio.Event())
    async with running(function) as bench:
        bench.produce()
        await until(lambda: len(function.running) == 1)
        for number in range(4):
            bench.produce(2, partition=number)
        function.gate.set()  # type: ignore[union-attr]
        await until(lambda: bench.mapping.statistics.succeeded == 9)
    assert len(function.batches) <= 4


async def test_one_batch_a_partition_is_in_flight_however_many_may_run() -> None:
    function = Function(gate=asyncio.Event())
    async with running(function, broker(2), concurrency=8, batch_size=1) as bench:
        bench.produce(3, partition=0)
        bench.produce(3, partition=1)
        await until(lambda: len(function.running) == 2)
        for _ in range(20):
            await asyncio.sleep(0)
        assert sorted(function.running) == [[("in-0", 0)], [("in-1", 0)]]


async def test_concurrent_batches_have_disjoint_partitions() -> None:
    """At most `concurrency` batches run at a time, and never two of one partition."""
    function = Function(gate=asyncio.Event())
    made = broker()
    for number in range(4):
        made.produce("in", b"v", partition=number)
    async with running(function, made, concurrency=3, batch_size=1):
        await until(lambda: len(function.running) == 3)
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(function.running) == 3
        assert len({name for batch in function.running for name, _offset in batch}) == 3


async def test_every_partition_gets_its_turn() -> None:
    made = broker()
    for number in range(4):
        for _ in range(5):
            made.produce("in", b"v", partition=number)
    async with running(made=made, batch_size=1) as bench:
        await until(lambda: bench.mapping.statistics.succeeded == 20)
    first = {batch[0][0] for batch in bench.function.batches[:4]}
    assert first == {"in-0", "in-1", "in-2", "in-3"}


async def test_topics_of_one_turn_share_it_evenly() -> None:
    made = broker()
    for topic in ("few", "a", "b", "c"):
        made.create_topic(topic, 2)
        for number in range(12):
            made.produce(topic, b"v", partition=number % 2)
    turns = (("few",), ("a", "b", "c"))
    async with running(made=made, batch_size=1, topics=("few", "a", "b", "c"), turns=turns) as bench:
        await until(lambda: bench.mapping.statistics.succeeded == 48)
    order = [batch[0][0] for batch in bench.function.batches]
    topics = [name.rpartition("-")[0] for name in order]
    # The topic `few` has every second batch while it has records; a, b and c share the remaining batches evenly.
    assert topics[:24:2] == ["few"] * 12
    assert "few" not in topics[1:24:2]
    shared = topics[1:24:2] + topics[24:]
    assert all(set(shared[at : at + 3]) == {"a", "b", "c"} for at in range(0, 36, 3))
    of_a = [name for name in order if name.startswith("a-")]
    assert of_a == ["a-0", "a-1"] * 6, "and partitions of one take turns as well"


async def test_rarely_used_topic_waits_for_one_batch_at_most() -> None:
    made = broker()
    made.create_topic("a", 1)
    made.create_topic("b", 1)
    made.create_topic("few", 1)
    for _ in range(20):
        made.produce("a", b"v")
        made.produce("b", b"v")

    def behave(batch: list[tuple[str, int]]) -> FunctionResponse:
        if batch == [("a-0", 3)]:
            made.produce("few", b"v")
        return FunctionResponse()

    function = Function(behave)
    turns = (("few",), ("a", "b"))
    async with running(function, made, batch_size=1, topics=("few", "a", "b"), turns=turns) as bench:
        await until(lambda: bench.mapping.statistics.succeeded == 41)
    assert function.batches.index([("few-0", 0)]) - function.batches.index([("a-0", 3)]) <= 2


async def test_topics_have_batch_sizes_of_their_own() -> None:
    """Records of topics with different batch sizes are never in one batch."""
    made = broker()
    for topic in ("few", "a", "b"):
        made.create_topic(topic, 1)
        for _ in range(4):
            made.produce(topic, b"v")
    turns = (("few",), ("a", "b"))
    sizes = {"few": 4, "a": 2, "b": 2}
    async with running(made=made, batch_sizes=sizes, topics=("few", "a", "b"), turns=turns) as bench:
        await until(lambda: bench.mapping.statistics.succeeded == 12)
    batches = [[name for name, _ in batch] for batch in bench.function.batches]
    assert sorted(batches) == [*[["a-0"] * 2] * 2, *[["b-0"] * 2] * 2, ["few-0"] * 4]


async def test_full_batch_of_one_topic_ends_the_window() -> None:
    made = broker()
    made.create_topic("few", 1)
    sizes = {"few": 3, "in": 2}
    async with running(made=made, window_s=3600, batch_sizes=sizes, topics=("few", "in")) as bench:
        bench.produce(2, topic="few")
        bench.produce(1)
        bench.produce(1)
        await until(lambda: bench.mapping.statistics.succeeded == 2)
    assert [{name for name, _ in batch} for batch in bench.function.batches] == [{"in-0"}]


async def test_topics_have_windows_of_their_own() -> None:
    """Records of a topic that wait share no batch with those of another, which do not."""
    made = broker()
    async with running(made=made, windows={"other": 3600}, topics=("in", "other")) as bench:
        bench.produce(2, topic="other")
        bench.produce(1)
        await until(lambda: bench.mapping.statistics.succeeded == 1)
        bench.produce(8, topic="other")
        await until(lambda: bench.mapping.statistics.succeeded == 11)
    batches = [[name for name, _ in batch] for batch in bench.function.batches]
    assert batches == [["in-0"], ["other-0"] * 10]


async def test_window_of_0_invokes_at_once() -> None:
    async with running(window_s=0, batch_size=1000) as bench:
        bench.produce()
        await bench.until_committed(1)


async def test_a_window_is_waited_for_until_the_batch_is_full() -> None:
    async with running(window_s=3600, batch_size=3) as bench:
        bench.produce(2)
        await until(lambda: bench.mapping.statistics.records == 2)
        for _ in range(20):
            await asyncio.sleep(0)
        assert bench.function.batches == []
        bench.produce()
        await bench.until_committed(3)
    assert [len(batch) for batch in bench.function.batches] == [3]


async def test_a_window_is_waited_for_until_the_payload_is_full() -> None:
    async with running(window_s=3600, batch_size=100, max_payload_bytes=5_000) as bench:
        bench.produce(4, value=b"v" * 1000)
        await until(lambda: bench.mapping.statistics.succeeded == 3)


async def test_window_ends_with_an_incomplete_batch() -> None:
    async with running(window_s=0.05, batch_size=100) as bench:
        bench.produce(2)
        await bench.until_committed(2)
    assert [len(batch) for batch in bench.function.batches] == [2]


async def test_buffered_records_are_bounded() -> None:
    function = Function(gate=asyncio.Event())
    async with running(function, broker(1), batch_size=2, buffer_records=5) as bench:
        bench.produce(1000)
        await until(lambda: len(function.running) == 1)
        for _ in range(50):
            await asyncio.sleep(0)
        assert bench.mapping.statistics.records <= 2 + 5 + 1
        function.gate.set()  # type: ignore[union-attr]
        await bench.until_committed(1000)


async def test_buffered_bytes_are_bounded() -> None:
    function = Function(gate=asyncio.Event())
    async with running(function, broker(1), batch_size=2, buffer_bytes=10_000) as bench:
        bench.produce(100, value=b"v" * 2_000)
        await until(lambda: len(function.running) == 1)
        for _ in range(50):
            await asyncio.sleep(0)
        assert bench.mapping.statistics.records <= 8
        function.gate.set()  # type: ignore[union-attr]
        await bench.until_committed(100)


def test_event_has_lambdas_form_for_msk() -> None:
    record = SourceRecord(
        partition=Partition("my-topic", 3),
        offset=15,
        timestamp_ms=1545084650987,
        key=b"key",
        value=b"\x00value",
        headers=(("traceparent", b"00-ab"), ("bytes", b"\x00\x7f\x80\xff"), ("empty", None)),
    )
    assert json.loads(ENVELOPE.encode([record])) == {
        "eventSource": "aws:kafka",
        "eventSourceArn": "arn:aws:kafka:us-east-1:0:cluster/c/1",
        "bootstrapServers": "b:9092",
        "records": {
            "my-topic-3": [
                {
                    "topic": "my-topic",
                    "partition": 3,
                    "offset": 15,
                    "timestamp": 1545084650987,
                    "timestampType": "CREATE_TIME",
                    "key": "a2V5",
                    "value": "AHZhbHVl",
                    "headers": [
                        {"traceparent": [48, 48, 45, 97, 98]},
                        {"bytes": [0, 127, -128, -1]},
                        {"empty": []},
                    ],
                }
            ]
        },
    }


def test_event_omits_an_absent_key_or_value() -> None:
    record = SourceRecord(partition=Partition("t", 0), offset=0, timestamp_ms=1)
    (entry,) = json.loads(ENVELOPE.encode([record]))["records"]["t-0"]
    assert "value" not in entry
    assert "key" not in entry


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_computed_event_size_is_never_too_small(count: int) -> None:
    records = [
        SourceRecord(partition=Partition("tä", number), offset=offset, timestamp_ms=1, value=b"x" * offset)
        for number in range(2)
        for offset in range(count)
    ]
    envelope = EventEnvelope(event_source_arn="arn", bootstrap_servers="a:1,b:2")
    size = envelope.overhead + sum(envelope.added(record, first_of_partition=record.offset == 0) for record in records)
    assert size - 8 <= len(envelope.encode(records)) <= size


def test_mapping_defaults_equal_lambdas() -> None:
    config = spec(batch_size=100)
    assert config.window_s == 0
    assert config.retries == -1
    assert config.max_age_s == -1
    assert not config.bisect


@pytest.mark.parametrize(
    "wrong",
    [{"batch_size": 0}, {"batch_size": 10_001}, {"batch_sizes": {"in": 0}}, {"max_retries": -2}, {"on_failure": "in"}],
)
def test_setting_that_lambda_refuses_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="mapping f"):
        spec(**wrong)


async def test_oldest_record_of_a_topic_is_in_flight_or_waits() -> None:
    """The age of the oldest record is the lag of the alarms. A batch that is repeated keeps its time."""
    function = Function(gate=asyncio.Event())
    async with running(function, topics=("in", "other")) as bench:
        assert bench.mapping.oldest_ms() == {"in": None, "other": None}
        bench.produce(timestamp_ms=5_000)
        await until(lambda: len(function.running) == 1)
        bench.produce(timestamp_ms=6_000)
        bench.produce(partition=1, timestamp_ms=4_000)
        await until(lambda: bench.mapping.statistics.records == 3)
        assert bench.mapping.oldest_ms() == {"in": 4_000, "other": None}
        function.gate.set()  # type: ignore[union-attr]
        await until(lambda: bench.mapping.statistics.succeeded == 3)
        await until(lambda: bench.mapping.oldest_ms() == {"in": None, "other": None})
