"""Produces the records of batches that Lambda has discarded to the topic on-failure, where they are rescheduled.

In on-demand mode a function itself hands over the records whose attempts are used up. Lambda discards a batch whole
where the function did not come to that: it did not start, or could not mark the batch. Most records of the batch may be
good, so none counts as the cause of a crash. Records that had been processed already are recognised as after any
redelivery.

Each sweep lists the bucket: S3 would invoke the function once for each object, and Lambda repeats such an invocation
twice only. https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html
"""

from collections.abc import Callable
from dataclasses import dataclass

from aws_lambda_powertools import Logger

from masscomm.clock import Clock
from masscomm.domain.time_limits import SWEEP_FLUSH_S, SWEEP_RESERVE_S
from masscomm.json_reader import read_json
from masscomm.kafka.event import KafkaRecord, parse
from masscomm.kafka.on_failure import HandedOver, hand_over
from masscomm.kafka.producer import Producer
from masscomm.observability.unreadable_items import DAMAGE, UnreadableItem, described, report_unreadable
from masscomm.stores.discarded_batches.port import DiscardedBatches


@dataclass(frozen=True, kw_only=True)
class ReturnDiscardedBatches:
    """The use case that returns discarded batches. Each function environment has one instance."""

    batches: DiscardedBatches
    producer: Producer
    clock: Clock
    logger: Logger

    def sweep(self, remaining_s: Callable[[], float]) -> None:
        """Return the batches that are stored now. Those that remain are returned by the next sweep. Raises Retry or
        Stop.
        """
        for key in self.batches.keys():  # noqa: SIM118 - not a dictionary
            if remaining_s() < SWEEP_RESERVE_S:
                return
            stored = self.batches.read(key)
            if stored is not None:
                self._return(key, stored)

    def _return(self, key: str, stored: bytes) -> None:
        try:
            records = _records(stored)
        except DAMAGE as error:  # guard: discarded_batches.unreadable
            report_unreadable(UnreadableItem(store=self.batches.name, key={"key": key}, error=described(error)))
            return
        left = hand_over(
            self.producer, [HandedOver(record) for record in records], self.clock.now_ms(), lambda: SWEEP_FLUSH_S
        )
        if left:  # guard: discarded_batches.acknowledged
            self.logger.warning("a discarded batch is not returned", key=key, records=len(records), left=len(left))
            return
        self.batches.remove(key)
        self.logger.error("a discarded batch is returned", key=key, records=len(records))


def _records(stored: bytes) -> list[KafkaRecord]:
    """Return the records of a batch, whose event Lambda stores as a string. Raises ValueError, KeyError or
    TypeError.
    """
    payload = read_json(stored)["payload"]
    return parse(read_json(payload.encode()))
