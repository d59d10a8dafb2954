"""Determines where a stream begins: at the merged offsets, and only if the topics are those that were counted."""

import logging
from collections.abc import Mapping

from masscomm.errors import Stop
from spark_metrics.common.broker import Ends, Offsets

_log = logging.getLogger(__name__)

_OTHERS = "these are not the topics that were counted. Empty the metrics database, or configure their brokers."


def check_topics(counted: Mapping[str, str], found: Mapping[str, str], known: Offsets) -> None:
    """Check by their ids that the topics are those that were counted. Raises Stop if a topic was deleted and created
    again.

    Args:
        counted: The stored ids of the topics.
        found: The current ids of the topics.
        known: The first unmerged offset of each partition.
    """
    for topic in sorted({topic for topic, _ in known}):
        before, now = counted.get(topic), found.get(topic)
        # The job would silently skip the new topic's records below the stored offsets.
        if before is not None and now is not None and before != now:  # guard: metrics.topic_id
            raise Stop(
                f"{topic} was deleted and made again since it was counted (its id was {before} and is {now}): {_OTHERS}"
            )


def start_of(known: Offsets, ends: Ends, *, may_be_lost: bool, known_by: str = "stream_offsets") -> Offsets:
    """Return the first offset to read of each partition: the first unmerged one, or else the first of all.

    Args:
        known: The first unmerged offset of each partition.
        ends: The first and end offsets of all partitions that are read.
        may_be_lost: Whether to continue if uncounted records were deleted; the job then logs an error.
        known_by: Where `known` is stored, for messages.

    Raises:
        Stop: The topics are not those that were counted, or records were deleted before they were counted.
    """
    for (topic, partition), offset in known.items():
        end = ends.end.get((topic, partition), 0)
        # The job would silently skip all records below the stored offset.
        if offset > end:
            raise Stop(
                f"By {known_by}, {topic}-{partition} is consumed up to {offset}, and it ends at {end}: {_OTHERS}"
            )
    gone = {place: first for place, first in ends.first.items() if first > known.get(place, first)}
    for (topic, partition), first in gone.items():
        gap = f"{topic}-{partition} is counted up to {known[topic, partition]}, but its records now begin at {first}"
        if not may_be_lost:
            raise Stop(
                f"{gap}: records were deleted before they were counted. To continue without them, set"
                " SPARK_FAIL_ON_DATA_LOSS=false."
            )
        _log.error("%s: the records between are lost", gap)
    return {place: max(first, known.get(place, first)) for place, first in ends.first.items()}
