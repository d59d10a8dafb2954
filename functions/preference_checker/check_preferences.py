"""Check what each recipient of a batch of sends wants, and pass on those who may be notified."""

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
from masscomm.domain.preferences import Decision, decide, is_open
from masscomm.domain.quiet_hours import DELAY_REASON as _QUIET_HOURS
from masscomm.domain.quiet_hours import by_end, decide_by_hours
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
# Somebody may change their quiet hours while they are held, or have nearly the whole day of them, and the scheduler
# come too late for the rest: after so many times it ends.
MAX_HELD = 3

_Found = tuple[dict[int, User], dict[int, UserSettings]]


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """Recipients to check, whatever record they came in; `asked` is never counted or produced as such.

    lane: they wait in; asked_for: whether it is as it was asked for, behind whatever others asked for before; queued:
    whether the lane, a queue of broadcasts, is the one to go on in; bad: why the record cannot be processed, found
    after its recipients were.
    """

    asked: RecheckRequested
    lane: Lane = Lane.BULK
    asked_for: bool = False
    queued: bool = True
    send_at: int | None = None
    bad: DeadLetter | None = None

    @property
    def about(self) -> RecheckRequested:
        """Whose ids log lines say."""
        return self.asked


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
            asked = recheck_of(codec.decode("RecheckRequested", record.value))
            # Who waited for a moment may come with many others, and their tenant's queue be another's by now.
            return Chunk(
                asked=asked, lane=topics.lane_of(record.topic), queued=asked.why not in (SEND_AT, _QUIET_HOURS)
            )
        send = SendRequested.from_avro(codec.decode("SendRequested", record.value))
        asked = chunk_of(send, record)
        metrics.add(REPEATED_RECIPIENTS, len(send.to_users) - len(asked.positions))
        return Chunk(
            asked=asked,
            lane=lane_of_send(send, record.topic),
            asked_for=True,
            queued=False,
            send_at=send.send_at,
            bad=fault_of_send(send, record, self.clock.now_ms()),
        )

    def handle(self, batch: Batch[Chunk]) -> None:
        pending: list[Item[Chunk]] = []
        for item in batch.active():
            batch.attempt(item, partial(self._admit, batch, item, pending))
        for group in _groups(pending):
            self._check(batch, group)

    def dead_lettered(self, batch: Batch[Chunk], item: Item[Chunk], why: DeadLetter) -> None:
        """Its recipients failed: a dead letter is not a way to vanish."""
        if isinstance(why, OtherRecipients):
            asked = item.value.asked
            asked = replace(asked, record_id=others_id(asked.record_id, asked.user_ids))
            item.value = replace(item.value, asked=asked)
        self._emit_for_all(batch, item, DEAD_LETTERED)

    def _admit(self, batch: Batch[Chunk], item: Item[Chunk], pending: list[Item[Chunk]]) -> None:
        """Finish items that need no look-up; append the others to `pending`."""
        chunk = item.value
        if chunk.bad is not None:
            raise chunk.bad
        now_ms = self.clock.now_ms()
        asked = chunk.asked
        # What becomes of a chunk with a send_at and of a long one is the same whenever it is asked: the time is looked
        # at once there is nothing but recipients to decide about.
        if chunk.send_at is not None and asked.expires_at is not None and asked.expires_at <= chunk.send_at:
            self._emit_for_all(batch, item, EXPIRED)
        elif chunk.send_at is not None and chunk.send_at > now_ms:
            self._hold(batch, item, chunk.send_at)
        elif chunk.send_at is not None:
            self._go_on(batch, item, chunk.send_at, pending)
        elif len(asked.positions) > SPLIT_ABOVE:
            self._hand_on(batch, item, split_parts(asked))
        elif chunk.asked_for and chunk.lane in BROADCASTS and len(asked.positions) > RANGE_SIZE:
            self._hand_on(batch, item, [asked])
        elif asked.expires_at is not None and asked.expires_at <= now_ms:
            self._pass_on(batch, item, {channel: dict.fromkeys(asked.positions, EXPIRED) for channel in asked.channels})
        elif asked.positions:
            pending.append(item)

    def _hold(self, batch: Batch[Chunk], item: Item[Chunk], send_at: int) -> None:
        """Store the parts for send_at, then emit SCHEDULED for all recipients: in this order, so that a crash loses
        none."""
        for part in after_send_at(item.value.asked, send_at):
            self._put(batch, item, part, send_at)
        self._emit_for_all(batch, item, SCHEDULED)

    def _put(self, batch: Batch[Chunk], item: Item[Chunk], part: RecheckRequested, due_ms: int) -> None:
        """Put a part of the item's recipients into the delay store, for the item's lane. Errors: Retry, Stop."""
        topic = topics.in_lane(topics.RECHECK, item.value.lane)
        value = batch.codec.encode(topic, "RecheckRequested", part.to_avro())
        headers = tuple(item.trace_headers)
        item_id = envelope_id(part.record_id, value)
        record = DelayedRecord(
            id=item_id, due_ms=due_ms, topic=topic, value=value, delay_reason=part.why, headers=headers
        )
        self.delay_store.put(record, self.clock.now_ms())

    def _go_on(self, batch: Batch[Chunk], item: Item[Chunk], send_at: int, pending: list[Item[Chunk]]) -> None:
        """Its send_at has come: what goes on is what the scheduler would have released."""
        parts = after_send_at(item.value.asked, send_at)
        if len(parts) == 1:
            item.value = replace(item.value, asked=parts[0], send_at=None)
            self._admit(batch, item, pending)
        else:
            self._hand_on(batch, item, parts)

    def _hand_on(self, batch: Batch[Chunk], item: Item[Chunk], parts: Sequence[RecheckRequested]) -> None:
        """To be checked in the tenant's turn: to look everybody up takes far longer than to hand them on."""
        topic = topics.in_lane(topics.RECHECK, self._queue(item.value))
        for part in parts:
            batch.produce(item, topic, part.record_id, part)

    def _check(self, batch: Batch[Chunk], group: Sequence[Item[Chunk]]) -> None:
        try:
            believed = {id(item) for item in group if self.directory.is_confirmed(self._asked_at(item))}
            users, user_settings = self.directory.users_and_settings(_user_ids(group))
        except Retry as error:
            _fail(group, error)
            return
        doubtful = []
        for item in group:
            if id(item) not in believed and _absent(item, users, user_settings):
                doubtful.append(item)
            else:  # before the directory is waited for: it can change nothing of these
                batch.attempt(item, partial(self._decide, batch, item, frozenset(), users, user_settings))
        try:
            behind = self._behind(batch, doubtful)
            found = self._looked_up_again([item for item in doubtful if id(item) not in behind], users, user_settings)
        except Retry as error:
            _fail(doubtful, error)
            return
        for item in doubtful:
            unsure = frozenset(_absent(item, users, user_settings)) if id(item) in behind else frozenset[int]()
            batch.attempt(item, partial(self._decide, batch, item, unsure, *found))

    def _decide(
        self,
        batch: Batch[Chunk],
        item: Item[Chunk],
        unsure: frozenset[int],
        users: Mapping[int, User],
        user_settings: Mapping[int, UserSettings],
    ) -> None:
        """unsure: users of whom a row is missing that may still come."""
        asked = item.value.asked
        delayed = _DELAYED if self._deadline_ms(asked) > self.clock.now_ms() else EXPIRED
        if delayed is _DELAYED and unsure.issuperset(asked.user_ids):
            self._delay(batch, item, asked)  # whole, under its own id: nothing was decided about it
            return
        by_channel: dict[str, dict[int, Decision]] = {}
        now_ms = self.clock.now_ms()
        for channel in asked.channels:
            decisions = by_channel[channel] = {}
            for position, user_id in zip(asked.positions, asked.user_ids, strict=True):
                user, wishes = users.get(user_id), user_settings.get(user_id)
                decision = (
                    delayed
                    if user_id in unsure
                    else decide(user, wishes, club_id=asked.club_id, type=asked.type, channel=channel)
                )
                if decision.status is None and user and wishes and wishes.quiet_hours is not None:
                    decision = self._by_hours(item.value, user, wishes, now_ms) or decision
                if decision.status is not None:
                    decisions[position] = decision
        self._pass_on(batch, item, by_channel)

    def _by_hours(self, chunk: Chunk, user: User, wishes: UserSettings, now_ms: int) -> Decision | None:
        """HELD or EXPIRED for an allowed recipient in quiet hours, else None; never for the critical lane."""
        if chunk.lane is Lane.CRITICAL:
            return None
        asked = chunk.asked
        found = decide_by_hours(user, wishes, type=asked.type, now_ms=now_ms, expires_at=asked.expires_at)
        if found is not None and asked.held >= MAX_HELD:
            return replace(EXPIRED, layer=found.layer, rule=found.rule, settings_version=found.settings_version)
        return found

    def _pass_on(
        self, batch: Batch[Chunk], item: Item[Chunk], by_channel: Mapping[str, Mapping[int, Decision]]
    ) -> None:
        """Emit outcomes and build records by the first recorded decisions of the record."""
        asked = item.value.asked
        now = Decisions(positions=asked.positions, user_ids=asked.user_ids, by_channel=by_channel)
        decided = record_decisions(self.decision_log, asked.record_id, now)  # guard: decisions.held_stays_held
        delayed = {
            position
            for decisions in decided.by_channel.values()
            for position in decisions
            if decisions[position] == _DELAYED
        }
        if delayed:
            self._delay(batch, item, _delayed_part(asked, delayed))
        for part, due_ms in _held_parts(asked, decided.by_channel):
            self._put(batch, item, part, due_ms)
        topic = None
        for channel in asked.channels:
            decisions = decided.by_channel.get(channel, {})
            for start, end, rows in ranges(asked, RANGE_SIZE):
                out = [
                    _recipient_outcome(asked, row, decisions[asked.positions[row]])
                    for row in rows
                    if asked.positions[row] in decisions and asked.positions[row] not in delayed
                ]
                self._emit_outcomes(batch, item, channel, start, end, out)
                allowed = [row for row in rows if asked.positions[row] not in decisions]
                if allowed:
                    topic = topic or topics.in_lane(topics.BUILD, self._lane_on(item.value))
                    build = _build_record(asked, channel, start, end, allowed)
                    batch.produce(item, topic, build.record_id, build)

    def _lane_on(self, chunk: Chunk) -> Lane:
        """The lane of the allowed recipients' build records: a tenant with very many small sends uses its broadcast
        queue.

        A redelivery may choose another lane: the record has the same id there, and its second receiver detects it.
        """
        asked = chunk.asked
        if chunk.lane is Lane.SMALL and not self.small_sends.admit(
            asked.club_id, len(asked.positions), self.clock.monotonic()
        ):
            return self.queues.of(asked.club_id, self.clock)
        return self._queue(chunk)

    def _queue(self, chunk: Chunk) -> Lane:
        """The chunk's lane; for a broadcast that is in no queue yet, its tenant's queue."""
        if chunk.queued or chunk.lane not in BROADCASTS:
            return chunk.lane
        return self.queues.of(chunk.asked.club_id, self.clock)

    def _delay(self, batch: Batch[Chunk], item: Item[Chunk], part: RecheckRequested) -> None:
        """Delay the recipients until the directory is current; the others are processed now. Errors: Retry, Stop.

        A second release, or a release concurrent with a redelivery, derives the same records: by its id, or by the
        decision log.
        """
        n, now_ms = part.waits + 1, self.clock.now_ms()
        due_ms = self.retry_schedule.due_ms(
            now_ms=now_ms, attempt=n, item_id=part.record_id, deadline_ms=self._deadline_ms(part)
        )
        self._put(batch, item, replace(part, why=_DIRECTORY, waits=n), due_ms)

    def _deadline_ms(self, asked: RecheckRequested) -> int:
        return self.retry_schedule.deadline_ms(since_ms=asked.since_ms, expires_at=asked.expires_at)

    def _behind(self, batch: Batch[Chunk], doubtful: Sequence[Item[Chunk]]) -> set[int]:
        """Those of the items (by identity) for which the directory has not come far enough. Errors: Stop."""
        behind = set()
        for item in sorted(doubtful, key=self._asked_at):
            try:
                batch.confirm(self.directory, self._asked_at(item))  # guard: directory.unknown_user
            except Retry:
                behind.add(id(item))
        return behind

    def _looked_up_again(
        self, doubtful: Sequence[Item[Chunk]], users: dict[int, User], user_settings: dict[int, UserSettings]
    ) -> _Found:
        """Whoever had no row is looked up once more, now that the directory is past the moment of asking.

        Errors: Retry where it cannot be looked up.
        """
        absent = dict.fromkeys(user_id for item in doubtful for user_id in _absent(item, users, user_settings))
        if not absent:
            return users, user_settings
        found_users, found_user_settings = self.directory.users_and_settings(list(absent))
        return users | found_users, user_settings | found_user_settings

    def _asked_at(self, item: Item[Chunk]) -> int:
        """When it was asked; a producer's clock that is ahead must not make us wait for the future."""
        return min(item.value.asked.timestamp, self.clock.now_ms())

    def _emit_for_all(self, batch: Batch[Chunk], item: Item[Chunk], decision: Decision) -> None:
        asked = item.value.asked
        for channel in asked.channels:
            for start, end, rows in ranges(asked, RANGE_SIZE):
                self._emit_outcomes(
                    batch, item, channel, start, end, [_recipient_outcome(asked, row, decision) for row in rows]
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
            item.value.asked,
            outcomes,
            step="preference",
            channel=channel,
            start=start,
            end=end,
            now_ms=self.clock.now_ms(),
            directory=self.directory,
        )


