"""Deliver a batch of written messages: devices, a last look at opt-outs, the provider, an outcome for everybody.

    the record's lease → what is recorded of it → whoever is left, slice by slice → one outcome for the whole record

Of a record that was delayed the users are looked up as well: they may have been erased, or have another address, since
it was built.

Nothing is published without the ledger's word on what was published before. A record that comes again goes on after the
last finished slice and tells the decisions that were recorded, whatever was decided since. Recipients that
cannot be delivered to now are retried later (functions/delivery/retry_scheduler.py).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate

from functions.delivery.calls import Caller
from functions.delivery.night import LOOK_AGAIN_AFTER_S, Night
from functions.delivery.publishing import Publisher
from functions.delivery.retry_scheduler import RetryScheduler
from functions.delivery.slices import Slices
from masscomm.chain.batch import Batch, Item
from masscomm.chain.chunks import checked
from masscomm.chain.outcome_emitter import OutcomeEmitter
from masscomm.channels.provider import TargetGone
from masscomm.channels.provider_errors import code_of
from masscomm.clock import Clock
from masscomm.directory.port import Directory
from masscomm.domain.ids import derived_id, others_id
from masscomm.domain.outcomes import DEAD_LETTERED, RecipientOutcome
from masscomm.domain.records import ContentColumn, DeliveryRequested, DeviceStatusChanged
from masscomm.domain.statuses import Reason, Status
from masscomm.domain.users import Device, User, UserSettings
from masscomm.errors import DeadLetter, MasscommError, OtherRecipients, Retry
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec
from masscomm.kafka.event import KafkaRecord
from masscomm.observability import metrics
from masscomm.observability.metric_names import DUPLICATES_REFUSED
from masscomm.stores.delayed_records import DELAY_REASON_HEADER
from masscomm.stores.delivery_ledger import (
    DeliveryLedger,
    Lease,
    LeasedElsewhere,
    RecipientResult,
    RenewingLease,
    final_results,
    results_for_recipients,
)

# A crash's duplicates are at most this many recipients; what they cost is a write of the ledger for so many.
SLICE_SIZE = 40

# Bytes of message ids in one outcome record: a topic takes a megabyte, and a user may have any number of devices.
IDS_BYTES = 500_000

# How often somebody else's lease is looked at: it may be released, or the record finished, before it runs out.
_LONGEST_WAIT_S = 2.0
_SHORTEST_WAIT_S = 0.05

# What a message cannot do without.
_FIELDS = {"push": {"title", "body"}, "email": {"subject", "text"}}
_STATUSES = frozenset(Status)
_REASONS = frozenset({None, *Reason})


@dataclass(frozen=True, kw_only=True)
class _Begun:
    """A record whose turn it is. lease: None where nothing is left to do; done: by position, what is recorded."""

    lease: Lease | None
    done: dict[int, RecipientResult]


@dataclass(frozen=True, kw_only=True)
class _Found:
    """What the directory says of a batch's users; users: of those of delayed records alone."""

    settings: Mapping[int, UserSettings]
    devices: Mapping[int, list[Device]]
    users: Mapping[int, User]


