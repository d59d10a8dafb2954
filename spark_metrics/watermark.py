"""Computes the watermark: the time up to which all records are counted."""

from collections.abc import Mapping
from dataclasses import dataclass

# (topic, partition): offset
type Offsets = Mapping[tuple[str, int], int]


@dataclass(frozen=True)
class Ends:
    """The first and end offsets of each partition, read at or after at_ms."""

    at_ms: int
    first: Offsets
    end: Offsets

    def lags(self, consumed: Offsets) -> dict[tuple[str, int], int]:
        """Return the numbers of records between these offsets and the ends, of partitions that have any.

        Records below the first offset were deleted by Kafka's retention, and do not count.
        """
        begin = {place: max(consumed.get(place, 0), self.first.get(place, 0)) for place in self.end}
        return {place: end - begin[place] for place, end in self.end.items() if end > begin[place]}


class Watermark:
    """Advances the watermark to the time of an earlier reading of the topics' ends, once all records below these ends
    are consumed.

    An idle partition does not delay the watermark, because it is already consumed up to its end. Records that reach a
    topic later are not included, whatever their timestamps are.
    """

    def __init__(self) -> None:
        self._awaited: Ends | None = None
        self.ms: int | None = None

    def look(self, ends: Ends, consumed: Offsets) -> int:
        """Update the watermark from the current end offsets and consumed offsets. Return the number of unconsumed
        records.
        """
        lag = sum(ends.lags(consumed).values())
        if self._awaited is not None and not self._awaited.lags(consumed):
            self.ms, self._awaited = self._awaited.at_ms, None
        if lag == 0:
            self.ms, self._awaited = ends.at_ms, None
        elif self._awaited is None:
            self._awaited = ends
        return lag
