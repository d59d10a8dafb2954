"""Check the preferences of each recipient of a batch, and emit build records for those who may be notified."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from functions.preference_checker.broadcast_queues import BroadcastQueues, InMemoryQueueLeaseStore
from functions.preference_checker.small_sends import SmallSends
from masscomm.chain.batch import Batch, Item
from masscomm.chain.chunks import (
    SEND_AT,
    SPLIT_ABOVE,
    after_send_at,
    chunk_of,
    fault_of_send,
    lane_of_send,
    ranges,
    recheck_of,
    split_parts,
)
from masscomm.clock import Clock
from masscomm.directory.port import Directory
from masscomm.domain.ids import envelope_id, others_id, released_id
from masscomm.domain.lanes import BROADCASTS, Lane
from masscomm.domain.outcomes import DEAD_LETTERED, EXPIRED, RANGE_SIZE, SCHEDULED, RecipientOutcome
from masscomm.domain.preferences import Decision, decide, needs_confirmation
from masscomm.domain.quiet_hours import DELAY_REASON as _QUIET_HOURS
from masscomm.domain.quiet_hours import decide_by_hours, group_by_end
from masscomm.domain.records import BuildRequested, RecheckRequested, SendRequested
from masscomm.domain.statuses import Status
from masscomm.domain.users import User, UserSettings
from masscomm.errors import DeadLetter, OtherRecipients, Retry
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec
from masscomm.kafka.event import KafkaRecord
from masscomm.observability import metrics
from masscomm.observability.metric_names import REPEATED_RECIPIENTS
from masscomm.stores.decision_log import DecisionLog, Decisions, record_decisions
from masscomm.stores.delayed_records import DelayedRecord, DelayStore
from masscomm.stores.retry_schedule import RetrySchedule

# Recorded like any decision: a redelivery delays the same recipients.
_DELAYED = Decision(Status.ACCEPTED, None, "directory")
_DIRECTORY = "directory"
# Users may change their quiet hours while they are held, or have quiet hours for most of the day, and the scheduler may
# miss the rest. After so many times HELD, a notification expires.
MAX_HELD = 3

_Found = tuple[dict[int, User], dict[int, UserSettings]]


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """The recipients to check, of a send's chunk or a recheck record.

    lane: of the consumed record; is_new: whether the record came from a send topic; queued: whether the lane is the
    broadcast queue to produce to; fault: why the record is dead-lettered, found after its recipients were decoded.
    """

    request: RecheckRequested
    lane: Lane = Lane.BULK
    is_new: bool = False
    queued: bool = True
    send_at: int | None = None
    fault: DeadLetter | None = None

    @property
    def about(self) -> RecheckRequested:
        """The request whose ids log lines carry."""
        return self.request


@dataclass(frozen=True, kw_only=True)
class CheckPreferences:
    """The use case; one for each function environment."""

    directory: Directory
    clock: Clock
    delay_store: DelayStore
    decision_log: DecisionLog
    retry_schedule: RetrySchedule = field(default_factory=RetrySchedule)
    small_sends: SmallSends = field(default_factory=SmallSends)
    queues: BroadcastQueues = field(default_factory=lambda: BroadcastQueues(InMemoryQueueLeaseStore()))

    def decode(self, record: KafkaRecord, codec: Codec) -> Chunk:
        """A record of send.* or recheck. Errors: DeadLetter, Retry."""
        if topics.base_of(record.topic) == topics.RECHECK:
            request = recheck_of(codec.decode("RecheckRequested", record.value))
            # Many records may be due at the same time, and the tenant's queue may be leased to another tenant by now.
            return Chunk(
                request=request, lane=topics.lane_of(record.topic), queued=request.why not in (SEND_AT, _QUIET_HOURS)
            )
        send = SendRequested.from_avro(codec.decode("SendRequested", record.value))
        request = chunk_of(send, record)
        metrics.add(REPEATED_RECIPIENTS, len(send.to_users) - len(request.positions))
        return Chunk(
            request=request,
            lane=lane_of_send(send, record.topic),
            is_new=True,
            queued=False,
            send_at=send.send_at,
            fault=fault_of_send(send, record, self.clock.now_ms()),
        )

    def handle(self, batch: Batch[Chunk]) -> None:
        pending: list[Item[Chunk]] = []
        for item in batch.active():
            batch.attempt(item, partial(self._admit, batch, item, pending))
        for group in _groups(pending):
            self._check(batch, group)

    def dead_lettered(self, batch: Batch[Chunk], item: Item[Chunk], why: DeadLetter) -> None:
        """Emit failed outcomes for all recipients of a dead-lettered record."""
        if isinstance(why, OtherRecipients):
            request = item.value.request
            request = replace(request, record_id=others_id(request.record_id, request.user_ids))
            item.value = replace(item.value, request=request)
        self._emit_for_all(batch, item, DEAD_LETTERED)

    def _admit(self, batch: Batch[Chunk], item: Item[Chunk], pending: list[Item[Chunk]]) -> None:
        """Finish items that need no look-up; append the others to `pending`."""
        chunk = item.value
        if chunk.fault is not None:
            raise chunk.fault
        now_ms = self.clock.now_ms()
        request = chunk.request
        # A redelivery must treat a chunk with a send_at, and a long chunk, as the first delivery did: so expires_at is
        # compared with the clock last.
        if chunk.send_at is not None and request.expires_at is not None and request.expires_at <= chunk.send_at:
            self._emit_for_all(batch, item, EXPIRED)
        elif chunk.send_at is not None and chunk.send_at > now_ms:
            self._schedule(batch, item, chunk.send_at)
        elif chunk.send_at is not None:
            self._continue_at_send_at(batch, item, chunk.send_at, pending)
        elif len(request.positions) > SPLIT_ABOVE:
            self._forward(batch, item, split_parts(request))
        elif chunk.is_new and chunk.lane in BROADCASTS and len(request.positions) > RANGE_SIZE:
            self._forward(batch, item, [request])
        elif request.expires_at is not None and request.expires_at <= now_ms:
            self._record_and_emit(
                batch, item, {channel: dict.fromkeys(request.positions, EXPIRED) for channel in request.channels}
            )
        elif request.positions:
            pending.append(item)

    def _schedule(self, batch: Batch[Chunk], item: Item[Chunk], send_at: int) -> None:
        """Store the parts for send_at, then emit SCHEDULED for all recipients: in this order, so that a crash loses
        none."""
        for part in after_send_at(item.value.request, send_at):
            self._store_delayed(batch, item, part, send_at)
        self._emit_for_all(batch, item, SCHEDULED)

    def _store_delayed(self, batch: Batch[Chunk], item: Item[Chunk], part: RecheckRequested, due_ms: int) -> None:
        """Put a part of the item's recipients into the delay store, for the item's lane. Errors: Retry, Stop."""
        topic = topics.in_lane(topics.RECHECK, item.value.lane)
        value = batch.codec.encode(topic, "RecheckRequested", part.to_avro())
        headers = tuple(item.trace_headers)
        item_id = envelope_id(part.record_id, value)
        record = DelayedRecord(
            id=item_id, due_ms=due_ms, topic=topic, value=value, delay_reason=part.why, headers=headers
        )
        self.delay_store.put(record, self.clock.now_ms())

    def _continue_at_send_at(
        self, batch: Batch[Chunk], item: Item[Chunk], send_at: int, pending: list[Item[Chunk]]
    ) -> None:
        """Process a chunk whose send_at has passed: as the parts that the scheduler would have released."""
        parts = after_send_at(item.value.request, send_at)
        if len(parts) == 1:
            item.value = replace(item.value, request=parts[0], send_at=None)
            self._admit(batch, item, pending)
        else:
            self._forward(batch, item, parts)

    def _forward(self, batch: Batch[Chunk], item: Item[Chunk], parts: Sequence[RecheckRequested]) -> None:
        """Produce rechecks to the tenant's queue: forwarding is far faster than looking recipients up."""
        topic = topics.in_lane(topics.RECHECK, self._lane_of_recheck(item.value))
        for part in parts:
            batch.produce(item, topic, part.record_id, part)

    def _check(self, batch: Batch[Chunk], group: Sequence[Item[Chunk]]) -> None:
        try:
            confirmed = {id(item) for item in group if self.directory.is_confirmed(self._requested_at(item))}
            users, user_settings = self.directory.users_and_settings(_user_ids(group))
        except Retry as error:
            _fail(group, error)
            return
        unconfirmed = []
        for item in group:
            if id(item) not in confirmed and _missing(item, users, user_settings):
                unconfirmed.append(item)
            else:  # these need no newer directory
                batch.attempt(item, partial(self._decide, batch, item, frozenset(), users, user_settings))
        try:
            behind = self._behind(batch, unconfirmed)
            found = self._look_up_again([item for item in unconfirmed if id(item) not in behind], users, user_settings)
        except Retry as error:
            _fail(unconfirmed, error)
            return
        for item in unconfirmed:
            undecidable = frozenset(_missing(item, users, user_settings)) if id(item) in behind else frozenset[int]()
            batch.attempt(item, partial(self._decide, batch, item, undecidable, *found))

    def _decide(
        self,
        batch: Batch[Chunk],
        item: Item[Chunk],
        undecidable: frozenset[int],
        users: Mapping[int, User],
        user_settings: Mapping[int, UserSettings],
    ) -> None:
        """undecidable: users whose missing row may still arrive."""
        request = item.value.request
        delayed = _DELAYED if self._deadline_ms(request) > self.clock.now_ms() else EXPIRED
        if delayed is _DELAYED and undecidable.issuperset(request.user_ids):
            self._delay(batch, item, request)  # the whole request keeps its id: nothing was decided
            return
        by_channel: dict[str, dict[int, Decision]] = {}
        now_ms = self.clock.now_ms()
        for channel in request.channels:
            decisions = by_channel[channel] = {}
            for position, user_id in zip(request.positions, request.user_ids, strict=True):
                user, preferences = users.get(user_id), user_settings.get(user_id)
                decision = (
                    delayed
                    if user_id in undecidable
                    else decide(user, preferences, club_id=request.club_id, type=request.type, channel=channel)
                )
                if decision.status is None and user and preferences and preferences.quiet_hours is not None:
                    decision = self._decide_by_hours(item.value, user, preferences, now_ms) or decision
                if decision.status is not None:
                    decisions[position] = decision
        self._record_and_emit(batch, item, by_channel)

    def _decide_by_hours(self, chunk: Chunk, user: User, preferences: UserSettings, now_ms: int) -> Decision | None:
        """HELD or EXPIRED for an allowed recipient in quiet hours, else None; never for the critical lane."""
        if chunk.lane is Lane.CRITICAL:
            return None
        request = chunk.request
        found = decide_by_hours(user, preferences, type=request.type, now_ms=now_ms, expires_at=request.expires_at)
        if found is not None and request.held >= MAX_HELD:
            return replace(EXPIRED, layer=found.layer, rule=found.rule, settings_version=found.settings_version)
        return found

    def _record_and_emit(
        self, batch: Batch[Chunk], item: Item[Chunk], by_channel: Mapping[str, Mapping[int, Decision]]
    ) -> None:
        """Emit outcomes and build records by the first recorded decisions of the record."""
        request = item.value.request
        now = Decisions(positions=request.positions, user_ids=request.user_ids, by_channel=by_channel)
        decided = record_decisions(self.decision_log, request.record_id, now)  # guard: decisions.held_stays_held
        delayed = {
            position
            for decisions in decided.by_channel.values()
            for position in decisions
            if decisions[position] == _DELAYED
        }
        if delayed:
            self._delay(batch, item, _delayed_part(request, delayed))
        for part, due_ms in _held_parts(request, decided.by_channel):
            self._store_delayed(batch, item, part, due_ms)
        topic = None
        for channel in request.channels:
            decisions = decided.by_channel.get(channel, {})
            for start, end, indices in ranges(request, RANGE_SIZE):
                out = [
                    _recipient_outcome(request, index, decisions[request.positions[index]])
                    for index in indices
                    if request.positions[index] in decisions and request.positions[index] not in delayed
                ]
                self._emit_outcomes(batch, item, channel, start, end, out)
                allowed = [index for index in indices if request.positions[index] not in decisions]
                if allowed:
                    topic = topic or topics.in_lane(topics.BUILD, self._build_lane(item.value))
                    build = _build_record(request, channel, start, end, allowed)
                    batch.produce(item, topic, build.record_id, build)

    def _build_lane(self, chunk: Chunk) -> Lane:
        """The lane of the allowed recipients' build records: a tenant with very many small sends uses its broadcast
        queue.

        A redelivery may choose another lane: the record has the same id there, and its second receiver detects it.
        """
        request = chunk.request
        if chunk.lane is Lane.SMALL and not self.small_sends.admit(
            request.club_id, len(request.positions), self.clock.monotonic()
        ):
            return self.queues.of(request.club_id, self.clock)
        return self._lane_of_recheck(chunk)

    def _lane_of_recheck(self, chunk: Chunk) -> Lane:
        """The chunk's lane; for a broadcast that is in no queue yet, its tenant's queue."""
        if chunk.queued or chunk.lane not in BROADCASTS:
            return chunk.lane
        return self.queues.of(chunk.request.club_id, self.clock)

    def _delay(self, batch: Batch[Chunk], item: Item[Chunk], part: RecheckRequested) -> None:
        """Delay the recipients until the directory is current; the others are processed now. Errors: Retry, Stop.

        A second release, or a release concurrent with a redelivery, derives the same records: by its id, or by the
        decision log.
        """
        n, now_ms = part.waits + 1, self.clock.now_ms()
        due_ms = self.retry_schedule.due_ms(
            now_ms=now_ms, attempt=n, item_id=part.record_id, deadline_ms=self._deadline_ms(part)
        )
        self._store_delayed(batch, item, replace(part, why=_DIRECTORY, waits=n), due_ms)

    def _deadline_ms(self, request: RecheckRequested) -> int:
        return self.retry_schedule.deadline_ms(since_ms=request.since_ms, expires_at=request.expires_at)

    def _behind(self, batch: Batch[Chunk], unconfirmed: Sequence[Item[Chunk]]) -> set[int]:
        """Return the ids (by id()) of items whose request time the directory has not reached. Errors: Stop."""
        behind = set()
        for item in sorted(unconfirmed, key=self._requested_at):
            try:
                batch.confirm(self.directory, self._requested_at(item))  # guard: directory.unknown_user
            except Retry:
                behind.add(id(item))
        return behind

    def _look_up_again(
        self, unconfirmed: Sequence[Item[Chunk]], users: dict[int, User], user_settings: dict[int, UserSettings]
    ) -> _Found:
        """Look up missing rows again after the directory has passed the request time. Errors: Retry."""
        missing = dict.fromkeys(user_id for item in unconfirmed for user_id in _missing(item, users, user_settings))
        if not missing:
            return users, user_settings
        found_users, found_user_settings = self.directory.users_and_settings(list(missing))
        return users | found_users, user_settings | found_user_settings

    def _requested_at(self, item: Item[Chunk]) -> int:
        """Return the request time, at most now: a producer's clock may be ahead."""
        return min(item.value.request.timestamp, self.clock.now_ms())

    def _emit_for_all(self, batch: Batch[Chunk], item: Item[Chunk], decision: Decision) -> None:
        request = item.value.request
        for channel in request.channels:
            for start, end, indices in ranges(request, RANGE_SIZE):
                self._emit_outcomes(
                    batch,
                    item,
                    channel,
                    start,
                    end,
                    [_recipient_outcome(request, index, decision) for index in indices],
                )

    def _emit_outcomes(
        self,
        batch: Batch[Chunk],
        item: Item[Chunk],
        channel: str,
        start: int,
        end: int,
        outcomes: Sequence[RecipientOutcome],
    ) -> None:
        batch.emit_outcomes(
            item,
            item.value.request,
            outcomes,
            step="preference",
            channel=channel,
            start=start,
            end=end,
            now_ms=self.clock.now_ms(),
            directory=self.directory,
        )


