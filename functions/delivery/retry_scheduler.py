"""Retry records: recipients that could not be delivered to now, in records that the scheduler releases later.

HELD recipients get one record for each end of their quiet hours (functions/delivery/night.py).

The delivery ledger records the delay first, then the record is put into the delay store. A redelivery in between or
afterwards finds the recorded delay and puts the same record again: same id, recipients and time. If the record is
released twice, the ledger has its results once.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from masscomm.chain.batch import Item
from masscomm.clock import Clock
from masscomm.domain import quiet_hours
from masscomm.domain.ids import numbered_id, released_id
from masscomm.domain.records import ContentColumn, DeliveryRequested, Taken
from masscomm.domain.statuses import Status
from masscomm.kafka.avro import Codec
from masscomm.observability import traces
from masscomm.stores.delayed_records import DelayedRecord, DelayStore
from masscomm.stores.delivery_ledger import RecipientResult
from masscomm.stores.retry_schedule import RetrySchedule

DELAY_REASON = "back_off"
# Largest record, with room for the headers.
RECORD_BYTES = 1_000_000
# Prefix of headers that describe only the record they are on.
_OURS = "masscomm."


@dataclass(frozen=True, kw_only=True)
class RetryScheduler:
    """Puts retry records into the delay store. One for each function environment."""

    store: DelayStore
    retry_schedule: RetrySchedule
    clock: Clock

    def retry_at_ms(self, delivery: DeliveryRequested, endpoint_alone: bool) -> int | None:
        """The time of the next try of recipients without a final result; None when the deadline has passed.

        Args:
            endpoint_alone: no provider refused them, and only a device without an endpoint delays them. Such delays
                double without an upper bound: an endpoint that never comes costs few tries.
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
            bounded=not endpoint_alone,
        )

    def put(self, item: Item[DeliveryRequested], done: Iterable[RecipientResult], codec: Codec) -> None:
        """Put the delayed recipients into the delay store, for the topic of their record. Errors: Retry, Stop."""
        delivery, topic = item.value, item.record.topic
        delayed = {entry.position: entry for entry in done if entry.retry_at_ms is not None}
        for (due_ms, delay_reason), positions in _parts(delayed).items():
            step = delay_reason if delay_reason == DELAY_REASON else f"{delay_reason}.{due_ms}"
            those = {position: delayed[position] for position in positions}
            for part_id, value in _records(delivery, step, those, partial(codec.encode, topic, "DeliveryRequested")):
                self.store.put(
                    DelayedRecord(
                        id=part_id,
                        due_ms=due_ms,
                        topic=topic,
                        value=value,
                        delay_reason=delay_reason,
                        headers=_carried(item),
                    ),
                    self.clock.now_ms(),
                )


def _parts(delayed: Mapping[int, RecipientResult]) -> dict[tuple[int, str], set[int]]:
    """(retry time, delay reason) → positions: all positions of the provider are retried at the earliest of their
    times."""
    tried: dict[int, int] = {}
    asleep: dict[int, tuple[int, str]] = {}
    for position, entry in delayed.items():
        retry_at_ms = entry.retry_at_ms or 0
        if entry.decision.status is Status.HELD:
            asleep[position] = (retry_at_ms, quiet_hours.DELAY_REASON)
        else:
            tried[position] = retry_at_ms
    parts = quiet_hours.group_by_end(asleep)
    if tried:
        parts[min(tried.values()), DELAY_REASON] = set(tried)
    return parts


def _carried(item: Item[DeliveryRequested]) -> tuple[tuple[str, bytes], ...]:
    """Headers of other producers, and the trace with the span of this function."""
    theirs = tuple(header for header in item.record.headers if not header[0].startswith(_OURS))
    return theirs if item.span is None else traces.replaced(theirs, item.span.trace)


def _records(
    delivery: DeliveryRequested,
    step: str,
    delayed: Mapping[int, RecipientResult],
    encode: Callable[[dict[str, Any]], bytes],
) -> Iterator[tuple[str, bytes]]:
    """(id, value) of the retry records of those positions: one, or halves of the range where it is too large.

    A retry record may be larger than its parent: it names the devices that have the message.
    """
    pending = [(delivery.range_start, delivery.range_end)]
    while pending:
        start, end = pending.pop()
        inside = {position: entry for position, entry in delayed.items() if start <= position < end}
        if not inside:
            continue
        part = _part(delivery, _next_id(delivery, step, inside.values(), start, end), inside)
        value = encode(part.to_avro())
        if len(value) > RECORD_BYTES and len(inside) > 1:
            middle = (start + end) // 2
            pending += [(middle, end), (start, middle)]
        else:
            yield part.record_id, value


def _next_id(delivery: DeliveryRequested, step: str, delayed: Iterable[RecipientResult], start: int, end: int) -> str:
    if delivery.waits and any(entry.numbered for entry in delayed):
        # Recorded by the previous code, which may have put the record into the delay store already.
        return numbered_id(delivery.record_id, step, delivery.waits + 1, start, end)
    return released_id(delivery.record_id, step, start, end)


def _part(delivery: DeliveryRequested, part_id: str, delayed: Mapping[int, RecipientResult]) -> DeliveryRequested:
    """The retry record of those positions, with their devices that have the message."""
    rows = [row for row, position in enumerate(delivery.positions) if position in delayed]
    return replace(
        delivery,
        record_id=part_id,
        parent_id=delivery.record_id,
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