def _recipient_outcome(asked: RecheckRequested, row: int, decision: Decision) -> RecipientOutcome:
    return RecipientOutcome(asked.positions[row], asked.user_ids[row], decision)


def _delayed_part(asked: RecheckRequested, positions: Collection[int]) -> RecheckRequested:
    record_id = released_id(asked.record_id, _DIRECTORY, asked.range_start, asked.range_end)  # guard: ids.delayed_part
    return replace(_part(asked, positions), record_id=record_id, parent_id=asked.record_id)


def _part(asked: RecheckRequested, positions: Collection[int]) -> RecheckRequested:
    """Those of the record's recipients alone."""
    return asked.part(row for row, position in enumerate(asked.positions) if position in positions)


def _held_parts(
    asked: RecheckRequested, by_channel: Mapping[str, Mapping[int, Decision]]
) -> Iterator[tuple[RecheckRequested, int]]:
    """(part, when it goes on): for each end of quiet hours, and for the channels it is about.

    Whoever is alone in their record keeps its id: the decision log has no entry for it, so that a redelivery when their
    quiet hours are over passes them on at once, as the record that was held does.
    """
    ends: dict[int, tuple[int, list[str]]] = {}
    for channel in asked.channels:
        for position, decision in by_channel.get(channel, {}).items():
            if decision.until_ms is not None:
                ends.setdefault(position, (decision.until_ms, []))[1].append(channel)
    groups = by_end({position: (until_ms, tuple(channels)) for position, (until_ms, channels) in ends.items()})
    for (due_ms, channels), positions in groups.items():
        part = replace(
            _part(asked, positions),
            why=_QUIET_HOURS,
            held=asked.held + 1,
            waited_until=due_ms,
            channels=list(channels),
        )
        if len(asked.positions) > 1:
            step = f"{_QUIET_HOURS}.{'+'.join(channels)}.{due_ms}"
            record_id = released_id(asked.record_id, step, asked.range_start, asked.range_end)
            part = replace(part, record_id=record_id, parent_id=asked.record_id)
        yield part, due_ms


