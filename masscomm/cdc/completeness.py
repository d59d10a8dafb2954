"""Proves that a copy of the monolith's tables is complete up to a time (docs/decisions/010-cdc-completeness.md)."""

from collections.abc import Callable
from functools import partial

from masscomm.cdc.progress import CdcProgress, reached
from masscomm.clock import Clock
from masscomm.domain.time_limits import DIRECTORY_POLL_S
from masscomm.domain.users import DirectoryPosition
from masscomm.errors import Retry


class Completeness:
    """The proofs for one copy of the tables.

    Args:
        position: Returns the newest heartbeat that the copy of a snapshot generation has taken; None: it has none yet.
        progress: Returns the progress of change data capture for a snapshot generation. Its committed offsets are those
            up to which the copy has taken all changes.
        clock: The clock that measures the deadline.
        clock_skew_ms: How far a sender's clock may be behind the database's clock. A user created within this time
            before a send is not confirmed as missing.
    """

    def __init__(
        self,
        *,
        position: Callable[[str], DirectoryPosition | None],
        progress: Callable[[str], CdcProgress],
        clock: Clock,
        clock_skew_ms: int,
    ) -> None:
        self._position_of = position
        self._progress_of = progress
        self._clock = clock
        self._clock_skew_ms = clock_skew_ms
        self._candidate: tuple[str, DirectoryPosition] | None = None

    def covers(self, position: DirectoryPosition, ts_ms: int) -> bool:
        """Return whether a copy that is complete up to a position has every row that was committed up to ts_ms."""
        return position.ts_ms - self._clock_skew_ms >= ts_ms

    def prove(self, generation: str, ts_ms: int, *, deadline: float) -> DirectoryPosition:
        """Return a position up to which the copy of a snapshot generation is complete, and which covers ts_ms.

        Args:
            deadline: The time of the clock (monotonic, s) up to which the proof is awaited.

        Raises:
            Retry: The copy is behind.
        """
        progress = self._progress_of(generation)
        passed = partial(self._passed, generation, ts_ms)
        position = self._await(passed, f"change data capture has not passed {ts_ms}", deadline)
        # The heartbeat record was consumed, but earlier changes may not yet have been produced to the other partitions.
        self._await(
            partial(_written, progress, position.lsn), f"Debezium has not written all up to {position.lsn}", deadline
        )
        # Only after this wait do the topics contain all changes before the heartbeat, so the end offsets are read now.
        ends = progress.end_offsets()
        self._await(
            lambda: reached(progress.committed_offsets(), ends) or None,
            f"cdc_consumer has not come to the ends of its topics at {position.lsn}",
            deadline,
        )
        return position

    def _passed(self, generation: str, ts_ms: int) -> DirectoryPosition | None:
        """Return the position of a heartbeat that covers ts_ms; None if there is none yet."""
        # The heartbeat that an earlier, timed-out proof waited for is preferred: it is older than the newest one, so
        # its changes are complete sooner.
        known = self._candidate
        if known is not None and known[0] == generation and self.covers(known[1], ts_ms):
            return known[1]
        position = self._position_of(generation)
        self._candidate = None if position is None else (generation, position)
        return position if position is not None and self.covers(position, ts_ms) else None

    def _await[T](self, ask: Callable[[], T | None], otherwise: str, deadline: float) -> T:
        """Poll until `ask` returns a value, because neither Kafka nor OpenSearch sends notifications. Raises Retry
        at the deadline.
        """
        while True:
            answer = ask()
            if answer is not None:
                return answer
            if self._clock.monotonic() + DIRECTORY_POLL_S > deadline:
                raise Retry(f"the directory is behind: {otherwise}")
            self._clock.sleep(DIRECTORY_POLL_S)


def _written(progress: CdcProgress, lsn: int) -> bool | None:
    acknowledged = progress.acknowledged_lsn()
    return True if acknowledged is not None and acknowledged >= lsn else None
