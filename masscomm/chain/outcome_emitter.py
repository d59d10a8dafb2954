"""Emit the outcomes of recipients."""

from collections.abc import Sequence
from dataclasses import dataclass

from masscomm.chain.batch import Batch, Item
from masscomm.clock import Clock
from masscomm.directory.port import Directory
from masscomm.domain.outcomes import RecipientOutcome, outcome
from masscomm.domain.records import BuildRequested, DeliveryRequested, NotificationOutcome, RecheckRequested
from masscomm.domain.statuses import Status
from masscomm.kafka import topics
from masscomm.observability import metrics
from masscomm.observability.metric_names import RECIPIENTS


@dataclass(frozen=True, kw_only=True)
class OutcomeEmitter:
    """Produces the outcome records of one step, and counts their recipients."""

    # Part of each outcome's id.
    step: str
    clock: Clock
    # Outcomes say how fresh it is; None where no decision depends on it.
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
        """Produce the outcome record of recipients within a span of the parent's positions; none without recipients.

        Errors: those of Batch.produce.
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
        batch.produce(item, topics.OUTCOME, record.record_id, record)
        count_recipients(record)


def count_recipients(record: NotificationOutcome) -> None:
    """Count an outcome record's recipients by status."""
    for result in record.results:
        metrics.add(RECIPIENTS[Status(result.status)], result.count)