def _build_record(asked: RecheckRequested, channel: str, start: int, end: int, rows: Sequence[int]) -> BuildRequested:
    return asked.derive(
        BuildRequested,
        "build",
        channel,
        (start, end),
        [asked.positions[row] for row in rows],
        [asked.user_ids[row] for row in rows],
    )


def _groups(items: Iterable[Item[Chunk]]) -> Iterator[list[Item[Chunk]]]:
    """Items whose look-up is done together: up to SPLIT_ABOVE recipients at a time."""
    group: list[Item[Chunk]] = []
    size = 0
    for item in items:
        count = len(item.value.asked.user_ids)
        if group and size + count > SPLIT_ABOVE:
            yield group
            group, size = [], 0
        group.append(item)
        size += count
    if group:
        yield group


def _absent(item: Item[Chunk], users: Mapping[int, User], user_settings: Mapping[int, UserSettings]) -> list[int]:
    """The item's users of whom the directory lacks a row that could change the decision."""
    asked = item.value.asked
    return [
        user_id
        for user_id in asked.user_ids
        if is_open(
            users.get(user_id),
            user_settings.get(user_id),
            club_id=asked.club_id,
            type=asked.type,
            channels=asked.channels,
        )
    ]


def _fail(items: Iterable[Item[Chunk]], error: Retry) -> None:
    for item in items:
        item.error = item.error or error


def _user_ids(items: Iterable[Item[Chunk]]) -> list[int]:
    return list(dict.fromkeys(user_id for item in items for user_id in item.value.asked.user_ids))
