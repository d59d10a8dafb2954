"""Decides about the recipients of a request, and plans the records that follow from the decisions.

    continue_at_send_at, plan_without_look_up → decide_recipients → (the decisions are recorded) → plan

All functions are pure: none reads a clock, a store or a topic.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from itertools import takewhile
from typing import NamedTuple

from masscomm.decisions.chunk import Chunk
from masscomm.decisions.local_times import decide_by_local_time
from masscomm.decisions.parts import SPLIT_ABOVE, after_send_at, ranges, split_parts
from masscomm.domain.channels import CHANNELS
from masscomm.domain.delays import SEND_AT, RetrySchedule
from masscomm.domain.digests import DELAY_REASON as DIGEST
from masscomm.domain.fallbacks import DELAY_REASON as FALLBACK
from masscomm.domain.fallbacks import waiting_for, without
from masscomm.domain.ids import released_id
from masscomm.domain.lanes import BROADCASTS, Lane
from masscomm.domain.memberships import Membership, decide_by_membership, membership_id
from masscomm.domain.outcomes import CANCELLED, EXPIRED, RANGE_SIZE, SCHEDULED, RecipientOutcome
from masscomm.domain.pace import DELAY_REASON as PACE
from masscomm.domain.pace import is_paced
from masscomm.domain.preferences import UNKNOWN, Decision, decide, needs_confirmation
from masscomm.domain.push_options import is_silent
from masscomm.domain.quiet_hours import DELAY_REASON as _QUIET_HOURS
from masscomm.domain.quiet_hours import decide_by_hours, group_by_end
from masscomm.domain.records import BuildRequested, RecheckRequested, SendRequested
from masscomm.domain.sends import SendControl
from masscomm.domain.simulator import is_simulated, simulate
from masscomm.domain.statuses import Status
from masscomm.domain.tenant_preferences import TenantLayers, layers_for, layers_of
from masscomm.domain.users import User, UserSettings

_DIRECTORY = "directory"
# The statuses of deferred recipients that have an outcome record. The others are still accepted.
_REPORTED = (Status.SCHEDULED, Status.HELD, Status.COLLECTED)
# The decision for a recipient whose row may still be missing. It is recorded like any other, so that a redelivery
# delays the same recipients.
UNCONFIRMED = Decision(Status.ACCEPTED, None, "directory")
# The delay reasons of deferred recipients by status; of others it is SEND_AT, or that of their pace.
_REASONS: Mapping[Status | None, str] = {Status.HELD: _QUIET_HOURS, Status.COLLECTED: DIGEST}
_UNCOUNTED = "frequency_cap"
# The decision for a recipient that could not be counted for frequency caps or the pace in time. The recipient continues
# in a record of its own.
UNCOUNTED = Decision(Status.ACCEPTED, None, _UNCOUNTED)
# The decision for a fallback whose earlier notification has ended unsent: it continues in a record of its own.
GOES = Decision(Status.ACCEPTED, None, FALLBACK)
# The maximum number of delays by quiet hours; afterwards the notification expires. A user may change quiet hours
# meanwhile, or may have quiet hours of nearly 24 hours, which have begun again at each release.
MAX_HELD = 3

# Channel → position of the recipient → the decision, for each suppressed or deferred recipient.
type ByChannel = Mapping[str, Mapping[int, Decision]]


class Recipient(NamedTuple):
    """A recipient with the rows that the directory has about the user."""

    position: int
    user_id: int
    user: User | None
    settings: UserSettings | None
    # Whether a row is missing that may still arrive in the directory.
    unconfirmed: bool
    # The row about the object that recipients must follow.
    membership: Membership | None = None


class DirectoryView(NamedTuple):
    """The directory's rows for the users of a request. `unconfirmed` has the users with a missing row that may still
    arrive.
    """

    users: Mapping[int, User]
    settings: Mapping[int, UserSettings]
    unconfirmed: Collection[int] = frozenset()
    # Club → its rules.
    tenants: Mapping[int, UserSettings] = {}
    # (User, club) → the user's settings for the club.
    tenant_users: Mapping[tuple[int, int], UserSettings] = {}
    # Id → the row about an object that a user follows.
    memberships: Mapping[str, Membership] = {}

    def recipients(self, request: RecheckRequested) -> list[Recipient]:
        """Return the recipients to decide about, each with the rows of the user."""
        return [
            Recipient(
                position,
                user_id,
                self.users.get(user_id),
                self.settings.get(user_id),
                user_id in self.unconfirmed,
                self._membership(user_id, request.follows),
            )
            for position, user_id in zip(request.positions, request.user_ids, strict=True)
        ]

    def _membership(self, user_id: int, follows: str | None) -> Membership | None:
        return None if follows is None else self.memberships.get(membership_id(user_id, follows))

    def _may_follow(self, user_id: int, follows: str | None) -> bool:
        """Return whether the row about an object that the user must follow is missing."""
        return follows is not None and self._membership(user_id, follows) is None  # guard: follows.unconfirmed

    def missing(self, request: RecheckRequested) -> list[int]:
        """Return the users to decide about that lack a row which could change the decision."""
        tenant = layers_of(self.tenants, request.club_id)
        return [
            user_id
            for user_id in request.user_ids
            if not is_simulated(user_id)
            and (
                needs_confirmation(
                    self.users.get(user_id),
                    self.settings.get(user_id),
                    club_id=request.club_id,
                    type=request.type,
                    channels=request.channels,
                    at_ms=request.timestamp,
                    tenant=layers_for(tenant, self.tenant_users, user_id, request.club_id),
                )
                or self._may_follow(user_id, request.follows)
            )
        ]


class Verdict(Enum):
    """The consequence of a decision for one notification."""

    # The notification continues in a build record.
    ALLOWED = "allowed"
    # The notification ends with an outcome record.
    FINAL = "final"
    # The notification is decided again later, in a delayed record.
    DEFERRED = "deferred"


def verdict_of(decision: Decision) -> Verdict:
    if decision.status is None:
        return Verdict.ALLOWED
    if decision in (UNCONFIRMED, UNCOUNTED, GOES) or decision.until_ms is not None:
        return Verdict.DEFERRED
    return Verdict.FINAL


class DelayedPart(NamedTuple):
    """Recipients that are checked again at due_ms."""

    request: RecheckRequested
    due_ms: int


class RangeOutcomes(NamedTuple):
    """The outcomes of the recipients in a range of positions on one channel; there may be none."""

    channel: str
    span: tuple[int, int]
    outcomes: Sequence[RecipientOutcome]


class Plan(NamedTuple):
    """The records that follow from a request.

    Delayed parts are stored before any record is produced, so that a crash in between loses no recipient.
    """

    delayed: Sequence[DelayedPart] = ()
    outcomes: Sequence[RangeOutcomes] = ()
    builds: Sequence[BuildRequested] = ()
    # Requests that are produced to the topic recheck immediately.
    forwarded: Sequence[RecheckRequested] = ()
    # The messages of digests, as sends of their own.
    messages: Sequence[SendRequested] = ()
    # The revision of the control whose pace its waits have; 0: the send's own pace, or an unknown one.
    pace_revision: int = 0


def continue_at_send_at(chunk: Chunk, now_ms: int) -> Chunk:
    """Return the chunk as it is after its send_at, if that time has passed and the chunk has a single part. Otherwise
    return it unchanged.

    A cancelled send does not wait for its send_at.
    """
    if not _is_due(chunk, now_ms) or chunk.send_at is None:
        return chunk
    parts = after_send_at(chunk.request, chunk.send_at)
    return chunk._replace(request=parts[0], send_at=None) if len(parts) == 1 else chunk


def plan_without_look_up(chunk: Chunk, now_ms: int) -> Plan | None:
    """Return the plan for a chunk whose recipients are not decided about now; None for any other chunk.

    A redelivery must have the same plan as the first delivery. Therefore the current time is compared with expires_at
    only for requests whose recipients are decided about now.
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
        # The parts of a long chunk are produced to the tenant's own queue: producing them is far faster than looking up
        # their recipients.
        return Plan(forwarded=[request])
    return None if request.positions else Plan()


