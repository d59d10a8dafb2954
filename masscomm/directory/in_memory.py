"""The directory (users, settings, devices and templates) in memory, for unit tests of its callers.

It passes the same contract tests as OpenSearchDirectory (tests/support/contracts/directory.py).
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import batched, islice
from types import MappingProxyType
from typing import Any

from masscomm.cdc.captured_tables import DEVICES, USER_SETTINGS, USERS
from masscomm.directory import device_states, documents
from masscomm.directory.layers import layers_in, related_documents
from masscomm.directory.members import (
    UsersPage,
    counts_of_members,
    pages_of_followers,
    pages_of_members,
    pages_of_users,
)
from masscomm.directory.person import (
    DirectoryRow,
    Person,
    PersonDevice,
    is_pending,
    person_documents,
    row_in,
    suppressed_in,
    tenant_layers_in,
    tenant_rows_in,
)
from masscomm.directory.port import MOST_COMPARED, Layers, MembersCount, MembersPage, Related, TemplateQuery
from masscomm.domain import preference_changes, suppressions, tenant_preferences
from masscomm.domain.audiences import Audience
from masscomm.domain.memberships import kind_and_object
from masscomm.domain.phone_ends import phone_end
from masscomm.domain.preference_changes import with_changes
from masscomm.domain.source_tables import MEMBERSHIPS
from masscomm.domain.suppressions import Suppression, suppressed
from masscomm.domain.users import Device, DirectoryPosition, Template, User, UserSettings
from masscomm.errors import Retry

_CAUGHT_UP = DirectoryPosition(lsn=1, ts_ms=2**53)


class InMemoryDirectory:
    """Implements the directory of users, settings, devices and templates with dictionaries.

    Args:
        page_size: The number of users that are compared with an audience at a time.

    Attributes:
        ready: Whether the snapshot of the monolith's tables is complete.
        failing: An error that each look-up raises; None: look-ups succeed.
        caught_up: The position in the monolith's write-ahead log up to which `confirm` succeeds.
        calls: The number of calls of each method, for tests that count round trips.
    """

    def __init__(
        self, *, ready: bool = True, caught_up: DirectoryPosition = _CAUGHT_UP, page_size: int = 2_000
    ) -> None:
        self._page_size = page_size
        self.ready = ready
        self.failing: Exception | None = None
        self.caught_up = caught_up
        self.calls: Counter[str] = Counter()
        self._users: dict[int, User] = {}
        self._user_settings: dict[int, UserSettings] = {}
        self._devices: dict[int, Device] = {}
        self._templates: dict[int, Template] = {}
        # Row → its version: the number of the `put` that stored it.
        self._versions: dict[tuple[type, int], int] = {}
        self._puts = 0
        self._suppressions: dict[str, Mapping[str, Any]] = {}
        # User id → the document of the user's changes through masscomm.
        self.preference_changes: dict[int, Mapping[str, Any]] = {}
        # Club id → the document of its rules.
        self.tenant_preferences: dict[int, Mapping[str, Any]] = {}
        # (Optional table, id) → the document of its row.
        self.rows: dict[tuple[str, str], Mapping[str, Any]] = {}
        self._confirmed: DirectoryPosition | None = None

    def put(self, *rows: User | UserSettings | Device | Template) -> None:
        """Insert rows into the tables; a row with the same primary key is replaced."""
        self._puts += 1
        for row in rows:
            match row:
                case User():
                    self._users[row.user_id] = row
                    self._versions[User, row.user_id] = self._puts
                case UserSettings():
                    self._user_settings[row.user_id] = row
                    self._versions[UserSettings, row.user_id] = row.version or self._puts
                case Device():
                    self._devices[row.device_id] = row
                    self._versions[Device, row.device_id] = self._puts
                case Template():
                    self._templates[row.template_id] = row

    def remove(self, *rows: User | UserSettings | Device | Template) -> None:
        """Delete rows by their primary keys. A row that does not exist is ignored."""
        for row in rows:
            match row:
                case User():
                    self._users.pop(row.user_id, None)
                case UserSettings():
                    self._user_settings.pop(row.user_id, None)
                case Device():
                    self._devices.pop(row.device_id, None)
                case Template():
                    self._templates.pop(row.template_id, None)

    def users(self, user_ids: Sequence[int]) -> dict[int, User]:
        self._called("users")
        return {user_id: self._users[user_id] for user_id in user_ids if user_id in self._users}

    def user_settings(self, user_ids: Sequence[int]) -> dict[int, UserSettings]:
        self._called("user_settings")
        return self._settings(user_ids)

    def users_and_settings(self, user_ids: Sequence[int]) -> tuple[dict[int, User], dict[int, UserSettings]]:
        self._called("users_and_settings")
        return (
            {user_id: self._users[user_id] for user_id in user_ids if user_id in self._users},
            self._settings(user_ids),
        )

    def users_and_layers(
        self, user_ids: Sequence[int], club_ids: Collection[int], related: Related = MappingProxyType({})
    ) -> Layers:
        users, settings = self.users_and_settings(user_ids)
        return self._layers(user_ids, club_ids, related)._replace(users=users, settings=settings)

    def layers(
        self, user_ids: Sequence[int], club_ids: Collection[int], related: Related = MappingProxyType({})
    ) -> Layers:
        return self._layers(user_ids, club_ids, related)._replace(settings=self.user_settings(user_ids))

    def _layers(self, user_ids: Sequence[int], club_ids: Collection[int], related: Related) -> Layers:
        of_clubs = self._rows(documents.tenant_documents(club_ids)) if user_ids else {}
        return layers_in(of_clubs | self._rows(related_documents(user_ids, related)))

    def _rows(self, wanted: Iterable[tuple[str, int | str]]) -> dict[tuple[str, Any], documents.Read]:
        """Return the documents of other tables than those of `put`."""
        stored = {
            **self.rows,
            **{(tenant_preferences.INDEX, str(each)): row for each, row in self.tenant_preferences.items()},
        }
        found = ((table, id_, stored.get((table, str(id_)))) for table, id_ in wanted)
        return {(table, id_): (row, 1, table) for table, id_, row in found if row is not None}

    def _settings(self, user_ids: Sequence[int]) -> dict[int, UserSettings]:
        found = {
            user_id: with_changes(self._user_settings.get(user_id), self.preference_changes.get(user_id), user_id)
            for user_id in user_ids
        }
        return {user_id: settings for user_id, settings in found.items() if settings is not None}

    def members_of_club(self, club_id: int, audience: Audience, *, after: int = 0) -> Iterator[MembersPage]:
        return pages_of_members(self._candidates(club_id, audience, after), audience, self)

    def count_members(self, club_id: int, audience: Audience, channels: Sequence[str]) -> Iterator[MembersCount]:
        return counts_of_members(self._candidates(club_id, audience, 0), audience, channels, self)

    def _candidates(self, club_id: int, audience: Audience, after: int) -> Iterator[UsersPage]:
        if audience.follows is None:
            return pages_of_users(self._users_of_club(club_id, after))
        return pages_of_followers(self._followers(club_id, audience.follows, after), club_id, self.users)

    def _followers(self, club_id: int, follows: str, after: int) -> Iterator[list[int]]:
        self._called("followers")
        wanted = kind_and_object(follows)
        rows = (row for (table, _), row in self.rows.items() if table == MEMBERSHIPS)
        own = [row for row in rows if (row["kind"], row["object"]) == wanted and row.get("club_id") in (None, club_id)]
        found = sorted(row["user_id"] for row in own if row["user_id"] > after)
        for page in batched(found, self._page_size, strict=False):
            yield list(page)
            self._called("followers")

    def _users_of_club(self, club_id: int, after: int) -> Iterator[list[User]]:
        self._called("users_of_club")
        found = [user for user_id, user in sorted(self._users.items()) if user.club_id == club_id and user_id > after]
        for page in batched(found, self._page_size, strict=False):
            yield list(page)
            self._called("users_of_club")

    def list_users(self, club_id: int, *, after: int = 0, limit: int) -> list[User]:
        self._called("list_users")
        found = (user for user_id, user in sorted(self._users.items()) if user.club_id == club_id and user_id > after)
        return list(islice(found, limit))

    def users_by_phone_ends(self, ends: Collection[str]) -> list[User]:
        self._called("users_by_phone_ends")
        found = (user for _, user in sorted(self._users.items()) if phone_end(user.phone) in ends)
        return list(islice(found, MOST_COMPARED))

    def person(self, user_id: int, now_ms: int) -> Person | None:
        self._called("person")
        user, own = self._users.get(user_id), self._user_settings.get(user_id)
        if user is None:
            return None
        document = self.preference_changes.get(user_id)
        suppression = self._suppressions.get(suppressions.id_of(user.club_id, user.email or ""))
        row = DirectoryRow(USER_SETTINGS, self._versions.get((UserSettings, user_id), 0), own and own.changed_at)
        columns = ("channels", "categories", "quiet_hours")
        of_tenants = self._rows(person_documents(user_id, user.club_id))
        return Person(
            user=user,
            row=DirectoryRow(USERS, self._versions[User, user_id]),
            settings=self._settings([user_id]).get(user_id),
            own_settings=own,
            settings_rows={name: row for name in columns if getattr(own, name, None) is not None},
            changes_row=None if document is None else row_in(preference_changes.INDEX, (document, 0, "")),
            is_pending=document is not None and is_pending(document, own),
            devices=tuple(map(self._with_row, self._devices_of([user_id])[user_id])),
            suppression=None if suppression is None else suppressed_in((suppression, 1, ""), user, now_ms),
            tenant=tenant_layers_in(of_tenants, user),
            tenant_rows=tenant_rows_in(of_tenants),
        )

    def _with_row(self, device: Device) -> PersonDevice:
        table = DEVICES if device.endpoint_arn is None and device.enabled else device_states.INDEX
        return PersonDevice(device, DirectoryRow(table, self._versions[Device, device.device_id], device.changed_at_ms))

    def devices(self, user_ids: Sequence[int]) -> dict[int, list[Device]]:
        self._called("devices")
        return self._devices_of(user_ids)

    def _devices_of(self, user_ids: Sequence[int]) -> dict[int, list[Device]]:
        found: dict[int, list[Device]] = {user_id: [] for user_id in user_ids}
        for _, device in sorted(self._devices.items()):
            if device.user_id in found:
                found[device.user_id].append(device)
        return found

    def suppress(self, *several: Suppression) -> None:
        """Put addresses on the suppression list (addresses to which a club sends no e-mail)."""
        self._suppressions.update((each.id, each.source) for each in several)

    def suppressed(self, club_id: int, addresses: Sequence[str], now_ms: int) -> set[str]:
        self._called("suppressed")
        return suppressed(club_id, addresses, self._suppressions, now_ms)

    def templates(self, keys: Sequence[tuple[int, str, str]]) -> dict[tuple[int, str, str], list[Template]]:
        self._called("templates")
        return {
            key: [
                template
                for _, template in sorted(self._templates.items())
                if template.club_id in (key[0], None) and (template.type, template.channel) == key[1:]
            ]
            for key in keys
        }

    def list_templates(self, query: TemplateQuery) -> list[Template]:
        self._called("list_templates")
        found = [
            template
            for template_id, template in sorted(self._templates.items())
            if template_id > query.after
            and (query.club_ids is None or template.club_id is None or template.club_id in query.club_ids)
            and (not query.types or template.type in query.types)
            and (not query.channels or template.channel in query.channels)
        ]
        return found[: query.limit]

    def await_changes(self, user_id: int, version: int) -> None:
        self._called("await_changes")
        if self.preference_changes.get(user_id, {}).get("version", -1) < version:
            raise Retry("look-ups do not see the changed preferences yet")

    def confirm(self, ts_ms: int) -> DirectoryPosition:
        if self._confirmed is not None and self.is_confirmed(ts_ms):
            return self._confirmed
        self._called("confirm")
        if self.caught_up.ts_ms < ts_ms:
            raise Retry(f"the directory has come to {self.caught_up.ts_ms}, not yet to {ts_ms}")
        self._confirmed = self.caught_up
        return self.caught_up

    def is_confirmed(self, ts_ms: int) -> bool:
        return self._confirmed is not None and self._confirmed.ts_ms >= ts_ms

    def position(self) -> DirectoryPosition | None:
        return self._confirmed

    def _called(self, method: str) -> None:
        self.calls[method] += 1
        if self.failing is not None:
            raise self.failing
        if not self.ready:
            raise Retry("the directory is not ready: its snapshot is not complete")
