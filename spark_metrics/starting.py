"""Where a stream begins: at the offsets that are merged, and only if the topics still are those that were counted."""

import json
import logging
from collections.abc import Mapping

from masscomm.errors import Stop
from spark_metrics.watermark import Ends

_log = logging.getLogger(__name__)


def starting_offsets(known: Mapping[tuple[str, int], int], ends: Ends, *, may_be_lost: bool) -> str:
    """What Spark takes as startingOffsets.

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
        return "earliest"
    gone = {place: first for place, first in ends.first.items() if first > known.get(place, first)}
    for (topic, partition), first in gone.items():
        told = (
            f"{topic}-{partition} is counted up to {known[topic, partition]}, and what is left of it begins at {first}"
        )
        if not may_be_lost:
            raise Stop(
                f"{told}: records were deleted before they were counted. To go on without them, set"
                " SPARK_FAIL_ON_DATA_LOSS=false."
            )
        _log.error("%s: what lay between is not counted", told)
    starting: dict[str, dict[str, int]] = {}
    for (topic, partition), first in ends.first.items():
        starting.setdefault(topic, {})[str(partition)] = max(first, known.get((topic, partition), first))
    return json.dumps(starting)


def records_after(starting: str, ends: Ends) -> int:
    """How many records wait for a stream that begins there."""
    begun: dict[str, dict[str, int]] = {} if starting == "earliest" else json.loads(starting)
    return sum(
        max(0, end - begun.get(topic, {}).get(str(partition), ends.first.get((topic, partition), 0)))
        for (topic, partition), end in ends.end.items()
    )