def _is_due(chunk: Chunk, now_ms: int) -> bool:
    """Return whether a chunk with a send_at is processed now: that time has passed, or the send is cancelled. A chunk
    that expires before its send_at is not processed.
    """
    expires_at = chunk.request.expires_at
    if chunk.send_at is None or (expires_at is not None and expires_at <= chunk.send_at):
        return False
    return chunk.cancelled or chunk.send_at <= now_ms


def held_by(chunk: Chunk, now_ms: int) -> SendControl | None:
    """Return the control that holds a request which is not expired: its send is paused, or was moved to a later
    time.
    """
    if not chunk.request.positions or _expires(chunk, now_ms):
        return None
    return chunk.rescheduled or chunk.paused  # guard: send_controls.paused_request


def _expires(chunk: Chunk, now_ms: int) -> bool:
    """Return whether a request has expired, or expires before the time to which its send was moved."""
    expires_at, moved_to = chunk.request.expires_at, chunk.rescheduled and chunk.rescheduled.send_at_ms
    return expires_at is not None and expires_at <= max(now_ms, moved_to or 0)  # guard: send_controls.moved_past_expiry


def outcomes_for_all(request: RecheckRequested, decision: Decision) -> list[RangeOutcomes]:
    """Return the outcomes for a request whose recipients all have the same decision."""
    return [
        RangeOutcomes(
            channel,
            (start, end),
            [RecipientOutcome(request.positions[index], request.user_ids[index], decision) for index in indices],
        )
        for channel in request.channels
        for start, end, indices in ranges(request, RANGE_SIZE)
    ]


