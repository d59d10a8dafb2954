"""Produces outcome records, which contain the status and reason of each recipient."""

from collections.abc import Sequence
from dataclasses import dataclass

from masscomm.chain.batch import Batch, Item
from masscomm.clock import Clock
from masscomm.directory.port import Directory
from masscomm.domain.outcomes import RecipientOutcome, outcome
from masscomm.domain.records import BuildRequested, DeliveryRequested, NotificationOutcome, RecheckRequested
from masscomm.domain.send_results import SendResult
from masscomm.domain.statuses import Status
from masscomm.kafka import topics
from masscomm.kafka.producer import Headers
from masscomm.observability import metrics
from masscomm.observability.metric_names import RECIPIENTS


@dataclass(frozen=True, kw_only=True)
class OutcomeEmitter:
    """Produces the outcome records of one processing step, and counts their recipients."""

    # The name of the processing step; it is part of the id of each outcome record.
    step: str
    clock: Clock
    # The directory, whose position is written into each outcome record; None if no decision depends on it.
    directory: Directory | None = None

    def emit[T](
        self,
        batch: Batch[T],
        item: Item[T],
        parent: RecheckRequested | BuildRequested | DeliveryRequested,
        channel: str,
        span: tuple[int, int],
        outcomes: Sequence[RecipientOutcome],
    ) -> None:
        """Produce one outcome record for recipients within a range of the parent record's positions; none if there
        are not recipients.

        Raises the errors of Batch.produce.
        """
        if not outcomes:
            return
        start, end = span
        record = outcome(
            parent,
            outcomes,
            channel=channel,
            step=self.step,
            start=start,
            end=end,
            now_ms=self.clock.now_ms(),
            directory=None if self.directory is None else self.directory.position(),
        )
        emit_outcome(batch, item, record)


def emit_outcome[T](
    batch: Batch[T], item: Item[T], record: NotificationOutcome, headers: Headers | None = None
) -> None:
    """Produce an outcome record, and count its recipients by status. The flush of the batch stores the results of a
    small send, too. Raises the errors of Batch.produce.
    """
    batch.produce(item, topics.OUTCOME, record.record_id, record, headers)
    if (own := SendResult.of(record)) is not None:
        batch.results.append(own)
    for result in record.results:
        metrics.add(RECIPIENTS[Status(result.status)], result.count)
