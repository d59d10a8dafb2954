"""A use case for tests of the batch driver. It produces one record for each user."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from masscomm.chain.batch import Batch, Item
from masscomm.domain.records import SendRequested
from masscomm.errors import DeadLetter
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec
from masscomm.kafka.event import KafkaRecord
from tests.support.harness.chain import send

type Work = Callable[[Batch[SendRequested], Item[SendRequested]], None]


def relay(batch: Batch[SendRequested], item: Item[SendRequested]) -> None:
    for user_id in item.value.to_users:
        batch.produce(item, topics.SEND_API, str(user_id), send([user_id]))


@dataclass
class Relay:
    """A use case whose work a test can replace.

    Attributes:
        dead_lettered_offsets: The offsets of the items for which dead_lettered() was called.
    """

    work: Work = relay
    look_up: Callable[[], None] = lambda: None
    decode_error: Exception | None = None
    dead_lettered_offsets: list[int] = field(default_factory=list)
    emit: Work = lambda batch, item: batch.produce(item, topics.SEND_API, "outcome", send([9]))

    def decode(self, record: KafkaRecord, codec: Codec) -> SendRequested:
        if self.decode_error is not None and record.offset == 0:
            raise self.decode_error
        return SendRequested.from_avro(codec.decode("SendRequested", record.value))

    def handle(self, batch: Batch[SendRequested]) -> None:
        self.look_up()
        for item in batch.active():
            batch.attempt(item, partial(self.work, batch, item))

    def dead_lettered(self, batch: Batch[SendRequested], item: Item[SendRequested], why: DeadLetter) -> None:
        self.dead_lettered_offsets.append(item.record.offset)
        self.emit(batch, item)