@dataclass(frozen=True, kw_only=True)
class Deliver:
    """The use case; one for each function environment.

    slice_size: recipients whose decisions are recorded together; quiet_after_s: seconds on the way after which quiet
    hours are looked at once more.
    """

    directory: Directory
    ledger: DeliveryLedger
    publisher: Publisher
    caller: Caller
    retry_scheduler: RetryScheduler
    clock: Clock
    slice_size: int = SLICE_SIZE
    quiet_after_s: float = LOOK_AGAIN_AFTER_S

    def decode(self, record: KafkaRecord, codec: Codec) -> DeliveryRequested:
        """A record of delivery. Errors: DeadLetter, Retry."""
        delivery = checked(DeliveryRequested.from_avro(codec.decode("DeliveryRequested", record.value)))
        addressed = delivery.channel != "email" or len(delivery.addresses) == len(delivery.positions)
        if delivery.channel not in ("push", "email") or not addressed:
            raise DeadLetter("invalid", f"no delivery record: channel {delivery.channel!r}")
        if any(_misshapen(column, len(delivery.positions)) for column in delivery.content):
            raise DeadLetter("invalid", "a content column does not fit the positions")
        if any(entry.status not in _STATUSES or entry.reason not in _REASONS for entry in delivery.withdrawn):
            raise DeadLetter("invalid", "a withdrawn recipient with an unknown status or reason")
        everybody = {entry.position for entry in delivery.withdrawn} >= set(delivery.positions)
        if not everybody and not _FIELDS[delivery.channel] <= {column.field for column in delivery.content}:
            raise DeadLetter("invalid", f"the content lacks one of {sorted(_FIELDS[delivery.channel])}")
        return delivery

    def handle(self, batch: Batch[DeliveryRequested]) -> None:
        items = batch.active()
        if not items:
            return
        with ThreadPoolExecutor(len(items)) as pool:
            # While the directory answers, so does the ledger. A record that stands in the batch twice begins its second
            # time when the first is over.
            first = {item.value.record_id: item for item in reversed(items)}
            begun = {record_id: pool.submit(self._begin, item.value) for record_id, item in first.items()}
            try:
                found = self._look_up(items)
            except Exception:
                for record_id, start in begun.items():
                    if start.exception() is None:
                        self._release(record_id)
                raise

        def start_of(item: Item[DeliveryRequested]) -> Callable[[], _Begun | LeasedElsewhere]:
            record_id = item.value.record_id
            return begun[record_id].result if item is first[record_id] else partial(self._begin, item.value)

        # Whoever can begin does so before anybody is waited for, and a few recipients before many.
        for item in sorted(
            items, key=lambda item: (_is_leased_elsewhere(begun[item.value.record_id]), len(item.value.positions))
        ):
            batch.attempt(item, partial(self._deliver, batch, item, start_of(item), found))

    def dead_lettered(self, batch: Batch[DeliveryRequested], item: Item[DeliveryRequested], why: DeadLetter) -> None:
        """Its recipients failed, but for those of whom something else is recorded. Errors: Retry."""
        delivery = item.value
        recorded = self.ledger.results(delivery.record_id)
        end = final_results(delivery, recorded, DEAD_LETTERED)
        if isinstance(why, OtherRecipients):
            for entry in results_for_recipients(delivery, recorded):
                del end[entry.position]
            item.value = replace(delivery, record_id=others_id(delivery.record_id, delivery.user_ids))
        self._emit_outcomes(batch, item, end)

    def _look_up(self, items: Sequence[Item[DeliveryRequested]]) -> _Found:
        """All at once: round trips add to a one-time password's latency."""
        pushed = [item for item in items if item.value.channel == "push"]
        delayed = [item for item in items if _was_delayed(item)]
        direct = [item for item in items if not _was_delayed(item)]
        with ThreadPoolExecutor(2) as pool:
            settings = pool.submit(self.directory.user_settings, _user_ids(direct)) if direct else None
            both = pool.submit(self.directory.users_and_settings, _user_ids(delayed)) if delayed else None
            devices = self.directory.devices(_user_ids(pushed)) if pushed else {}
            users, of_delayed = both.result() if both is not None else ({}, {})
            of_direct = settings.result() if settings is not None else {}
        return _Found(settings=of_direct | of_delayed, devices=devices, users=users)

    def _begin(self, delivery: DeliveryRequested) -> _Begun | LeasedElsewhere:
        """Take the record, or learn whose it is.

        Errors: Retry, Stop, OtherRecipients: nothing has been published then.
        """
        lease = self.ledger.acquire(delivery.record_id)
        if isinstance(lease, Lease) and lease.fresh:  # guard: delivery_ledger.recorded_results
            return _Begun(lease=lease, done={})
        recorded = self.ledger.results(delivery.record_id)
        if len(results_for_recipients(delivery, recorded)) < len(recorded):  # guard: delivery_ledger.other_recipients
            self._release(delivery.record_id)
            raise OtherRecipients
        done = {entry.position: entry for entry in recorded}
        if done.keys() >= set(delivery.positions):
            return _Begun(lease=None, done=done)
        return lease if isinstance(lease, LeasedElsewhere) else _Begun(lease=lease, done=done)

    def _await_turn(
        self, batch: Batch[DeliveryRequested], delivery: DeliveryRequested, leased: LeasedElsewhere
    ) -> _Begun:
        """The record once its lease is free or everything is recorded. Errors: Retry where no time is left for it."""
        begun: _Begun | LeasedElsewhere = leased
        while isinstance(begun, LeasedElsewhere):
            pause = max(_SHORTEST_WAIT_S, min(_LONGEST_WAIT_S, begun.free_in_s))
            if batch.remaining_s() < pause + self.publisher.call_s:
                raise Retry("another invocation is delivering the record")
            self.clock.sleep(pause)
            begun = self._begin(delivery)
        return begun

    def _deliver(
        self,
        batch: Batch[DeliveryRequested],
        item: Item[DeliveryRequested],
        begin: Callable[[], _Begun | LeasedElsewhere],
        found: _Found,
    ) -> None:
        delivery, begun = item.value, begin()
        if isinstance(begun, LeasedElsewhere):
            begun = self._await_turn(batch, delivery, begun)
            if begun.lease is not None:  # the earlier look-up is as old as the wait was long
                try:
                    found = self._look_up([item])
                except Exception:
                    self._release(delivery.record_id)
                    raise
        metrics.add(DUPLICATES_REFUSED, len(begun.done))
        if begun.lease is not None:
            night = Night(
                directory=self.directory,
                clock=self.clock,
                retry_schedule=self.retry_scheduler.retry_schedule,
                after_s=self.quiet_after_s,
            )
            slices = Slices(
                delivery=delivery,
                directory=self.directory,
                ledger=self.ledger,
                lease=RenewingLease(self.ledger, self.clock, delivery.record_id, begun.lease),
                publisher=self.publisher,
                caller=self.caller,
                clock=self.clock,
                size=self.slice_size,
                done=begun.done,
                invocation_s=batch.remaining_s,
                confirm=partial(batch.confirm, self.directory),
                gone=partial(self._produce_device_status, batch, item),
                retry_at_ms=partial(self.retry_scheduler.retry_at_ms, delivery),
                users=found.users if _was_delayed(item) else None,  # guard: delivery.delayed_users
            )
            try:
                asleep = night.asleep(delivery, topics.lane_of(item.record.topic), found.settings)
                slices.finish(found.settings, found.devices, asleep)  # guard: quiet_hours.recheck
            except Exception:
                self._release(delivery.record_id)
                raise
        self.retry_scheduler.put(item, begun.done.values(), batch.codec)
        self._emit_outcomes(batch, item, begun.done)

    def _release(self, record_id: str) -> None:
        """So that the next one need not wait; where that fails, they wait."""
        with suppress(MasscommError):
            self.ledger.release(record_id)

    def _emit_outcomes(
        self, batch: Batch[DeliveryRequested], item: Item[DeliveryRequested], done: Mapping[int, RecipientResult]
    ) -> None:
        """One outcome for the whole record, of everything recorded, or several where their message ids are many; that
        somebody waits for the provider is told once, not each time.
        """
        delivery = item.value
        outcomes = [
            # Of whoever waits for a second device the messages are told when both are: with one of them alone, what
            # its provider says afterwards would be taken for the whole.
            RecipientOutcome(
                entry.position, entry.user_id, entry.decision, entry.message_ids if entry.retry_at_ms is None else ()
            )
            for _, entry in sorted(done.items())
            if entry.retry_at_ms is None or not delivery.waits or entry.decision.status is Status.HELD
        ]
        emitter = OutcomeEmitter(step="delivery", clock=self.clock, directory=self.directory)
        for start, end, some in _by_size(outcomes, delivery.range_start, delivery.range_end):
            emitter.emit(batch, item, delivery, delivery.channel, (start, end), some)

    def _produce_device_status(
        self, batch: Batch[DeliveryRequested], item: Item[DeliveryRequested], device: Device, error: TargetGone
    ) -> None:
        """What is lost of this with a crash is learnt again by the next push to the device."""
        delivery = item.value
        record = DeviceStatusChanged(
            record_id=derived_id(delivery.record_id, "device_status", "push", device.device_id, device.device_id + 1),
            device_id=device.device_id,
            user_id=device.user_id,
            club_id=delivery.club_id,
            platform=device.platform,
            endpoint_arn=device.endpoint_arn or "",
            status="inactive",
            reason=code_of(error),
            timestamp=self.clock.now_ms(),
            send_id=delivery.send_id,
        )
        batch.produce(item, topics.DEVICE_STATUS, str(device.device_id), record)


