"""How far change data capture has come, as Kafka knows it: what Debezium has written, what we have consumed.

Three questions, and the order in which they are asked makes a proof of them (docs/decisions/010-cdc-completeness.md):

1. acknowledged_lsn: is everything up to that place in the WAL in the topics? A heartbeat or a notification that was
   read does not say so: it travels in a partition of its own and overtakes rows that wait in Debezium's producer.
   Connect's stored source offset does: it moves only over records that are acknowledged without a gap.
2. end_offsets: where do the topics end, now that it is all in there?
3. committed_offsets: has the consumer come to there?
"""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, Self

from masscomm import environment
from masscomm.aws.authentication import kafka_client_config
from masscomm.errors import Retry
from masscomm.json_reader import InvalidJson, read_json
from masscomm.kafka import topics
from masscomm.kafka.admin import KafkaAdmin
from masscomm.kafka.offsets import by_topic, topic_offsets

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaException, TopicPartition

# {topic: {partition: offset}}; an offset is that of the next record, so that 0 means nothing yet.
Offsets = Mapping[str, Mapping[int, int]]


class CdcProgress(Protocol):
    """The three questions, of one snapshot generation. Errors of each: Retry where Kafka cannot be asked."""

    def acknowledged_lsn(self) -> int | None:
        """Everything committed up to this place in the WAL is in the topics; None while the snapshot is not."""
        ...

    def end_offsets(self) -> Offsets:
        """Where each partition of the tables' topics ends now."""
        ...

    def committed_offsets(self) -> Offsets:
        """What cdc_consumer has committed of the tables' topics; a partition that has no commit is at 0."""
        ...


def reached(committed: Offsets, targets: Offsets) -> bool:
    """Whether the consumer has come to every target. Partitions without a target do not matter."""
    return all(
        committed.get(topic, {}).get(partition, 0) >= offset
        for topic, partitions in targets.items()
        for partition, offset in partitions.items()
    )


class KafkaCdcProgress:
    """The questions put to a broker; connects at the first one.

    group: cdc_consumer's consumer group; where it has one for each topic, `{topic}` stands for its name. offsets_topic:
    where Connect stores source offsets; timeout_s: for a question.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        generation: str,
        group: str,
        offsets_topic: str,
        timeout_s: float = 5.0,
        **overrides: Any,
    ) -> None:
        self._settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap_servers,
            "broker.address.family": "v4",
        } | overrides
        self._server = topics.cdc_prefix(generation)
        self._tables = [topics.cdc_topic(table, generation) for table in topics.CDC_TABLES]
        self._group = group
        self._offsets_topic = offsets_topic
        self._timeout_s = timeout_s
        self._admin = KafkaAdmin(self._settings)
        self._source_offsets: Consumer | None = None
        self._source_position: dict[int, int] = {}
        self._acknowledged: int | None = None

    @classmethod
    def from_environment(cls, generation: str) -> Self:
        """A generation's, at the broker of KAFKA_BOOTSTRAP_SERVERS. Errors: Stop where a variable is missing."""
        return cls(
            environment.required("KAFKA_BOOTSTRAP_SERVERS"),
            generation=generation,
            group=environment.required("CDC_CONSUMER_GROUP"),
            offsets_topic=os.environ.get("CONNECT_OFFSETS_TOPIC") or "connect.offsets",
            **kafka_client_config(),
        )

    def close(self) -> None:
        """Let the broker go; whoever asks again connects again."""
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
        # Kafka says -1001 where nothing was ever committed, as in a partition that never held a record.
        return by_topic({(partition.topic, partition.partition): max(partition.offset, 0) for partition in partitions})

    def _cannot_ask(self, what: str, error: "KafkaException") -> Retry:
        # A client that has lost its connection to the group's coordinator does not always look for it again: it would
        # answer every question with a time-out from then on.
        self._admin.close()
        return _unreadable(what, error)

    def _groups(self) -> "dict[str, list[TopicPartition]]":
        """What of the tables' topics each of cdc_consumer's groups consumes."""
        found: dict[str, list[TopicPartition]] = {}
        for partition in self._partitions():
            found.setdefault(self._group.replace("{topic}", partition.topic), []).append(partition)
        return found

    def _committed_of(self, group: str, partitions: "list[TopicPartition]") -> "list[TopicPartition]":
        from confluent_kafka import ConsumerGroupTopicPartitions

        # A request asks about one group.
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
                # Without its topic a table would count as consumed.
                raise Retry(f"the directory is not ready: there is no topic {topic}")
            found += [TopicPartition(topic, partition) for partition in known[topic].partitions]
        return found

    def _read_source_offsets(self) -> None:
        """Read what Connect has stored since the last time: one small record a second, in a compacted topic."""
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
            if error is not None:  # the end: what lies between is a transaction's marker or was compacted away
                self._source_position[partition] = offset
            else:
                self._source_position[partition] = offset + 1
                self._take(message.key(), message.value())

    def _open_source_offsets(self) -> "Consumer":
        from confluent_kafka import Consumer, KafkaException

        # A group id is obligatory; nothing is ever joined or committed under it.
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
            return  # no connector's
        if not isinstance(name, list) or len(name) != 2 or name[1] != {"server": self._server}:
            return  # another connector's
        lsn = lsn_of_source_offset(offset if isinstance(offset, dict) else None)
        if lsn is not None:  # what was acknowledged stays so, also where a notification's empty offset follows
            self._acknowledged = lsn


def lsn_of_source_offset(offset: Mapping[str, Any] | None) -> int | None:
    """The LSN of a source offset of Debezium's PostgreSQL connector.

    None where it is of a snapshot that still goes on (the key `snapshot` stands in it until then), or says nothing.
    """
    if not offset or "snapshot" in offset:
        return None
    lsn = offset.get("lsn")
    return lsn if isinstance(lsn, int) else None


def _unreadable(what: str, error: "KafkaException") -> Retry:
    return Retry(f"Kafka does not tell {what}: {error}")


class InMemoryCdcProgress:
    """The questions' answers in dictionaries, for unit tests."""

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
