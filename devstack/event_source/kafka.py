"""The ports over a real Kafka broker."""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence

from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from devstack.event_source.ports import RecordTooLargeError, SourceListener
from devstack.event_source.record import Partition, SourceRecord

log = logging.getLogger(__name__)

# Also how long a resumption may have to wait.
POLL_S = 0.02
MOST_AT_ONCE = 500
PREFETCH_KBYTES = 4096
TIMESTAMP_TYPES = {TIMESTAMP_CREATE_TIME: "CREATE_TIME", TIMESTAMP_LOG_APPEND_TIME: "LOG_APPEND_TIME"}


class KafkaSource:
    """A consumer with a thread of its own, which only reads; all decisions are taken in the event loop.

    Args:
        bootstrap_servers: host:port, comma separated.
        group: consumer group.
        topics: what is read; a topic that does not exist yet is found within seconds of its creation.
        instance: name of a static member, so that a restarted process takes its partitions over at once; None leaves and joins.
        revocation_s: seconds the listener gets to let go of partitions at a rebalance.
    """

    def __init__(
        self,
        *,
        bootstrap_servers: str,
        group: str,
        topics: Sequence[str],
        instance: str | None = None,
        revocation_s: float = 10.0,
    ) -> None:
        self._topics = list(topics)
        self._revocation_s = revocation_s
        settings: dict[str, str | int | float | bool] = {
            "bootstrap.servers": bootstrap_servers,
            "group.id": group,
            "client.id": f"event-source-{group}",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "partition.assignment.strategy": "cooperative-sticky",
            "allow.auto.create.topics": False,
            "topic.metadata.refresh.interval.ms": 2000,
            # A killed member's partitions come to its successor soon.
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 2000,
            # The library's defaults keep 64 MB and 100,000 messages a consumer, and wait a second when they are full.
            "queued.max.messages.kbytes": PREFETCH_KBYTES,
            "queued.min.messages": 1000,
            "fetch.queue.backoff.ms": 5,
            "fetch.message.max.bytes": 1024 * 1024,
            "fetch.wait.max.ms": 500,
            "reconnect.backoff.max.ms": 1000,
        }
        if instance is not None:
            settings["group.instance.id"] = instance
        self._consumer = Consumer(settings, logger=log)
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._assigned: set[Partition] = set()
        # Pauses and resumptions are left to the reading thread: the library waits for it in both while it holds the
        # interpreter's lock, which that thread may need.
        self._requests: deque[tuple[Callable[[list[TopicPartition]], None], tuple[Partition, ...]]] = deque()

    async def start(self, listener: SourceListener) -> None:
        """See RecordSource."""
        self._loop = asyncio.get_running_loop()
        self._listener = listener
        self._thread = threading.Thread(target=self._read, name=f"read {self._topics[0]}", daemon=True)
        self._thread.start()

    def pause(self, partitions: Collection[Partition]) -> None:
        """See RecordSource."""
        self._requests.append((self._consumer.pause, tuple(partitions)))

    def resume(self, partitions: Collection[Partition]) -> None:
        """See RecordSource."""
        self._requests.append((self._consumer.resume, tuple(partitions)))

    async def commit(self, offsets: Mapping[Partition, int]) -> None:
        """See RecordSource."""
        wanted = [TopicPartition(*partition, offset) for partition, offset in offsets.items()]
        try:
            done = await asyncio.to_thread(self._consumer.commit, offsets=wanted, asynchronous=False)
        except KafkaException as error:
            raise OSError(str(error)) from error
        except RuntimeError as error:  # the consumer is closed
            raise OSError(str(error)) from error
        failed = [partition for partition in done or [] if partition.error is not None]
        if failed:
            raise OSError(f"not committed: {failed}")

    def ends(self) -> Mapping[Partition, int]:
        """See RecordSource."""
        ends: dict[Partition, int] = {}
        for partition in list(self._assigned):
            try:
                marks = self._consumer.get_watermark_offsets(TopicPartition(*partition), cached=True)
            except (KafkaException, RuntimeError):
                continue
            if marks is not None and marks[1] >= 0:
                ends[partition] = marks[1]
        return ends

    async def close(self) -> None:
        """See RecordSource."""
        self._stop.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)

    # In the thread

    def _read(self) -> None:
        self._consumer.subscribe(
            self._topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )
        try:
            while not self._stop.is_set():
                while self._requests:
                    change, partitions = self._requests.popleft()
                    change([TopicPartition(*partition) for partition in partitions if partition in self._assigned])
                message = self._consumer.poll(POLL_S)
                if message is None:
                    continue
                more = self._consumer.consume(MOST_AT_ONCE, timeout=0)
                self._call(self._deliver, [message, *more])
        except Exception:
            log.exception("reading %s broke off", self._topics)
            raise
        finally:
            self._consumer.close()

    def _call[**P](self, function: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        self._loop.call_soon_threadsafe(lambda: function(*args, **kwargs))

    def _on_assign(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        mine = [Partition(partition.topic, partition.partition) for partition in partitions]
        self._assigned.update(mine)
        self._call(self._listener.assigned, mine)

    def _on_revoke(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._let_go(partitions, lost=False)

    def _on_lost(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._let_go(partitions, lost=True)

    def _let_go(self, partitions: list[TopicPartition], *, lost: bool) -> None:
        leaving = [Partition(partition.topic, partition.partition) for partition in partitions]
        done = asyncio.run_coroutine_threadsafe(self._listener.revoked(leaving, lost=lost), self._loop)
        try:
            done.result(self._revocation_s)
        except TimeoutError:
            log.warning("partitions not let go of within %.0f s: %s", self._revocation_s, leaving)
        self._assigned.difference_update(leaving)

    # In the event loop again

    def _deliver(self, messages: Sequence[Message]) -> None:
        records: list[SourceRecord] = []
        for message in messages:
            error = message.error()
            if error is None:
                records.append(_record(message))
                continue
            if error.code() == KafkaError._PARTITION_EOF:
                # In the order things happened: what came before the end is told before it.
                if records:
                    self._listener.received(records)
                    records = []
                self._listener.end_reached(_partition(message), _known(message.offset()))
            elif error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                log.warning("%s: %s", self._topics, error)
        if records:
            self._listener.received(records)


class KafkaDestination:
    """Produces on-failure records."""

    def __init__(self, *, bootstrap_servers: str, timeout_s: float = 10.0) -> None:
        self._timeout_s = timeout_s
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "client.id": "event-source-on-failure",
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 0,
                "delivery.timeout.ms": int(timeout_s * 1000),
                # base64 makes a record a third larger than the topic it came from allows; compressed it fits again.
                "compression.type": "zstd",
                "message.max.bytes": 16 * 1024 * 1024,
                "reconnect.backoff.max.ms": 1000,
            },
            logger=log,
        )

    async def send(self, topic: str, key: bytes | None, value: bytes) -> None:
        """See FailureDestination."""
        await asyncio.to_thread(self._send, topic, key, value)

    async def close(self) -> None:
        """See FailureDestination."""
        await asyncio.to_thread(self._producer.flush, self._timeout_s)

    def _send(self, topic: str, key: bytes | None, value: bytes) -> None:
        reports: list[KafkaError | None] = []
        try:
            self._producer.produce(
                topic, key=key, value=value, on_delivery=lambda error, _message: reports.append(error)
            )
        except (KafkaException, BufferError) as error:
            raise OSError(str(error)) from error
        self._producer.flush(self._timeout_s + 1)
        if not reports:
            raise OSError(f"{topic}: no delivery report in {self._timeout_s} s")
        failure = reports[0]
        if failure is not None:
            if failure.code() == KafkaError.MSG_SIZE_TOO_LARGE:
                raise RecordTooLargeError(str(failure))
            raise OSError(str(failure))


def _partition(message: Message) -> Partition:
    return Partition(_known(message.topic()), _known(message.partition()))


def _record(message: Message) -> SourceRecord:
    kind, timestamp = message.timestamp()
    return SourceRecord(
        partition=_partition(message),
        offset=_known(message.offset()),
        timestamp_ms=timestamp,
        timestamp_type=TIMESTAMP_TYPES.get(kind, "NO_TIMESTAMP_TYPE"),
        key=_bytes(message.key()),
        value=_bytes(message.value()),
        headers=tuple((name, _bytes(value)) for name, value in _headers(message)),
    )


def _headers(message: Message) -> Sequence[tuple[str, str | bytes | None]]:
    headers = message.headers()
    return list(headers.items()) if isinstance(headers, dict) else headers or ()


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _known[T](value: T | None) -> T:
    if value is None:
        raise ValueError("a received message without a position")
    return value
