"""The job's queries to the Kafka brokers: existing topics, topic ids and offsets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from masscomm.errors import Retry
from masscomm.kafka.admin import KafkaAdmin
from masscomm.kafka.offsets import topic_offsets
from masscomm.kafka.topic_ids import topic_ids

_TIMEOUT_S = 5.0
_FIRST = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_END = OffsetSpec.latest()  # type: ignore[no-untyped-call]


# (topic, partition): offset
type Offsets = Mapping[tuple[str, int], int]


@dataclass(frozen=True)
class Ends:
    """The first and end offsets of each partition."""

    first: Offsets
    end: Offsets

    def lags(self, consumed: Offsets) -> dict[tuple[str, int], int]:
        """Return the numbers of records between these offsets and the ends, of partitions that have any.

        Records below the first offset were deleted by Kafka's retention, and do not count.
        """
        begin = {place: max(consumed.get(place, 0), self.first.get(place, 0)) for place in self.end}
        return {place: end - begin[place] for place, end in self.end.items() if end > begin[place]}


class Broker:
    """A client of the Kafka brokers. It connects at the first call. Every method raises Retry if the brokers do not
    respond.
    """

    def __init__(self, bootstrap_servers: str, **overrides: Any) -> None:
        # librdkafka would log a line each second while the brokers are down; the job logs once that it waits.
        own: dict[str, Any] = {"bootstrap.servers": bootstrap_servers, "log_level": 0}
        self._admin = KafkaAdmin(own | overrides)

    def missing(self, topics: Sequence[str]) -> list[str]:
        return [topic for topic in topics if not self._partitions().get(topic)]

    def ends(self, topics: Sequence[str], *, committed: bool = False) -> Ends:
        """Return the topics' first and end offsets.

        Args:
            committed: Whether the end of a partition is the first record of an open transaction.
        """
        known = self._partitions()
        places = [TopicPartition(topic, partition) for topic in topics for partition in known.get(topic, [])]
        isolation = {"isolation_level": IsolationLevel.READ_COMMITTED} if committed else {}
        return Ends(self._offsets(places, _FIRST), self._offsets(places, _END, **isolation))

    def topic_ids(self, topics: Sequence[str]) -> dict[str, str]:
        """Return Kafka's ids of the topics. A topic that is older than topic ids is omitted."""
        return topic_ids(self._admin, topics)

    def _partitions(self) -> dict[str, list[int]]:
        try:
            listed = self._admin.client().list_topics(timeout=_TIMEOUT_S).topics
        except KafkaException as error:
            raise Retry(f"Kafka does not answer: {error}") from error
        return {name: sorted(topic.partitions) for name, topic in listed.items() if topic.error is None}

    def _offsets(self, places: list[TopicPartition], spec: OffsetSpec, **options: Any) -> dict[tuple[str, int], int]:
        try:
            return topic_offsets(self._admin.client(), places, spec, timeout_s=_TIMEOUT_S, **options)
        except Retry:
            self._admin.close()
            raise
