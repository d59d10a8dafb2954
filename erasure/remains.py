"""Topics, logs and backups keep the person's data until their retention ends."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from masscomm.kafka.topics import Topic, base_of


def what_remains(topics: Iterable[Topic], backups_days: Mapping[str, int], now: datetime) -> list[str]:
    """The remaining copies of the person's data.

    Args:
        topics: the topics with personal data.
        backups_days: the retention of each backup and log in days.
        now: the time of the erasure.

    Returns:
        A line for each time at which a retention ends.
    """
    ends: dict[timedelta, list[str]] = defaultdict(list)
    for topic in topics:
        if "compact" not in topic.cleanup:  # compacted topics hold offsets and operators' marks only
            ends[timedelta(hours=topic.retention_hours)].append(f"topic {base_of(topic.name)}")
    for name, days in backups_days.items():
        ends[timedelta(days=days)].append(name)
    return [
        f"until {now + kept:%Y-%m-%d %H:%M} UTC: {', '.join(dict.fromkeys(names))}"
        for kept, names in sorted(ends.items())
    ]
