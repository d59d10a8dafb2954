"""Decides about the fallbacks of a send (masscomm.domain.fallbacks): which notifications wait for an earlier one, and
which of them go.

    decide_recipients on the active channels → with_fallbacks → (recorded) → plan: a waiting record for each range
    a waiting record, or the end of an earlier notification → the state of the waiting record → planned

All functions are pure: none reads a clock, a store or a topic.
"""

from collections.abc import Mapping
from dataclasses import replace

from masscomm.decisions.chunk import Chunk
from masscomm.decisions.parts import ranges
from masscomm.decisions.plan import (
    GOES,
    ByChannel,
    DelayedPart,
    Plan,
    RangeOutcomes,
    Verdict,
    going_part,
    verdict_of,
)
from masscomm.domain.fallbacks import (
    DELAY_REASON,
    Fallback,
    FallbackState,
    failed,
    final_statuses,
    first_waits,
    silent,
    verdict_at_end,
    waiting_for,
)
from masscomm.domain.fallbacks import Verdict as Ending
from masscomm.domain.outcomes import CANCELLED, EXPIRED, RANGE_SIZE, RecipientOutcome
from masscomm.domain.pace import MINUTE_MS
from masscomm.domain.preferences import Decision
from masscomm.domain.records import NotificationOutcome, RecheckRequested
from masscomm.domain.statuses import Reason, Status

NOT_NEEDED = Decision(Status.SUPPRESSED, Reason.NOT_NEEDED, DELAY_REASON)
_EXPIRED = EXPIRED._replace(layer=DELAY_REASON, rule="the end of the earlier notification is not known")
_DECISIONS: Mapping[Ending, Decision] = {
    Ending.NOT_NEEDED: NOT_NEEDED,
    Ending.CANCELLED: CANCELLED,
    Ending.EXPIRED: _EXPIRED,
}


def active(chunk: Chunk) -> Chunk:
    """Return the chunk with the channels that wait for no other one: those that are decided about now."""
    request = chunk.request
    waiting = waiting_for(request.fallbacks, request.channels)
    if not waiting:
        return chunk
    return chunk._replace(request=replace(request, channels=[each for each in request.channels if each not in waiting]))


def with_fallbacks(request: RecheckRequested, decisions: ByChannel, now_ms: int) -> ByChannel:
    """Return the decisions about the active channels with those about the channels that wait for them."""
    found = dict(decisions)
    for channel, (earlier, fallback) in waiting_for(request.fallbacks, request.channels).items():
        known = found.get(earlier, {})
        found[channel] = {
            position: _after(known.get(position), fallback, earlier, now_ms) for position in request.positions
        }
    return found


def _after(decision: Decision | None, fallback: Fallback, earlier: str, now_ms: int) -> Decision:
    """Return the decision about a notification that follows from the one about the earlier notification."""
    if decision is None:
        due_ms = now_ms + fallback.after_ms
        return Decision(Status.SCHEDULED, None, DELAY_REASON, fallback.words(earlier), None, due_ms)
    if decision.until_ms is not None:  # The earlier one waits. Both are decided about again together.
        return Decision(Status.SCHEDULED, None, DELAY_REASON, fallback.words(earlier), None, decision.until_ms)
    if verdict_of(decision) is Verdict.DEFERRED or decision == NOT_NEEDED:
        return decision
    ending = verdict_at_end(decision.status, fallback.condition)
    if ending is Ending.GOES:
        return GOES
    return decision if ending is Ending.CANCELLED else NOT_NEEDED


def waits(request: RecheckRequested) -> Fallback | None:
    """Return the fallback for which a record waits; None if its first channel is decided about now."""
    return first_waits(request.fallbacks, request.channels)


def needs_proof(request: RecheckRequested, state: FallbackState, *, cancelled: bool) -> bool:
    """Return whether recipients of a waiting record can only be decided about once further outcomes of their earlier
    notifications are known to be absent.
    """
    return not cancelled and bool(silent(state, request.positions))


def decide_waiting(
    request: RecheckRequested, state: FallbackState, *, cancelled: bool, is_late: bool = False
) -> FallbackState:
    """Return the state with the decisions about all recipients of a waiting record whose time has come.

    Args:
        request: The waiting record.
        state: The state of the record.
        cancelled: Whether the send is cancelled.
        is_late: Whether the ends of earlier notifications stay unknown: those notifications expire.
    """
    fallback = waits(request)
    condition = fallback.condition if fallback is not None else ""
    unknown = set(silent(state, request.positions)) if is_late else set()
    verdicts = {}
    for position in request.positions:
        if cancelled:
            verdicts[position] = Ending.CANCELLED
        elif position in unknown:
            verdicts[position] = Ending.EXPIRED
        else:
            verdicts[position] = verdict_at_end(state.statuses.get(position), condition)
    return state.deciding(request.record_id, verdicts)


def observed(state: FallbackState, outcome: NotificationOutcome, *, can_go: bool) -> FallbackState:
    """Return the state with the final statuses in an outcome record of the earlier channel.

    Args:
        state: The state of the waiting record.
        outcome: The outcome record.
        can_go: Whether the record that waits is at hand: those whose earlier notification failed go at once.
    """
    statuses = final_statuses(outcome)
    after = state.with_statuses(statuses)
    if not can_go:
        return after
    return after.deciding(
        outcome.record_id, {position: Ending.GOES for position in statuses if failed(after.statuses[position])}
    )


def going(request: RecheckRequested, state: FallbackState, by: str | None = None) -> list[RecheckRequested]:
    """Return the records of the recipients of a waiting record that go: one for each record that has decided.

    Args:
        request: The waiting record.
        state: The state of the waiting record.
        by: Only the record for the decisions of this record.
    """
    inside = set(request.positions)
    return [
        going_part(request, [each for each in entry.positions if each in inside], entry.by)
        for entry in state.decided
        if entry.verdict is Ending.GOES and by in (None, entry.by) and inside.intersection(entry.positions)
    ]


def planned(request: RecheckRequested, state: FallbackState) -> Plan:
    """Return the records that follow from the decisions about a waiting record."""
    verdicts = state.verdicts
    outcomes = []
    for channel in request.channels:
        for start, end, indices in ranges(request, RANGE_SIZE):
            ended = [
                RecipientOutcome(request.positions[index], request.user_ids[index], _DECISIONS[verdict])
                for index in indices
                if (verdict := verdicts[request.positions[index]]) is not Ending.GOES
            ]
            outcomes.append(RangeOutcomes(channel, (start, end), ended))
    return Plan(outcomes=outcomes, forwarded=going(request, state))


def postponed(request: RecheckRequested, now_ms: int) -> DelayedPart:
    """Return a waiting record as it is looked at again: at its time, or else in a minute."""
    due_ms = request.waited_until or 0
    return DelayedPart(replace(request, waits=request.waits + 1), due_ms if due_ms > now_ms else now_ms + MINUTE_MS)
