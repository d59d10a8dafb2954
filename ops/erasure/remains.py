"""Lists the copies of a person's data in topics, logs and backups, which remain until their retention ends."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

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
        # Compacted topics are skipped, because they contain only offsets and operators' marks.
        if "compact" not in topic.cleanup:
            ends[timedelta(hours=topic.retention_hours)].append(f"topic {base_of(topic.name)}")
    for name, days in backups_days.items():
        ends[timedelta(days=days)].append(name)
    return [
        f"until {now + retention:%Y-%m-%d %H:%M} UTC: {', '.join(dict.fromkeys(names))}"
        for retention, names in sorted(ends.items())
    ]