def decide_without_look_up(chunk: Chunk, now_ms: int) -> ByChannel | None:
    """Return the decisions about the recipients of an expired request or a cancelled send; None for any other.

    A request with a single recipient continues although its send is cancelled: the decision log has no entry for it, so
    an earlier delivery may have produced its build record, and only the delivery function knows whether the message was
    published.
    """
    request = chunk.request
    if _expires(chunk, now_ms):
        return _for_all(request, EXPIRED)
    if chunk.cancelled and len(request.positions) > 1:  # guard: cancellations.single_recipient
        return _for_all(request, CANCELLED)
    return None


def _for_all(request: RecheckRequested, decision: Decision) -> ByChannel:
    return {channel: dict.fromkeys(request.positions, decision) for channel in request.channels}


def decide_recipients(chunk: Chunk, view: DirectoryView, now_ms: int, deadline_ms: int) -> ByChannel | None:
    """Return the decisions for suppressed and deferred recipients; None if no recipient can be decided about yet.

    Args:
        chunk: The request, and its lane.
        view: The directory's rows for its users.
        now_ms: The time at which quiet hours are checked, in ms since the epoch.
        deadline_ms: The time at which the request ends: users whose rows are still missing then expire.
    """
    request = chunk.request
    unconfirmed = UNCONFIRMED if deadline_ms > now_ms else EXPIRED
    recipients, tenant = view.recipients(request), layers_of(view.tenants, request.club_id)
    if unconfirmed is UNCONFIRMED and all(recipient.unconfirmed for recipient in recipients):
        return None
    decisions: dict[str, dict[int, Decision]] = {}
    for channel in request.channels:
        by_position = decisions[channel] = {}
        for recipient in recipients:
            own = layers_for(tenant, view.tenant_users, recipient.user_id, request.club_id)
            decision = unconfirmed if recipient.unconfirmed else _decide(chunk, recipient, channel, now_ms, own)
            if verdict_of(decision) is not Verdict.ALLOWED:
                by_position[recipient.position] = decision
    return decisions


def _decide(chunk: Chunk, recipient: Recipient, channel: str, now_ms: int, tenant: TenantLayers) -> Decision:
    request, (_, user_id, user, settings, _, membership) = chunk.request, recipient
    if is_simulated(user_id) and channel in CHANNELS:  # guard: simulator.never_published
        return simulate(user_id, channel)
    decision = decide(
        user,
        settings,
        club_id=request.club_id,
        type=request.type,
        channel=channel,
        at_ms=request.timestamp,
        tenant=tenant,
    )
    if request.follows is not None and decision != UNKNOWN:
        excluded = decide_by_membership(
            membership,
            follows=request.follows,
            club_id=request.club_id,
            type=request.type,
            at_ms=request.timestamp,
        )
        if excluded is not None:
            return excluded
    # A cancelled notification does not wait: the delivery function ends it.
    if decision.status is not None or user is None or chunk.cancelled:
        return decision
    if request.send_at_local is not None:
        early = decide_by_local_time(user, request.send_at_local, now_ms=now_ms, expires_at=request.expires_at)
        if early is not None:
            return early if settings is None else early.by(settings)
    if settings is None or settings.quiet_hours is None or chunk.lane is Lane.CRITICAL:
        return decision
    if is_silent(request.push, channel):  # guard: quiet_hours.silent_push
        return decision
    asleep = decide_by_hours(
        user, settings, type=request.type, at_ms=request.timestamp, now_ms=now_ms, expires_at=request.expires_at
    )
    if asleep is not None and request.held >= MAX_HELD:
        return EXPIRED._replace(layer=asleep.layer, rule=asleep.rule).by(settings)
    return asleep or decision


