"""The directory: users, user settings, devices and templates of the monolith's tables.

A look-up has four different results, and no caller may mistake one for another (preferences fail closed):

- the row
- a confirmed absence: the directory has passed the send's timestamp (`confirm`)
- not ready: the snapshot of this index generation is not complete → Retry
- a failure of the look-up, for all or some of the ids → Retry
"""

from collections.abc import Sequence
from typing import Protocol

from masscomm.domain.users import Device, DirectoryPosition, Template, User, UserSettings


class Directory(Protocol):
    """Look-ups for a whole batch at a time; every method raises Retry unless it has the result for all the ids."""

    def users(self, user_ids: Sequence[int]) -> dict[int, User]:
        """Return the users by id; an id without a user is not in the directory now."""
        ...

    def user_settings(self, user_ids: Sequence[int]) -> dict[int, UserSettings]:
        """Return the user settings by user id, without the ids that have none."""
        ...

    def users_and_settings(self, user_ids: Sequence[int]) -> tuple[dict[int, User], dict[int, UserSettings]]:
        """Return users and user settings, in half the round trips of two calls."""
        ...

    def devices(self, user_ids: Sequence[int]) -> dict[int, list[Device]]:
        """Return the monolith's active devices of each user, by user id, in the order of their ids."""
        ...

    def suppressed(self, club_id: int, addresses: Sequence[str], now_ms: int) -> set[str]:
        """Return the e-mail addresses to which the club must not send now (masscomm.domain.suppressions)."""
        ...

    def templates(self, keys: Sequence[tuple[int, str, str]]) -> dict[tuple[int, str, str], list[Template]]:
        """Return, for each (club_id, type, channel), the club's templates and those for every club, in all locales."""
        ...

    def confirm(self, ts_ms: int) -> DirectoryPosition:
        """Return once every row that the monolith's database committed up to ts_ms can be looked up.

        A later look-up that does not find a row confirms its absence. The position is cached: only the first call for a
        given time sends requests.

        Raises:
            Retry: The directory is behind.
        """
        ...

    def is_confirmed(self, ts_ms: int) -> bool:
        """Whether confirm(ts_ms) returns without a request: an absence in a look-up begun now is then confirmed."""
        ...

    def position(self) -> DirectoryPosition | None:
        """Return the newest confirmed position, without a request; None before the first confirm."""
        ...
