"""A function whose event source mapping is in on-demand mode, with in-memory adapters.

A crash ends an invocation as the end of its process does.
"""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

from masscomm.chain.batch import Batch, BatchDriver, Item
from masscomm.chain.whole_batches import BatchFailed, WholeBatches
from masscomm.domain.records import SendRequested
from masscomm.json_reader import read_json
from masscomm.kafka import topics
from masscomm.stores.batch_marks.in_memory import InMemoryBatchMarks
from masscomm.stores.batch_marks.port import BatchMarks
from tests.support.harness.chain import Chain, Context, event, send
from tests.support.harness.relay import Relay, relay

RETRIES = 3


class Crash(BaseException):
    """The process ends."""


def whole_batches(driver: BatchDriver, marks: BatchMarks, retries: int = RETRIES) -> BatchDriver:
    """Return the driver of a function in on-demand mode."""
    return replace(driver, on_demand=True, whole_batches=WholeBatches(marks=marks, retries=retries, clock=driver.clock))


@dataclass
class OnDemand:
    """A function, and the records that crash or fail it.

    Attributes:
        invocations: The offsets that were processed in each invocation, in order.
    """

    crashing: Collection[int] = ()
    failing: Collection[int] = ()
    error: Exception | None = None
    invocations: list[list[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chain, self.marks = Chain(), InMemoryBatchMarks()
        self.chain.driver = whole_batches(replace(self.chain.driver, clock=self.chain.clock), self.marks)

    def invoke(self, *offsets: int) -> str:
        """Process a batch; return how the invocation ended."""
        self.invocations.append([])
        records = [self.chain.encoded(send([offset]), topics.SEND_MONOLITH, offset=offset) for offset in offsets]
        try:
            answer = self.chain.driver.run(event(*records), Context(self.chain.clock), Relay(work=self._work))
        except BatchFailed:
            return "failed"
        except Crash:
            return "crashed"
        assert answer == {"batchItemFailures": []}
        return "done"

    def until_done(self, *offsets: int) -> list[str]:
        """Process a batch as often as Lambda does; return how each invocation ended."""
        ends = [self.invoke(*offsets)]
        while ends[-1] != "done":
            assert len(ends) < 10 * RETRIES, ends
            ends.append(self.invoke(*offsets))
        return ends

    def relayed(self) -> list[int]:
        """Return the offsets of the records that succeeded."""
        return [int(key or b"") for topic, key, _ in self.chain.produced() if topic == topics.SEND_API]

    def handed_over(self) -> list[dict[str, Any]]:
        """Return the on-failure records."""
        return [read_json(value) for value in self.chain.values(topics.ON_FAILURE)]

    def _work(self, batch: Batch[SendRequested], item: Item[SendRequested]) -> None:
        offset = item.record.offset
        self.invocations[-1].append(offset)
        if offset in self.crashing:
            raise Crash
        if offset in self.failing and self.error is not None:
            raise self.error
        relay(batch, item)
