"""The time up to which everything is counted: the topics' ends are kept with their time until they are consumed."""

from collections.abc import Mapping
from dataclasses import dataclass

# (topic, partition): offset
type Offsets = Mapping[tuple[str, int], int]


@dataclass(frozen=True)
class Ends:
    """The topics at one moment: first and end offset of each partition, read at or after at_ms."""

    at_ms: int
    first: Offsets
    end: Offsets


class Watermark:
    """Advances to the moment whose topic ends have been consumed.

    An idle partition never delays it: its end is consumed already. Records that reach a topic later are not included,
    whatever their own timestamps are.
    """

    def __init__(self) -> None:
        self._awaited: Ends | None = None
        self.ms: int | None = None

    def look(self, ends: Ends, consumed: Offsets) -> int:
        """Add the present ends and the consumed offsets. Returns the number of records between the two."""
        lag = _lag(ends, consumed)
        if self._awaited is not None and _lag(self._awaited, consumed) == 0:
            self.ms, self._awaited = self._awaited.at_ms, None
        if lag == 0:
            self.ms, self._awaited = ends.at_ms, None
        elif self._awaited is None:
            self._awaited = ends
        return lag


def _lag(ends: Ends, consumed: Offsets) -> int:
    # Records deleted by Kafka's retention cannot be consumed.
    return sum(max(0, end - max(consumed.get(place, 0), ends.first.get(place, 0))) for place, end in ends.end.items())
