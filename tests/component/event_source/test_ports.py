"""The in-memory broker behaves like the real one in all respects that a mapping depends on."""

import asyncio
import uuid
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from local.devstack.config import StackConfig
from local.emulators.event_source import Partition, SourceRecord
from local.emulators.event_source.kafka import KafkaDestination, KafkaSource
from local.emulators.event_source.memory import MemoryBroker, MemoryDestination, MemorySource
from local.emulators.event_source.ports import FailureDestination, RecordSource, RecordTooLargeError

TIMEOUT_S = 30.0
SMALL = 64 * 1024


@dataclass
class Heard:
    """A listener that records its calls and releases revoked partitions at once."""

    partitions: set[Partition] = field(default_factory=set)
    records: list[SourceRecord] = field(default_factory=list)
    ends: dict[Partition, int] = field(default_factory=dict)
    gone: list[Partition] = field(default_factory=list)

    def assigned(self, partitions: Collection[Partition]) -> None:
        self.partitions.update(partitions)

    async def revoked(self, partitions: Collection[Partition], *, lost: bool) -> None:
        self.partitions.difference_update(partitions)
        self.gone.extend(partitions)

    def received(self, records: Sequence[SourceRecord]) -> None:
        self.records.extend(records)

    def end_reached(self, partition: Partition, offset: int) -> None:
        self.ends[partition] = offset

    def offsets(self, partition: Partition) -> list[int]:
        return [record.offset for record in self.records if record.partition == partition]


class Broker(ABC):
    """A topic of two partitions and an on-failure topic with a small size limit, with methods to observe them."""

    topic: str
    failures: str
    group: str

    @abstractmethod
    def source(self) -> RecordSource: ...

    @abstractmethod
    def destination(self) -> FailureDestination: ...

    @abstractmethod
    async def produce(
        self,
        values: Sequence[bytes | None],
        *,
        partition: int = 0,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp_ms: int = 1_700_000_000_000,
    ) -> None: ...

    @abstractmethod
    async def lend(self, source: RecordSource) -> Partition:
        """Give a partition of the source to another member of the group and back; return the partition."""

    @abstractmethod
    async def committed(self, partition: Partition) -> int | None: ...

    @abstractmethod
    async def on_failure(self) -> list[tuple[bytes | None, bytes | None]]: ...

    def at(self, number: int) -> Partition:
        return Partition(self.topic, number)


class InMemory(Broker):
    def __init__(self) -> None:
        self.topic, self.failures, self.group = "in", "failures", "g"
        self._broker = MemoryBroker(max_message_bytes=SMALL)
        self._broker.create_topic("in", 2)
        self._broker.create_topic("failures", 1)

    def source(self) -> RecordSource:
        return MemorySource(self._broker, group=self.group, topics=[self.topic])

    def destination(self) -> FailureDestination:
        return MemoryDestination(self._broker)

    async def produce(
        self,
        values: Sequence[bytes | None],
        *,
        partition: int = 0,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp_ms: int = 1_700_000_000_000,
    ) -> None:
        for value in values:
            self._broker.produce(
                self.topic, value, partition=partition, key=key, headers=headers, timestamp_ms=timestamp_ms
            )

    async def lend(self, source: RecordSource) -> Partition:
        assert isinstance(source, MemorySource)
        await source.revoke([self.at(0)])
        source.assign([self.at(0)])
        return self.at(0)

    async def committed(self, partition: Partition) -> int | None:
        return self._broker.committed[self.group].get(partition)

    async def on_failure(self) -> list[tuple[bytes | None, bytes | None]]:
        return [(record.key, record.value) for record in self._broker.logs[Partition(self.failures, 0)]]


class RealKafka(Broker):
    def __init__(self, bootstrap_servers: str) -> None:
        self._servers = bootstrap_servers
        name = f"event-source-{uuid.uuid4()}"
        self.topic, self.failures, self.group = name, f"{name}-failures", name
        self._producer = Producer({"bootstrap.servers": bootstrap_servers})
        new = [NewTopic(self.topic, 2, 1), NewTopic(self.failures, 1, 1, config={"max.message.bytes": str(SMALL)})]
        with AdminClient({"bootstrap.servers": bootstrap_servers}) as admin:
            for each in admin.create_topics(new).values():
                each.result()

    def source(self) -> RecordSource:
        return KafkaSource(bootstrap_servers=self._servers, group=self.group, topics=[self.topic])

    def destination(self) -> FailureDestination:
        return KafkaDestination(bootstrap_servers=self._servers)

    async def produce(
        self,
        values: Sequence[bytes | None],
        *,
        partition: int = 0,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp_ms: int = 1_700_000_000_000,
    ) -> None:
        for value in values:
            self._producer.produce(self.topic, value, key, partition, timestamp=timestamp_ms, headers=[*headers])
        assert await asyncio.to_thread(self._producer.flush, TIMEOUT_S) == 0

    async def lend(self, source: RecordSource) -> Partition:
        heard, other = Heard(), self.source()
        await other.start(heard)
        await until(lambda: len(heard.partitions) == 1)
        (lent,) = heard.partitions
        await other.close()
        return lent

    async def committed(self, partition: Partition) -> int | None:
        return await asyncio.to_thread(self._committed, partition)

    def _committed(self, partition: Partition) -> int | None:
        asked = ConsumerGroupTopicPartitions(self.group, [TopicPartition(*partition)])
        with AdminClient({"bootstrap.servers": self._servers}) as admin:
            answer = admin.list_consumer_group_offsets([asked])[self.group].result()
        (found,) = answer.topic_partitions
        return found.offset if found.offset >= 0 else None

    async def on_failure(self) -> list[tuple[bytes | None, bytes | None]]:
        return await asyncio.to_thread(self._on_failure)

    def _on_failure(self) -> list[tuple[bytes | None, bytes | None]]:
        consumer = Consumer({"bootstrap.servers": self._servers, "group.id": "none", "enable.partition.eof": True})
        consumer.assign([TopicPartition(self.failures, 0, 0)])
        found: list[tuple[bytes | None, bytes | None]] = []
        try:
            while True:
                message = consumer.poll(TIMEOUT_S)
                assert message is not None
                error = message.error()
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF
                    return found
                found.append((message.key(), message.value()))
        finally:
            consumer.close()