def _recipient_outcome(request: RecheckRequested, index: int, decision: Decision) -> RecipientOutcome:
    return RecipientOutcome(request.positions[index], request.user_ids[index], decision)


def _delayed_part(request: RecheckRequested, positions: Collection[int]) -> RecheckRequested:
    # guard: ids.delayed_part
    record_id = released_id(request.record_id, _DIRECTORY, request.range_start, request.range_end)
    return replace(_part(request, positions), record_id=record_id, parent_id=request.record_id)


def _part(request: RecheckRequested, positions: Collection[int]) -> RecheckRequested:
    """Return the request with only these positions."""
    return request.part(index for index, position in enumerate(request.positions) if position in positions)


def _held_parts(
    request: RecheckRequested, by_channel: Mapping[str, Mapping[int, Decision]]
) -> Iterator[tuple[RecheckRequested, int]]:
    """Yield (part, due_ms), one for each end of quiet hours and set of channels.

    A single recipient keeps the request's id: the decision log has no entry for it, so a redelivery after quiet hours
    emits build records at once, with the ids that the held record derives.
    """
    ends: dict[int, tuple[int, list[str]]] = {}
    for channel in request.channels:
        for position, decision in by_channel.get(channel, {}).items():
            if decision.until_ms is not None:
                ends.setdefault(position, (decision.until_ms, []))[1].append(channel)
    groups = group_by_end({position: (until_ms, tuple(channels)) for position, (until_ms, channels) in ends.items()})
    for (due_ms, channels), positions in groups.items():
        part = replace(
            _part(request, positions),
            why=_QUIET_HOURS,
            held=request.held + 1,
            waited_until=due_ms,
            channels=list(channels),
        )
        if len(request.positions) > 1:
            step = f"{_QUIET_HOURS}.{'+'.join(channels)}.{due_ms}"
            record_id = released_id(request.record_id, step, request.range_start, request.range_end)
            part = replace(part, record_id=record_id, parent_id=request.record_id)
        yield part, due_ms


