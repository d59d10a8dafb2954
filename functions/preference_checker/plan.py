"""Decide about the recipients of a request, and plan the records that follow from the decisions.

    continue_at_send_at, plan_without_look_up → decide_recipients → (the decisions are recorded) → plan

Nothing here reads a clock, a store or a topic.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

from masscomm.chain.chunks import SPLIT_ABOVE, after_send_at, ranges, split_parts
from masscomm.domain.ids import released_id
from masscomm.domain.lanes import BROADCASTS, Lane
from masscomm.domain.outcomes import EXPIRED, RANGE_SIZE, SCHEDULED, RecipientOutcome
from masscomm.domain.preferences import Decision, decide, needs_confirmation
from masscomm.domain.quiet_hours import DELAY_REASON as _QUIET_HOURS
from masscomm.domain.quiet_hours import decide_by_hours, group_by_end
from masscomm.domain.records import BuildRequested, RecheckRequested
from masscomm.domain.statuses import Status
from masscomm.domain.users import User, UserSettings
from masscomm.errors import DeadLetter
from masscomm.stores.retry_schedule import RetrySchedule

_DIRECTORY = "directory"
# Recorded like any decision: a redelivery delays the same recipients.
UNCONFIRMED = Decision(Status.ACCEPTED, None, "directory")
# A user may change quiet hours while HELD, or have quiet hours of nearly 24 h that the scheduler's sweep meets again:
# after so many delays the notification expires.
MAX_HELD = 3

# Channel → position → the decision about each suppressed or deferred recipient.
type ByChannel = Mapping[str, Mapping[int, Decision]]


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """The request in a consumed record: recipients of a send's chunk, or of a recheck record."""

    request: RecheckRequested
    # Of the consumed record.
    lane: Lane = Lane.BULK
    # Whether the record came from a send topic.
    is_new: bool = False
    # Whether the lane is the broadcast queue to produce to.
    queued: bool = True
    send_at: int | None = None
    # Why the record is dead-lettered.
    fault: DeadLetter | None = None

    @property
    def about(self) -> RecheckRequested:
        """The request whose ids log lines carry."""
        return self.request


class Recipient(NamedTuple):
    """A recipient with the rows that the directory has."""

    position: int
    user_id: int
    user: User | None
    settings: UserSettings | None
    # Whether a row is missing that may still arrive.
    unconfirmed: bool


@dataclass(frozen=True, kw_only=True)
class DirectoryView:
    """The directory's rows of a request's users; unconfirmed: users with a missing row that may still arrive."""

    users: Mapping[int, User]
    settings: Mapping[int, UserSettings]
    unconfirmed: Collection[int] = frozenset()

    def recipients(self, request: RecheckRequested) -> list[Recipient]:
        """Return the request's recipients with their rows."""
        return [
            Recipient(
                position, user_id, self.users.get(user_id), self.settings.get(user_id), user_id in self.unconfirmed
            )
            for position, user_id in zip(request.positions, request.user_ids, strict=True)
        ]

    def missing(self, request: RecheckRequested) -> list[int]:
        """Return the request's users without a row that could change the decision."""
        return [
            user_id
            for user_id in request.user_ids
            if needs_confirmation(
                self.users.get(user_id),
                self.settings.get(user_id),
                club_id=request.club_id,
                type=request.type,
                channels=request.channels,
            )
        ]


class Verdict(Enum):
    """The effect of a decision on one notification."""

    # It continues in a build record.
    ALLOWED = "allowed"
    # It ends with an outcome.
    FINAL = "final"
    # It is decided again later, in a delayed part.
    DEFERRED = "deferred"


def verdict_of(decision: Decision) -> Verdict:
    """Return the effect of a decision."""
    if decision.status is None:
        return Verdict.ALLOWED
    if decision == UNCONFIRMED or decision.until_ms is not None:
        return Verdict.DEFERRED
    return Verdict.FINAL


class DelayedPart(NamedTuple):
    """Recipients to check again at due_ms."""

    request: RecheckRequested
    due_ms: int


