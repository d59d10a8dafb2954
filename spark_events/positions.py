"""The job's progress: offsets that it commits for a consumer group to the brokers that have the topics.

The offset of a partition is committed with the id of its topic. Kafka deletes the offsets of a deleted topic, and an
offset with the id of another topic is ignored, so that a topic that was created again is read from its beginning.
"""

import logging
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from masscomm.errors import Retry, Stop
from masscomm.kafka.admin import KafkaAdmin
from masscomm.kafka.event_sources import EventSources
from masscomm.kafka.offsets import topic_offsets
from masscomm.kafka.topic_ids import topic_ids
from masscomm.kafka.topic_reading import TIMEOUT_S
from spark_metrics.common.broker import Offsets

_log = logging.getLogger("spark_events")
_FIRST = OffsetSpec.earliest()  # type: ignore[no-untyped-call]


class Positions:
    """The committed offsets, for one thread. Each method raises Retry if the brokers do not respond."""

    def __init__(self, bootstrap_servers: str, sources: EventSources, group: str, **security: Any) -> None:
        self._client = {"bootstrap.servers": bootstrap_servers, "log_level": 0, **security}
        self._admin = KafkaAdmin(self._client)
        self._sources, self._group = sources, group

    def topic_ids(self) -> dict[str, str]:
        """Return Kafka's id of each topic that a source has. Raises Stop if Kafka has none for a topic."""
        names = [name for name in self._partitions() if self._sources.source_of(name) is not None]
        found = topic_ids(self._admin, names) if names else {}
        if missing := sorted(set(names) - found.keys()):
            raise Stop(f"Kafka has no ids for the topics {', '.join(missing)}, which are older than topic ids")
        return found

    def start(self, ids: Mapping[str, str]) -> Offsets:
        """Return the first offset to read of each partition of the topics with these ids."""
        partitions = self._partitions()
        places = [TopicPartition(topic, each) for topic in ids for each in partitions.get(topic, ())]
        first = topic_offsets(self._admin.client(), places, _FIRST, timeout_s=TIMEOUT_S)
        committed = self._committed(places, ids)
        for place, offset in committed.items():
            if offset < first.get(place, offset):
                _log.error("%s-%d: Kafka has deleted the records from %d to %d unread", *place, offset, first[place])
        return {place: max(offset, committed.get(place, 0)) for place, offset in first.items()}

    def commit(self, ends: Offsets, ids: Mapping[str, str]) -> None:
        """Commit the end offsets of partitions of the topics with these ids."""
        places = [
            TopicPartition(topic, partition, offset, metadata=ids[topic])
            for (topic, partition), offset in ends.items()
            if topic in ids
        ]
        if not places:
            return
        try:
            self._consumer.commit(offsets=places, asynchronous=False)
        except KafkaException as error:
            raise Retry(f"Kafka does not commit the offsets of {self._group}: {error}") from error

    def _committed(self, places: list[TopicPartition], ids: Mapping[str, str]) -> Offsets:
        try:
            found = self._consumer.committed(places, timeout=TIMEOUT_S) if places else []
        except KafkaException as error:
            raise Retry(f"Kafka does not return the offsets of {self._group}: {error}") from error
        if failed := [place for place in found if place.error is not None]:
            raise Retry(f"Kafka does not return the offsets of {self._group}: {failed[0].error}")
        return {
            (place.topic, place.partition): place.offset
            for place in found
            # An offset without an id is an operator's.
            # guard: own_topics.offset_of_another_topic
            if place.offset >= 0 and (place.metadata or ids[place.topic]) == ids[place.topic]
        }

    @cached_property
    def _consumer(self) -> Consumer:
        """A consumer that reads nothing. The admin client's look-up of a group's offsets ends the process if the
        group's coordinator does not answer (confluent-kafka 2.16.1).
        """
        return Consumer({**self._client, "group.id": self._group, "enable.auto.commit": False})

    def _partitions(self) -> dict[str, list[int]]:
        try:
            listed = self._admin.client().list_topics(timeout=TIMEOUT_S).topics
        except KafkaException as error:
            self._admin.close()
            raise Retry(f"Kafka does not answer: {error}") from error
        return {name: sorted(topic.partitions) for name, topic in listed.items() if topic.error is None}
