"""A Kafka producer: it produces many records concurrently, each with its own delivery report, and flushes them once."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, Self

from masscomm import environment
from masscomm.aws.authentication import kafka_client_config
from masscomm.domain.time_limits import PRODUCER_MESSAGE_S
from masscomm.errors import DeadLetter, Retry
from masscomm.kafka import topics

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message
    from confluent_kafka import Producer as ConfluentProducer

# Kafka's default of max.message.bytes.
_USUAL_BYTES = 1_048_576

Report = Callable[[Exception | None], None]
Headers = list[tuple[str, bytes]]


class Producer(Protocol):
    """The interface with which functions produce records."""

    def produce(self, topic: str, key: bytes | None, value: bytes | None, headers: Headers, report: Report) -> None:
        """Queue a record to be produced.

        Args:
            topic: The topic's name in Kafka.
            key: The key; None for no key.
            value: The value; None for a tombstone.
            headers: The headers in their order.
            report: A function that is called once, at the latest in `flush`: with None when all in-sync replicas have
                the record, with DeadLetter for a permanent error (too_large; invalid: a header's name that UTF-8 cannot
                encode, or no key in a compacted topic), with Retry for any other error.
        """
        ...

    def flush(self, timeout_s: float) -> None:
        """Wait for all delivery reports. A record without one after `timeout_s` seconds is reported as Retry."""
        ...


class KafkaProducer:
    """An idempotent producer that waits for all in-sync replicas.

    Its message.timeout.ms is below the time limit of the invocation, so that every delivery report arrives before the
    function ends.
    """

    def __init__(
        self, bootstrap_servers: str, *, message_timeout_ms: int = round(PRODUCER_MESSAGE_S * 1000), **overrides: Any
    ) -> None:
        self._settings = {
            "bootstrap.servers": bootstrap_servers,
            "acks": "all",
            "enable.idempotence": True,
            # The records of a batch share requests: a batch is often processed within this time. The flush at the end
            # of the invocation does not wait for its end, so that a single record is sent at once.
            "linger.ms": 50,
            "compression.type": "lz4",
            # The client's size limit is above that of every topic except dead-letter, so that the broker refuses
            # records that are too large.
            "message.max.bytes": 5_000_000,
            "message.timeout.ms": message_timeout_ms,
            "queue.buffering.max.kbytes": 65_536,
            "broker.address.family": "v4",
        } | overrides
        self._producer = _connected(self._settings)
        self._broken = False
        self._open: dict[int, Report] = {}
        self._next = 0

    @classmethod
    def from_environment(cls) -> Self:
        """Return a producer for the brokers in KAFKA_BOOTSTRAP_SERVERS.

        Raises:
            Stop: A variable is missing or invalid.
        """
        return cls(environment.required("KAFKA_BOOTSTRAP_SERVERS"), **kafka_client_config())

    def produce(self, topic: str, key: bytes | None, value: bytes | None, headers: Headers, report: Report) -> None:
        from confluent_kafka import KafkaException

        unwritable = _unwritable(headers)
        if unwritable is not None:  # librdkafka would end the process at such a header.
            report(unwritable)
            return
        ticket = self._next
        self._next += 1
        self._open[ticket] = report

        def delivered(error: "KafkaError | None", _message: "Message") -> None:
            self._settle(ticket, error)

        if self._broken:
            self._begin_anew()
        while True:
            try:
                self._producer.produce(topic, value=value, key=key, headers=list(headers), on_delivery=delivered)
            except BufferError:
                # The client's queue is full. Wait until records leave it: an unbounded queue would grow with the batch.
                self._producer.poll(0.1)
                continue
            except KafkaException as error:
                self._settle(ticket, error.args[0])
            return

    def flush(self, timeout_s: float) -> None:
        self._producer.flush(timeout_s)
        for ticket in list(self._open):
            self._close(ticket, Retry("Kafka has not acknowledged the record in time"))

    def _settle(self, ticket: int, error: "KafkaError | None") -> None:
        # After a fatal error an idempotent producer refuses every further record, and this environment may live for
        # hours. So the next record gets a new producer. The records in the old queue are redelivered.
        self._broken = self._broken or (error is not None and error.fatal())
        self._close(ticket, None if error is None else _as_ours(error))

    def _begin_anew(self) -> None:
        self._producer = _connected(self._settings)
        self._broken = False

    def _close(self, ticket: int, error: Exception | None) -> None:
        report = self._open.pop(ticket, None)
        if report is not None:  # Reports that arrive after the flush are ignored.
            report(error)


class NoProducer:
    """The producer of a function that reaches no broker. Nothing is produced: a dead letter stays with the function's
    event source mapping, which produces it to the topic on-failure after its last attempt.
    """

    def produce(self, topic: str, key: bytes | None, value: bytes | None, headers: Headers, report: Report) -> None:  # noqa: ARG002
        report(Retry(f"this function reaches no broker: the record for {topic} stays with the event source mapping"))

    def flush(self, timeout_s: float) -> None:
        """Do nothing."""


def _connected(configuration: dict[str, Any]) -> "ConfluentProducer":
    from confluent_kafka import Producer

    return Producer(configuration)


def _as_ours(error: "KafkaError") -> Exception:
    from confluent_kafka import KafkaError

    # Errors that the record causes. All other errors are temporary or caused by the cluster
    # (docs/internals/permanent-answers.md).
    reason = {KafkaError.MSG_SIZE_TOO_LARGE: "too_large", KafkaError.INVALID_RECORD: "invalid"}.get(error.code())
    if reason is not None:
        return DeadLetter(reason, f"Kafka refuses the record: {error.str()}")
    return Retry(f"Kafka did not take the record: {error.str()}")


def _unwritable(headers: Headers) -> DeadLetter | None:
    try:
        for name, _ in headers:
            name.encode()
    except UnicodeError as error:
        return DeadLetter("invalid", f"a header's name cannot be written: {error}")
    return None


class InMemoryProducer:
    """A producer that appends records to a list, for unit tests. The function `fail` returns the error to report, or
    None.

    Args:
        max_bytes: A size limit that replaces the one in schemas/topics.yaml, for every topic except dead-letter.
    """

    def __init__(self, *, max_bytes: int | None = None) -> None:
        self.produced: list[tuple[str, bytes | None, bytes | None, Headers]] = []
        self.fail: Callable[[str, bytes | None], Exception | None] = lambda _topic, _value: None
        self.flushes = 0
        self._max_bytes = max_bytes
        self._limits = {topic.name: topic.max_message_bytes for topic in topics.chain_topics()}
        self._compacted = {topic.name for topic in topics.chain_topics() if topic.cleanup == "compact"}
        self._waiting: list[Callable[[], None]] = []

    def produce(self, topic: str, key: bytes | None, value: bytes | None, headers: Headers, report: Report) -> None:
        limit = self._limits.get(topic, _USUAL_BYTES)
        if self._max_bytes is not None and topic != topics.DEAD_LETTER:
            limit = self._max_bytes
        unwritable = _unwritable(headers)
        if unwritable is not None:
            report(unwritable)
            return
        size = len(key or b"") + len(value or b"") + sum(len(name.encode()) + len(each) for name, each in headers)
        if size > limit:
            report(DeadLetter("too_large", f"{size} bytes are more than {limit}"))
            return

        if key is None and topic in self._compacted:
            report(DeadLetter("invalid", f"{topic} is compacted, and the record has no key"))
            return

        def settle() -> None:
            error = self.fail(topic, value)
            if error is None:
                self.produced.append((topic, key, value, headers))
            report(error)

        self._waiting.append(settle)

    def lose(self) -> None:
        """Forget the records that are not flushed, as a process that is killed."""
        self._waiting = []

    def flush(self, timeout_s: float) -> None:  # noqa: ARG002  (nothing here takes time)
        self.flushes += 1
        waiting, self._waiting = self._waiting, []
        for settle in waiting:
            settle()
