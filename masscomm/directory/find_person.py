"""Finds a user of a caller's clubs."""

from collections.abc import Container

from masscomm.directory.person import Person
from masscomm.directory.port import Directory


def find_person(directory: Directory, user_id: int, clubs: Container[object], now_ms: int) -> Person | None:
    """Return a user of these clubs; None for any other user, known or not. Raises Retry."""
    person = directory.person(user_id, now_ms)
    if person is None or person.user.club_id not in clubs:  # guard: tenancy.user
        return None
    return person
