"""The interface of the store of saved audiences."""

from collections.abc import Sequence
from typing import Protocol

from masscomm.domain.saved_audiences import SavedAudience


class SavedAudiences(Protocol):
    """Methods raise Retry (down, slow) or Stop (no table, no permission)."""

    def put(self, audience: SavedAudience) -> bool:
        """Store an audience, in the place of an earlier one with its name. Return whether the name is new."""
        ...

    def put_if(self, audience: SavedAudience, before: SavedAudience | None) -> bool:
        """Store an audience if the stored one is still `before`; None: if none has its name. Return whether it was."""
        ...

    def find(self, club_id: int, name: str) -> SavedAudience | None:
        """Return the audience of a club with a name. It is read consistently."""
        ...

    def of_club(self, club_id: int) -> Sequence[SavedAudience]:
        """Return the audiences of a club, in the order of their names. They are read consistently."""
        ...

    def delete(self, club_id: int, name: str) -> bool:
        """Delete an audience. Return False if there was none."""
        ...

    def delete_if(self, audience: SavedAudience) -> bool:
        """Delete an audience if the stored one is still the same. Return whether it was."""
        ...