@pytest.fixture(params=["memory", "kafka"])
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    if request.param == "memory":
        # The in-memory broker wakes the event loop in which it is created, so the test's loop must create it.
        yield InMemory()
    else:
        config: StackConfig = request.getfixturevalue("kafka")
        yield RealKafka(config.kafka_bootstrap)


@pytest.fixture
async def heard() -> Heard:
    return Heard()


@pytest.fixture
async def source(broker: Broker, heard: Heard) -> AsyncIterator[RecordSource]:
    made = broker.source()
    await made.start(heard)
    yield made
    await made.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not condition():
            await asyncio.sleep(0.005)


async def test_a_new_group_reads_from_the_beginning(broker: Broker, heard: Heard) -> None:
    await broker.produce([b"0", b"1"])
    source = broker.source()
    await source.start(heard)
    await until(lambda: heard.offsets(broker.at(0)) == [0, 1])
    await source.close()


@pytest.mark.usefixtures("source")
async def test_every_partition_is_assigned(broker: Broker, heard: Heard) -> None:
    await until(lambda: heard.partitions == {broker.at(0), broker.at(1)})


@pytest.mark.usefixtures("source")
async def test_records_are_received_as_produced(broker: Broker, heard: Heard) -> None:
    headers = [("a", b"\x00\xff"), ("a", b"again"), ("none", None)]
    await broker.produce([b"value"], key=b"\x00key", headers=headers, timestamp_ms=1_700_000_000_123)
    await broker.produce([None])
    await until(lambda: len(heard.records) == 2)
    first, second = heard.records
    assert first == SourceRecord(
        partition=broker.at(0),
        offset=0,
        timestamp_ms=1_700_000_000_123,
        timestamp_type="CREATE_TIME",
        key=b"\x00key",
        value=b"value",
        headers=(("a", b"\x00\xff"), ("a", b"again"), ("none", None)),
    )
    assert (second.key, second.value, second.headers) == (None, None, ())


@pytest.mark.usefixtures("source")
async def test_end_is_reported_when_empty_and_after_the_last_record(broker: Broker, heard: Heard) -> None:
    await until(lambda: heard.ends == {broker.at(0): 0, broker.at(1): 0})
    await broker.produce([b"0", b"1"], partition=1)
    await until(lambda: heard.ends[broker.at(1)] == 2)
    assert heard.offsets(broker.at(1)) == [0, 1]


async def test_paused_partition_delivers_nothing_and_loses_nothing(
    broker: Broker, heard: Heard, source: RecordSource
) -> None:
    await broker.produce([b"v"] * 50)
    await until(lambda: len(heard.records) == 50)
    source.pause([broker.at(0)])
    # The source executes calls in order, so the pause is in effect after this commit.
    await source.commit({broker.at(0): 50})
    await broker.produce([b"v"] * 50)
    await broker.produce([b"v"] * 5, partition=1)
    await until(lambda: heard.offsets(broker.at(1)) == list(range(5)))
    assert len(heard.offsets(broker.at(0))) == 50
    source.resume([broker.at(0)])
    await until(lambda: len(heard.offsets(broker.at(0))) >= 100)
    assert heard.offsets(broker.at(0)) == list(range(100))


async def test_repeated_pauses_lose_and_repeat_no_record(broker: Broker, heard: Heard, source: RecordSource) -> None:
    await broker.produce([b"v" * 100] * 5000)
    rounds = 0
    async with asyncio.timeout(TIMEOUT_S):
        while len(heard.records) < 5000:
            source.pause([broker.at(0)])
            await asyncio.sleep(0)
            source.resume([broker.at(0)])
            await asyncio.sleep(0.005)
            rounds += 1
    assert heard.offsets(broker.at(0)) == list(range(5000))
    assert rounds > 0


