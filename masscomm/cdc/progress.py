"""The progress of change data capture in Kafka: which changes Debezium has produced, and which of them cdc_consumer
has consumed.

Three queries, in this order, prove that the directory (the copy of the monolith's tables in OpenSearch) is complete up
to a position in the WAL (docs/decisions/010-cdc-completeness.md):

1. acknowledged_lsn: are all changes up to that LSN in the topics? A consumed heartbeat or notification does not prove
   this: it is written to another partition and can overtake rows that wait in Debezium's producer. The source offset
   that Kafka Connect stores proves it: it advances only over records that Kafka has acknowledged without a gap.
2. end_offsets: where do the topics end, now that they contain all these changes?
3. committed_offsets: has cdc_consumer reached these ends?
"""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self

from masscomm import environment
from masscomm.aws.authentication import kafka_client_config
from masscomm.cdc.captured_tables import table_topics
from masscomm.domain.time_limits import CDC_PROGRESS_REQUEST_S
from masscomm.errors import Retry
from masscomm.json_reader import InvalidJson, read_json
from masscomm.kafka import topics
from masscomm.kafka.admin import KafkaAdmin
from masscomm.kafka.offsets import by_topic, topic_offsets

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaException, TopicPartition

# The topic in which Kafka Connect stores source offsets.
OFFSETS_TOPIC = "connect.offsets"
# Topic → partition → offset of the next record; 0 if the partition has no record yet.
Offsets = Mapping[str, Mapping[int, int]]


class CdcProgress(Protocol):
    """Three queries that prove up to which WAL position the topics and cdc_consumer are complete, for one snapshot
    generation. Each raises Retry if Kafka does not respond.
    """

    def acknowledged_lsn(self) -> int | None:
        """Return the LSN up to which the topics contain every committed change; None until they contain the
        snapshot.
        """
        ...

    def end_offsets(self) -> Offsets:
        """Return the current end offset of each partition of the captured tables' topics."""
        ...

    def committed_offsets(self) -> Offsets:
        """Return the offsets that cdc_consumer has committed in the captured tables' topics; 0 for a partition
        without a commit.
        """
        ...


def reached(committed: Offsets, targets: Offsets) -> bool:
    """Return whether the committed offsets have reached every target offset. Partitions without a target do not
    matter.
    """
    return all(
        committed.get(topic, {}).get(partition, 0) >= offset
        for topic, partitions in targets.items()
        for partition, offset in partitions.items()
    )


