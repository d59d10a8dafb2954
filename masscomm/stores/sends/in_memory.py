"""The register of sends in dictionaries, for unit tests. Thread-safe."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from masscomm.clock import Clock, SystemClock
from masscomm.domain.fallbacks import NO_STATE, FallbackState
from masscomm.domain.kept_messages import KeptMessage
from masscomm.domain.pace import PaceBook
from masscomm.domain.sends import Expansion, Part, Send, SendControl, SendKey
from masscomm.domain.time_limits import FALLBACKS_KEPT_S, PACE_BOOKS_LONGER_S
from masscomm.errors import MasscommError
from masscomm.stores.in_memory import InMemoryStore
from masscomm.stores.sends.port import Announcement, ExpandedChunk, Position, Progress


class StoredMessage(NamedTuple):
    """The message of a send."""

    send: SendKey
    message: KeptMessage
    # Seconds since the epoch.
    kept_until: int


class InMemorySends(InMemoryStore, setup=("put", "control")):
    """The register in dictionaries."""

    def __init__(self, clock: Clock | None = None) -> None:
        super().__init__()
        self.sends: dict[str, Send] = {}
        self.messages: dict[str, StoredMessage] = {}
        self.parts: dict[tuple[str, int], Part] = {}
        self.recorded: dict[tuple[str, int], ExpandedChunk] = {}
        self.advanced: dict[str, Progress] = {}
        self.paces: dict[SendKey, tuple[PaceBook, int]] = {}
        self.fallbacks: dict[tuple[SendKey, str], tuple[FallbackState, int]] = {}
        self.changed: dict[SendKey, int] = {}
        # The keys of each call of `read`.
        self.reads: list[frozenset[SendKey]] = []
        self._kept_until: dict[str, int] = {}
        self._position: Position | None = None
        self._clock = clock or SystemClock()

    def put(self, send: Send) -> None:
        """Store a send as a test needs it."""
        self.sends[send.key.send_id] = send
        self._kept_until[send.key.send_id] = send.kept_until(self._clock.now_ms())

    def control(self, control: SendControl) -> None:
        """Store a control as a test needs it."""
        stored = self.sends.get(control.send.send_id, Send(key=control.send))
        self.put(replace(stored, control=replace(control, revision=max(1, control.revision))))

    def read(self, keys: Iterable[SendKey]) -> Mapping[SendKey, Send]:
        asked = frozenset(keys)
        self.reads.append(asked)
        return {key: send for key in asked if (send := self._get(key.send_id)) is not None and send.of(key)}

    def controls(self, keys: Iterable[SendKey]) -> Mapping[SendKey, SendControl]:
        asked = frozenset(keys)
        found = self.read(asked)
        return {key: found[key].control if key in found else SendControl(send=key) for key in asked}

    def find(self, send_id: str) -> Send | None:
        return self._get(send_id)

    def register(self, sends: Iterable[Send]) -> Mapping[str, Send | MasscommError]:
        found: dict[str, Send | MasscommError] = {}
        with self._lock:
            for send in sends:
                if self._get(send.key.send_id) is None:
                    self._keep(send)
                found[send.key.send_id] = self.sends[send.key.send_id]
        return found

    def message(self, key: SendKey) -> KeptMessage | None:
        stored = self.messages.get(key.send_id)
        if stored is None or stored.send != key or stored.kept_until <= self._clock.now_ms() // 1000:
            return None
        return stored.message

    def part(self, send_id: str, index: int) -> Part | None:
        return self.parts.get((send_id, index)) if self._get(send_id) is not None else None

    def add_part(self, send: Send, before: Send | None, index: int, part: Part) -> bool:
        with self._lock:
            if self._get(send.key.send_id) != before:
                return False
            if before is None or before.parts is None:
                self._keep(send)
            else:
                self.put(send)
            self.parts[send.key.send_id, index] = part
        return True

    def mark_produced(self, send: Send, index: int) -> None:
        key = (send.key.send_id, index)
        self.parts[key] = self.parts[key]._replace(is_produced=True)

    def change(self, send: Send, before: Send) -> bool:
        with self._lock:
            stored = self._get(send.key.send_id) or Send(key=send.key)
            if stored.key != send.key or stored.control.revision != before.control.revision:
                return False
            self.put(replace(stored, control=send.control))
            self.changed[send.key] = self._clock.now_ms()
        return True

    def end_expansion(self, send: Send, before: Send) -> bool:
        with self._lock:
            stored = self._get(send.key.send_id)
            if stored is None or stored.expansion != before.expansion:
                return False
            self.put(replace(stored, expansion=send.expansion))
            self.changed[send.key] = self._clock.now_ms()
        return True

    def record(self, send: Send, index: int, chunk: ExpandedChunk) -> ExpandedChunk:
        with self._lock:
            return self.recorded.setdefault((send.key.send_id, index), chunk)

    def last(self, send_id: str) -> tuple[int, ExpandedChunk] | None:
        indices = [index for each, index in self.recorded if each == send_id]
        return (max(indices), self.recorded[send_id, max(indices)]) if indices else None

    def chunks(self, send_id: str, first: int, end: int) -> Iterator[ExpandedChunk]:
        for index in range(first, end):
            yield self.recorded[send_id, index]

    def records(self, send_id: str, ended: Expansion) -> int:
        return sum(bool(chunk.user_ids) for chunk in self.chunks(send_id, 0, ended.chunks))

    def progress(self, send_id: str) -> Progress:
        return self.advanced.get(send_id, Progress())

    def advance(self, send: Send, progress: Progress) -> None:
        self.advanced[send.key.send_id] = progress

    def pace(self, key: SendKey) -> PaceBook:
        with self._lock:
            book, kept_until = self.paces.get(key, (PaceBook(), 0))
        return book if kept_until > self._clock.now_ms() // 1000 else PaceBook()

    def set_pace(self, send: Send, book: PaceBook, before: PaceBook) -> bool:
        now_ms = self._clock.now_ms()
        with self._lock:
            if self.pace(send.key).revision != before.revision or self._is_of_another(send.key):
                return False
            kept_until = send.kept_until(now_ms) + PACE_BOOKS_LONGER_S
            self.paces[send.key] = (replace(book, revision=before.revision + 1), kept_until)
        return True

    def _is_of_another(self, key: SendKey) -> bool:
        """Return whether the state of a pace under the id of a send is another tenant's."""
        others = [each for each in self.paces if each.send_id == key.send_id and each.club_id != key.club_id]
        return any(self.pace(each) != PaceBook() for each in others)

    def fallback(self, key: SendKey, record_id: str) -> FallbackState:
        with self._lock:
            state, kept_until = self.fallbacks.get((key, record_id), (NO_STATE, 0))
        return state if kept_until > self._clock.now_ms() // 1000 else NO_STATE

    def set_fallback(self, key: SendKey, record_id: str, state: FallbackState) -> bool:
        others = [each for each in self.fallbacks if each[1] == record_id and each[0] != key]
        with self._lock:
            if self.fallback(key, record_id).revision != state.revision or others:
                return False
            kept_until = self._clock.now_ms() // 1000 + FALLBACKS_KEPT_S
            self.fallbacks[key, record_id] = (replace(state, revision=state.revision + 1), kept_until)
        return True

    def listed(self, club_id: int, *, start_ms: int, before_ms: int) -> Iterator[Send]:
        found = [
            send
            for send_id in self.sends
            if (send := self._get(send_id)) is not None
            and send.is_known
            and send.is_listed
            and send.key.club_id == club_id
            and start_ms <= send.requested_at_ms < before_ms
        ]
        yield from sorted(found, key=lambda send: (send.requested_at_ms, send.key.send_id), reverse=True)

    def announce(self, send: SendKey) -> None:
        self.changed[send] = self._clock.now_ms()

    def announced(self) -> Iterator[Announcement]:
        with self._lock:
            found = sorted(self.changed.items())
        yield from (Announcement(send, at_ms) for send, at_ms in found)

    def forget(self, announcement: Announcement) -> None:
        with self._lock:
            if self.changed.get(announcement.send) == announcement.changed_at_ms:
                del self.changed[announcement.send]

    def position(self) -> Position | None:
        return self._position

    def move(self, position: Position) -> None:
        self._position = position

    def _keep(self, send: Send) -> None:
        """Store a new send and its message."""
        self.put(replace(send, message=None))
        if send.message is not None:
            kept_until = send.message_kept_until(self._clock.now_ms())
            self.messages[send.key.send_id] = StoredMessage(send.key, send.message, kept_until)

    def _get(self, send_id: str) -> Send | None:
        if self._kept_until.get(send_id, 0) <= self._clock.now_ms() // 1000:
            return None
        return self.sends.get(send_id)
