"""Reads single records from given positions (topic, partition, offset)."""

import time
from typing import TYPE_CHECKING, Any, Protocol, Self

from masscomm import environment
from masscomm.aws.authentication import kafka_client_config
from masscomm.domain.time_limits import SOURCE_RECORD_REQUEST_S
from masscomm.errors import Retry
from masscomm.kafka.event import KafkaRecord
from masscomm.kafka.topics import SOURCE_RECORDS_GROUP

if TYPE_CHECKING:
    from confluent_kafka import Consumer, TopicPartition


class SourceRecords(Protocol):
    """The interface that reads a record at a position (topic, partition, offset)."""

    def at(self, topic: str, partition: int, offset: int) -> KafkaRecord | None:
        """Return the record at a position; None if it was deleted or never existed.

        Raises:
            Retry: Kafka is unavailable or too slow.
        """
        ...


class KafkaSourceRecords:
    """Reads records with a consumer that joins no group and commits no offset. It connects at its first use."""

    def __init__(self, bootstrap_servers: str, **overrides: Any) -> None:
        self._settings = {
            "bootstrap.servers": bootstrap_servers,
            "group.id": SOURCE_RECORDS_GROUP,  # The client requires a group id, although it never joins the group.
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "broker.address.family": "v4",
        } | overrides
        self._consumer: Consumer | None = None

    @classmethod
    def from_environment(cls) -> Self:
        """Return a reader for the brokers in KAFKA_BOOTSTRAP_SERVERS.

        Raises:
            Stop: A variable is missing or invalid.
        """
        return cls(environment.required("KAFKA_BOOTSTRAP_SERVERS"), **kafka_client_config())

    def at(self, topic: str, partition: int, offset: int) -> KafkaRecord | None:
        from confluent_kafka import KafkaException, TopicPartition

        try:
            return self._read(TopicPartition(topic, partition, offset))
        except KafkaException as error:
            raise Retry(f"Kafka does not give {topic}-{partition}@{offset}: {error}") from error

    def _read(self, place: "TopicPartition") -> KafkaRecord | None:
        from confluent_kafka import Consumer, KafkaError, KafkaException

        if self._consumer is None:
            self._consumer = Consumer(self._settings)
        try:
            first, end = self._consumer.get_watermark_offsets(place, timeout=SOURCE_RECORD_REQUEST_S)
        except KafkaException as error:
            if error.args[0].code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION):
                return None
            raise
        if not first <= place.offset < end:
            return None
        self._consumer.assign([place])
        until = time.monotonic() + SOURCE_RECORD_REQUEST_S
        while time.monotonic() < until:
            message = self._consumer.poll(0.5)
            if message is None:
                continue
            if message.error() is not None:
                raise KafkaException(message.error())
            if message.offset() != place.offset:  # The record was deleted; Kafka returned the next one instead.
                return None
            headers: Any = message.headers() or []
            return KafkaRecord(
                topic=place.topic,
                partition=place.partition,
                offset=place.offset,
                timestamp_ms=message.timestamp()[1],
                key=message.key(),
                value=message.value(),
                headers=tuple((name, value or b"") for name, value in headers),
            )
        raise Retry(f"Kafka did not give {place.topic}-{place.partition}@{place.offset} in time")


class InMemorySourceRecords:
    """A reader of records in a dictionary, for unit tests."""

    def __init__(self) -> None:
        self.records: dict[tuple[str, int, int], KafkaRecord] = {}
        # An error that every call raises; None: calls succeed.
        self.failing: Exception | None = None

    def at(self, topic: str, partition: int, offset: int) -> KafkaRecord | None:
        if self.failing is not None:
            raise self.failing
        return self.records.get((topic, partition, offset))
