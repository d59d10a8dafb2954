"""Collects notifications in digests, and closes the digests that are due."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import batched

from masscomm.clock import Clock
from masscomm.decisions.chunk import Chunk
from masscomm.decisions.digests import (
    Candidate,
    close,
    collected,
    end_of_waiting,
    every_candidate,
    is_full,
    join,
    member_end,
    message_of,
)
from masscomm.decisions.plan import UNCOUNTED, DirectoryView
from masscomm.domain.digest_members import PAUSED, ClosedDigest, DigestKey, Member, OpenDigest
from masscomm.domain.digests import Digest
from masscomm.domain.ids import digest_send_id
from masscomm.domain.preferences import Decision
from masscomm.domain.records import SendRequested
from masscomm.domain.sends import SendControl, SendKey
from masscomm.domain.statuses import Status
from masscomm.errors import Retry
from masscomm.stores.digests.port import ClosedKey, DigestChange, Digests, MemberKey
from masscomm.stores.sends.port import Sends

# The number of notifications that are collected together, and how often a digest is read again because another record
# has changed it meanwhile.
_SLICE = 500
_ROUNDS = 8


@dataclass
class Settled:
    """What becomes of the collected notifications of a request."""

    # Channel → position → the decision. A notification without one goes out alone.
    decisions: dict[str, dict[int, Decision]] = field(default_factory=dict)
    # The messages of closed digests that the record of the request produces.
    messages: list[SendRequested] = field(default_factory=list)
    # Whether the request has to wait until its send, which is paused, is resumed.
    is_paused: bool = False

    def decide(self, candidate: Candidate, decision: Decision) -> None:
        self.decisions.setdefault(candidate.channel, {})[candidate.position] = decision


@dataclass(frozen=True, kw_only=True)
class DigestCollector:
    """Joins and closes digests. Methods raise Retry, Stop or DeadLetter, as Digests and Sends."""

    store: Digests
    sends: Sends
    clock: Clock

    def collect(
        self, chunk: Chunk, digest: Digest, wanted: Sequence[Candidate], has_time: Callable[[], bool]
    ) -> Settled:
        """Let notifications join digests. A repetition finds its digest.

        Args:
            chunk: The request of the notifications.
            digest: The digest of its category.
            wanted: The notifications.
            has_time: Returns whether further ones may be collected.
        """
        found = Settled()
        for some in batched(wanted, _SLICE, strict=False):
            if not has_time():  # guard: digests.out_of_time
                for candidate in some:
                    found.decide(candidate, UNCOUNTED)
                continue
            self._repeat(some, partial(self._join, chunk, digest, found))
        return found

    def settle(self, chunk: Chunk, digest: Digest, view: DirectoryView, has_time: Callable[[], bool]) -> Settled:
        """Close the digests of collected notifications that are due, and return what becomes of the notifications.

        Args:
            chunk: The request with the notifications, as it was released.
            digest: The digest of its category.
            view: The directory's rows for its users.
            has_time: Returns whether further ones may be settled.
        """
        found = Settled()
        for some in batched(every_candidate(chunk.request, digest, view), _SLICE, strict=False):
            if not has_time():
                for candidate in some:
                    found.decide(candidate, UNCOUNTED)
                continue
            joining: list[Candidate] = []
            self._repeat(some, partial(self._settle, chunk, digest, found, joining))
            joined = self.collect(chunk, digest, joining, lambda: True)
            for channel, by_position in joined.decisions.items():
                found.decisions.setdefault(channel, {}).update(by_position)
        return found

    @staticmethod
    def _repeat(some: Sequence[Candidate], step: Callable[[Sequence[Candidate]], Sequence[Candidate]]) -> None:
        """Repeat a step for the candidates that it returns, because their digests have changed meanwhile."""
        pending = some
        for _ in range(_ROUNDS):
            if not pending:
                return
            pending = step(pending)
        if pending:
            raise Retry("digests are changed by other records all the time")

    def _join(self, chunk: Chunk, digest: Digest, found: Settled, pending: Sequence[Candidate]) -> list[Candidate]:
        """Let notifications join. Return those whose digests have changed since they were read."""
        request, now_ms = chunk.request, self.clock.now_ms()
        heads, members = self._read(pending, request.send_id)
        changing: list[Candidate] = []
        changes: list[DigestChange] = []
        closing: dict[DigestKey, OpenDigest] = {}
        for candidate in pending:
            head, member = heads.get(candidate.key, OpenDigest()), members.get(candidate.key)
            if head.is_damaged:  # guard: digests.damaged
                continue
            if member is not None and member.number != candidate.left:  # guard: digests.joined_once
                is_open = member.number == head.number and not head.is_closed
                found.decide(candidate, collected(digest, head.due_ms if is_open else now_ms, candidate.settings))
            elif is_full(head):
                closing[candidate.key] = head
            elif (joined := join(head, digest, candidate, request, now_ms)) is not None:
                changing.append(candidate)
                joins = request.send_id, joined.member
                changes.append(DigestChange(candidate.key, head, joined.after, joins=joins))
        self._close(digest, closing)
        written = self.store.write(changes) if changes else []
        for candidate, change, is_written in zip(changing, changes, written, strict=True):
            if is_written:
                found.decide(candidate, collected(digest, change.after.due_ms, candidate.settings))
        missed = [candidate for candidate, is_written in zip(changing, written, strict=True) if not is_written]
        return missed + [candidate for candidate in pending if candidate.key in closing]

    def _settle(
        self,
        chunk: Chunk,
        digest: Digest,
        found: Settled,
        joining: list[Candidate],
        pending: Sequence[Candidate],
    ) -> list[Candidate]:
        """Decide about members of closed digests, and add those that join another one to `joining`. Return those whose
        digests are closed now.
        """
        request, now_ms = chunk.request, self.clock.now_ms()
        heads, members = self._read(pending, request.send_id)
        closing: dict[DigestKey, OpenDigest] = {}
        ended: list[tuple[Candidate, ClosedKey]] = []
        for candidate in pending:
            head, member = heads.get(candidate.key, OpenDigest()), members.get(candidate.key)
            if member is None:
                joining.append(candidate)
            elif head.is_closed or member.number != head.number:
                ended.append((candidate, ClosedKey(candidate.key, member.number)))
            elif head.due_ms <= now_ms:
                closing[candidate.key] = head
            else:
                found.decide(candidate, collected(digest, head.due_ms, candidate.settings))
        closed = self.store.closed([key for _, key in ended]) if ended else {}
        for candidate, key in ended:
            if key in closed:
                self._end(chunk, digest, candidate, key, closed[key], found, joining)
            else:
                joining.append(candidate._replace(left=key.number))
        # The record of this request comes again until it has produced the message.
        self._close(digest, closing, sender=request.send_id)  # guard: digests.closing_record
        return [candidate for candidate in pending if candidate.key in closing]

    def _end(
        self,
        chunk: Chunk,
        digest: Digest,
        candidate: Candidate,
        key: ClosedKey,
        closed: ClosedDigest,
        found: Settled,
        joining: list[Candidate],
    ) -> None:
        """Decide about one member of a closed digest."""
        request = chunk.request
        status = closed.left_out.get(request.send_id)
        if closed.sender == request.send_id:  # guard: digests.sender
            found.messages.append(message_of(request, digest, key.digest, key.number, closed))
        if status != PAUSED:
            found.decide(candidate, member_end(status, digest_send_id(*key.digest, key.number)))
        elif chunk.paused is not None:
            found.is_paused = True
        elif (end := end_of_waiting(chunk, self.clock.now_ms())) is not None:
            found.decide(candidate, end)
        else:
            joining.append(candidate._replace(left=key.number))

    def _read(
        self, pending: Iterable[Candidate], send_id: str
    ) -> tuple[Mapping[DigestKey, OpenDigest], dict[DigestKey, Member]]:
        """Return the last digests of candidates, and the members of their send."""
        keys = list(dict.fromkeys(candidate.key for candidate in pending))
        # The members first: one that is read is in a digest that is not newer than the last one read.
        members = self.store.members([MemberKey(key, send_id) for key in keys])
        return self.store.read(keys), {key.digest: member for key, member in members.items()}

    def _close(self, digest: Digest, heads: Mapping[DigestKey, OpenDigest], sender: str | None = None) -> None:
        """Close digests, unless another record changes them meanwhile.

        Args:
            digest: The digest of the category.
            heads: The digests.
            sender: The send whose record closes them; None: another record does.
        """
        if not heads:
            return
        now_ms = self.clock.now_ms()
        members: dict[DigestKey, dict[str, Member]] = {key: {} for key in heads}
        asked = [MemberKey(key, send_id) for key, head in heads.items() for send_id in head.members]
        for place, member in self.store.members(asked).items():
            members[place.digest][place.send_id] = member
        sends = {SendKey(key.club_id, send_id) for key, head in heads.items() for send_id in head.members}
        controls = self.sends.controls(sends)
        changes = []
        for key, head in heads.items():
            decided = close(
                head,
                members[key],
                {send_id: _status(controls[SendKey(key.club_id, send_id)], now_ms) for send_id in head.members},
                sender=sender,
                listed=digest.listed,
                now_ms=now_ms,
            )
            changes.append(DigestChange(key, head, head._replace(is_closed=True, members=()), closed=decided))
        self.store.write(changes)


def _status(control: SendControl, now_ms: int) -> str | None:
    """Return the status of a member whose send is cancelled or PAUSED, else None."""
    try:
        if control.is_cancelled(now_ms):
            return Status.CANCELLED.value
        return PAUSED if control.is_paused(now_ms) else None
    except Retry:
        # The item of its send cannot be read: it concerns the records of this send alone.
        return PAUSED  # guard: digests.unreadable_control
