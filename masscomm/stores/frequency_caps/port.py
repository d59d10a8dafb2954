"""The interface of the store of places: the sends that count for a user's frequency caps."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol


class PlacesKey(NamedTuple):
    """Names the places of one user for one cap (masscomm.domain.frequency_caps)."""

    club_id: int
    user_id: int
    cap: str


class StoredPlaces(NamedTuple):
    """The places of a key. A key without places has revision 0."""

    # The entry of a send on a channel → the time at which it was taken, in milliseconds since the epoch.
    taken: Mapping[str, int] = {}
    # Increases with each change.
    revision: int = 0
    # Whether the item cannot be read. How many places are taken is unknown then: none is taken until the item expires.
    is_damaged: bool = False


class Change(NamedTuple):
    """The places of a key before and after a change."""

    key: PlacesKey
    before: StoredPlaces
    taken: Mapping[str, int]
    # How long they are kept, in seconds.
    kept_s: int


class FrequencyCaps(Protocol):
    """Methods raise Retry (down, slow), Stop (no table, no permission) or DeadLetter (an item that can never be
    stored).
    """

    def read(self, keys: Iterable[PlacesKey]) -> Mapping[PlacesKey, StoredPlaces]:
        """Return the places under distinct keys. They are read consistently; keys without places are absent."""
        ...

    def write(self, changes: Sequence[Sequence[Change]], now_ms: int) -> list[bool]:
        """Write changes that belong together, all or none of them.

        Args:
            changes: For each user, the changes of distinct keys. No key is in two of them.
            now_ms: The present time in milliseconds since the epoch.

        Returns:
            For each user, whether the changes were written. They are not if another writer has changed the places since
                they were read.
        """
        ...
