"""Proves that the receipts function has consumed each outcome record that was produced before a time.

An outcome that it has not stored by then is absent, and the fallback is decided without it.
"""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, Self

from masscomm import environment
from masscomm.aws.authentication import kafka_client_config
from masscomm.clock import Clock, SystemClock
from masscomm.domain.time_limits import CDC_PROGRESS_REQUEST_S, OUTCOMES_POLL_S, OUTCOMES_WAIT_S
from masscomm.errors import Retry
from masscomm.kafka import topics
from masscomm.kafka.admin import KafkaAdmin
from masscomm.kafka.offsets import topic_offsets

if TYPE_CHECKING:
    from confluent_kafka import TopicPartition

# The consumer group of receipts, if OUTCOME_CONSUMER_GROUP names no other one.
GROUP = "masscomm.receipts"


class OutcomeProgress(Protocol):
    """The progress of the consumer of outcome records."""

    def has_passed(self, ts_ms: int, remaining_s: float) -> bool:
        """Return whether each outcome record that was produced before a time is consumed. It waits for a few seconds.

        Args:
            ts_ms: The time, which is past, in ms since the epoch.
            remaining_s: The remaining seconds of the invocation.

        Raises:
            Retry: Kafka does not answer.
            Stop: A variable of the environment is missing.
        """
        ...


class KafkaOutcomeProgress:
    """The progress by the committed offsets of the consumer. It connects at the first call.

    Args:
        bootstrap: The address of the Kafka brokers; None: that of the environment.
        group: The consumer group.
        clock: The clock of the waits.
        security: Further configuration of the Kafka client, for authentication.
    """

    def __init__(self, bootstrap: str, *, group: str, clock: Clock, security: Mapping[str, Any]) -> None:
        self._group = group
        self._clock = clock
        self._admin = KafkaAdmin({**security, "bootstrap.servers": bootstrap, "broker.address.family": "v4"})
        # The time before which each outcome record is consumed, as far as it is proved.
        self._passed_ms = 0

    @classmethod
    def from_environment(cls, clock: Clock | None = None) -> Self:
        """Return the progress in the brokers of KAFKA_BOOTSTRAP_SERVERS. Raises Stop if a variable is missing."""
        return cls(
            environment.required("KAFKA_BOOTSTRAP_SERVERS"),
            group=os.environ.get("OUTCOME_CONSUMER_GROUP") or GROUP,
            clock=clock or SystemClock(),
            security=kafka_client_config(),
        )

    def has_passed(self, ts_ms: int, remaining_s: float) -> bool:
        if ts_ms <= self._passed_ms:
            return True
        until_s = self._clock.monotonic() + min(OUTCOMES_WAIT_S, remaining_s - CDC_PROGRESS_REQUEST_S)
        if self._clock.monotonic() >= until_s:
            return False
        try:
            places = self._places()
            # Records that are produced from now on are younger than the time.
            asked_ms, ends = self._clock.now_ms(), self._ends(places)
            while not self._has_committed(places, ends):
                if self._clock.monotonic() + OUTCOMES_POLL_S >= until_s:
                    return False
                self._clock.sleep(OUTCOMES_POLL_S)
        except Retry:
            # A client that has lost its connection does not always recover.
            self._admin.close()
            raise
        self._passed_ms = max(self._passed_ms, asked_ms)
        return ts_ms <= self._passed_ms

    def _places(self) -> "list[TopicPartition]":
        from confluent_kafka import KafkaException, TopicPartition

        try:
            known = self._admin.client().list_topics(topics.OUTCOME, timeout=CDC_PROGRESS_REQUEST_S).topics
        except KafkaException as error:
            raise Retry(f"Kafka does not return the topic {topics.OUTCOME}: {error}") from error
        found = known.get(topics.OUTCOME)
        if found is None or found.error is not None or not found.partitions:
            raise Retry(f"there is no topic {topics.OUTCOME}")
        return [TopicPartition(topics.OUTCOME, each) for each in found.partitions]

    def _ends(self, places: "list[TopicPartition]") -> dict[tuple[str, int], int]:
        from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]  # not in its __all__

        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        return topic_offsets(self._admin.client(), places, latest, timeout_s=CDC_PROGRESS_REQUEST_S)

    def _has_committed(self, places: "list[TopicPartition]", ends: Mapping[tuple[str, int], int]) -> bool:
        from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException

        wanted = [ConsumerGroupTopicPartitions(self._group, places)]
        try:
            answers = self._admin.client().list_consumer_group_offsets(wanted, request_timeout=CDC_PROGRESS_REQUEST_S)
            found = answers[self._group].result().topic_partitions
        except KafkaException as error:
            raise Retry(f"Kafka does not return the offsets of {self._group}: {error}") from error
        committed = {(each.topic, each.partition): each.offset for each in found if each.error is None}
        # guard: fallbacks.consumer_has_passed
        return all(committed.get(place, 0) >= end for place, end in ends.items())


class InMemoryOutcomeProgress:
    """A consumer that has consumed everything produced before `passed_ms`; None: it is never behind.

    Attributes:
        failing: An error that every call raises.
    """

    def __init__(self) -> None:
        self.passed_ms: int | None = None
        self.failing: Exception | None = None

    def has_passed(self, ts_ms: int, remaining_s: float) -> bool:  # noqa: ARG002
        if self.failing is not None:
            raise self.failing
        return self.passed_ms is None or ts_ms <= self.passed_ms
