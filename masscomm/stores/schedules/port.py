"""The interface of the store of schedules and their occurrences."""

from collections.abc import Sequence
from typing import Protocol

from masscomm.domain.recurrences import LocalTime
from masscomm.domain.schedules import Occurrence, Schedule


class Schedules(Protocol):
    """Methods raise Retry (down, slow) or Stop (no table, no permission). All reads are consistent."""

    def of_club(self, club_id: int) -> Sequence[Schedule]:
        """Return the schedules of a club in the order of their names; those that cannot be read are logged."""
        ...

    def find(self, club_id: int, name: str) -> Schedule | None:
        """Return the schedule of a club with a name. Raises DeadLetter if it cannot be read."""
        ...

    def put(self, schedule: Schedule, before: Schedule | None) -> bool:
        """Store a schedule. Return False if another revision than that of `before` is stored, or one without it."""
        ...

    def advance(self, schedule: Schedule, following: LocalTime | None) -> None:
        """Store the next occurrence of a schedule, unless another revision or a later occurrence is stored."""
        ...

    def delete(self, club_id: int, name: str) -> bool:
        """Delete a schedule. Return False if there was none. Its occurrences expire."""
        ...

    def record(self, occurrence: Occurrence) -> Occurrence:
        """Store an occurrence, unless one of its schedule has its local time. Return the stored one."""
        ...

    def complete(self, occurrence: Occurrence) -> None:
        """Store that the send of a started occurrence is requested; its content is removed."""
        ...

    def started(self, schedule_id: str, local_time: str) -> Sequence[Occurrence]:
        """Return the started occurrences of a schedule at a local time and later. Raises DeadLetter if one cannot be
        read.
        """
        ...

    def history(self, schedule_id: str, limit: int) -> Sequence[Occurrence]:
        """Return the latest occurrences of a schedule, the latest first; those that cannot be read are logged."""
        ...
