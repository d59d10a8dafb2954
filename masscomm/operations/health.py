"""Measures the health of an installation: the lag of each function in each of its topics, and the staleness of the
directory.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

from masscomm import environment
from masscomm.aws.authentication import kafka_client_config
from masscomm.domain.lanes import Lane
from masscomm.domain.time_limits import CDC_PROGRESS_REQUEST_S
from masscomm.errors import Retry
from masscomm.kafka.admin import KafkaAdmin
from masscomm.kafka.offsets import topic_offsets
from masscomm.kafka.topic_reading import TopicReader
from masscomm.kafka.topics import cdc_topic, cdc_topics, chain_topics, generations, lane_of

if TYPE_CHECKING:
    from confluent_kafka import TopicPartition

# The consumer group of a function by default; in AWS each topic has a group of its own.
GROUP = "masscomm.{function}"
_CDC_CONSUMER = "cdc_consumer"
# Consumers in schemas/topics.yaml that are not functions with event source mappings.
_NO_MAPPING = {"monolith", "operations", "operations_handler", "spark_metrics"}


@dataclass(frozen=True, kw_only=True)
class Lag:
    """The records of a topic that a function has not processed yet."""

    function: str
    topic: str
    records: int


@dataclass(frozen=True, kw_only=True)
class DirectoryAge:
    """How old the directory's data is."""

    generation: str
    # The time of the newest heartbeat of the monolith's database that cdc_consumer has processed, in ms since the
    # epoch; None if it has processed none that Kafka still has.
    heartbeat_at_ms: int | None


class Health(Protocol):
    """Methods raise Retry if Kafka does not answer."""

    def lags(self) -> Sequence[Lag]:
        """Return the lag of each function in each of its topics."""
        ...

    def directory_ages(self) -> Sequence[DirectoryAge]:
        """Return the age of each captured generation of the directory."""
        ...


def consumed_topics(generation: str) -> Mapping[str, Sequence[str]]:
    """Return the topics of each function with event source mappings, by the function's deployed name."""
    found: dict[str, list[str]] = {}
    # A compacted topic of the chain is read from its beginning, without a consumer group.
    of_groups = (topic for topic in chain_topics() if topic.cleanup != "compact")
    for topic in (*of_groups, *cdc_topics(generation)):
        for consumer in topic.consumers:
            if consumer not in _NO_MAPPING:
                function = f"{consumer}-critical" if lane_of(topic.name) is Lane.CRITICAL else consumer
                found.setdefault(function, []).append(topic.name)
    return found


class KafkaHealth:
    """Measures the health from offsets in Kafka. It connects at the first call.

    Args:
        bootstrap: The address of the Kafka broker.
        generation: The captured snapshot generations of the directory, separated by commas.
        group: The consumer group of a function, with {function} and {topic} for their names.
        security: Further configuration of the Kafka client, for authentication.
    """

    def __init__(self, bootstrap: str, *, generation: str, group: str, security: Mapping[str, Any]) -> None:
        self._bootstrap, self._security = bootstrap, security
        self._generation, self._group = generation, group
        settings = {**security, "bootstrap.servers": bootstrap, "broker.address.family": "v4"}
        self._admin = KafkaAdmin(settings)

    @classmethod
    def from_environment(cls) -> Self:
        """Return the health of the brokers in KAFKA_BOOTSTRAP_SERVERS. Raises Stop if a variable is missing."""
        return cls(
            environment.required("KAFKA_BOOTSTRAP_SERVERS"),
            generation=environment.required("CDC_GENERATION"),
            group=os.environ.get("CONSUMER_GROUPS") or GROUP,
            security=kafka_client_config(),
        )

    def lags(self) -> Sequence[Lag]:
        from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]  # not in its __all__

        consumed = consumed_topics(self._generation)
        try:
            places = self._places({topic for topics in consumed.values() for topic in topics})
            everything = [place for found in places.values() for place in found]
            client, limit_s = self._admin.client(), CDC_PROGRESS_REQUEST_S
            firsts = topic_offsets(client, everything, OffsetSpec.earliest(), timeout_s=limit_s)  # type: ignore[no-untyped-call]
            ends = topic_offsets(client, everything, OffsetSpec.latest(), timeout_s=limit_s)  # type: ignore[no-untyped-call]
            committed = {function: self._committed(function, topics, places) for function, topics in consumed.items()}
        except Retry:
            # A client that has lost its connection does not always recover.
            self._admin.close()
            raise
        return [
            Lag(
                function=function,
                topic=topic,
                records=sum(
                    max(0, ends[place] - max(firsts[place], committed[function].get(place, 0)))
                    for place in ((topic, each.partition) for each in places[topic])
                ),
            )
            for function, topics in consumed.items()
            for topic in topics
        ]

    def directory_ages(self) -> Sequence[DirectoryAge]:
        return [
            DirectoryAge(generation=each, heartbeat_at_ms=self._heartbeat_at_ms(cdc_topic("heartbeat", each)))
            for each in generations(self._generation)
        ]

    def _heartbeat_at_ms(self, topic: str) -> int | None:
        from confluent_kafka import KafkaException

        processed = self._committed(_CDC_CONSUMER, [topic], self._places({topic})).get((topic, 0), 0)
        try:
            with TopicReader(self._bootstrap, self._security) as reader:
                first, _ = reader.bounds(topic, 0)
                if processed <= first:
                    return None
                newest = list(reader.read_range(topic, 0, processed - 1, processed))
        except KafkaException as error:
            raise Retry(f"Kafka does not return the newest heartbeat: {error}") from error
        return newest[-1].timestamp()[1] if newest else None

    def _places(self, names: set[str]) -> "Mapping[str, list[TopicPartition]]":
        """Return the partitions of topics. A topic that does not exist has none."""
        from confluent_kafka import KafkaException, TopicPartition

        try:
            known = self._admin.client().list_topics(timeout=CDC_PROGRESS_REQUEST_S).topics
        except KafkaException as error:
            raise Retry(f"Kafka does not return the topics: {error}") from error
        return {
            name: [TopicPartition(name, each) for each in known[name].partitions] if name in known else []
            for name in names
        }

    def _committed(
        self, function: str, topics: Sequence[str], places: "Mapping[str, list[TopicPartition]]"
    ) -> Mapping[tuple[str, int], int]:
        """Return the committed offsets of a function, by topic and partition; those that are missing have none."""
        from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException

        wanted: dict[str, list[TopicPartition]] = {}
        for topic in topics:
            wanted.setdefault(self._group.format(function=function, topic=topic), []).extend(places[topic])
        answers: dict[str, Any] = {}
        try:
            for group, partitions in wanted.items():
                if partitions:
                    request = [ConsumerGroupTopicPartitions(group, partitions)]
                    answers |= self._admin.client().list_consumer_group_offsets(
                        request, request_timeout=CDC_PROGRESS_REQUEST_S
                    )
            found = [each for answer in answers.values() for each in answer.result().topic_partitions]
        except KafkaException as error:
            raise Retry(f"Kafka does not return the offsets of {function}: {error}") from error
        return {(each.topic, each.partition): each.offset for each in found if each.error is None and each.offset >= 0}


class InMemoryHealth:
    """Figures that a test sets."""

    def __init__(self, lags: Sequence[Lag] = (), ages: Sequence[DirectoryAge] = ()) -> None:
        self._lags, self._ages = lags, ages

    def lags(self) -> Sequence[Lag]:
        return self._lags

    def directory_ages(self) -> Sequence[DirectoryAge]:
        return self._ages
