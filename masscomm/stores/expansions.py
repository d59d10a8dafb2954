"""The expansions of audiences: the users of each chunk, recorded before any chunk of the send is produced.

A chunk is recorded once, so that an expansion that is repeated after a crash produces the same records. The end of an
expansion is recorded once, too, with the number of its notifications.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Protocol, Self

from masscomm.domain.send_controls import SendKey
from masscomm.domain.send_states import SendState


@dataclass(frozen=True, kw_only=True)
class ExpandedChunk:
    """Users of an audience, in ascending order of their ids. There may be none: then only `up_to` is of interest."""

    user_ids: Sequence[int]
    # The users of the club with ids up to this one are in this chunk and those before it, or not in the audience.
    up_to: int
    # The number of users in the chunks before.
    users_before: int

    @property
    def users(self) -> int:
        """Return the number of users in this chunk and those before it."""
        return self.users_before + len(self.user_ids)


@dataclass(frozen=True, kw_only=True)
class Expansion:
    """An expansion that has ended."""

    send: SendKey
    # The number of recorded chunks.
    chunks: int
    users: int
    # The number of notifications: users on channels.
    requested: int
    # Why the audience could not be expanded; None if it was.
    error: str | None = None


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far an expansion has come, as it is recorded after Kafka has acknowledged its records."""

    # The share of the present record: those before it have handed on the rest.
    share: int = 0
    # The number of recorded chunks that are produced or have no users, and that of the records produced for them.
    chunks: int = 0
    records: int = 0
    # The number of records of the whole send; None: they have not been counted.
    record_count: int | None = None

    def after(self, chunk: ExpandedChunk) -> Self:
        """Return the progress after the next chunk."""
        return replace(self, chunks=self.chunks + 1, records=self.records + bool(chunk.user_ids))


@dataclass(frozen=True, kw_only=True)
class ListedExpansion:
    """A send to an audience of which metrics count no chunk: its users are sought, none were found, or it failed."""

    send: SendKey
    # The time of the send in milliseconds since the epoch.
    requested_at_ms: int
    # The category.
    type: str
    # EXPANDING, ENDED or FAILED.
    state: SendState


class Expansions(Protocol):
    """The interface of the store of expansions. Methods raise Retry (down, slow) or Stop (no table, no permission)."""

    def record(self, send: SendKey, index: int, chunk: ExpandedChunk, *, now_ms: int) -> ExpandedChunk:
        """Record a chunk unless one with this index is recorded. Return the recorded one."""
        ...

    def last(self, send: SendKey) -> tuple[int, ExpandedChunk] | None:
        """Return the last recorded chunk with its index; None if there is none."""
        ...

    def chunks(self, send: SendKey, first: int, end: int) -> Iterator[ExpandedChunk]:
        """Yield the recorded chunks from index `first` to before `end`, in order."""
        ...

    def records(self, ended: Expansion) -> int:
        """Return the number of recorded chunks that have users."""
        ...

    def progress(self, send: SendKey) -> Progress:
        """Return the progress of an expansion."""
        ...

    def advance(self, send: SendKey, progress: Progress, *, now_ms: int) -> None:
        """Record the progress of an expansion."""
        ...

    def end(self, expansion: Expansion, *, now_ms: int) -> Expansion:
        """Record the end of an expansion unless one is recorded. Return the recorded one."""
        ...

    def find(self, send: SendKey) -> Expansion | None:
        """Return the end of an expansion; None if it has not ended."""
        ...

    def enlist(self, listed: ListedExpansion, *, now_ms: int) -> None:
        """Add a send to the list of its club, or replace it there."""
        ...

    def strike(self, listed: ListedExpansion) -> None:
        """Remove a send from the list of its club, because its chunks are counted from now on."""
        ...

    def listed(self, club_id: int, *, before_ms: int) -> Iterator[ListedExpansion]:
        """Yield the listed sends of a club that were requested before a time, the latest first."""
        ...


class InMemoryExpansions:
    """A store of expansions in dictionaries, for unit tests."""

    def __init__(self) -> None:
        self.recorded: dict[tuple[SendKey, int], ExpandedChunk] = {}
        self.ended: dict[SendKey, Expansion] = {}
        self.advanced: dict[SendKey, Progress] = {}
        self.listing: dict[SendKey, ListedExpansion] = {}
        # An error that every call raises; None: calls succeed.
        self.failing: Exception | None = None
        self._lock = Lock()

    def record(self, send: SendKey, index: int, chunk: ExpandedChunk, *, now_ms: int) -> ExpandedChunk:  # noqa: ARG002
        self._answer()
        with self._lock:
            return self.recorded.setdefault((send, index), chunk)

    def last(self, send: SendKey) -> tuple[int, ExpandedChunk] | None:
        self._answer()
        indices = [index for key, index in self.recorded if key == send]
        return (max(indices), self.recorded[send, max(indices)]) if indices else None

    def chunks(self, send: SendKey, first: int, end: int) -> Iterator[ExpandedChunk]:
        for index in range(first, end):
            self._answer()
            yield self.recorded[send, index]

    def records(self, ended: Expansion) -> int:
        return sum(bool(chunk.user_ids) for chunk in self.chunks(ended.send, 0, ended.chunks))

    def progress(self, send: SendKey) -> Progress:
        self._answer()
        return self.advanced.get(send, Progress())

    def advance(self, send: SendKey, progress: Progress, *, now_ms: int) -> None:  # noqa: ARG002
        self._answer()
        self.advanced[send] = progress

    def end(self, expansion: Expansion, *, now_ms: int) -> Expansion:  # noqa: ARG002
        self._answer()
        with self._lock:
            return self.ended.setdefault(expansion.send, expansion)

    def find(self, send: SendKey) -> Expansion | None:
        self._answer()
        return self.ended.get(send)

    def enlist(self, listed: ListedExpansion, *, now_ms: int) -> None:  # noqa: ARG002
        self._answer()
        self.listing[listed.send] = listed

    def strike(self, listed: ListedExpansion) -> None:
        self._answer()
        self.listing.pop(listed.send, None)

    def listed(self, club_id: int, *, before_ms: int) -> Iterator[ListedExpansion]:
        self._answer()
        found = [
            each for each in self.listing.values() if each.send.club_id == club_id and each.requested_at_ms < before_ms
        ]
        yield from sorted(found, key=lambda each: (each.requested_at_ms, each.send.send_id), reverse=True)

    def _answer(self) -> None:
        if self.failing is not None:
            raise self.failing
