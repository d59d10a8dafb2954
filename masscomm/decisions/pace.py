"""Decides which recipients of a send with a pace are released now, and adds the waits of the others to the decisions.

All functions are pure: none reads a clock, a store or a topic.
"""

from collections.abc import Mapping
from datetime import UTC, datetime

from masscomm.decisions.chunk import Chunk
from masscomm.decisions.plan import UNCOUNTED, ByChannel
from masscomm.domain.outcomes import EXPIRED
from masscomm.domain.pace import DELAY_REASON, MINUTE_MS, Pace, Taken, is_paced, limit_of
from masscomm.domain.preferences import Decision
from masscomm.domain.statuses import Status


def pace_for(chunk: Chunk) -> Pace | None:
    """Return the pace of a request under the control of its send; None if the send has none."""
    request = chunk.request
    if not is_paced(request):
        return None
    begins_at = request.timestamp if request.pace_from is None else request.pace_from
    start_ms = begins_at if chunk.moved_to is None else chunk.moved_to
    if chunk.per_minute is not None:
        return Pace(limit=chunk.per_minute, start_ms=start_ms, revision=chunk.pace_revision)
    if request.per_minute is not None:
        return Pace(limit=request.per_minute, start_ms=start_ms)
    spread_ms = request.spread_over_ms or MINUTE_MS
    size = max(request.range_end if request.chunk_size is None else request.chunk_size, 1)
    chunks = max(request.chunk_count or 1, request.chunk_index + 1)
    return Pace(
        limit=limit_of(spread_ms, size * chunks), start_ms=start_ms, spread_ms=spread_ms, chunks=chunks, chunk_size=size
    )


def due_minutes(chunk: Chunk, pace: Pace, decisions: ByChannel) -> dict[int, int]:
    """Return the recipients whose notifications would be let through, by position, with their minutes. There are none
    of a cancelled send, which delivery ends.
    """
    if chunk.cancelled:  # guard: pace.cancelled
        return {}
    request = chunk.request
    decided = [decisions.get(channel, {}) for channel in request.channels]
    return {
        position: pace.due_minute(request.chunk_index, position)
        for position in request.positions
        if any(position not in by_position for by_position in decided)
    }


def with_pace(decisions: ByChannel, chunk: Chunk, pace: Pace, taken: Taken) -> ByChannel:
    """Return the decisions with those that follow from the pace."""
    waiting: dict[int, Decision] = {}
    words: dict[int, Decision] = {}
    for position, minute in taken.waits.items():
        if minute not in words:
            words[minute] = _waits(pace, minute * MINUTE_MS)
        waiting[position] = words[minute]
    waiting |= dict.fromkeys(taken.uncounted, UNCOUNTED)
    waiting |= dict.fromkeys(taken.expired, _expired(pace))
    return _overlaid(decisions, chunk, waiting)


def _overlaid(decisions: ByChannel, chunk: Chunk, waiting: Mapping[int, Decision]) -> ByChannel:
    """Return the decisions with these on each channel on which a recipient has none."""
    return {channel: {**waiting, **decisions.get(channel, {})} for channel in chunk.request.channels}


def _waits(pace: Pace, until_ms: int) -> Decision:
    until = datetime.fromtimestamp(until_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Decision(Status.SCHEDULED, None, DELAY_REASON, f"{pace.words}, until {until}", None, until_ms)


def _expired(pace: Pace) -> Decision:
    return EXPIRED._replace(layer=DELAY_REASON, rule=f"{pace.words}: no minute is left before the end")