def plan(request: RecheckRequested, decisions: ByChannel, *, now_ms: int, retries: RetrySchedule) -> Plan:
    """Return the records that follow from the recorded decisions about the recipients of a request."""
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
                if decision is None:  # No decision is recorded for an allowed recipient.
                    allowed.append(index)
                elif verdict_of(decision) is Verdict.FINAL or decision.status in _REPORTED:
                    emitted.append(RecipientOutcome(position, request.user_ids[index], decision))
            outcomes.append(RangeOutcomes(channel, (start, end), emitted))
            if allowed:
                builds.append(_build_record(request, channel, (start, end), allowed))
    forwarded = (*_uncounted_parts(request, decisions), *_going_parts(request, decisions))
    return Plan(delayed=delayed, outcomes=outcomes, builds=builds, forwarded=forwarded)


def delay_for_directory(request: RecheckRequested, *, now_ms: int, retries: RetrySchedule) -> DelayedPart:
    """Return the request as it is checked again once the directory may be complete.

    If the request is released twice or redelivered concurrently, the derived records are the same, because their ids
    are the same and the decision log has the first decisions.
    """
    attempt = request.waits + 1
    due_ms = retries.due_ms(
        now_ms=now_ms, attempt=attempt, item_id=request.record_id, deadline_ms=deadline_of(request, retries)
    )
    return DelayedPart(replace(request, why=_DIRECTORY, waits=attempt), due_ms)


def deadline_of(request: RecheckRequested, retries: RetrySchedule) -> int:
    """Return the time at which the recipients are checked for the last time, in ms since the epoch."""
    return retries.deadline_ms(since_ms=request.since_ms, expires_at=request.expires_at)


def _unconfirmed_part(request: RecheckRequested, positions: Collection[int]) -> RecheckRequested:
    start, end = request.range_start, request.range_end
    record_id = released_id(request.record_id, _DIRECTORY, start, end)  # guard: ids.delayed_part
    return request.part(_indices(request, positions), record_id=record_id, parent_id=request.record_id)


def _held_parts(request: RecheckRequested, decisions: ByChannel) -> Iterator[DelayedPart]:
    """Yield one part for each end of the wait (quiet hours, send_at_local, pace, or a digest), its reason, and each set
    of channels. The digests of a user's channels close at different times.

    A request with a single recipient keeps its id, because the decision log has no entry for it. Therefore a redelivery
    after the wait produces the build records immediately, with the same ids as the delayed part. The decision about a
    notification in a digest, and any about a send with a pace, is recorded, so its part has an id of its own.
    """
    ends: dict[str, dict[int, tuple[int, tuple[str, ...]]]] = {}
    earlier = waiting_for(request.fallbacks, request.channels)
    found: dict[tuple[str, int], tuple[str, str]] = {}
    for channel in request.channels:
        for position, decision in decisions.get(channel, {}).items():
            if decision.until_ms is not None:
                reason = _reason_of(decision)
                group = channel if reason == DIGEST else reason
                if channel in earlier:
                    # A fallback waits for its time, or together with an earlier notification that waits itself.
                    own = (FALLBACK, f"{FALLBACK}.{channel}")
                    reason, group = found.get((earlier[channel][0], position), own)
                found[channel, position] = reason, group
                together = ends.setdefault(group, {})
                _, waiting = together.get(position, (0, (reason,)))
                together[position] = decision.until_ms, (*waiting, channel)
    groups = [group for each in ends.values() for group in group_by_end(each).items()]
    for (due_ms, (reason, *channels)), positions in groups:
        part = request.part(
            _indices(request, positions),
            why=reason,
            held=request.held + (reason == _QUIET_HOURS),
            waited_until=due_ms,
            send_at_local=None if reason in (SEND_AT, FALLBACK) else request.send_at_local,
            channels=channels,
        )
        if reason == FALLBACK:
            yield from (DelayedPart(each, due_ms) for each in _waiting_parts(request, part))
            continue
        # guard: digests.single_recipient
        if len(request.positions) > 1 or reason == DIGEST or is_paced(request) or request.fallbacks is not None:
            why = f"{reason}.{'+'.join(channels)}.{due_ms}"
            record_id = released_id(request.record_id, why, request.range_start, request.range_end)
            part = replace(part, record_id=record_id, parent_id=request.record_id)
        yield DelayedPart(part, due_ms)


