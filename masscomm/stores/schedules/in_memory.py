"""Schedules in memory, for unit tests."""

from collections.abc import Sequence
from dataclasses import replace

from masscomm.domain.recurrences import LocalTime
from masscomm.domain.schedules import Occurrence, OccurrenceState, Schedule
from masscomm.stores.in_memory import InMemoryStore


class InMemorySchedules(InMemoryStore):
    """A store of schedules in dictionaries, for unit tests."""

    def __init__(self) -> None:
        super().__init__()
        self._schedules: dict[tuple[int, str], Schedule] = {}
        self._occurrences: dict[tuple[str, str], Occurrence] = {}

    def of_club(self, club_id: int) -> Sequence[Schedule]:
        return [found for key, found in sorted(self._schedules.items()) if key[0] == club_id]

    def find(self, club_id: int, name: str) -> Schedule | None:
        return self._schedules.get((club_id, name))

    def put(self, schedule: Schedule, before: Schedule | None) -> bool:
        key = schedule.club_id, schedule.name
        stored = self._schedules.get(key)
        if (stored and stored.revision) != (before and before.revision):
            return False
        self._schedules[key] = schedule
        return True

    def advance(self, schedule: Schedule, following: LocalTime | None) -> None:
        key = schedule.club_id, schedule.name
        stored = self._schedules.get(key)
        if stored is None or stored.revision != schedule.revision or stored.next is None:
            return
        if following is None or stored.next.at_ms <= following.at_ms:
            self._schedules[key] = replace(stored, next=following)

    def delete(self, club_id: int, name: str) -> bool:
        return self._schedules.pop((club_id, name), None) is not None

    def record(self, occurrence: Occurrence) -> Occurrence:
        return self._occurrences.setdefault((occurrence.schedule_id, occurrence.local_time), occurrence)

    def complete(self, occurrence: Occurrence) -> None:
        key = occurrence.schedule_id, occurrence.local_time
        self._occurrences[key] = replace(occurrence, state=OccurrenceState.SENT, content=None)

    def started(self, schedule_id: str, local_time: str) -> Sequence[Occurrence]:
        return [
            found
            for key, found in sorted(self._occurrences.items())
            if key[0] == schedule_id and key[1] >= local_time and found.state is OccurrenceState.STARTED
        ]

    def history(self, schedule_id: str, limit: int) -> Sequence[Occurrence]:
        found = [each for key, each in sorted(self._occurrences.items(), reverse=True) if key[0] == schedule_id]
        return found[:limit]
