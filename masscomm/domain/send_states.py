"""The states of a send, and the rule that derives them from its counts and its controls.

The list of sends applies the rule of `counted_state` in SQL (masscomm/stores/metrics/postgres.py); a test
compares both over all combinations of counts.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from masscomm.domain.sends import Send
from masscomm.domain.statuses import TERMINAL, Status


class SendState(StrEnum):
    """The state of a send, as counted. Its chunks and notifications are counted seconds after their records are
    produced.
    """

    EXPANDING = "expanding"  # The users of the send's audience are sought.
    ACCEPTED = "accepted"  # No notification of the send is counted as decided.
    SCHEDULED = "scheduled"  # Each notification that has not ended waits for the send's time.
    IN_PROGRESS = "in_progress"  # A chunk of the send is not counted yet, or a notification has not ended.
    PAUSED = "paused"  # The send is held until it is resumed or cancelled.
    CANCELLING = "cancelling"  # The cancellation is recorded, and a notification has not ended.
    CANCELLED = "cancelled"  # Each notification has ended, at least one of them as cancelled.
    ENDED = "ended"  # Each notification has ended, none of them as cancelled.
    FAILED = "failed"  # The send's audience could not be expanded, and no notification is sent.


# The states of a send whose notifications have all ended.
FINAL: frozenset[SendState] = frozenset({SendState.CANCELLED, SendState.ENDED, SendState.FAILED})


@dataclass(frozen=True, kw_only=True)
class SendCounts:
    """The counts of a send on all channels."""

    # The number of the send's chunks; None until one of them is counted.
    chunk_count: int | None
    chunks: int
    requested: int
    # The number of notifications that were written for delivery, whatever their later status is.
    queued: int
    by_status: Mapping[str, int] = field(default_factory=dict)

    @property
    def terminal(self) -> int:
        """Return the number of notifications with a final status."""
        return sum(self.by_status.get(status, 0) for status in TERMINAL)


# The states of a send that is neither paused nor being cancelled, and whose audience, if any, is expanded.
BY_COUNTS: frozenset[SendState] = frozenset(
    {SendState.ACCEPTED, SendState.SCHEDULED, SendState.IN_PROGRESS, SendState.CANCELLED, SendState.ENDED}
)


def counted_state(counts: SendCounts) -> SendState:
    """Return the state of a send that is neither paused nor being cancelled: accepted, scheduled, in_progress,
    cancelled or ended.
    """
    all_chunks = counts.chunk_count is not None and counts.chunks >= counts.chunk_count
    terminal = counts.terminal
    if all_chunks and terminal == counts.requested:
        return SendState.CANCELLED if counts.by_status.get(Status.CANCELLED, 0) > 0 else SendState.ENDED
    decided, scheduled = sum(counts.by_status.values()), counts.by_status.get(Status.SCHEDULED, 0)
    if counts.queued == 0 and decided == 0:
        return SendState.ACCEPTED
    if counts.queued == 0 and scheduled > 0 and decided - terminal == scheduled:
        return SendState.SCHEDULED
    return SendState.IN_PROGRESS


def controlled_state(state: SendState, *, cancelled: bool, paused: bool) -> SendState:
    """Return the state of a send, given its state without its controls. A final state is kept."""
    if state in FINAL:
        return state
    if cancelled:
        return SendState.CANCELLING
    return SendState.PAUSED if paused else state


def states_by_counts(states: Iterable[SendState]) -> tuple[SendState, ...]:
    """Return the states without controls that a send in one of these states can have, sorted; () if none is given."""
    controlled = {SendState.PAUSED, SendState.CANCELLING}
    wanted = set(states)
    if wanted & controlled:
        wanted |= (BY_COUNTS - FINAL) | {SendState.EXPANDING}
    if SendState.FAILED in wanted:
        # Chunks of a failed expansion may be counted.
        wanted |= BY_COUNTS
    return tuple(sorted(wanted - controlled))


def send_state(send: Send, counts: SendCounts | None, now_ms: int) -> SendState:
    """Return the state of a send.

    Args:
        send: The send in the register.
        counts: Its counts; None if none of its records is counted, or if the counts are unknown.
        now_ms: The present time in milliseconds since the epoch.

    Raises:
        Retry: The item of the send cannot be read.
    """
    return state_by_register(send, None if counts is None else counted_state(counts), now_ms)


def state_by_register(send: Send, counted: SendState | None, now_ms: int) -> SendState:
    """Return the state of a send, given its state by counts; None if none of its records is counted, or if the counts
    are unknown. Raises Retry if the item of the send cannot be read.
    """
    control, expansion = send.control, send.expansion
    if expansion is not None and expansion.error is not None:
        state = SendState.FAILED
    elif counted is not None:
        state = counted
    elif expansion is not None and expansion.requested == 0:
        # One that was cancelled before its users were sought has none.
        state = SendState.CANCELLED if control.is_cancelled(now_ms) else SendState.ENDED
    elif send.waits(now_ms):
        state = SendState.SCHEDULED
    elif send.is_to_audience and expansion is None:
        state = SendState.EXPANDING
    else:
        state = SendState.ACCEPTED
    return controlled_state(state, cancelled=control.is_cancelled(now_ms), paused=control.is_paused(now_ms))
