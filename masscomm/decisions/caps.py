"""Decides which recipients' notifications are counted for frequency caps, and adds the refusals to the decisions.

All functions are pure: none reads a clock, a store or a topic.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from masscomm.decisions.chunk import Chunk
from masscomm.decisions.plan import UNCOUNTED, ByChannel, DirectoryView, Verdict, verdict_of
from masscomm.domain.cap_places import Wish
from masscomm.domain.categories import caps_of
from masscomm.domain.frequency_caps import Cap
from masscomm.domain.pace import is_paced
from masscomm.domain.preferences import Decision
from masscomm.domain.push_options import is_silent
from masscomm.domain.records import RecheckRequested
from masscomm.domain.statuses import Reason, Status


class Counted(NamedTuple):
    """The result of counting the recipients of a request."""

    # Position → channel → the cap that refuses the notification.
    refused: Mapping[int, Mapping[str, Cap]]
    # The positions of recipients for whom there was no time.
    uncounted: Collection[int] = ()


def caps_for(chunk: Chunk) -> tuple[Cap, ...]:
    """Return the frequency caps that apply to a request."""
    return caps_of(chunk.request.type, chunk.request.club_id, chunk.request.timestamp, chunk.lane)


def is_recorded(request: RecheckRequested, is_counted: bool, decisions: ByChannel) -> bool:
    """Return whether the decisions about a request are recorded.

    Those about a single recipient are if caps or a digest apply (`is_counted`): a later delivery of the record could
    find a free place, or none. A single recipient that is held keeps the request's id, so this decision is not
    recorded. Those of a send with a pace or with fallbacks always are: a later delivery would take a place of another
    minute, or begin another wait.
    """
    if is_paced(request):  # guard: pace.single_recipient
        return True
    if request.fallbacks is not None:  # guard: fallbacks.single_recipient
        return True
    if len(request.positions) > 1 or not is_counted:
        return len(request.positions) > 1
    return all(  # guard: frequency_caps.held_recipient
        verdict_of(decision) is not Verdict.DEFERRED or decision == UNCOUNTED or decision.status is Status.COLLECTED
        for by_position in decisions.values()
        for decision in by_position.values()
    )


def wishes_of(chunk: Chunk, view: DirectoryView, decisions: ByChannel) -> list[Wish]:
    """Return the recipients whose notifications would be let through; none of a cancelled send, which delivery ends.
    Silent pushes are not counted.
    """
    if chunk.cancelled:  # guard: frequency_caps.cancelled
        return []
    request, wishes = chunk.request, []
    # guard: frequency_caps.silent_push
    counted = [channel for channel in request.channels if not is_silent(request.push, channel)]
    for position, user_id in zip(request.positions, request.user_ids, strict=True):
        channels = tuple(channel for channel in counted if position not in decisions.get(channel, {}))
        user = view.users.get(user_id)
        if channels and user is not None:
            wishes.append(Wish(position, user_id, channels, user.time_zone))
    return wishes


def with_counted(decisions: ByChannel, wishes: Sequence[Wish], counted: Counted, category: str) -> ByChannel:
    """Return the decisions with those that follow from counting."""
    found = {channel: dict(by_position) for channel, by_position in decisions.items()}
    uncounted = frozenset(counted.uncounted)
    for wish in wishes:
        refused = counted.refused.get(wish.position, {})
        for channel in wish.channels:
            if wish.position in uncounted:
                found.setdefault(channel, {})[wish.position] = UNCOUNTED
            elif channel in refused:
                words = refused[channel].words(category, channel)
                decision = Decision(Status.SUPPRESSED, Reason.FREQUENCY_CAP, "category", words)
                found.setdefault(channel, {})[wish.position] = decision
    return found
