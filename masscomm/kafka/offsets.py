"""Reads the first and end offsets of partitions, and rejects the invalid offsets that a client returns after it has
lost a leader.

confluent-kafka's admin client caches the leader of a partition. If that broker is down, the client returns the offset
-1001 without an error after the request's time-out. It continues to do so until it receives the new leader, which it
does not request by itself. With an end offset of -1001, every consumer would seem to have consumed everything.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from masscomm.errors import Retry

if TYPE_CHECKING:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]  # not in its __all__


def topic_offsets(
    admin: "AdminClient", places: "Sequence[TopicPartition]", spec: "OffsetSpec", *, timeout_s: float, **options: Any
) -> dict[tuple[str, int], int]:
    """Return offsets by (topic, partition).

    Args:
        admin: The admin client.
        places: The partitions.
        spec: The offset to return: earliest or latest.
        timeout_s: The time limit of the request in seconds.
        options: Further options of AdminClient.list_offsets.

    Raises:
        Retry: An offset is unknown. The caller must retry with a new client, because this one may never find the
            leader.
    """
    from confluent_kafka import KafkaException

    if not places:
        return {}
    try:
        answers = admin.list_offsets(dict.fromkeys(places, spec), request_timeout=timeout_s, **options)
        found = {(place.topic, place.partition): answer.result().offset for place, answer in answers.items()}
    except KafkaException as error:
        raise Retry(f"Kafka does not return the offsets of topics: {error}") from error
    unknown = [f"{topic}-{partition}" for (topic, partition), offset in found.items() if offset < 0]
    if unknown:
        raise Retry(f"Kafka does not return the offsets of topics: no answer for {', '.join(unknown)}")
    return found


def by_topic(offsets: Mapping[tuple[str, int], int]) -> dict[str, dict[int, int]]:
    """Convert offsets by (topic, partition) to topic → partition → offset."""
    nested: dict[str, dict[int, int]] = {}
    for (topic, partition), offset in offsets.items():
        nested.setdefault(topic, {})[partition] = offset
    return nested
