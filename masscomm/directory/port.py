"""What masscomm knows of users: settings, addresses, devices and templates, as the monolith's tables say.

A look-up has four different answers, and they are never mistaken for one another (preferences fail closed):

- here it is
- there is none, and that is believed: the directory has passed the send's timestamp (`confirm`)
- not ready: the snapshot of this index generation is not complete → Retry
- the look-up failed, whole or for some of the ids → Retry
"""

from collections.abc import Sequence
from typing import Protocol

from masscomm.domain.users import Device, DirectoryPosition, Template, User, UserSettings


class Directory(Protocol):
    """Look-ups for a whole batch at a time; every method raises Retry where it cannot answer for all it was asked."""

    def users(self, user_ids: Sequence[int]) -> dict[int, User]:
        """The users among the ids, by id; an id that is absent from the answer is not in the directory now."""
        ...

    def user_settings(self, user_ids: Sequence[int]) -> dict[int, UserSettings]:
        """The user settings found, by user id."""
        ...

    def users_and_settings(self, user_ids: Sequence[int]) -> tuple[dict[int, User], dict[int, UserSettings]]:
        """Both at once, in half the round trips."""
        ...

    def devices(self, user_ids: Sequence[int]) -> dict[int, list[Device]]:
        """The monolith's active devices of each user, by user id, in the order of their ids."""
        ...

    def suppressed(self, club_id: int, addresses: Sequence[str], now_ms: int) -> set[str]:
        """Those of the e-mail addresses to which the club must not send now (masscomm.domain.suppressions)."""
        ...

    def templates(self, keys: Sequence[tuple[int, str, str]]) -> dict[tuple[int, str, str], list[Template]]:
        """For each (club_id, type, channel): that club's templates and those for every club, in all locales."""
        ...

    def confirm(self, ts_ms: int) -> DirectoryPosition:
        """Make sure that everything committed in the monolith's database up to ts_ms can be looked up.

        After it returns, a look-up made anew that does not find a row means that there was none.
        Remembers how far it has come, so that only the first caller for a given time asks.
        Errors: Retry where the directory is behind.
        """
        ...

    def is_confirmed(self, ts_ms: int) -> bool:
        """Whether confirm(ts_ms) would return at once, without asking: a look-up begun now can then be believed."""
        ...

    def position(self) -> DirectoryPosition | None:
        """The newest position known without asking anybody; None before the first confirm."""
        ...