class KafkaCdcProgress:
    """Sends the queries of CdcProgress to Kafka. It connects at the first query.

    Args:
        group: The consumer group of cdc_consumer. `{topic}` stands for the topic's name if each topic has a group.
        offsets_topic: The topic in which Kafka Connect stores source offsets.
        further_topics: Topics whose end offsets count, too.
        timeout_s: The time limit of a query in seconds.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        generation: str,
        group: str,
        offsets_topic: str,
        further_topics: Sequence[str] = (),
        timeout_s: float = CDC_PROGRESS_REQUEST_S,
        **overrides: Any,
    ) -> None:
        self._settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap_servers,
            "broker.address.family": "v4",
        } | overrides
        self._server = topics.cdc_prefix(generation)
        self._tables = (*table_topics(generation), *further_topics)
        self._group = group
        self._offsets_topic = offsets_topic
        self._timeout_s = timeout_s
        self._admin = KafkaAdmin(self._settings)
        self._source_offsets: Consumer | None = None
        self._source_position: dict[int, int] = {}
        self._acknowledged: int | None = None

    @classmethod
    def from_environment(cls, generation: str) -> Self:
        """Return the progress of change data capture for one snapshot generation, from the brokers in
        KAFKA_BOOTSTRAP_SERVERS. Raises Stop if a variable is missing.
        """
        return cls(
            environment.required("KAFKA_BOOTSTRAP_SERVERS"),
            generation=generation,
            group=environment.required("CDC_CONSUMER_GROUP"),
            offsets_topic=os.environ.get("CONNECT_OFFSETS_TOPIC") or OFFSETS_TOPIC,
            **kafka_client_config(),
        )

    def close(self) -> None:
        """Close the connections; the next query connects again."""
        self._admin.close()
        if self._source_offsets is not None:
            self._source_offsets.close()
            self._source_offsets = None

    def acknowledged_lsn(self) -> int | None:
        from confluent_kafka import KafkaException

        try:
            self._read_source_offsets()
        except KafkaException as error:
            raise _unreadable("Connect's source offsets", error) from error
        return self._acknowledged

    def end_offsets(self) -> Offsets:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]  # not in its __all__

        try:
            partitions = self._partitions()
        except KafkaException as error:
            raise self._cannot_ask("end offsets", error) from error
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        try:
            ends = topic_offsets(self._admin.client(), partitions, latest, timeout_s=self._timeout_s)
        except Retry:
            self._admin.close()
            raise
        return by_topic(ends)

    def committed_offsets(self) -> Offsets:
        from confluent_kafka import KafkaException

        try:
            partitions = [
                partition for group, wanted in self._groups().items() for partition in self._committed_of(group, wanted)
            ]
        except KafkaException as error:
            raise self._cannot_ask("committed offsets", error) from error
        for partition in partitions:
            if partition.error is not None:
                raise self._cannot_ask("committed offsets", KafkaException(partition.error))
        # Kafka returns -1001 for a partition without a committed offset, such as one that never contained a record.
        return by_topic({(partition.topic, partition.partition): max(partition.offset, 0) for partition in partitions})

    def _cannot_ask(self, what: str, error: "KafkaException") -> Retry:
        # Close the client: a client that has lost its connection to the group coordinator does not always look it up
        # again, and then every query times out.
        self._admin.close()
        return _unreadable(what, error)

    def _groups(self) -> "dict[str, list[TopicPartition]]":
        """Return the partitions that each consumer group of cdc_consumer consumes, by group."""
        found: dict[str, list[TopicPartition]] = {}
        for partition in self._partitions():
            found.setdefault(self._group.replace("{topic}", partition.topic), []).append(partition)
        return found

    def _committed_of(self, group: str, partitions: "list[TopicPartition]") -> "list[TopicPartition]":
        from confluent_kafka import ConsumerGroupTopicPartitions

        # A request for committed offsets can contain only one group.
        wanted = ConsumerGroupTopicPartitions(group, partitions)
        answers = self._admin.client().list_consumer_group_offsets([wanted], request_timeout=self._timeout_s)
        found: list[TopicPartition] = answers[group].result().topic_partitions
        return found

    def _partitions(self) -> "list[TopicPartition]":
        from confluent_kafka import TopicPartition

        known = self._admin.client().list_topics(timeout=self._timeout_s).topics
        found = []
        for topic in self._tables:
            if topic not in known or known[topic].error is not None or not known[topic].partitions:
                # A missing topic must be an error: otherwise its table would count as completely consumed.
                raise Retry(f"the directory is not ready: there is no topic {topic}")
            found += [TopicPartition(topic, partition) for partition in known[topic].partitions]
        return found

    def _read_source_offsets(self) -> None:
        """Read the source offsets that Kafka Connect has stored since the last call: one small record per second in
        a compacted topic.
        """
        from confluent_kafka import KafkaError, KafkaException

        if self._source_offsets is None:
            self._source_offsets = self._open_source_offsets()
        consumer = self._source_offsets
        ends = {partition: self._bounds(consumer, partition)[1] for partition in self._source_position}
        while any(self._source_position[partition] < end for partition, end in ends.items()):
            message = consumer.poll(self._timeout_s)
            if message is None:
                raise Retry("Kafka does not hand over Connect's source offsets")
            partition, offset, error = message.partition(), message.offset(), message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            if partition is None or offset is None:
                continue
            # The end of the partition is reached. The offsets up to it without a record belong to transaction markers
            # or to compacted records.
            if error is not None:
                self._source_position[partition] = offset
            else:
                self._source_position[partition] = offset + 1
                self._take(message.key(), message.value())

    def _open_source_offsets(self) -> "Consumer":
        from confluent_kafka import Consumer, KafkaException

        # The client requires a group id. This consumer never joins the group or commits offsets.
        consumer = Consumer(
            self._settings
            | {
                "group.id": topics.CDC_PROGRESS_GROUP,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
            }
        )
        known = consumer.list_topics(self._offsets_topic, timeout=self._timeout_s).topics[self._offsets_topic]
        if known.error is not None:
            raise KafkaException(known.error)
        self._source_position = {partition: self._bounds(consumer, partition)[0] for partition in known.partitions}
        consumer.assign([self._place(partition, offset) for partition, offset in self._source_position.items()])
        return consumer

    def _bounds(self, consumer: "Consumer", partition: int) -> tuple[int, int]:
        low, high = consumer.get_watermark_offsets(self._place(partition), timeout=self._timeout_s, cached=False)
        return low, high

    def _place(self, partition: int, offset: int = 0) -> "TopicPartition":
        from confluent_kafka import TopicPartition

        return TopicPartition(self._offsets_topic, partition, offset)

    def _take(self, key: bytes | None, value: bytes | None) -> None:
        try:
            name, offset = (read_json(text) if text else None for text in (key, value))
        except InvalidJson:
            return  # The record is not a connector's offset.
        if not isinstance(name, list) or len(name) != 2 or name[1] != {"server": self._server}:
            return  # The offset belongs to another connector.
        lsn = lsn_of_source_offset(offset if isinstance(offset, dict) else None)
        # An acknowledged LSN stays valid, even if the empty offset of a notification follows it.
        if lsn is not None:
            self._acknowledged = lsn


def lsn_of_source_offset(offset: Mapping[str, Any] | None) -> int | None:
    """Return the LSN in a source offset of Debezium's PostgreSQL connector.

    Return None for an empty offset, and until the snapshot is complete: until then the offsets have the key `snapshot`.
    """
    if not offset or "snapshot" in offset:
        return None
    lsn = offset.get("lsn")
    return lsn if isinstance(lsn, int) else None


def _unreadable(what: str, error: "KafkaException") -> Retry:
    return Retry(f"Kafka does not return {what}: {error}")


class InMemoryCdcProgress:
    """Holds the results of the queries of CdcProgress in dictionaries, for unit tests."""

    def __init__(self) -> None:
        self.lsn: int | None = None
        self.ends: dict[str, dict[int, int]] = {}
        self.committed: dict[str, dict[int, int]] = {}
        self.asked = 0

    def acknowledged_lsn(self) -> int | None:
        self.asked += 1
        return self.lsn

    def end_offsets(self) -> Offsets:
        self.asked += 1
        return {topic: dict(partitions) for topic, partitions in self.ends.items()}

    def committed_offsets(self) -> Offsets:
        self.asked += 1
        return {topic: dict(partitions) for topic, partitions in self.committed.items()}