class RangeOutcomes(NamedTuple):
    """The outcomes of recipients within a span of positions on one channel; they may be none."""

    channel: str
    span: tuple[int, int]
    outcomes: Sequence[RecipientOutcome]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The records that follow from a request.

    Delayed parts are stored before anything is produced: a crash in between loses no recipient.
    """

    delayed: Sequence[DelayedPart] = ()
    outcomes: Sequence[RangeOutcomes] = ()
    builds: Sequence[BuildRequested] = ()
    # Produced to recheck at once.
    forwarded: Sequence[RecheckRequested] = ()


def continue_at_send_at(chunk: Chunk, now_ms: int) -> Chunk:
    """Return the chunk as the one part that continues at its send_at, where this has passed; else unchanged."""
    if not _is_due(chunk, now_ms) or chunk.send_at is None:
        return chunk
    parts = after_send_at(chunk.request, chunk.send_at)
    return replace(chunk, request=parts[0], send_at=None) if len(parts) == 1 else chunk


def plan_without_look_up(chunk: Chunk, now_ms: int) -> Plan | None:
    """Return the plan of a chunk whose recipients are not decided about now; None for any other.

    A redelivery must treat a chunk with a send_at, and a long chunk, as the first delivery did: expires_at is compared
    with the current time only for requests whose recipients are decided about now.
    """
    request, send_at = chunk.request, chunk.send_at
    if send_at is not None and request.expires_at is not None and request.expires_at <= send_at:
        return Plan(outcomes=outcomes_for_all(request, EXPIRED))
    if send_at is not None and not _is_due(chunk, now_ms):
        delayed = [DelayedPart(part, send_at) for part in after_send_at(request, send_at)]
        return Plan(delayed=delayed, outcomes=outcomes_for_all(request, SCHEDULED))
    if send_at is not None:
        return Plan(forwarded=after_send_at(request, send_at))
    if len(request.positions) > SPLIT_ABOVE:
        return Plan(forwarded=split_parts(request))
    if chunk.is_new and chunk.lane in BROADCASTS and len(request.positions) > RANGE_SIZE:
        # In the tenant's turn: forwarding is far faster than looking recipients up.
        return Plan(forwarded=[request])
    return None if request.positions else Plan()


def _is_due(chunk: Chunk, now_ms: int) -> bool:
    """Return whether the chunk's send_at has passed, before it expires."""
    expires_at = chunk.request.expires_at
    return chunk.send_at is not None and chunk.send_at <= now_ms and (expires_at is None or expires_at > chunk.send_at)


def outcomes_for_all(request: RecheckRequested, decision: Decision) -> list[RangeOutcomes]:
    """Return the outcomes of a request with one decision about all its recipients."""
    return [
        RangeOutcomes(
            channel,
            (start, end),
            [RecipientOutcome(request.positions[index], request.user_ids[index], decision) for index in indices],
        )
        for channel in request.channels
        for start, end, indices in ranges(request, RANGE_SIZE)
    ]


def expire(request: RecheckRequested, now_ms: int) -> ByChannel | None:
    """Return the decisions about the recipients of an expired request; None where it has not expired."""
    if request.expires_at is None or request.expires_at > now_ms:
        return None
    return {channel: dict.fromkeys(request.positions, EXPIRED) for channel in request.channels}


def decide_recipients(chunk: Chunk, view: DirectoryView, now_ms: int, deadline_ms: int) -> ByChannel | None:
    """Return the decisions about suppressed and deferred recipients; None if none can be decided yet.

    Args:
        chunk: The request, and its lane.
        view: The directory's rows of its users.
        now_ms: The time that quiet hours are checked at.
        deadline_ms: When the request ends: users whose rows are missing until then expire.
    """
    request = chunk.request
    unconfirmed = UNCONFIRMED if deadline_ms > now_ms else EXPIRED
    recipients = view.recipients(request)
    if unconfirmed is UNCONFIRMED and all(recipient.unconfirmed for recipient in recipients):
        return None
    decisions: dict[str, dict[int, Decision]] = {}
    for channel in request.channels:
        by_position = decisions[channel] = {}
        for recipient in recipients:
            decision = unconfirmed if recipient.unconfirmed else _decide(chunk, recipient, channel, now_ms)
            if verdict_of(decision) is not Verdict.ALLOWED:
                by_position[recipient.position] = decision
    return decisions


def _decide(chunk: Chunk, recipient: Recipient, channel: str, now_ms: int) -> Decision:
    request, (_, _, user, settings, _) = chunk.request, recipient
    decision = decide(user, settings, club_id=request.club_id, type=request.type, channel=channel)
    if decision.status is not None or user is None or settings is None or settings.quiet_hours is None:
        return decision
    if chunk.lane is Lane.CRITICAL:
        return decision
    asleep = decide_by_hours(user, settings, type=request.type, now_ms=now_ms, expires_at=request.expires_at)
    if asleep is not None and request.held >= MAX_HELD:
        return replace(EXPIRED, layer=asleep.layer, rule=asleep.rule, settings_version=asleep.settings_version)
    return asleep or decision


