"""Processes the batches of an event source mapping in on-demand mode, which retries a failed batch whole.

Such a mapping has neither partial batch responses nor bisection, attempts or a topic for failed records. This module
replaces them: records that are done are not processed again; after a crash each record is processed alone, those that
crashed before at the end; and a record whose attempts are used up is handed over to the topic on-failure, as in
provisioned mode. There the scheduler reschedules it, and dead-letters one that crashes its function again and again.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import batched

from masscomm.clock import Clock, SystemClock
from masscomm.errors import Retry, Stop
from masscomm.kafka.event import KafkaRecord
from masscomm.stores.batch_marks.port import BatchKey, BatchMark, BatchMarks

# The number of parts of a batch that are marked, one after the other, to find the record that crashes. Of a larger
# batch, a part is divided again after the next crash.
PARTS = 100


class BatchFailed(Retry):
    """The batch is redelivered whole: Lambda reads no response of the function."""

    def __init__(self, failed: int, records: int) -> None:
        super().__init__(f"{failed} of {records} records failed; the batch is redelivered")


@dataclass(frozen=True, kw_only=True)
class UsedUp:
    """A record whose attempts are used up."""

    record: KafkaRecord
    # The number of invocations with the record.
    invocations: int
    # Whether they crashed; otherwise the last one reported the record as failed.
    crashed: bool


# Processes records; returns those that failed. Raises Stop.
type Attempt = Callable[[Sequence[KafkaRecord]], Sequence[KafkaRecord]]
# Hands records over; returns those that could not be handed over.
type HandOver = Callable[[Sequence[UsedUp]], Sequence[KafkaRecord]]


@dataclass(frozen=True, kw_only=True)
class WholeBatches:
    """Processes batches. Each function environment has one instance.

    Args:
        retries: The number of attempts after the first one, as of a mapping in provisioned mode.
    """

    marks: BatchMarks
    retries: int
    clock: Clock = field(default_factory=SystemClock)

    def process(
        self, records: Sequence[KafkaRecord], attempt: Attempt, hand_over: HandOver, remaining_s: Callable[[], float]
    ) -> None:
        """Process the records of an event.

        Args:
            records: The records, at least one.
            attempt: Processes some of them.
            hand_over: Hands records over whose attempts are used up.
            remaining_s: Returns the seconds that remain for attempts.

        Raises:
            BatchFailed: Some records failed.
            Stop: The installation is misconfigured.
            Retry: The marks cannot be stored.
        """
        first = records[0]
        batch = BatchKey(first.topic, first.partition, first.offset, first.timestamp_ms)
        progress = _Progress(self.marks, batch, _counted(self.marks.begin(batch, self.clock.now_ms() // 1000)))
        try:
            failed = self._process(records, progress, attempt, hand_over, remaining_s)
        except Stop:
            progress.end()
            raise
        if failed:
            progress.end()  # guard: whole_batches.end_is_marked
            raise BatchFailed(failed, len(records))

    def _process(
        self,
        records: Sequence[KafkaRecord],
        progress: "_Progress",
        attempt: Attempt,
        hand_over: HandOver,
        remaining_s: Callable[[], float],
    ) -> int:
        """Process the records that are not done; return the number of those that failed."""
        mark = progress.mark
        left = [
            record
            for record in records
            if record.source_position not in mark.done  # guard: whole_batches.done_once
        ]
        used_up = [
            UsedUp(record=record, invocations=crashes, crashed=True)
            for record in left
            if (crashes := mark.crashes.get(record.source_position, 0)) > self.retries  # guard: whole_batches.crashes
        ]
        crashing = {each.record.source_position for each in used_up}
        failed: list[KafkaRecord] = []
        for part in _parts([record for record in left if record.source_position not in crashing], mark):
            if remaining_s() <= 0:
                failed += part.records
                continue
            if part.is_marked:
                progress.begin(part.records)
            failed_now = attempt(part.records)
            progress.done(part.records, failed_now)
            failed += failed_now
        if mark.invocations > self.retries:  # guard: whole_batches.retries
            used_up += [UsedUp(record=record, invocations=mark.invocations, crashed=False) for record in failed]
            failed = []
        if used_up:
            not_handed_over = hand_over(used_up)
            progress.done((each.record for each in used_up), not_handed_over)
            failed += not_handed_over
        return len(failed)


@dataclass(frozen=True)
class _Part:
    """Records that are processed together, after they are marked as begun or without a mark."""

    records: Sequence[KafkaRecord]
    is_marked: bool


def _parts(left: Sequence[KafkaRecord], mark: BatchMark) -> Iterator[_Part]:
    """Yield the parts of a batch: all records at once, but those that have crashed alone.

    After a crash, the records that may have caused it are divided: first those that were being processed.
    """
    alone = [record for record in left if record.source_position in mark.crashes]
    others = [record for record in left if record.source_position not in mark.crashes]
    if not mark.crashed:
        if others:
            yield _Part(others, is_marked=False)
    else:
        begun = [record for record in others if record.source_position in mark.begun]
        rest = [record for record in others if record.source_position not in mark.begun]
        for suspects in (begun, rest):
            for part in batched(suspects, max(1, len(suspects) // PARTS), strict=False):
                yield _Part(part, is_marked=True)
    for record in alone:
        yield _Part([record], is_marked=True)


def _counted(mark: BatchMark) -> BatchMark:
    """Return the mark with the crash of the previous invocation, if it processed a single record."""
    if not mark.crashed or len(mark.begun) != 1:
        return mark
    (position,) = mark.begun
    return replace(mark, crashes={**mark.crashes, position: mark.crashes.get(position, 0) + 1})


class _Progress:
    """The mark of the present invocation, which is stored before each part and at the end."""

    def __init__(self, marks: BatchMarks, batch: BatchKey, mark: BatchMark) -> None:
        self.mark = mark
        self._marks = marks
        self._batch = batch
        self._done = set(mark.done)

    def begin(self, records: Iterable[KafkaRecord]) -> None:
        self._record(_positions(records), ended=False)

    def done(self, records: Iterable[KafkaRecord], failed: Iterable[KafkaRecord]) -> None:
        self._done |= _positions(records) - _positions(failed)

    def end(self) -> None:
        self._record(set(), ended=True)

    def _record(self, begun: set[str], *, ended: bool) -> None:
        self._marks.record(self._batch, replace(self.mark, done=self._done, begun=begun), ended=ended)


def _positions(records: Iterable[KafkaRecord]) -> set[str]:
    return {record.source_position for record in records}
