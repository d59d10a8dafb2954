"""Lists the copies of a person's data in topics, logs and backups, which remain until their retention ends."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from masscomm.domain.time_limits import CHANGELOG_ERASED_S
from masscomm.kafka.topics import Topic, base_of


def remaining_data(topics: Iterable[Topic], backups_days: Mapping[str, int], now: datetime) -> list[str]:
    """Return the remaining copies of the person's data.

    Args:
        topics: The topics with personal data.
        backups_days: The retention of each backup and log in days.
        now: The time of the erasure.

    Returns:
        A line for each time at which a retention ends.
    """
    ends: dict[timedelta, list[str]] = defaultdict(list)
    for topic in topics:
        if topic.compaction is not None:
            # From the deletion of the rows, which must come before the erasure.
            ends[timedelta(seconds=CHANGELOG_ERASED_S)].append(f"topic {base_of(topic.name)}")
        # Other compacted topics are skipped, because they contain only offsets and operators' marks.
        elif topic.cleanup != "compact":
            ends[timedelta(hours=topic.retention_hours)].append(f"topic {base_of(topic.name)}")
    for name, days in backups_days.items():
        ends[timedelta(days=days)].append(name)
    return [
        f"until {now + retention:%Y-%m-%d %H:%M} UTC: {', '.join(dict.fromkeys(names))}"
        for retention, names in sorted(ends.items())
    ]
