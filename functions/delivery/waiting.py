"""Who is left of a delivery record when the invocation's patience is used up goes on in a record of its own, later.

So does whoever is asleep by now, in one for each end of their quiet hours (functions/delivery/night.py).

That they wait is recorded in the delivery ledger first, then the record is left to the scheduler. A redelivery that
comes in between, or after, finds what was recorded and leaves the same record again: the same id, the same recipients,
the same time. Released twice, the ledger has it once.
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
from masscomm.stores.back_off import BackOff
from masscomm.stores.delayed_records import DelayedRecord, DelayStore
from masscomm.stores.delivery_ledger import Decided

DELAY_REASON = "back_off"
# What a topic takes, with room for the headers.
RECORD_BYTES = 1_000_000
# Headers of ours are about the record they stand on.
_OURS = "masscomm."


@dataclass(frozen=True, kw_only=True)
class Later:
    """Where what is left goes. One for each function environment."""

    store: DelayStore
    back_off: BackOff
    clock: Clock

    def again_ms(self, delivery: DeliveryRequested, endpoint_alone: bool) -> int | None:
        """When those go on whom nothing was decided about; None where it has been tried for long enough.

        endpoint_alone: whether no provider refused them, and a device without an endpoint is all they wait for. Such
        waits double without an upper bound: an endpoint that never comes costs few returns.
        """
        now_ms = self.clock.now_ms()
        ends_ms = self.back_off.ends_ms(since_ms=delivery.since_ms, expires_at=delivery.expires_at)
        if ends_ms <= now_ms:
            return None
        return self.back_off.due_ms(
            now_ms=now_ms,
            n=delivery.waits + 1,
            item_id=delivery.record_id,
            ends_ms=ends_ms,
            bounded=not endpoint_alone,
        )

    def put(self, item: Item[DeliveryRequested], done: Iterable[Decided], codec: Codec) -> None:
        """Leave those who wait to the scheduler, for the topic their record stands on. Errors: Retry, Stop."""
        delivery, topic = item.value, item.record.topic
        waiting = {entry.position: entry for entry in done if entry.again_ms is not None}
        for (due_ms, why), positions in _parts(waiting).items():
            step = why if why == DELAY_REASON else f"{why}.{due_ms}"
            those = {position: waiting[position] for position in positions}
            for part_id, value in _records(delivery, step, those, partial(codec.encode, topic, "DeliveryRequested")):
                self.store.put(
                    DelayedRecord(
                        id=part_id, due_ms=due_ms, topic=topic, value=value, delay_reason=why, headers=_carried(item)
                    ),
                    self.clock.now_ms(),
                )


def _parts(waiting: Mapping[int, Decided]) -> dict[tuple[int, str], set[int]]:
    """(when they go on, what they wait for) → positions: the provider is tried for all of them at once."""
    tried: dict[int, int] = {}
    asleep: dict[int, tuple[int, str]] = {}
    for position, entry in waiting.items():
        again_ms = entry.again_ms or 0
        if entry.decision.status is Status.HELD:
            asleep[position] = (again_ms, quiet_hours.DELAY_REASON)
        else:
            tried[position] = again_ms
    parts = quiet_hours.by_end(asleep)
    if tried:
        parts[min(tried.values()), DELAY_REASON] = set(tried)
    return parts


def _carried(item: Item[DeliveryRequested]) -> tuple[tuple[str, bytes], ...]:
    """What others have written on the record, and the trace as it goes on."""
    theirs = tuple(header for header in item.record.headers if not header[0].startswith(_OURS))
    return theirs if item.span is None else traces.replaced(theirs, item.span.trace)


def _records(
    delivery: DeliveryRequested, step: str, waiting: Mapping[int, Decided], encode: Callable[[dict[str, Any]], bytes]
) -> Iterator[tuple[str, bytes]]:
    """(id, value) of the records in which those positions go on: one, or halves of the range where it is too large.

    With the devices that took the message a record may be larger than it was.
    """
    pending = [(delivery.range_start, delivery.range_end)]
    while pending:
        start, end = pending.pop()
        inside = {position: entry for position, entry in waiting.items() if start <= position < end}
        if not inside:
            continue
        part = _part(delivery, _next_id(delivery, step, inside.values(), start, end), inside)
        value = encode(part.to_avro())
        if len(value) > RECORD_BYTES and len(inside) > 1:
            middle = (start + end) // 2
            pending += [(middle, end), (start, middle)]
        else:
            yield part.record_id, value


def _next_id(delivery: DeliveryRequested, step: str, waiting: Iterable[Decided], start: int, end: int) -> str:
    if delivery.waits and any(entry.numbered for entry in waiting):
        # Recorded by the previous code, which may have left the record to the scheduler already.
        return numbered_id(delivery.record_id, step, delivery.waits + 1, start, end)
    return released_id(delivery.record_id, step, start, end)


def _part(delivery: DeliveryRequested, part_id: str, waiting: Mapping[int, Decided]) -> DeliveryRequested:
    """The record of those positions alone, with the devices of theirs that have the message."""
    rows = [row for row, position in enumerate(delivery.positions) if position in waiting]
    return replace(
        delivery,
        record_id=part_id,
        parent_id=delivery.record_id,
        waits=delivery.waits + 1,
        positions=[delivery.positions[row] for row in rows],
        user_ids=[delivery.user_ids[row] for row in rows],
        addresses=[delivery.addresses[row] for row in rows] if delivery.addresses else [],
        content=[_of_rows(column, rows) for column in delivery.content],
        withdrawn=[entry for entry in delivery.withdrawn if entry.position in waiting],
        taken=[
            Taken(position=position, target=answer.target, message_id=answer.message_id)
            for position, entry in sorted(waiting.items())
            for answer in entry.answers
            if answer.message_id is not None
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