def _waiting_parts(request: RecheckRequested, part: RecheckRequested) -> Iterator[RecheckRequested]:
    """Yield the records of fallbacks that wait: each covers the range of a build record of the earlier channel."""
    for start, end, indices in ranges(part, RANGE_SIZE):
        record_id = _waiting_id(request, part.channels[0], (start, end))
        yield part.part(indices, record_id=record_id, parent_id=request.record_id, range_start=start, range_end=end)


def _waiting_id(request: RecheckRequested, channel: str, span: tuple[int, int]) -> str:
    return released_id(request.record_id, f"{FALLBACK}.{channel}", *span)


def going_part(request: RecheckRequested, positions: Collection[int], by: str) -> RecheckRequested:
    """Return the record of recipients whose fallback goes, which is decided about as any other.

    Args:
        request: The record with the fallback as its first channel.
        positions: The recipients.
        by: The id of the record that has decided.
    """
    # The record that waits for the channel has another id.
    why = f"{FALLBACK}.goes.{by}"  # guard: fallbacks.own_record
    record_id = released_id(request.record_id, why, request.range_start, request.range_end)
    return request.part(
        _indices(request, set(positions)),
        record_id=record_id,
        parent_id=request.record_id,
        why=FALLBACK,
        waits=0,
        fallbacks=without(request.fallbacks, request.channels[0]),
    )


def _going_parts(request: RecheckRequested, decisions: ByChannel) -> Iterator[RecheckRequested]:
    """Yield the recipients whose fallback goes because the earlier notification is not sent."""
    if request.fallbacks is None:  # Looking at each decision would take longer than the rest of the plan.
        return
    waiting, taken = waiting_for(request.fallbacks, request.channels), set[int]()
    for index, channel in enumerate(request.channels):
        positions = {position for position, each in decisions.get(channel, {}).items() if each == GOES} - taken
        taken |= positions
        if positions:
            behind = takewhile(waiting.__contains__, request.channels[index + 1 :])
            whole = replace(request, channels=[channel, *behind], send_at_local=None)
            yield going_part(whole, positions, channel)


def _reason_of(decision: Decision) -> str:
    """Return the delay reason of a deferred recipient."""
    return PACE if decision.layer == PACE else _REASONS.get(decision.status, SEND_AT)  # guard: pace.delay_reason


def _uncounted_parts(request: RecheckRequested, decisions: ByChannel) -> Iterator[RecheckRequested]:
    """Yield the recipients that were not counted for frequency caps or the pace, one part for each set of channels."""
    channels: dict[int, tuple[str, ...]] = {}
    for channel in request.channels:
        for position, decision in decisions.get(channel, {}).items():
            if decision == UNCOUNTED:
                channels[position] = (*channels.get(position, ()), channel)
    groups: dict[tuple[str, ...], set[int]] = {}
    for position, each in channels.items():
        groups.setdefault(each, set()).add(position)
    for each, positions in groups.items():
        why = f"{_UNCOUNTED}.{'+'.join(each)}"
        record_id = released_id(request.record_id, why, request.range_start, request.range_end)
        yield request.part(
            _indices(request, positions), record_id=record_id, parent_id=request.record_id, channels=list(each)
        )


def _indices(request: RecheckRequested, positions: Collection[int]) -> Iterable[int]:
    return (index for index, position in enumerate(request.positions) if position in positions)


def _build_record(
    request: RecheckRequested, channel: str, span: tuple[int, int], indices: Sequence[int]
) -> BuildRequested:
    build = request.derive(
        BuildRequested,
        "build",
        channel,
        span,
        [request.positions[index] for index in indices],
        [request.user_ids[index] for index in indices],
    )
    if request.fallbacks is None:
        return build
    waiting = waiting_for(request.fallbacks, request.channels)
    behind = next((name for name, (earlier, _) in waiting.items() if earlier == channel), None)
    return build if behind is None else replace(build, fallback=_waiting_id(request, behind, span))
