"""Records which messages of a batch are settled or wait: a batch that is processed again after a kill leaves them out.

The records about these messages (results, and messages that wait) go through the delay store. Their content is stored
first. Then one write records the messages together with these records: before it, none of them can be released, and the
messages are sent again; after it, the messages are not sent again, and a batch that is processed again puts the records
that a kill has left out. A repeated record of results has the same id, under which the metrics job counts it once.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field

from functions.webhook_sender.gateway import Sent as SentPost
from functions.webhook_sender.messages import Message
from functions.webhook_sender.storing import Result, Storing
from masscomm.clock import Clock
from masscomm.domain.webhooks import AttemptResult
from masscomm.kafka.event import KafkaRecord
from masscomm.stores.delayed_records.port import DelayedRecord
from masscomm.stores.sent_messages.port import Partition, RecordPosition, Sent, SentMessages

type _Positions = defaultdict[Partition, defaultdict[RecordPosition, set[int]]]


def _no_positions() -> _Positions:
    return defaultdict(lambda: defaultdict(set))


@dataclass(kw_only=True)
class Recording:
    """The recorded messages of the partitions of a batch. Methods raise Retry or Stop."""

    sent_messages: SentMessages
    storing: Storing
    clock: Clock
    # Runs the requests of several records in parallel.
    pool: Executor
    # What earlier invocations and this one have recorded.
    _settled: _Positions = field(default_factory=_no_positions)
    _waiting: _Positions = field(default_factory=_no_positions)
    # The records that are recorded and not put yet, by their ids.
    _left: dict[str, DelayedRecord] = field(default_factory=dict)

    def begin(self, records: Iterable[KafkaRecord]) -> None:
        """Read what earlier invocations have recorded. Put the records that one has left out."""
        positions: defaultdict[Partition, set[RecordPosition]] = defaultdict(set)
        for record in records:
            positions[_partition(record)].add(_position(record))
        for partition, some in positions.items():
            found = self.sent_messages.find(partition)
            # Earlier records are committed, and do not come again.
            first = min(some).offset
            for stored, known in ((found.settled, self._settled), (found.waiting, self._waiting)):
                known[partition].update({each: set(stored[each]) for each in stored if each.offset >= first})
            if not some.isdisjoint([*found.settled, *found.waiting]):
                self._left.update({each.id: each for each in found.prepared})
        self._put()

    def is_settled(self, message: Message) -> bool:
        """Return whether the result of a message is recorded."""
        return _is_in(self._settled, message)

    def is_waiting(self, message: Message) -> bool:
        """Return whether it is recorded that a message waits in the delay store."""
        return _is_in(self._waiting, message)

    def record_accepted(self, accepted: Sequence[SentPost]) -> None:
        """Record accepted requests. After an error, they are given again."""
        self.record(
            [
                Result(message, AttemptResult.DELIVERED, attempt)
                for post, attempt in accepted
                for message in post.messages
            ]
        )

    def record(
        self,
        results: Iterable[Result],
        waiting: Sequence[Message] = (),
        waiting_records: Iterable[DelayedRecord] = (),
    ) -> None:
        """Record messages and put the records about them.

        Args:
            results: The results of messages. Those that are recorded are ignored.
            waiting: Messages that wait.
            waiting_records: The records of these.
        """
        self._put()
        new = [each for each in results if not self.is_settled(each.message)]
        if not new and not waiting:
            return
        now_ms = self.clock.now_ms()
        records = [*self.storing.result_records(new), *waiting_records]
        prepared = list(self.pool.map(lambda each: self.storing.store.prepare(each, now_ms), records))
        ended = [each.message for each in new if each.status is not AttemptResult.RETRIED]
        settled, stored = _with(self._settled, ended), _with(self._waiting, waiting)
        changed = dict.fromkeys(_partition(each.item.record) for each in (*ended, *waiting))
        added = {each: Sent(settled=settled[each], waiting=stored[each], prepared=prepared) for each in changed}
        self.sent_messages.record(added, now_ms // 1000)
        self._settled, self._waiting = settled, stored
        self._left = {each.id: each for each in prepared}
        for each, _ in zip(
            prepared, self.pool.map(lambda each: self.storing.store.put(each, now_ms), prepared), strict=True
        ):
            del self._left[each.id]

    def _put(self) -> None:
        """Put the records that an earlier write has recorded and left out."""
        for id_, record in list(self._left.items()):
            self.storing.store.put_again(record, self.clock.now_ms())  # guard: events.records_left_out
            del self._left[id_]


def _is_in(positions: _Positions, message: Message) -> bool:
    record = message.item.record
    return message.position in positions[_partition(record)].get(_position(record), ())


def _with(known: _Positions, messages: Iterable[Message]) -> _Positions:
    """Return a copy of known positions with those of messages."""
    found = _no_positions()
    for partition, records in known.items():
        found[partition].update({each: set(some) for each, some in records.items()})
    for message in messages:
        record = message.item.record
        found[_partition(record)][_position(record)].add(message.position)
    return found


def _partition(record: KafkaRecord) -> Partition:
    return Partition(record.topic, record.partition)


def _position(record: KafkaRecord) -> RecordPosition:
    return RecordPosition(record.offset, record.timestamp_ms)
