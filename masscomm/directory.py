"""What masscomm knows of users: settings, addresses, devices and templates, as the monolith's tables say.

A look-up has four different answers, and they are never mistaken for one another (preferences fail closed):

- here it is
- there is none, and that is believed: the directory has passed the send's timestamp (`confirm`)
- not ready: the snapshot of this index generation is not complete → Retry
- the look-up failed, whole or for some of the ids → Retry
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, kw_only=True)
class User:
    """One row of the monolith's users."""

    user_id: int
    club_id: int
    first_name: str = ""
    last_name: str = ""
    email: str | None = None
    phone: str | None = None
    locale: str = "en"
    time_zone: str = "UTC"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One row of the monolith's user_settings.

    channels: channel → wanted; categories: category → wanted, or → {channel: wanted}; what is absent is wanted.
    version: of the document, for the decision record.
    """

    user_id: int
    channels: Mapping[str, Any] = field(default_factory=dict)
    categories: Mapping[str, Any] = field(default_factory=dict)
    quiet_hours: Mapping[str, Any] | None = None
    version: int = 0


@dataclass(frozen=True, kw_only=True)
class Device:
    """One device with what we learnt of it ourselves (device_state) merged in.

    platform: gcm or apns; endpoint_arn: None until the device registrar has made one for this very token;
    enabled: False once the provider said that the endpoint is disabled or gone, or the registrar refused the row;
    changed_at_ms: when the monolith's database committed the row (ms since the epoch), None where that is unknown.
    """

    device_id: int
    user_id: int
    platform: str
    token: str
    endpoint_arn: str | None = None
    enabled: bool = True
    changed_at_ms: int | None = None


@dataclass(frozen=True, kw_only=True)
class Template:
    """One row of the monolith's notification_templates; club_id None: for every club."""

    template_id: int
    club_id: int | None
    type: str
    channel: str
    locale: str
    title: str
    body: str
    html: str | None = None
    version: int = 0


@dataclass(frozen=True, kw_only=True)
class Position:
    """How far the directory has come: the WAL position (LSN) and the database's time there, in ms since the epoch."""

    lsn: int
    ts_ms: int


class Directory(Protocol):
    """Look-ups for a whole batch at a time; every method raises Retry where it cannot answer for all it was asked."""

    def users(self, user_ids: Sequence[int]) -> dict[int, User]:
        """The users among the ids, by id; an id that is absent from the answer is not in the directory now."""
        ...

    def settings(self, user_ids: Sequence[int]) -> dict[int, Settings]:
        """The settings among the ids, by user id."""
        ...

    def users_and_settings(self, user_ids: Sequence[int]) -> tuple[dict[int, User], dict[int, Settings]]:
        """Both at once, in half the round trips."""
        ...

    def devices(self, user_ids: Sequence[int]) -> dict[int, list[Device]]:
        """The monolith's active devices of each user, by user id, in the order of their ids."""
        ...

    def suppressed(self, club_id: int, addresses: Sequence[str], now_ms: int) -> set[str]:
        """Those of the e-mail addresses to which the club must not send now (masscomm.suppressions)."""
        ...

    def templates(self, keys: Sequence[tuple[int, str, str]]) -> dict[tuple[int, str, str], list[Template]]:
        """For each (club_id, type, channel): that club's templates and those for every club, in all locales."""
        ...

    def confirm(self, ts_ms: int) -> Position:
        """Make sure that everything committed in the monolith's database up to ts_ms can be looked up.

        After it returns, a look-up made anew that does not find a row means that there was none.
        Remembers how far it has come, so that only the first caller for a given time asks.
        Errors: Retry where the directory is behind.
        """
        ...

    def is_confirmed(self, ts_ms: int) -> bool:
        """Whether confirm(ts_ms) would return at once, without asking: a look-up begun now can then be believed."""
        ...

    def position(self) -> Position | None:
        """The newest position known without asking anybody; None before the first confirm."""
        ...
