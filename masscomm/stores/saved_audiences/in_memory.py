"""Saved audiences in memory, for unit tests."""

from collections.abc import Sequence

from masscomm.domain.saved_audiences import SavedAudience
from masscomm.stores.in_memory import InMemoryStore


class InMemorySavedAudiences(InMemoryStore):
    """A store of saved audiences in a dictionary, for unit tests."""

    def __init__(self) -> None:
        super().__init__()
        self._stored: dict[tuple[int, str], SavedAudience] = {}

    def put(self, audience: SavedAudience) -> bool:
        key = audience.club_id, audience.name
        is_new = key not in self._stored
        self._stored[key] = audience
        return is_new

    def put_if(self, audience: SavedAudience, before: SavedAudience | None) -> bool:
        if self._stored.get((audience.club_id, audience.name)) != before:
            return False
        self._stored[audience.club_id, audience.name] = audience
        return True

    def find(self, club_id: int, name: str) -> SavedAudience | None:
        return self._stored.get((club_id, name))

    def of_club(self, club_id: int) -> Sequence[SavedAudience]:
        return [found for key, found in sorted(self._stored.items()) if key[0] == club_id]

    def delete(self, club_id: int, name: str) -> bool:
        return self._stored.pop((club_id, name), None) is not None

    def delete_if(self, audience: SavedAudience) -> bool:
        key = audience.club_id, audience.name
        if self._stored.get(key) != audience:
            return False
        del self._stored[key]
        return True
