"""Delivers a batch of rendered messages.

    leases of all records, look-up of the first users → decide about each recipient → publish and record in groups,
    look up further users → retry records of delayed recipients → one outcome for each record

The users of a late record, which was delayed or built long ago, are looked up too: since the record was built they may
have been erased, or their addresses may have changed. Nothing is published before the delivery ledger (a DynamoDB
table) has returned the earlier results of the record. A redelivered record continues after its last recorded group and
emits the decisions recorded first. Recipients that cannot be delivered to now are retried later
(functions/delivery/retry_scheduler.py).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from functions.delivery.look_up import LookUp, Question
from functions.delivery.outcomes import Outcomes
from functions.delivery.publish import UNRECORDED, Publishing
from functions.delivery.quiet_hours_recheck import RECHECK_AFTER_S
from functions.delivery.record_delivery import RecordDelivery
from functions.delivery.retry_scheduler import RetryScheduler, carried_headers
from functions.delivery.time_budget import TimeBudget
from functions.delivery.upcoming import Addressed, PortionSize, Upcoming
from masscomm.chain.batch import Batch, Item
from masscomm.chain.chunks import checked
from masscomm.chain.delayer import Delayer
from masscomm.chain.email_pauses import EmailPauses
from masscomm.chain.pausing import since_resumed
from masscomm.chain.sms_spending import SmsSpending
from masscomm.channels.gateway import ProviderGateway
from masscomm.channels.provider_calls import Caller
from masscomm.clock import Clock
from masscomm.decisions.delivery import DirectoryView, Wait, endpoint_due_s
from masscomm.decisions.results import paused_results
from masscomm.directory.confirmation import Confirmation
from masscomm.directory.port import Directory
from masscomm.domain.call_results import RecipientResult
from masscomm.domain.channels import CHANNELS
from masscomm.domain.delays import DELAY_REASON_HEADER
from masscomm.domain.email_pauses import waits_for_pause
from masscomm.domain.ids import others_id
from masscomm.domain.outcomes import DEAD_LETTERED
from masscomm.domain.provider_errors import SendingPaused, TargetGone
from masscomm.domain.push_options import is_silent
from masscomm.domain.records import ContentColumn, DeliveryRequested
from masscomm.domain.sends import SendControl, SendKey
from masscomm.domain.statuses import Reason, Status
from masscomm.domain.time_limits import LEASE_POLL_FIRST_S, LEASE_POLL_LAST_S, REGISTRAR_POLL_S
from masscomm.domain.users import Device
from masscomm.errors import DeadLetter, MasscommError, OtherContent, OtherRecipients, Retry, Stop
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec
from masscomm.kafka.event import KafkaRecord
from masscomm.observability import metrics
from masscomm.observability.metric_names import DUPLICATES_REFUSED
from masscomm.stores.delivery_ledger.port import (
    DeliveryLedger,
    Lease,
    LeasedElsewhere,
    RenewingLease,
    final_results,
    results_for_recipients,
)
from masscomm.stores.sends.port import Sends

_STATUSES = frozenset(Status)
_REASONS = frozenset({None, *Reason})


@dataclass(kw_only=True)
class _Started:
    """A record, and what the delivery ledger has about it."""

    item: Item[DeliveryRequested]
    # The lease of this invocation.
    lease: Lease | None = None
    # The lease of another invocation, which delivers the record.
    elsewhere: LeasedElsewhere | None = None
    # The reason why nothing is published for the record.
    error: MasscommError | None = None
    # The recorded results by the recipient's position.
    done: dict[int, RecipientResult] = field(default_factory=dict)
    # The delivery to the recipients without a result, once it has begun.
    record: RecordDelivery | None = None
    # The control that paused the record at the first look-up: of its send, or of the e-mails of its club.
    paused_by: SendKey | None = None

    @property
    def is_complete(self) -> bool:
        return self.done.keys() >= set(self.item.value.positions)


@dataclass(frozen=True, kw_only=True)
class _LookedUp:
    """The first look-up of a record."""

    # The record, and the recipients that were looked up.
    question: Question
    view: DirectoryView
    # The monotonic time at which the look-up began.
    began: float


@dataclass(frozen=True, kw_only=True)
class Deliver:
    """The use case of the delivery function. Each function environment has one instance."""

    directory: Directory
    sends: Sends
    ledger: DeliveryLedger
    gateway: ProviderGateway
    caller: Caller
    spending: SmsSpending
    retry_scheduler: RetryScheduler
    pauses: EmailPauses
    clock: Clock
    # The threads that send concurrent requests to the directory and the ledger.
    pool: Executor
    # The largest number of recipients, over all records of a batch, that are published to before their results are
    # recorded.
    unrecorded: int = UNRECORDED
    # The age in seconds from which quiet hours are checked again (of a send), and users are looked up again (of a
    # record).
    late_after_s: float = RECHECK_AFTER_S
    portion_size: PortionSize = field(default_factory=PortionSize)

    def decode(self, record: KafkaRecord, codec: Codec) -> DeliveryRequested:
        """Return the delivery record in a Kafka record. Raises DeadLetter or Retry."""
        delivery = checked(DeliveryRequested.from_avro(codec.decode("DeliveryRequested", record.value)))
        delivery = since_resumed(delivery, record)
        channel = CHANNELS.get(delivery.channel)
        if channel is None or not (channel.to_devices or len(delivery.addresses) == len(delivery.positions)):
            raise DeadLetter("invalid", f"no delivery record: channel {delivery.channel!r}")
        if any(_misshapen(column, len(delivery.positions)) for column in delivery.content):
            raise DeadLetter("invalid", "a content column does not fit the positions")
        if any(entry.status not in _STATUSES or entry.reason not in _REASONS for entry in delivery.withdrawn):
            raise DeadLetter("invalid", "a withdrawn recipient with an unknown status or reason")
        all_withdrawn = {entry.position for entry in delivery.withdrawn} >= set(delivery.positions)
        needs_content = not all_withdrawn and not is_silent(delivery.push, delivery.channel)
        if needs_content and not channel.required_fields <= {column.field for column in delivery.content}:
            raise DeadLetter("invalid", f"the content lacks one of {sorted(channel.required_fields)}")
        return delivery

    def handle(self, batch: Batch[DeliveryRequested]) -> None:
        items = batch.active()
        if not items:
            return
        confirmation = Confirmation(directory=self.directory, remaining_s=batch.remaining_s)
        first = {item.value.record_id: item for item in reversed(items)}
        together = sorted(first.values(), key=_turn)
        looked_up = self.pool.submit(self._look_up, together)
        started = self._begin(together)
        self._deliver(batch, started, looked_up.result, confirmation)
        # Records whose lease another environment has, and records that the batch contains twice, come last, so that
        # they do not delay the others.
        delivered = {each.item.value.record_id for each in started if each.elsewhere is None}
        for item in items:
            record_id = item.value.record_id
            if first[record_id] is not item or record_id not in delivered:
                batch.attempt(item, partial(self._deliver_later, batch, item, confirmation))

    def dead_lettered(self, batch: Batch[DeliveryRequested], item: Item[DeliveryRequested], why: DeadLetter) -> None:
        """Produce outcome records with the status failed for the recipients, except for those with a recorded
        result. Raises Retry.
        """
        if isinstance(why, OtherContent):
            return  # Produce nothing: the recipient has an outcome from the content that came first.
        delivery = item.value
        recorded = self.ledger.results(delivery.record_id)
        end = final_results(delivery, recorded, DEAD_LETTERED)
        if isinstance(why, OtherRecipients):
            for entry in results_for_recipients(delivery, recorded):
                del end[entry.position]
            item.value = replace(delivery, record_id=others_id(delivery.record_id, delivery.user_ids))
        self._outcomes.emit(batch, item, end)

    @property
    def _outcomes(self) -> Outcomes:
        return Outcomes(directory=self.directory, clock=self.clock)

    # --- leases -------------------------------------------------------------------------------------------------------

    def _begin(self, items: Sequence[Item[DeliveryRequested]]) -> list[_Started]:
        """Acquire the leases of records, and read the recorded results of those that are not new."""
        leases = self.ledger.acquire_all([item.value.record_id for item in items])
        started = [self._start(item, leases[item.value.record_id]) for item in items]
        return [each.result() if isinstance(each, Future) else each for each in started]

    def _start(
        self, item: Item[DeliveryRequested], lease: Lease | LeasedElsewhere | MasscommError
    ) -> _Started | Future[_Started]:
        """Return a record that is new; of any other one, begin to read the recorded results in a thread."""
        if isinstance(lease, Lease) and lease.fresh:  # guard: delivery_ledger.recorded_results
            return _Started(item=item, lease=lease)
        return self.pool.submit(self._read, item, lease)

    def _read(self, item: Item[DeliveryRequested], lease: Lease | LeasedElsewhere | MasscommError) -> _Started:
        """Return a record with its recorded results."""
        if isinstance(lease, MasscommError):
            return _Started(item=item, error=lease)
        started = _Started(item=item, lease=lease if isinstance(lease, Lease) else None)
        try:
            recorded = self.ledger.results(item.value.record_id)
        except MasscommError as error:
            started.error = error
            return started
        if len(results_for_recipients(item.value, recorded)) < len(recorded):  # guard: delivery_ledger.other_recipients
            started.error = OtherRecipients()
            return started
        started.done = {entry.position: entry for entry in recorded}
        if isinstance(lease, LeasedElsewhere) and not started.is_complete:
            started.elsewhere = lease
        return started

    def _deliver_later(
        self, batch: Batch[DeliveryRequested], item: Item[DeliveryRequested], confirmation: Confirmation
    ) -> None:
        """Deliver a record once its lease is free, or all its results are recorded. Raises Retry if no time remains."""
        [started] = self._begin([item])
        while started.elsewhere is not None:
            pause_s = max(LEASE_POLL_FIRST_S, min(LEASE_POLL_LAST_S, started.elsewhere.free_in_s))
            if batch.remaining_s() < pause_s + self.gateway.call_s:
                raise Retry("another invocation is delivering the record")
            self.clock.sleep(pause_s)
            [started] = self._begin([item])
        # The users are looked up again, because their rows may have changed during the wait.
        self._deliver(batch, [started], partial(self._look_up, [item]), confirmation)

    def _release(self, started: Iterable[_Started]) -> None:
        """Release the leases of records without all results, so that the next invocation need not wait until they
        expire. A lease expires if the ledger does not respond.
        """
        with suppress(MasscommError):
            for each in started:
                if each.lease is not None and not each.is_complete:
                    self.ledger.release(each.item.value.record_id)

    # --- recipients ---------------------------------------------------------------------------------------------------

    def _look_up(self, items: Sequence[Item[DeliveryRequested]]) -> list[_LookedUp]:
        """Look up the controls of all records, and the first recipients. Raises Retry."""
        began, left = self.clock.monotonic(), self.portion_size.recipients
        questions = []
        for item in items:
            question = self._question(item, at_most=left)
            questions.append(question)
            left -= len(question.rows)
        views = self._directory_look_up.views(questions)
        return [_LookedUp(question=each, view=view, began=began) for each, view in zip(questions, views, strict=True)]

    def _question(self, item: Item[DeliveryRequested], *, at_most: int) -> Question:
        delivery = item.value
        age_ms = self.clock.now_ms() - delivery.built_at
        return Question(
            delivery=delivery,
            lane=topics.lane_of(item.record.topic),
            is_late=delivery.waits > 0
            or item.record.header(DELAY_REASON_HEADER) is not None
            or age_ms >= self.late_after_s * 1000,  # guard: delivery.late_users
            rows=range(min(at_most, len(delivery.positions))),
        )

    @property
    def _directory_look_up(self) -> LookUp:
        return LookUp(
            directory=self.directory,
            sends=self.sends,
            clock=self.clock,
            retry_schedule=self.retry_scheduler.retry_schedule,
            pool=self.pool,
            late_after_s=self.late_after_s,
        )

    def _deliver(
        self,
        batch: Batch[DeliveryRequested],
        started: Sequence[_Started],
        look_up: Callable[[], Sequence[_LookedUp]],
        confirmation: Confirmation,
    ) -> None:
        """Publish to the recipients of the records whose leases were acquired, and finish the records that are
        complete.
        """
        upcoming = self._upcoming(batch)
        try:
            for each, first in zip(started, look_up(), strict=True):
                self._add(batch, each, first, upcoming)
            self._publish(batch, upcoming, confirmation)
            for each in started:
                if each.record is not None and each.record.held_by is not None:
                    batch.attempt(each.item, partial(self._hold, batch, each, each.record.held_by))
        except Exception:
            self._release(started)
            raise
        self._release(started)
        for each in started:
            if each.elsewhere is None and (each.record is None or each.record.held_by is None):
                batch.attempt(each.item, partial(self._finish, batch, each))

    def _add(self, batch: Batch[DeliveryRequested], started: _Started, first: _LookedUp, upcoming: Upcoming) -> None:
        """Add the recipients of a record without a result, if its lease was acquired. Raises Stop."""
        if isinstance(started.error, Stop):
            raise started.error
        if started.error is not None:
            started.item.error = started.error
        elif started.elsewhere is None:
            metrics.add(DUPLICATES_REFUSED, len(started.done))
            started.paused_by = None if first.view.paused is None else first.view.paused.send
            if started.lease is None or started.is_complete:
                started.item.error = first.view.fault
            else:
                started.record = self._record(batch, started, started.lease, first.question)
                upcoming.begin(started.record, first.view, first.began, len(first.question.rows))

    def _hold(self, batch: Batch[DeliveryRequested], started: _Started, control: SendControl) -> None:
        """Put the record into the delay store.

        Of a record with recorded results, only the other recipients wait, in a record of their own: a pause may last
        longer than the ledger keeps results, and the receipts of published messages need their outcome.
        """
        item, delivery = started.item, started.item.value
        if not started.done:  # guard: send_controls.published_part
            # The metrics have counted the recipients as queued, and forget the record's id during a long pause.
            held_record = replace(delivery, waits=max(1, delivery.waits))  # guard: send_controls.queued_once
            delayer = Delayer(store=self.retry_scheduler.store, clock=self.clock)
            delayer.hold(batch.codec, item.record.topic, held_record, control, carried_headers(item))
            return
        until_ms = control.held_until_ms(delivery.expires_at, self.clock.now_ms())
        held = paused_results(delivery, started.done, until_ms)
        self.ledger.record(delivery.record_id, held)
        started.done.update((result.position, result) for result in held)
        started.paused_by = control.send
        self._finish(batch, started)

    def _record(
        self, batch: Batch[DeliveryRequested], started: _Started, lease: Lease, question: Question
    ) -> RecordDelivery:
        item, rows = started.item, []
        for row, position in enumerate(item.value.positions):
            if position not in started.done:  # guard: delivery_ledger.first_write_wins
                rows.append(row)
        return RecordDelivery(
            item=item,
            question=question._replace(rows=rows),
            time_budget=TimeBudget(
                lease=RenewingLease(self.ledger, self.clock, item.value.record_id, lease),
                invocation_s=batch.remaining_s,
                pool=self.pool,
            ),
            done=started.done,
        )

    def _upcoming(self, batch: Batch[DeliveryRequested], *, have_waited: bool = False) -> Upcoming:
        return Upcoming(
            look_up=self._directory_look_up.views,
            clock=self.clock,
            invocation_s=batch.remaining_s,
            portion_size=self.portion_size,
            group_size=self.unrecorded,
            have_waited=have_waited,
        )

    def _publish(self, batch: Batch[DeliveryRequested], upcoming: Upcoming, confirmation: Confirmation) -> None:
        """Publish to the recipients that are ready, then to the deferred ones, and delay the remaining ones. Raises
        Stop.
        """

        def report_gone(record: RecordDelivery, device: Device, error: TargetGone) -> None:
            batch.attempt(record.item, partial(self._outcomes.report_gone, batch, record.item, device, error))

        def report_paused(record: RecordDelivery, error: SendingPaused) -> None:
            batch.attempt(record.item, partial(self._pause_emails, record, error))

        publishing = Publishing(
            ledger=self.ledger,
            gateway=self.gateway,
            caller=self.caller,
            spending=self.spending,
            retry_scheduler=self.retry_scheduler,
            clock=self.clock,
            invocation_s=batch.remaining_s,
            report_gone=report_gone,
            report_paused=report_paused,
        )
        refused = publishing.publish(upcoming)
        deferred = [each for each in upcoming.deferred if not each[0].is_stopped]
        if deferred:
            self._await_rows(deferred, confirmation)
            waited = self._upcoming(batch, have_waited=True)
            for record, recipient in deferred:
                waited.add(record, [recipient.row])
            refused += publishing.publish(waited) + waited.deferred + waited.untried
        refused += upcoming.untried
        if refused:
            publishing.delay(refused)

    def _pause_emails(self, record: RecordDelivery, error: SendingPaused) -> None:
        """Pause the e-mails of a record's club, and hold the record. Mandatory e-mails are tried again, as after other
        settings that an operator must correct.
        """
        delivery = record.delivery
        if waits_for_pause(delivery.channel, delivery.type, delivery.club_id, delivery.timestamp):
            record.held_by = self.pauses.pause(delivery.club_id, f"SES has paused the sending: {error}")

    def _await_rows(self, deferred: Sequence[Addressed], confirmation: Confirmation) -> None:
        """Wait for the missing rows of deferred recipients and for the SNS endpoints of their new devices.

        A recipient that is still deferred after that is delayed. The records fail if the devices cannot be looked up.
        """
        records: dict[RecordDelivery, list[int]] = {}
        confirmed: set[RecordDelivery] = set()
        for record, recipient in deferred:
            records.setdefault(record, []).append(recipient.user_id)
            if recipient.deferred is Wait.DIRECTORY and record not in confirmed:
                confirmed.add(record)
                try:
                    confirmation.confirm(min(record.delivery.timestamp, self.clock.now_ms()))
                except Retry as error:
                    record.errors.add(str(error))
        try:
            self._await_endpoints(records)
        except Retry as error:
            for record in records:
                record.item.error = error

    def _await_endpoints(self, records: Mapping[RecordDelivery, Sequence[int]]) -> None:
        """Wait until the new devices of these users have SNS endpoints, or the records have no more time. Raises
        Retry.
        """
        pending = list(
            dict.fromkeys(
                user_id
                for record, user_ids in records.items()
                if CHANNELS[record.channel].to_devices
                for user_id in user_ids
            )
        )
        while pending:
            devices = self.directory.devices(pending)
            pending = [user_id for user_id in pending if endpoint_due_s(devices[user_id], self.clock.now_ms()) > 0]
            if not pending or min(record.time_budget.waiting_s() for record in records) < REGISTRAR_POLL_S:
                return
            self.clock.sleep(REGISTRAR_POLL_S)

    def _finish(self, batch: Batch[DeliveryRequested], started: _Started) -> None:
        results = started.done.values()
        self.retry_scheduler.put(started.item, results, batch.codec, paused_by=started.paused_by)
        self._outcomes.emit(batch, started.item, started.done)


def _turn(item: Item[DeliveryRequested]) -> tuple[float, int]:
    """Return the sort key of a record: the channel with the highest quota comes first, because the groups of a batch
    follow one another, and a push would wait for the rate of e-mails. Then small records come before the many
    recipients of a broadcast.
    """
    delivery = item.value
    return -CHANNELS[delivery.channel].quota_per_s, len(delivery.positions)  # guard: delivery.faster_channel


def _misshapen(column: ContentColumn, count: int) -> bool:
    if not column.index:
        return not column.values
    return len(column.index) != count or not all(0 <= place < len(column.values) for place in column.index)
