"""Produces the outcome records of a delivery record, and the status of devices that accept no message any more."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from masscomm.chain.batch import Batch, Item
from masscomm.chain.outcome_emitter import OutcomeEmitter
from masscomm.clock import Clock
from masscomm.decisions.results import is_held_by_pause
from masscomm.directory.port import Directory
from masscomm.domain.call_results import RecipientResult
from masscomm.domain.ids import derived_id
from masscomm.domain.outcomes import RecipientOutcome
from masscomm.domain.provider_error_codes import code_of
from masscomm.domain.provider_errors import TargetGone
from masscomm.domain.records import DeliveryRequested, DeviceStatusChanged
from masscomm.domain.statuses import Status
from masscomm.domain.users import Device
from masscomm.kafka import topics

# The size limit of the message ids in one outcome record: a topic accepts a megabyte per record, and a user may have
# any number of devices.
IDS_BYTES = 500_000


@dataclass(frozen=True, kw_only=True)
class Outcomes:
    """Produces the outcome records and device statuses of a delivery record."""

    directory: Directory
    clock: Clock

    def emit(
        self, batch: Batch[DeliveryRequested], item: Item[DeliveryRequested], done: Mapping[int, RecipientResult]
    ) -> None:
        """Produce one outcome record with all recorded results, or several if the message ids are too many for one
        record.

        A delay by the provider is reported once, not with each retry record; a pause is not reported.
        """
        delivery = item.value
        outcomes = [
            # The message ids of a delayed recipient are omitted here and follow with the final result: a receipt for
            # one of two devices would be taken for a receipt of the whole notification.
            RecipientOutcome(
                entry.position, entry.user_id, entry.decision, entry.message_ids if entry.retry_at_ms is None else ()
            )
            for _, entry in sorted(done.items())
            if not is_held_by_pause(entry)
            and (entry.retry_at_ms is None or not delivery.waits or entry.decision.status is Status.HELD)
        ]
        emitter = OutcomeEmitter(step="delivery", clock=self.clock, directory=self.directory)
        for start, end, some in _by_size(outcomes, delivery.range_start, delivery.range_end):
            emitter.emit(batch, item, delivery, delivery.channel, (start, end), some)

    def report_gone(
        self, batch: Batch[DeliveryRequested], item: Item[DeliveryRequested], device: Device, error: TargetGone
    ) -> None:
        """Produce the status of a device that accepts no message any more. After a crash, the next push to the device
        produces it.
        """
        delivery = item.value
        record = DeviceStatusChanged(
            record_id=derived_id(
                delivery.record_id, "device_status", delivery.channel, device.device_id, device.device_id + 1
            ),
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


def _by_size(
    outcomes: Sequence[RecipientOutcome], start: int, end: int
) -> Iterator[tuple[int, int, Sequence[RecipientOutcome]]]:
    """Yield (start, end, recipients) for each outcome record: the whole range, or halves of it if it is too large.

    The message ids of a single recipient are limited to those that fit; receipts for the other ids then belong to
    unknown messages.
    """
    size = sum(len(name) + 4 for entry in outcomes for name in entry.message_ids)
    if size <= IDS_BYTES:
        yield start, end, outcomes
    elif len(outcomes) == 1:
        sizes = accumulate(len(name) + 4 for name in outcomes[0].message_ids)
        fitting = sum(size <= IDS_BYTES for size in sizes)
        yield start, end, [outcomes[0]._replace(message_ids=outcomes[0].message_ids[:fitting])]
    else:
        middle = (start + end) // 2
        yield from _by_size([entry for entry in outcomes if entry.position < middle], start, middle)
        yield from _by_size([entry for entry in outcomes if entry.position >= middle], middle, end)
