"""Where partitions begin and end, as a broker says it, and not as a client makes it up.

confluent-kafka's admin client keeps who leads a partition. Where that broker is gone it answers an offset of -1001 once
the request's time is up, without an error, and does so until it hears of another leader, for which it does not ask by
itself. An end of -1001 is one that everybody has reached.
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
    """By (topic, partition). spec: the earliest or the latest; options: of AdminClient.list_offsets.

    Errors: Retry where a partition's is not known: with another client, since this one may never find its leader.
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
    """What is known by (topic, partition), by topic and then by partition."""
    nested: dict[str, dict[int, int]] = {}
    for (topic, partition), offset in offsets.items():
        nested.setdefault(topic, {})[partition] = offset
    return nested
