"""A compacted partition with the history of a table, as Debezium produces it and Kafka compacts it."""

import random
from itertools import pairwise

from masscomm.kafka.event import KafkaRecord
from tests.support.inputs.table_histories import History


class Changelog:
    """The records of a partition in their order, each with its offset."""

    def __init__(self, history: History, chance: random.Random) -> None:
        """Produce the history. Debezium restarts up to twice, and repeats the changes since its last stored offset."""
        stream = _with_tombstones(history.records)
        streamed = next((place for place, each in enumerate(stream) if not _is(each, "r")), len(stream))
        restarts = sorted(chance.randint(streamed, len(stream)) for _ in range(chance.randint(0, 2)))
        ends = [*restarts, len(stream)]
        produced = stream[: ends[0]]
        for restart, following in pairwise(ends):
            produced += stream[chance.randint(streamed, restart) : following]
        self._chance = chance
        self.records = [each._replace(offset=offset) for offset, each in enumerate(produced)]
        self.end = len(produced)
        self.topic = "" if not produced else produced[0].topic

    def compact(self) -> None:
        """Remove the earlier records of each key before an offset. Kafka has not removed any after it yet."""
        until = self._chance.randint(0, self.end)
        last = {each.key: each.offset for each in self.records if each.offset < until}
        self.records = [each for each in self.records if each.offset >= until or last[each.key] == each.offset]

    def read(self, position: int, size: int) -> list[KafkaRecord]:
        """Return the next records from an offset."""
        return [each for each in self.records if each.offset >= position][:size]


def _with_tombstones(records: list[KafkaRecord]) -> list[KafkaRecord]:
    """Return the records as Debezium produces them: a tombstone follows each delete."""
    return [made for each in records for made in ([each, each._replace(value=None)] if _is(each, "d") else [each])]


def _is(record: KafkaRecord, operation: str) -> bool:
    return record.value is not None and f'"op": "{operation}"'.encode() in record.value
