"""Releases due records: each is produced to its topic, then deleted from the delay store.

After a send was cancelled, resumed or moved to another time, or its pace was changed, its records are released before
they are due. The functions that consume them read the control of the send, and end, process or delay them again.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import batched
from typing import Any

from aws_lambda_powertools import Logger

from masscomm.clock import Clock
from masscomm.domain.delays import DELAY_REASON_HEADER, PACE_HEADER, PAUSED, RESUMED_AT_HEADER, SEND_AT
from masscomm.domain.lanes import BROADCASTS, Lane
from masscomm.domain.pace import DELAY_REASON as PACE
from masscomm.domain.time_limits import CONTROL_SWEPT_S, SWEEP_FLUSH_S, SWEEP_RESERVE_S
from masscomm.errors import MasscommError, Retry
from masscomm.integers import integer_or
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec
from masscomm.kafka.bundled_schema import with_schema_id
from masscomm.kafka.producer import Producer
from masscomm.observability import logs, metrics, traces
from masscomm.observability.metric_names import BACKLOG, NOT_RELEASED, OLDEST_DUE, RELEASED
from masscomm.observability.unreadable_items import UnreadableItem, readable
from masscomm.stores.delayed_records.port import ControlledSend, DelayedRecord, DelayStore, releasable
from masscomm.stores.sends.port import Sends

# The number of records that are claimed, produced and flushed together: few round trips, and little repeated work after
# a crash.
_AT_ONCE = 50
# The number of threads that claim and remove records, as many as the delay store has connections. One after another,
# records would take two round trips each, and at the end of the night many single ones are due.
_THREADS = 10


@dataclass(frozen=True, kw_only=True)
class SweepResult:
    """The counts of one sweep (one pass over the due records): released, not acknowledged by Kafka, claimed by
    another sweep.

    Attributes:
        complete: Whether every due record, and every controlled send, was handled.
        unreadable: The number of damaged items, which stay until an operator acts or they expire.
    """

    released: int = 0
    failed: int = 0
    claimed_by_others: int = 0
    unreadable: int = 0
    complete: bool = True

    def __add__(self, other: "SweepResult") -> "SweepResult":
        return SweepResult(
            released=self.released + other.released,
            failed=self.failed + other.failed,
            claimed_by_others=self.claimed_by_others + other.claimed_by_others,
            unreadable=self.unreadable + other.unreadable,
            complete=self.complete and other.complete,
        )


@dataclass(frozen=True, kw_only=True)
class ReleaseDueRecords:
    """The use case that releases due records. Each function environment has one instance.

    Attributes:
        codec: Decodes the ids for log lines.
        queues: The broadcast queues whose topics have consumers. A record may have waited while there were more.
    """

    store: DelayStore
    sends: Sends
    producer: Producer
    clock: Clock
    logger: Logger
    codec: Codec | None = None
    queues: Sequence[Lane] = BROADCASTS
    pool: Executor = field(default_factory=lambda: ThreadPoolExecutor(_THREADS))

    def sweep(self, remaining_s: Callable[[], float]) -> SweepResult:
        """Release every record that is due now. The records of the critical lane come first; the others and those of
        sends whose control changed take turns, so that neither delays the other.

        A sweep may end early, and two sweeps may run concurrently. Raises Retry or Stop.
        """
        swept, remaining = SweepResult(), 0
        began_ms = oldest_ms = self.clock.now_ms()
        errors: list[Retry] = []
        for found in self._groups(began_ms, errors):
            group = list(readable(found, self.logger))
            swept += SweepResult(unreadable=len(found) - len(group))
            oldest_ms = min([oldest_ms, *(item.due_ms for item in group)])
            if remaining_s() < SWEEP_RESERVE_S:
                swept, remaining = replace(swept, complete=False), len(group)
                break
            swept += self._release(group)
        metrics.add(RELEASED, swept.released)
        metrics.add(NOT_RELEASED, swept.failed)
        metrics.add(BACKLOG, swept.failed + swept.claimed_by_others + remaining)
        metrics.add(OLDEST_DUE, (began_ms - oldest_ms) / 1000)
        self.logger.info("swept", **asdict(swept))
        if errors:
            raise errors[0]
        return swept

    def _release(self, group: Iterable[DelayedRecord]) -> SweepResult:
        """Claim, produce and delete records."""
        group = list(group)
        claims = self.pool.map(self._claim, group)
        claimed = [item for item, is_claimed in zip(group, claims, strict=True) if is_claimed]
        released = self._produce(claimed)
        # The results are read, because errors are raised then.
        list(self.pool.map(self.store.done, released))
        return SweepResult(
            released=len(released), failed=len(claimed) - len(released), claimed_by_others=len(group) - len(claimed)
        )

    def _claim(self, item: DelayedRecord) -> bool:
        # guard: delay_store.one_sweep
        return self._is_releasable(item) and self.store.claim(item, self.clock.now_ms())

    def _groups(self, began_ms: int, errors: list[Retry]) -> Iterator[Sequence[DelayedRecord | UnreadableItem]]:
        """Yield groups of records to release. Errors of single sends are appended to `errors`. Raises Retry or Stop."""
        critical_first = (True, False)  # guard: delay_store.critical_first
        for critical in critical_first:
            due = batched(self.store.due(began_ms, critical=critical), _AT_ONCE, strict=False)
            # guard: send_controls.turns
            yield from due if critical else _in_turns(due, self._controlled(errors))

    def _controlled(self, errors: list[Retry]) -> Iterator[Sequence[DelayedRecord | UnreadableItem]]:
        """Yield groups of the records that are due because the control of their send changed. An error of one send is
        appended to `errors`, so that it does not delay the records of others. Raises Stop.
        """
        for controlled in self.store.controlled():
            if isinstance(controlled, UnreadableItem):
                yield [controlled]
                continue
            try:
                yield from self._of_controlled(controlled)
            except Retry as error:  # guard: send_controls.error_of_one_send
                errors.append(error)

    def _of_controlled(self, controlled: ControlledSend) -> Iterator[Sequence[DelayedRecord | UnreadableItem]]:
        found_any = False
        for found in batched(self._due_by_control(controlled), _AT_ONCE, strict=False):
            found_any = found_any or any(isinstance(item, DelayedRecord) for item in found)
            yield found
        # guard: send_controls.late_record
        is_over = self.clock.now_ms() >= controlled.changed_at_ms + CONTROL_SWEPT_S * 1000
        if is_over and not found_any:
            self.store.done_controlled(controlled)

    def _due_by_control(self, controlled: ControlledSend) -> Iterator[DelayedRecord | UnreadableItem]:
        """Yield the delayed records of a send that do not wait any longer under its present control."""
        control, now_ms = self.sends.controls([controlled.send])[controlled.send], self.clock.now_ms()
        if control.is_cancelled(now_ms):
            yield from self.store.of_send(controlled.send)
            return
        if not control.is_paused(now_ms):  # guard: send_controls.paused_again
            yield from self.store.of_send(controlled.send, PAUSED)
        for item in self.store.of_send(controlled.send, PACE) if control.pace_revision else ():
            if isinstance(item, UnreadableItem) or _pace_revision(item) < control.pace_revision:  # guard: pace.planned
                yield item
        if control.send_at_ms is not None:
            for item in self.store.of_send(controlled.send, SEND_AT):
                if isinstance(item, UnreadableItem) or item.due_ms != control.send_at_ms:
                    yield item

    def _is_releasable(self, item: DelayedRecord) -> bool:
        """Return whether delayed records may be released to the topic; log an error otherwise."""
        if item.topic in releasable():
            return True
        with logs.about(self._ids(item)):
            self.logger.error("records are not released to this topic", topic=item.topic)
        return False

    def _ids(self, item: DelayedRecord) -> dict[str, Any]:
        """Return the ids of the record, as far as it can be decoded, for log lines."""
        schema = next((topic.schema for topic in topics.chain_topics() if topic.name == item.topic), None)
        ids: dict[str, Any] = {"record_id": item.id}
        if self.codec is not None and schema is not None:
            with suppress(MasscommError):  # The ids are used only in log lines, so an error is ignored.
                value = self.codec.decode(schema, item.value)
                ids |= {name: value[name] for name in logs.IDS if value.get(name) is not None}
        return ids

    def _encoded(self, item: DelayedRecord) -> bytes | None:
        """Return the value with the id of its schema; None if it cannot have one now, so that it is released later."""
        if self.codec is None:
            return item.value
        try:
            return with_schema_id(item.value, item.headers, item.topic, self.codec)
        except MasscommError as error:  # An error of one record must not delay the others.
            with logs.about(self._ids(item)):
                self.logger.warning("not released", topic=item.topic, error=str(error))
            return None

    def _produce(self, items: list[DelayedRecord]) -> list[DelayedRecord]:
        """Produce the records, and return those that Kafka acknowledged. The others are released again when their
        claim has expired.
        """
        released_records: list[DelayedRecord] = []

        def report_for(item: DelayedRecord, span: traces.Span | None) -> Callable[[Exception | None], None]:
            def report(error: Exception | None) -> None:
                if span is not None:
                    traces.end(span, None if error is None else str(error))
                if error is None:
                    released_records.append(item)
                else:
                    with logs.about(self._ids(item)):
                        self.logger.warning("not released", topic=item.topic, error=str(error))

            return report

        for item in items:
            value = self._encoded(item)
            if value is None:
                continue
            above = traces.of_headers(item.headers)
            span = None if above is None else traces.begin("scheduler", above, record_id=item.id, why=item.delay_reason)
            carried = item.headers if span is None else traces.replaced(item.headers, span.trace)
            headers = [*carried, (DELAY_REASON_HEADER, item.delay_reason.encode())]
            if item.delay_reason == PAUSED:
                headers.append((RESUMED_AT_HEADER, str(self.clock.now_ms()).encode()))
            key = item.id if item.record_key is None else item.record_key
            topic = topics.consumed(item.topic, self.queues)
            self.producer.produce(topic, key.encode(), value, headers, report_for(item, span))
        self.producer.flush(SWEEP_FLUSH_S)
        return released_records


def _pace_revision(item: DelayedRecord) -> int:
    """Return the revision of the control whose pace a record was planned with; 0: the send's own pace."""
    return integer_or(dict(item.headers).get(PACE_HEADER), 0, 0)


def _in_turns[T](*groups: Iterator[T]) -> Iterator[T]:
    """Yield one element of each iterator in turn, until all have ended."""
    pending = list(groups)
    while pending:
        for each in list(pending):
            try:
                found = next(each)
            except StopIteration:
                pending.remove(each)
            else:
                yield found
