"""First and end offsets of partitions, without the invalid offsets of a client that has lost a leader.

confluent-kafka's admin client caches the leader of a partition. If that broker is down, the client returns the offset
-1001 after the request's time-out, without an error, until it receives a new leader, which it does not request by
itself. Every consumer would seem to have reached an end offset of -1001.
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
        admin: the client.
        places: the partitions.
        spec: earliest or latest.
        timeout_s: seconds for the request.
        options: of AdminClient.list_offsets.

    Raises:
        Retry: an offset is unknown. Retry with another client, because this one may never find the leader.
    """
    from confluent_kafka import KafkaException

    if not places:
        return {}
    try:
        answers = admin.list_offsets(dict.fromkeys(places, spec), request_timeout=timeout_s, **options)
        found = {(place.topic, place.partition): answer.result().offset for place, answer in answers.items()}
    except KafkaException as error:
        raise Retry(f"Kafka does not say where topics begin and end: {error}") from error
    unknown = [f"{topic}-{partition}" for (topic, partition), offset in found.items() if offset < 0]
    if unknown:
        raise Retry(f"Kafka does not say where topics begin and end: no answer for {', '.join(unknown)}")
    return found


def by_topic(offsets: Mapping[tuple[str, int], int]) -> dict[str, dict[int, int]]:
    """Convert offsets by (topic, partition) to offsets by topic and then by partition."""
    nested: dict[str, dict[int, int]] = {}
    for (topic, partition), offset in offsets.items():
        nested.setdefault(topic, {})[partition] = offset
    return nested
