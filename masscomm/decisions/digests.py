"""Decides which notifications are collected in digests, and what becomes of the members of a digest that closes.

All functions are pure: none reads a clock, a store or a topic.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, time, timedelta
from typing import NamedTuple

from masscomm.decisions.chunk import Chunk
from masscomm.decisions.plan import ByChannel, DirectoryView
from masscomm.domain.categories import digest_of
from masscomm.domain.digest_members import PAUSED, ClosedDigest, DigestKey, Member, OpenDigest
from masscomm.domain.digests import MAX_MEMBERS, Digest, contents_of, is_listable
from masscomm.domain.ids import digest_send_id
from masscomm.domain.outcomes import CANCELLED, EXPIRED
from masscomm.domain.preferences import Decision
from masscomm.domain.push_options import is_silent
from masscomm.domain.quiet_hours import decide_by_hours
from masscomm.domain.records import RecheckRequested, SendRequested
from masscomm.domain.statuses import Status
from masscomm.domain.time_zones import moments, utc, wall_time, zone_of
from masscomm.domain.users import User, UserSettings

# In milliseconds.
_MINUTE = 60_000


class Candidate(NamedTuple):
    """A notification that all rules let through but quiet hours and frequency caps."""

    position: int
    channel: str
    key: DigestKey
    user: User | None
    settings: UserSettings | None
    data: Mapping[str, str]
    # The number of the closed digest that the notification was left out of; None: it was in none.
    left: int | None = None


def digest_for(chunk: Chunk) -> Digest | None:
    """Return the digest that collects the notifications of a request. The message of a digest is not collected."""
    request = chunk.request
    if request.collected is not None:  # guard: digests.message
        return None
    return digest_of(request.type, request.club_id, request.timestamp, chunk.lane, request.digest)


def candidates(chunk: Chunk, digest: Digest, view: DirectoryView, decisions: ByChannel) -> list[Candidate]:
    """Return the notifications to collect: those that are allowed, or held by quiet hours; none of a cancelled send,
    which delivery ends.
    """
    if chunk.cancelled:  # guard: digests.cancelled
        return []
    found = []
    for candidate in every_candidate(chunk.request, digest, view):
        if is_silent(chunk.request.push, candidate.channel):  # guard: digests.silent_push
            continue
        decision = decisions.get(candidate.channel, {}).get(candidate.position)
        is_held = decision is not None and decision.status is Status.HELD
        # One with more variables than a digest has room for goes out alone.
        if (decision is None or is_held) and candidate.user is not None and is_listable(candidate.data):
            found.append(candidate)
    return found


def every_candidate(request: RecheckRequested, digest: Digest, view: DirectoryView) -> Iterable[Candidate]:
    """Yield the notifications of a request."""
    for position, user_id in zip(request.positions, request.user_ids, strict=True):
        own = request.data_of(position)
        data = {**request.data, **own} if own else request.data
        name = digest.key_of(request.type, data)
        for channel in request.channels:
            key = DigestKey(request.club_id, user_id, channel, name)
            yield Candidate(position, channel, key, view.users.get(user_id), view.settings.get(user_id), data)


def forecast_digests(chunk: Chunk, view: DirectoryView, decisions: ByChannel | None, now_ms: int) -> ByChannel | None:
    """Return decisions as if each notification opened a digest; a dry run joins none."""
    digest = digest_for(chunk)
    if digest is None or decisions is None:
        return decisions
    found: dict[str, dict[int, Decision]] = {}
    for candidate in candidates(chunk, digest, view, decisions):
        joined = join(OpenDigest(), digest, candidate, chunk.request, now_ms)
        if joined is not None:
            decision = collected(digest, joined.after.due_ms, candidate.settings)
            found.setdefault(candidate.channel, {})[candidate.position] = decision
    return overlaid(decisions, found)


def overlaid(decisions: ByChannel, others: ByChannel) -> ByChannel:
    """Return decisions with those of digests in their place."""
    return {
        channel: {**decisions.get(channel, {}), **others.get(channel, {})}
        for channel in dict.fromkeys((*decisions, *others))
    }


class Joined(NamedTuple):
    """The digest that a notification joins."""

    after: OpenDigest
    member: Member


def join(
    head: OpenDigest, digest: Digest, candidate: Candidate, request: RecheckRequested, now_ms: int
) -> Joined | None:
    """Return the last digest of a key with a notification; a new one if the last is closed. None: the notification
    expires before the digest closes, so it goes out alone.
    """
    if head.is_closed:
        due_ms = _due_ms(digest, candidate, request, now_ms)
        head = OpenDigest(number=max(due_ms, head.number + 1), due_ms=due_ms, is_closed=False)
    if request.expires_at is not None and request.expires_at <= head.due_ms:  # guard: digests.expires_before
        return None
    members = tuple(dict.fromkeys((*head.members, request.send_id)))
    # A full digest closes at once.
    due_ms = min(head.due_ms, now_ms) if len(members) >= MAX_MEMBERS else head.due_ms
    return Joined(
        head._replace(members=members, due_ms=due_ms),
        Member(head.number, candidate.data, request.expires_at, request.follows),
    )


def is_full(head: OpenDigest) -> bool:
    """Return whether an open digest collects no further members."""
    return not head.is_closed and len(head.members) >= MAX_MEMBERS


def close(
    head: OpenDigest,
    members: Mapping[str, Member],
    controls: Mapping[str, str | None],
    *,
    sender: str | None,
    listed: int,
    now_ms: int,
) -> ClosedDigest:
    """Return the decision about a digest that closes.

    Args:
        head: The digest.
        members: Send → its member; one that is missing was erased, and is not in the message.
        controls: Send → its status if it is cancelled or PAUSED, else None.
        sender: The send whose record closes the digest and produces the message, unless it has to wait because the send
            is paused; None, or if it does: that of the last member.
        listed: The largest number of members whose variables the template sees.
        now_ms: The present time, in milliseconds since the epoch.
    """
    left_out: dict[str, str] = {}
    taken: list[str] = []
    for send_id in head.members:
        member = members.get(send_id)
        status = controls[send_id]
        if status is None and member is not None and member.expires_at_ms is not None:
            status = Status.EXPIRED.value if member.expires_at_ms <= now_ms else None
        if status is not None:
            left_out[send_id] = status
        elif member is not None:
            taken.append(send_id)
    if sender is None or left_out.get(sender) == PAUSED:  # guard: digests.paused_sender
        sender = taken[-1] if taken else None
    objects = {members[send_id].follows for send_id in taken}
    return ClosedDigest(
        closed_ms=now_ms,
        sender=sender if taken else None,
        contents=contents_of(len(taken), (members[send_id].data for send_id in taken), listed),
        left_out=left_out,
        follows=objects.pop() if len(objects) == 1 else None,
    )


def collected(digest: Digest, due_ms: int, settings: UserSettings | None) -> Decision:
    """Return the decision for a notification that waits in a digest."""
    until = datetime.fromtimestamp(due_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    found = Decision(Status.COLLECTED, None, "category", f"digest {digest.template} until {until}", until_ms=due_ms)
    return found if settings is None else found.by(settings)


def member_end(status: str | None, message_id: str) -> Decision:
    """Return the decision for a member of a closed digest, by its entry in `left_out`."""
    if status is None:
        return Decision(Status.DIGESTED, None, "category", f"digest {message_id}")
    return CANCELLED if status == Status.CANCELLED else EXPIRED


def end_of_waiting(chunk: Chunk, now_ms: int) -> Decision | None:
    """Return the end of a notification whose send was paused while its digest closed; None: it joins another one."""
    expires_at = chunk.request.expires_at
    if chunk.cancelled:
        return CANCELLED
    return EXPIRED if expires_at is not None and expires_at <= now_ms else None


def message_of(
    request: RecheckRequested, digest: Digest, key: DigestKey, number: int, closed: ClosedDigest
) -> SendRequested:
    """Return the send that is the message of a closed digest, made from the record that produces it."""
    return SendRequested(
        club_id=request.club_id,
        type=request.type,
        timestamp=closed.closed_ms,
        send_id=digest_send_id(*key, number),
        to_users=[key.user_id],
        channels=[key.channel],
        template=digest.template,
        collected=closed.contents,
        follows=closed.follows,  # guard: digests.followed_object
    )


def _due_ms(digest: Digest, candidate: Candidate, request: RecheckRequested, now_ms: int) -> int:
    """Return the time at which a digest that opens now closes: outside the user's quiet hours, in whole minutes."""
    user, settings = candidate.user, candidate.settings
    window_ms = digest.window_ms
    if window_ms is None:
        due_ms = _local_ms(digest.at or "", "" if user is None else user.time_zone, now_ms)
    else:
        due_ms = -(-(now_ms + window_ms) // _MINUTE) * _MINUTE
    if user is None or settings is None or settings.quiet_hours is None:
        return due_ms
    asleep = decide_by_hours(user, settings, type=request.type, at_ms=request.timestamp, now_ms=due_ms, expires_at=None)
    return due_ms if asleep is None or asleep.until_ms is None else asleep.until_ms  # guard: digests.quiet_hours


def _local_ms(at: str, time_zone: object, now_ms: int) -> int:
    """Return the next moment at which the user's clock shows a time, in milliseconds since the epoch. Without a time
    zone, or with an unknown one, it is UTC's.
    """
    zone = (zone_of(time_zone) if isinstance(time_zone, str) else None) or utc()
    today = wall_time(now_ms, zone).date()
    for days in range(3):
        moment_ms = moments(datetime.combine(today + timedelta(days=days), time.fromisoformat(at)), zone)[0]
        if moment_ms > now_ms:
            return moment_ms
    raise AssertionError("there is always another day")
