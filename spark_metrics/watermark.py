"""Up to when everything is counted: the topics' ends, kept with the time they were read until they are consumed."""

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
    """Moves to the moment whose topic ends have been consumed.

    An idle partition never holds it back: its end is consumed already. It says nothing of records that reach a topic
    later, whatever their own timestamps.
    """

    def __init__(self) -> None:
        self._awaited: Ends | None = None
        self.ms: int | None = None

    def look(self, ends: Ends, consumed: Offsets) -> int:
        """Take the ends read just now and what is consumed; the number of records between the two."""
        lag = _lag(ends, consumed)
        if self._awaited is not None and _lag(self._awaited, consumed) == 0:
            self.ms, self._awaited = self._awaited.at_ms, None
        if lag == 0:
            self.ms, self._awaited = ends.at_ms, None
        elif self._awaited is None:
            self._awaited = ends
        return lag


def _lag(ends: Ends, consumed: Offsets) -> int:
    # What retention has deleted is neither there nor awaited.
    return sum(max(0, end - max(consumed.get(place, 0), ends.first.get(place, 0))) for place, end in ends.end.items())
