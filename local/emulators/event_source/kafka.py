"""Implements the interfaces of `ports.py` with a real Kafka broker."""

import asyncio
import concurrent.futures
import contextlib
import logging
import threading
import time
import zlib
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

from local.emulators.event_source.ports import RecordTooLargeError, SourceListener
from local.emulators.event_source.record import Partition, SourceRecord

log = logging.getLogger(__name__)

# The poll time-out in seconds, and so the maximum delay of a commit.
POLL_S = 0.05
ENDS_S = 0.5
CLOSE_S = 5.0
MOST_AT_ONCE = 500
PREFETCH_KBYTES = 4096
TIMESTAMP_TYPES = {TIMESTAMP_CREATE_TIME: "CREATE_TIME", TIMESTAMP_LOG_APPEND_TIME: "LOG_APPEND_TIME"}


class KafkaSource:
    """A Kafka consumer that reads in a separate thread and calls a listener in the event loop.

    confluent-kafka permits one thread at a time to use a consumer, and some calls hold Python's global interpreter lock
    while they wait for the other thread, which is a deadlock. Therefore the reading thread makes all calls, between two
    reads.

    Args:
        bootstrap_servers: The brokers as host:port, separated by commas.
        group: The consumer group.
        topics: The topics to read. If a topic does not exist yet, it is found within seconds after its creation.
        instance: The name of a static group member, with which a restarted process gets its partitions back at
            once. None: the consumer is a dynamic member, which leaves the group and joins again.
        revocation_s: The seconds that the listener gets to release partitions at a rebalance.
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
        config: dict[str, str | int | float | bool] = {
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
            # With a short session time-out, the partitions of a killed member are soon assigned to another member.
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 2000,
            # librdkafka's default is a queue of 64 MB and 100,000 messages for each consumer, and a pause of a second
            # when the queue is full.
            "queued.max.messages.kbytes": PREFETCH_KBYTES,
            "queued.min.messages": 1000,
            "fetch.queue.backoff.ms": 5,
            "fetch.message.max.bytes": 1024 * 1024,
            "fetch.wait.max.ms": 500,
            # librdkafka connects and logs at most every half second while a broker is down.
            "reconnect.backoff.ms": 500,
            "reconnect.backoff.max.ms": 1000,
        }
        if instance is not None:
            # A returning static member keeps its partitions and gets none of a newly configured topic. Therefore its
            # name contains a checksum of the topics.
            config["group.instance.id"] = f"{instance}-{zlib.crc32(' '.join(sorted(self._topics)).encode()):08x}"
        self._consumer = Consumer(config, logger=log)
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._ended = False
        self._assigned: set[Partition] = set()
        self._requests: deque[Callable[[], object]] = deque()
        self._ends: dict[Partition, int] = {}

    async def start(self, listener: SourceListener) -> None:
        """Implement RecordSource.start."""
        self._loop = asyncio.get_running_loop()
        self._listener = listener
        self._thread = threading.Thread(target=self._read, name=f"read {self._topics[0]}", daemon=True)
        self._thread.start()

    def pause(self, partitions: Collection[Partition]) -> None:
        """Implement RecordSource.pause."""
        self._requests.append(lambda: self._consumer.pause(self._still_ours(partitions)))

    def resume(self, partitions: Collection[Partition]) -> None:
        """Implement RecordSource.resume."""
        self._requests.append(lambda: self._consumer.resume(self._still_ours(partitions)))

    async def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Implement RecordSource.commit."""
        wanted = [TopicPartition(*partition, offset) for partition, offset in offsets.items()]
        committed: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._requests.append(lambda: self._commit(wanted, committed))
        if self._ended:
            committed.cancel()
        try:
            await asyncio.wrap_future(committed)
        except asyncio.CancelledError:
            if committed.cancelled() and self._ended:
                raise OSError("the consumer is closed") from None
            raise

    def ends(self) -> Mapping[Partition, int]:
        """Implement RecordSource.ends."""
        return dict(self._ends)

    async def close(self) -> None:
        """Implement RecordSource.close."""
        self._stop.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, CLOSE_S)
            if self._thread.is_alive():
                # Only a reachable broker can remove the member at once; otherwise the member is removed when its
                # session times out.
                log.warning("%s: left the consumer group without notifying the broker", self._topics)

    # --- methods that run in the reading thread ---

    def _read(self) -> None:
        self._consumer.subscribe(
            self._topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )
        look_at_ends = 0.0
        try:
            while not self._stop.is_set():
                self._serve_requests()
                message = self._consumer.poll(POLL_S)
                if message is not None:
                    more = self._consumer.consume(MOST_AT_ONCE, timeout=0)
                    self._call(self._deliver, [message, *more])
                if time.monotonic() >= look_at_ends:
                    look_at_ends = time.monotonic() + ENDS_S
                    self._look_at_ends()
            self._serve_requests()
        except Exception:
            log.exception("reading %s broke off", self._topics)
            raise
        finally:
            self._consumer.close()
            # `_ended` is set first, so that later requests fail; then the queued requests are served.
            self._ended = True
            with contextlib.suppress(RuntimeError):
                self._serve_requests()

    def _serve_requests(self) -> None:
        while self._requests:
            self._requests.popleft()()

    def _still_ours(self, partitions: Collection[Partition]) -> list[TopicPartition]:
        return [TopicPartition(*partition) for partition in partitions if partition in self._assigned]

    def _commit(self, wanted: list[TopicPartition], committed: "concurrent.futures.Future[None]") -> None:
        if not committed.set_running_or_notify_cancel():
            return
        try:
            done = self._consumer.commit(offsets=wanted, asynchronous=False)
        except (KafkaException, RuntimeError) as error:
            committed.set_exception(OSError(str(error)))
            return
        failed = [partition for partition in done or [] if partition.error is not None]
        if failed:
            committed.set_exception(OSError(f"not committed: {failed}"))
        else:
            committed.set_result(None)

    def _look_at_ends(self) -> None:
        ends: dict[Partition, int] = {}
        for partition in self._assigned:
            marks = self._consumer.get_watermark_offsets(TopicPartition(*partition), cached=True)
            if marks is not None and marks[1] >= 0:
                ends[partition] = marks[1]
        self._ends = ends

    def _call[**P](self, function: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        self._loop.call_soon_threadsafe(lambda: function(*args, **kwargs))

    def _on_assign(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        mine = [Partition(partition.topic, partition.partition) for partition in partitions]
        self._assigned.update(mine)
        # librdkafka keeps the pause of a partition that was revoked and returns.
        self.resume(mine)
        self._call(self._listener.assigned, mine)

    def _on_revoke(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._let_go(partitions, lost=False)

    def _on_lost(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._let_go(partitions, lost=True)

    def _let_go(self, partitions: list[TopicPartition], *, lost: bool) -> None:
        leaving = [Partition(partition.topic, partition.partition) for partition in partitions]
        done = asyncio.run_coroutine_threadsafe(self._listener.revoked(leaving, lost=lost), self._loop)
        give_up = time.monotonic() + self._revocation_s
        while not done.done():
            # Revoking waits for commits of finished batches, which only this thread can send.
            self._serve_requests()
            if time.monotonic() > give_up:
                log.warning("partitions not let go of within %.0f s: %s", self._revocation_s, leaving)
                break
            concurrent.futures.wait([done], timeout=POLL_S / 4)
        self._assigned.difference_update(leaving)

    # --- methods that run in the event loop ---

    def _deliver(self, messages: Sequence[Message]) -> None:
        records: list[SourceRecord] = []
        for message in messages:
            error = message.error()
            if error is None:
                records.append(_record(message))
                continue
            if error.code() == KafkaError._PARTITION_EOF:
                # The listener expects all records of a partition before the event of the partition's end.
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
                # An on-failure record is larger than its record because of base64; compression keeps it below the
                # topic's size limit.
                "compression.type": "zstd",
                "message.max.bytes": 16 * 1024 * 1024,
                "reconnect.backoff.max.ms": 1000,
            },
            logger=log,
        )

    async def send(self, topic: str, key: bytes | None, value: bytes, /) -> None:
        """Implement FailureDestination.send."""
        await asyncio.to_thread(self._send, topic, key, value)

    async def close(self) -> None:
        """Implement FailureDestination.close."""
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