def _was_delayed(item: Item[DeliveryRequested]) -> bool:
    """Whether the record has waited in the delay store since it was built."""
    return item.value.waits > 0 or item.record.header(DELAY_REASON_HEADER) is not None


def _by_size(
    outcomes: Sequence[RecipientOutcome], start: int, end: int
) -> Iterator[tuple[int, int, Sequence[RecipientOutcome]]]:
    """(start, end, those told of) of each outcome record: the whole range, or halves of it where it is too large.

    Of one recipient the ids that fit are told: receipts for the other devices are about a message that nobody knows.
    """
    size = sum(len(name) + 4 for entry in outcomes for name in entry.message_ids)
    if size <= IDS_BYTES:
        yield start, end, outcomes
    elif len(outcomes) == 1:
        sizes = accumulate(len(name) + 4 for name in outcomes[0].message_ids)
        fitting = sum(size <= IDS_BYTES for size in sizes)
        yield start, end, [replace(outcomes[0], message_ids=outcomes[0].message_ids[:fitting])]
    else:
        middle = (start + end) // 2
        yield from _by_size([entry for entry in outcomes if entry.position < middle], start, middle)
        yield from _by_size([entry for entry in outcomes if entry.position >= middle], middle, end)


def _is_leased_elsewhere(start: "Future[_Begun | LeasedElsewhere]") -> bool:
    return start.exception() is None and isinstance(start.result(), LeasedElsewhere)


def _misshapen(column: ContentColumn, count: int) -> bool:
    if not column.index:
        return not column.values
    return len(column.index) != count or not all(0 <= place < len(column.values) for place in column.index)


def _user_ids(items: Sequence[Item[DeliveryRequested]]) -> list[int]:
    return list(dict.fromkeys(user_id for item in items for user_id in item.value.user_ids))
