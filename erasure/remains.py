"""What holds the person's data until its own retention ends: topics, logs and backups."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from masscomm.kafka.topics import Topic, base_of


def what_remains(topics: Iterable[Topic], backups_days: Mapping[str, int], now: datetime) -> list[str]:
    """A line for each time at which something ends; backups_days: days that backups of a store are kept."""
    ends: dict[timedelta, list[str]] = defaultdict(list)
    for topic in topics:
        if "compact" not in topic.cleanup:  # such a topic holds positions and operators' marks
            ends[timedelta(hours=topic.retention_hours)].append(f"topic {base_of(topic.name)}")
    for name, days in backups_days.items():
        ends[timedelta(days=days)].append(name)
    return [
        f"until {now + kept:%Y-%m-%d %H:%M} UTC: {', '.join(dict.fromkeys(names))}"
        for kept, names in sorted(ends.items())
    ]
