"""Ends the segments of the changelogs of rows and own documents, so that Kafka compacts them.

Kafka does not compact the last segment of a partition, and ends a segment at the first record after its time
(https://github.com/apache/kafka/pull/22489). A partition without changes would keep the rows of an erased person.
"""

from typing import TYPE_CHECKING, Any, Protocol, Self

from masscomm import environment
from masscomm.aws.authentication import kafka_client_config
from masscomm.cdc.captured_tables import table_topics
from masscomm.domain.time_limits import CDC_PROGRESS_REQUEST_S
from masscomm.errors import Retry
from masscomm.kafka.topics import DIRECTORY_DOCUMENT, generations

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

# The key of the tombstones. The key of a row is an object with its number.
MARK = b'{"mark":true}'


class Changelogs(Protocol):
    """The topics with the changes of captured rows and of masscomm's own documents."""

    def mark(self) -> None:
        """Append a tombstone to each partition. Raises Retry if Kafka does not acknowledge them."""
        ...


class KafkaChangelogs:
    """Appends the tombstones in Kafka. Each call connects anew, because calls are hours apart.

    Args:
        bootstrap_servers: The addresses of the brokers.
        captured: The captured snapshot generations, separated by commas.
        timeout_s: The time limit of a request in seconds.
    """

    def __init__(
        self, bootstrap_servers: str, *, captured: str, timeout_s: float = CDC_PROGRESS_REQUEST_S, **overrides: Any
    ) -> None:
        self._topics = [topic for each in generations(captured) for topic in table_topics(each)] + [DIRECTORY_DOCUMENT]
        self._timeout_s = timeout_s
        self._settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap_servers,
            "acks": "all",
            "message.timeout.ms": round(timeout_s * 1000),
            "broker.address.family": "v4",
        } | overrides

    @classmethod
    def from_environment(cls) -> Self:
        """Return the changelogs in the brokers of KAFKA_BOOTSTRAP_SERVERS. Raises Stop if a variable is missing."""
        return cls(
            environment.required("KAFKA_BOOTSTRAP_SERVERS"),
            captured=environment.required("CDC_GENERATION"),
            **kafka_client_config(),
        )

    def mark(self) -> None:
        from confluent_kafka import KafkaException, Producer

        refused: list[KafkaError] = []

        def delivered(error: "KafkaError | None", _message: "Message") -> None:
            if error is not None:
                refused.append(error)

        producer = Producer(self._settings)
        try:
            for name in self._topics:
                topic = producer.list_topics(name, timeout=self._timeout_s).topics[name]
                if topic.error is not None:
                    refused.append(topic.error)
                for partition in topic.partitions:
                    producer.produce(name, key=MARK, partition=partition, on_delivery=delivered)
        except KafkaException as error:
            raise Retry(f"the changelogs cannot be marked: {error}") from error
        waiting = producer.flush(self._timeout_s)
        if waiting or refused:
            raise Retry(f"Kafka did not take {waiting + len(refused)} marks of the changelogs: {refused[:1]}")