def plan(request: RecheckRequested, decisions: ByChannel, *, now_ms: int, retries: RetrySchedule) -> Plan:
    """Return the records that follow from the recorded decisions about a request's recipients."""
    unconfirmed = {
        position
        for by_position in decisions.values()
        for position in by_position
        if by_position[position] == UNCONFIRMED
    }
    delayed = list(_held_parts(request, decisions))
    if unconfirmed:
        delayed.insert(0, delay_for_directory(_unconfirmed_part(request, unconfirmed), now_ms=now_ms, retries=retries))
    outcomes, builds = [], []
    for channel in request.channels:
        by_position = decisions.get(channel, {})
        for start, end, indices in ranges(request, RANGE_SIZE):
            allowed, emitted = [], []
            for index in indices:
                position = request.positions[index]
                decision = by_position.get(position)
                if decision is None:  # decisions of allowed recipients are not recorded
                    allowed.append(index)
                elif verdict_of(decision) is Verdict.FINAL or decision.status is Status.HELD:
                    emitted.append(RecipientOutcome(position, request.user_ids[index], decision))
            outcomes.append(RangeOutcomes(channel, (start, end), emitted))
            if allowed:
                builds.append(_build_record(request, channel, (start, end), allowed))
    return Plan(delayed=delayed, outcomes=outcomes, builds=builds)


def delay_for_directory(request: RecheckRequested, *, now_ms: int, retries: RetrySchedule) -> DelayedPart:
    """Return the request as it is checked again once the directory may have caught up.

    A second release, or a concurrent redelivery, derives the same records: by id and by the decision log.
    """
    attempt = request.waits + 1
    due_ms = retries.due_ms(
        now_ms=now_ms, attempt=attempt, item_id=request.record_id, deadline_ms=deadline_of(request, retries)
    )
    return DelayedPart(replace(request, why=_DIRECTORY, waits=attempt), due_ms)


def deadline_of(request: RecheckRequested, retries: RetrySchedule) -> int:
    """Return when the request is checked for the last time (ms)."""
    return retries.deadline_ms(since_ms=request.since_ms, expires_at=request.expires_at)


def _unconfirmed_part(request: RecheckRequested, positions: Collection[int]) -> RecheckRequested:
    start, end = request.range_start, request.range_end
    record_id = released_id(request.record_id, _DIRECTORY, start, end)  # guard: ids.delayed_part
    return request.part(_indices(request, positions), record_id=record_id, parent_id=request.record_id)


def _held_parts(request: RecheckRequested, decisions: ByChannel) -> Iterator[DelayedPart]:
    """Yield a part for each end of quiet hours and set of channels.

    A single recipient keeps the request's id: the decision log has no entry for it, so a redelivery after quiet hours
    emits build records at once, with the ids that the delayed part derives.
    """
    ends: dict[int, tuple[int, list[str]]] = {}
    for channel in request.channels:
        for position, decision in decisions.get(channel, {}).items():
            if decision.until_ms is not None:
                ends.setdefault(position, (decision.until_ms, []))[1].append(channel)
    groups = group_by_end({position: (until_ms, tuple(channels)) for position, (until_ms, channels) in ends.items()})
    for (due_ms, channels), positions in groups.items():
        part = request.part(
            _indices(request, positions),
            why=_QUIET_HOURS,
            held=request.held + 1,
            waited_until=due_ms,
            channels=list(channels),
        )
        if len(request.positions) > 1:
            why = f"{_QUIET_HOURS}.{'+'.join(channels)}.{due_ms}"
            record_id = released_id(request.record_id, why, request.range_start, request.range_end)
            part = replace(part, record_id=record_id, parent_id=request.record_id)
        yield DelayedPart(part, due_ms)


def _indices(request: RecheckRequested, positions: Collection[int]) -> Iterable[int]:
    return (index for index, position in enumerate(request.positions) if position in positions)


def _build_record(
    request: RecheckRequested, channel: str, span: tuple[int, int], indices: Sequence[int]
) -> BuildRequested:
    return request.derive(
        BuildRequested,
        "build",
        channel,
        span,
        [request.positions[index] for index in indices],
        [request.user_ids[index] for index in indices],
    )