def _build_record(
    request: RecheckRequested, channel: str, start: int, end: int, indices: Sequence[int]
) -> BuildRequested:
    return request.derive(
        BuildRequested,
        "build",
        channel,
        (start, end),
        [request.positions[index] for index in indices],
        [request.user_ids[index] for index in indices],
    )


def _groups(items: Iterable[Item[Chunk]]) -> Iterator[list[Item[Chunk]]]:
    """Yield items whose recipients are looked up together, at most SPLIT_ABOVE of them."""
    group: list[Item[Chunk]] = []
    size = 0
    for item in items:
        count = len(item.value.request.user_ids)
        if group and size + count > SPLIT_ABOVE:
            yield group
            group, size = [], 0
        group.append(item)
        size += count
    if group:
        yield group


def _missing(item: Item[Chunk], users: Mapping[int, User], user_settings: Mapping[int, UserSettings]) -> list[int]:
    """Return the item's users without a directory row that could change the decision."""
    request = item.value.request
    return [
        user_id
        for user_id in request.user_ids
        if needs_confirmation(
            users.get(user_id),
            user_settings.get(user_id),
            club_id=request.club_id,
            type=request.type,
            channels=request.channels,
        )
    ]


def _fail(items: Iterable[Item[Chunk]], error: Retry) -> None:
    for item in items:
        item.error = item.error or error


def _user_ids(items: Iterable[Item[Chunk]]) -> list[int]:
    return list(dict.fromkeys(user_id for item in items for user_id in item.value.request.user_ids))