async def test_a_paused_partition_is_read_after_its_return(broker: Broker, heard: Heard, source: RecordSource) -> None:
    await broker.produce([b"0"])
    await broker.produce([b"0"], partition=1)
    await until(lambda: len(heard.records) == 2)
    source.pause([broker.at(0), broker.at(1)])
    lent = await broker.lend(source)
    await until(lambda: lent in heard.gone and lent in heard.partitions)
    await broker.produce([b"1"], partition=lent.number)
    await until(lambda: heard.offsets(lent)[1:] == [0, 1])


async def test_commit_is_visible_to_others_when_it_returns(broker: Broker, heard: Heard, source: RecordSource) -> None:
    await broker.produce([b"0", b"1", b"2"])
    await until(lambda: len(heard.records) == 3)
    await source.commit({broker.at(0): 2})
    assert await broker.committed(broker.at(0)) == 2
    assert await broker.committed(broker.at(1)) is None


async def test_next_member_continues_at_the_committed_offset(broker: Broker) -> None:
    await broker.produce([b"0", b"1", b"2"])
    first, second = Heard(), Heard()
    source = broker.source()
    await source.start(first)
    await until(lambda: len(first.records) == 3)
    await source.commit({broker.at(0): 2})
    await source.close()
    again = broker.source()
    await again.start(second)
    await until(lambda: second.offsets(broker.at(0)) == [2])
    await again.close()


async def test_revocation_is_reported_while_commits_are_possible(broker: Broker) -> None:
    await broker.produce([b"0"])
    source = broker.source()

    class Commits(Heard):
        async def revoked(self, partitions: Collection[Partition], *, lost: bool) -> None:
            await super().revoked(partitions, lost=lost)
            await source.commit({broker.at(0): 1})

    heard = Commits()
    await source.start(heard)
    await until(lambda: len(heard.records) == 1)
    await source.close()
    assert sorted(heard.gone) == [broker.at(0), broker.at(1)]
    assert await broker.committed(broker.at(0)) == 1


async def test_the_end_offsets_are_known(broker: Broker, heard: Heard, source: RecordSource) -> None:
    await broker.produce([b"0", b"1"])
    await until(lambda: source.ends().get(broker.at(0)) == 2)
    assert len(heard.records) <= 2


async def test_on_failure_record_is_stored_when_send_returns(broker: Broker) -> None:
    destination = broker.destination()
    await destination.send(broker.failures, b"k", b"v")
    await destination.send(broker.failures, None, b"w")
    assert await broker.on_failure() == [(b"k", b"v"), (None, b"w")]
    await destination.close()


async def test_record_over_the_on_failure_limit_is_too_large(broker: Broker) -> None:
    destination = broker.destination()
    noise = b"".join(uuid.uuid4().bytes for _ in range(SMALL // 8))
    with pytest.raises(RecordTooLargeError):
        await destination.send(broker.failures, None, noise)
    await destination.close()


async def test_absent_on_failure_topic_is_an_os_error(kafka: StackConfig) -> None:
    destination = KafkaDestination(bootstrap_servers=kafka.kafka_bootstrap, timeout_s=1.0)
    with pytest.raises(OSError, match=r"MSG_TIMED_OUT|UNKNOWN_TOPIC"):
        await destination.send(f"nowhere-{uuid.uuid4()}", None, b"v")


async def test_offsets_of_aborted_and_finished_transactions_are_passed(kafka: StackConfig) -> None:
    broker = RealKafka(kafka.kafka_bootstrap)
    producer = Producer({"bootstrap.servers": kafka.kafka_bootstrap, "transactional.id": broker.topic})
    await asyncio.to_thread(producer.init_transactions, TIMEOUT_S)
    for value, ends_well in ((b"aborted", False), (b"finished", True)):
        producer.begin_transaction()
        producer.produce(broker.topic, value, partition=0)
        await asyncio.to_thread(producer.flush, TIMEOUT_S)
        await asyncio.to_thread(producer.commit_transaction if ends_well else producer.abort_transaction, TIMEOUT_S)
    heard = Heard()
    source = broker.source()
    await source.start(heard)
    # Each of the two transactions has a record and an end marker.
    await until(lambda: heard.ends.get(broker.at(0)) == 4)
    assert [record.value for record in heard.records] == [b"finished"]
    await source.close()


async def test_static_member_takes_over_without_a_session_timeout(kafka: StackConfig) -> None:
    broker = RealKafka(kafka.kafka_bootstrap)

    def member() -> KafkaSource:
        return KafkaSource(
            bootstrap_servers=kafka.kafka_bootstrap, group=broker.group, topics=[broker.topic], instance="one"
        )

    first, second = Heard(), Heard()
    source = member()
    await source.start(first)
    await until(lambda: len(first.partitions) == 2)
    # The first member does not leave the group, as if it had been killed.
    again = member()
    await again.start(second)
    await until(lambda: len(second.partitions) == 2)
    await again.close()
    source._stop.set()
    await source.close()
