"""Schedules retry records: recipients who could not be delivered to now, in records that the scheduler function
releases later.

HELD recipients get one record for each end of their quiet hours (functions/delivery/quiet_hours_recheck.py), those who
wait for the end of a pause one record.

The delay is recorded in the delivery ledger first; then the retry record is put into the delay store. A redelivery
between the two steps, or after them, finds the recorded delay and stores the same record again, with the same id,
recipients and time. If the record is released twice, the ledger contains its results only once.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from masscomm.chain.batch import Item
from masscomm.clock import Clock
from masscomm.decisions.results import is_held_by_pause
from masscomm.domain import quiet_hours
from masscomm.domain.call_results import RecipientResult
from masscomm.domain.delays import PAUSED, RetrySchedule
from masscomm.domain.ids import released_id
from masscomm.domain.records import ContentColumn, DeliveryRequested, Taken
from masscomm.domain.sends import SendKey
from masscomm.domain.statuses import Status
from masscomm.kafka.avro import Codec
from masscomm.observability import traces
from masscomm.stores.delayed_records.port import DelayedRecord, DelayStore
from masscomm.stores.sends.port import send_of

DELAY_REASON = "back_off"
# The size limit of a retry record in bytes, with room for the headers.
RECORD_BYTES = 1_000_000
# The prefix of headers that apply only to the record that has them, so that they are not copied.
_OURS = "masscomm."


@dataclass(frozen=True, kw_only=True)
class RetryScheduler:
    """Puts retry records into the delay store. Each function environment has one instance."""

    store: DelayStore
    retry_schedule: RetrySchedule
    clock: Clock

    def retry_at_ms(self, delivery: DeliveryRequested, *, unbounded: bool = False) -> int | None:
        """Return the time of the next attempt for recipients without a final result; None if the deadline has
        passed.

        Args:
            unbounded: Whether the delays double without an upper bound. So a device whose SNS endpoint is never created
                causes few attempts, and a message whose answers are lost each time has few copies.
        """
        now_ms = self.clock.now_ms()
        deadline_ms = self.retry_schedule.deadline_ms(since_ms=delivery.since_ms, expires_at=delivery.expires_at)
        if deadline_ms <= now_ms:
            return None
        return self.retry_schedule.due_ms(
            now_ms=now_ms,
            attempt=delivery.waits + 1,
            item_id=delivery.record_id,
            deadline_ms=deadline_ms,
            bounded=not unbounded,
        )

    def put(
        self,
        item: Item[DeliveryRequested],
        done: Iterable[RecipientResult],
        codec: Codec,
        *,
        paused_by: SendKey | None,
    ) -> None:
        """Put the delayed recipients into the delay store, for the topic of their record. Raises Retry or Stop.

        Args:
            paused_by: The control that pauses the record now, if any. Otherwise recipients whom an earlier pause held
                are due: sweeps may not look for them any more.
        """
        delivery, topic = item.value, item.record.topic
        delayed = {entry.position: entry for entry in done if entry.retry_at_ms is not None}
        for (due_ms, delay_reason), positions in _parts(delayed).items():
            asleep = delay_reason == quiet_hours.DELAY_REASON
            step = f"{delay_reason}.{due_ms}" if asleep else delay_reason
            # guard: latencies.late_quiet_hours
            waiting = replace(delivery, waited_until=max(due_ms, delivery.waited_until or 0)) if asleep else delivery
            is_due = delay_reason == PAUSED and paused_by is None  # guard: send_controls.resumed_part
            those = {position: delayed[position] for position in positions}
            for part_id, value in _records(waiting, step, those, partial(codec.encode, topic, "DeliveryRequested")):
                self.store.put(
                    DelayedRecord(
                        id=part_id,
                        due_ms=self.clock.now_ms() if is_due else due_ms,
                        topic=topic,
                        value=value,
                        delay_reason=delay_reason,
                        headers=carried_headers(item),
                        send=paused_by if delay_reason == PAUSED and paused_by is not None else send_of(delivery),
                    ),
                    self.clock.now_ms(),
                )


def _parts(delayed: Mapping[int, RecipientResult]) -> dict[tuple[int, str], set[int]]:
    """Return (retry time, delay reason) → recipients' positions. All recipients that the provider delayed are
    retried at the earliest of their times. All that a pause holds have one time.
    """
    tried: dict[int, int] = {}
    asleep: dict[int, tuple[int, str]] = {}
    paused: dict[int, int] = {}
    for position, entry in delayed.items():
        retry_at_ms = entry.retry_at_ms or 0
        if entry.decision.status is Status.HELD:
            asleep[position] = (retry_at_ms, quiet_hours.DELAY_REASON)
        elif is_held_by_pause(entry):
            paused[position] = retry_at_ms
        else:
            tried[position] = retry_at_ms
    parts = quiet_hours.group_by_end(asleep)
    if tried:
        parts[min(tried.values()), DELAY_REASON] = set(tried)
    if paused:
        parts[min(paused.values()), PAUSED] = set(paused)
    return parts


def carried_headers(item: Item[DeliveryRequested]) -> tuple[tuple[str, bytes], ...]:
    """Return the headers to copy: those of other producers, and the trace with the span of this function."""
    theirs = tuple(header for header in item.record.headers if not header[0].startswith(_OURS))
    return theirs if item.span is None else traces.replaced(theirs, item.span.trace)


def _records(
    delivery: DeliveryRequested,
    step: str,
    delayed: Mapping[int, RecipientResult],
    encode: Callable[[dict[str, Any]], bytes],
) -> Iterator[tuple[str, bytes]]:
    """Return (id, value) of the retry records for the positions: one record, or one for each half of the range if it
    is too large.

    A retry record may be larger than its parent, because it names the devices that already have the message.
    """
    pending = [(delivery.range_start, delivery.range_end)]
    while pending:
        start, end = pending.pop()
        inside = {position: entry for position, entry in delayed.items() if start <= position < end}
        if not inside:
            continue
        part = _part(delivery, released_id(delivery.record_id, step, start, end), inside)
        value = encode(part.to_avro())
        if len(value) > RECORD_BYTES and len(inside) > 1:
            middle = (start + end) // 2
            pending += [(middle, end), (start, middle)]
        else:
            yield part.record_id, value


def _part(delivery: DeliveryRequested, part_id: str, delayed: Mapping[int, RecipientResult]) -> DeliveryRequested:
    """Return the retry record for the recipients at these positions, with the devices that already have the message."""
    rows = [row for row, position in enumerate(delivery.positions) if position in delayed]
    return replace(
        delivery,
        record_id=part_id,
        parent_id=delivery.record_id,
        # The metrics count the recipients of a record that has not waited as queued.
        waits=delivery.waits + 1,
        positions=[delivery.positions[row] for row in rows],
        user_ids=[delivery.user_ids[row] for row in rows],
        addresses=[delivery.addresses[row] for row in rows] if delivery.addresses else [],
        content=[_of_rows(column, rows) for column in delivery.content],
        withdrawn=[entry for entry in delivery.withdrawn if entry.position in delayed],
        taken=[
            Taken(position=position, target=call.target, message_id=call.message_id)
            for position, entry in sorted(delayed.items())
            for call in entry.call_results
            if call.message_id is not None
        ],
    )


def _of_rows(column: ContentColumn, rows: Collection[int]) -> ContentColumn:
    if not column.index:
        return column
    places = {place: number for number, place in enumerate(dict.fromkeys(column.index[row] for row in rows))}
    return replace(
        column,
        values=[column.values[place] for place in places],
        index=[places[column.index[row]] for row in rows],
    )
