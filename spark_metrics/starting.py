"""Where a stream begins: at the offsets that are merged, and only if the topics still are those that were counted."""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass

from masscomm.errors import Stop
from masscomm.kafka.offsets import by_topic
from spark_metrics.watermark import Ends

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Start:
    """offsets: the first that is read, of each partition; None: all of them from their beginning."""

    offsets: Mapping[tuple[str, int], int] | None

    def records_up_to(self, ends: Ends) -> int:
        """How many records wait for a stream that begins here."""
        begun = self.offsets or {}
        return sum(max(0, end - begun.get(place, ends.first.get(place, 0))) for place, end in ends.end.items())

    def for_spark(self) -> str:
        """What Spark takes as startingOffsets."""
        if self.offsets is None:
            return "earliest"
        return json.dumps(by_topic(self.offsets))


def check_topics(counted: Mapping[str, str], found: Mapping[str, str], known: Mapping[tuple[str, int], int]) -> None:
    """Whether topics are those that were counted, whatever their offsets say.

    counted, found: their ids when they were first read and now; known: as start_of.

    Errors: Stop, where one was deleted and made again.
    """
    for topic in sorted({topic for topic, _ in known}):
        before, now = counted.get(topic), found.get(topic)
        # Below the offsets of the one before, records of this one would be left out without a word.
        if before is not None and now is not None and before != now:  # guard: metrics.topic_id
            raise Stop(
                f"{topic} was deleted and made again since it was counted (its id was {before} and is {now}):"
                " these are not the topics that were counted. Empty the metrics database, or name their brokers."
            )


def start_of(known: Mapping[tuple[str, int], int], ends: Ends, *, may_be_lost: bool) -> Start:
    """Where a stream begins.

    known: the first offset of each partition that is not merged; ends: of every partition that is read; may_be_lost:
    go on, and say so, where records that were not counted are gone.

    Errors: Stop, where these are not the topics that were counted, or records were deleted before they were counted.
    """
    for (topic, partition), offset in known.items():
        end = ends.end.get((topic, partition), 0)
        # Counting on would leave out everything below, without a word.
        if offset > end:
            raise Stop(
                f"stream_offsets says that {topic}-{partition} is consumed up to {offset}, and it ends at {end}:"
                " these are not the topics that were counted. Empty the metrics database, or name their brokers."
            )
    if not known:
        return Start(None)
    gone = {place: first for place, first in ends.first.items() if first > known.get(place, first)}
    for (topic, partition), first in gone.items():
        gap = (
            f"{topic}-{partition} is counted up to {known[topic, partition]}, and what is left of it begins at {first}"
        )
        if not may_be_lost:
            raise Stop(
                f"{gap}: records were deleted before they were counted. To go on without them, set"
                " SPARK_FAIL_ON_DATA_LOSS=false."
            )
        _log.error("%s: what lay between is not counted", gap)
    return Start({place: max(first, known.get(place, first)) for place, first in ends.first.items()})
