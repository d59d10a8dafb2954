"""What the directory has about one user, with the row that each part comes from. Every adapter of the directory returns
it, and GET /v1/users/{user_id} shows it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from masscomm.cdc.captured_tables import DEVICES, USERS, settings_tables
from masscomm.directory import device_states, documents
from masscomm.directory.documents import Read
from masscomm.domain import preference_changes, suppressions, tenant_preferences
from masscomm.domain.preference_changes import PreferenceChanges
from masscomm.domain.preferences import (
    GLOBAL,
    TENANT,
    TENANT_USER,
    USER,
    Decision,
    decide_by_user_settings,
    settings_column,
)
from masscomm.domain.row_ids import row_id
from masscomm.domain.source_tables import TENANT_USER_SETTINGS, is_mapped
from masscomm.domain.tenant_preferences import NO_TENANT_LAYERS, TenantLayers, layers_for, layers_of
from masscomm.domain.users import Device, User, UserSettings
from masscomm.integers import integer
from masscomm.observability.unreadable_items import read_each


class DirectoryRow(NamedTuple):
    """A document of the directory."""

    # The table of the monolith, or the index of masscomm's own documents.
    table: str
    # Of user settings: the one that decisions are recorded with. Of changes through masscomm: that of the newest one.
    version: int
    # The time of the newest change in ms since the epoch; None if unknown.
    changed_at_ms: int | None = None


class PersonDevice(NamedTuple):
    device: Device
    # The row that decides whether push messages reach the device.
    row: DirectoryRow


class SuppressedAddress(NamedTuple):
    """The suppression of the user's e-mail address, which is in force."""

    reason: str
    # The time at which it expires, in ms since the epoch.
    expires_ms: int
    row: DirectoryRow


@dataclass(frozen=True, kw_only=True)
class Person:
    """A user with settings, devices and suppression."""

    user: User
    row: DirectoryRow
    # The settings as they apply; None: the user has none, and has changed nothing.
    settings: UserSettings | None
    # The settings in the monolith's rows, without changes through masscomm.
    own_settings: UserSettings | None
    # Column of the settings → the monolith's row that has it.
    settings_rows: Mapping[str, DirectoryRow]
    # The document of the user's changes through masscomm.
    changes_row: DirectoryRow | None
    # Whether the monolith has not applied a change through masscomm yet.
    is_pending: bool
    # In the order of their ids.
    devices: tuple[PersonDevice, ...]
    suppression: SuppressedAddress | None
    # The layers of the user's tenant.
    tenant: TenantLayers = NO_TENANT_LAYERS
    # Layer, as decisions name it → the row with the rules of this layer.
    tenant_rows: Mapping[str, DirectoryRow] = field(default_factory=dict)

    def decide(self, *, type: str, channel: str) -> Decision:
        """Return the decision by the layers of preferences."""
        return decide_by_user_settings(
            self.settings, club_id=self.user.club_id, type=type, channel=channel, tenant=self.tenant
        )

    def deciding_row(self, decision: Decision, *, type: str, channel: str) -> DirectoryRow | None:
        """Return the row that a decision by these layers comes from; None: the category's default decides.

        A change through masscomm decides where the decision without it is another one.
        """
        if decision.layer in self.tenant_rows:
            return self.tenant_rows[decision.layer]
        if decision.layer != USER or decision.rule is None:
            return None
        without = decide_by_user_settings(
            self.own_settings, club_id=self.user.club_id, type=type, channel=channel, tenant=self.tenant
        )
        if (without.status, without.layer, without.rule) != (decision.status, decision.layer, decision.rule):
            return self.changes_row
        return self.settings_rows.get(settings_column(decision.rule))

    @property
    def quiet_hours_row(self) -> DirectoryRow | None:
        """The row that the quiet hours, or their removal, come from; None: no row has any."""
        own = None if self.own_settings is None else self.own_settings.quiet_hours
        applied = None if self.settings is None else self.settings.quiet_hours
        return self.settings_rows.get("quiet_hours") if own == applied else self.changes_row


class DeviceRead(NamedTuple):
    """A device's row, and the document with its states; None if it has none."""

    device_id: int
    row: Read
    states: Read | None


def person_in(
    user_id: int,
    found: Mapping[tuple[str, int], Read],
    devices: Iterable[DeviceRead],
    suppression: Read | None,
    tenants: Mapping[tuple[str, Any], Read],
    now_ms: int,
) -> Person | None:
    """Return the user in these documents; None without a user that can be read.

    Args:
        found: (table, user id) → the document, of users, settings and changes through masscomm.
        devices: The user's active devices in the order of their ids. One that cannot be read is left out.
        suppression: The document that can suppress the user's address.
        tenants: The documents of person_documents that exist.
        now_ms: The present time.
    """
    read = found.get((USERS, user_id))
    user = None if read is None else documents.users([(user_id, read[0])]).get(user_id)
    if read is None or user is None:
        return None
    own = {key: each for key, each in found.items() if key[0] in settings_tables()}
    own_settings = documents.merged_settings(own).get(user_id)
    changes = found.get((preference_changes.INDEX, user_id))
    return Person(
        user=user,
        row=row_in(USERS, read),
        settings=documents.merged_settings(found).get(user_id),
        own_settings=own_settings,
        settings_rows={
            column: row_in(table, own[table, user_id])
            for table in settings_tables()
            if (table, user_id) in own
            for column, value in own[table, user_id][0].items()
            if value is not None
        },
        changes_row=None if changes is None else row_in(preference_changes.INDEX, changes),
        is_pending=changes is not None and is_pending(changes[0], own_settings),
        devices=tuple(read_each(devices, _device, store=DEVICES, key=lambda each: {"id": str(each.device_id)})),
        suppression=None if suppression is None else suppressed_in(suppression, user, now_ms),
        tenant=tenant_layers_in(tenants, user),
        tenant_rows=tenant_rows_in(tenants),
    )


def person_documents(user_id: int, club_id: int) -> list[tuple[str, str]]:
    """Return (table or index, id) of the documents with the layers that a club adds to a user's settings."""
    of_clubs = [(index, str(each)) for index, each in documents.tenant_documents([club_id])]
    return of_clubs + ([(TENANT_USER_SETTINGS, row_id(user_id, club_id))] if is_mapped(TENANT_USER_SETTINGS) else [])


def tenant_layers_in(found: Mapping[tuple[str, Any], Read], user: User) -> TenantLayers:
    """Return the layers of the user's club in these documents."""
    of_clubs = {(table, integer(id_)): each for (table, id_), each in found.items() if table != TENANT_USER_SETTINGS}
    layers = layers_of(documents.tenants_in(of_clubs), user.club_id)
    return layers_for(layers, documents.tenant_users_in(found), user.user_id, user.club_id)


def tenant_rows_in(found: Mapping[tuple[str, Any], Read]) -> dict[str, DirectoryRow]:
    """Return layer → row of these documents."""
    every = (tenant_preferences.INDEX, str(tenant_preferences.EVERY_CLUB))
    rows = {}
    for (table, id_), read in found.items():
        of_club = GLOBAL if (table, id_) == every else TENANT
        rows[TENANT_USER if table == TENANT_USER_SETTINGS else of_club] = row_in(table, read)
    return rows


def is_pending(document: Mapping[str, Any], own_settings: UserSettings | None) -> bool:
    """Return whether changes through masscomm are pending. Those that cannot be read are: they opt out of everything
    (masscomm.domain.preference_changes).
    """
    try:
        return bool(PreferenceChanges.read(document).pending(own_settings))
    except ValueError:
        return True


def suppressed_in(read: Read, user: User, now_ms: int) -> SuppressedAddress | None:
    """Return the suppression of the user's address in a document; None unless it is in force."""
    source, *_ = read
    address = user.email or ""
    name = suppressions.id_of(user.club_id, address)
    if not suppressions.suppressed(user.club_id, [address], {name: source}, now_ms):
        return None
    return SuppressedAddress(str(source.get("reason")), source["expires_at"], row_in(suppressions.INDEX, read))


def row_in(table: str, read: Read) -> DirectoryRow:
    """Return the row of a document."""
    source, version, _ = read
    changed_at: object = None
    match table:
        case preference_changes.INDEX | tenant_preferences.INDEX:
            # The document is also written when the changes are produced.
            changed_at = source.get("version")
            version = changed_at if isinstance(changed_at, int) else version
        case device_states.INDEX:
            changed_at = max((state.get("updated_at") or 0 for state in device_states.states_in(source)), default=None)
        case suppressions.INDEX:
            changed_at = source.get("at")
        case _ if table == DEVICES:
            changed_at = source.get("changed_at_ms")
        case _:
            changed_at = documents.ms_of(source.get("updated_at"))
            version = source.get("snapshot_lsn") or version
    return DirectoryRow(table, version, changed_at if isinstance(changed_at, int) else None)


def _device(read: DeviceRead) -> PersonDevice:
    source, _, index = read.row
    states = {} if read.states is None else read.states[0]
    device = documents.device(read.device_id, source, states, generation=index.partition("-")[2])
    # Without a state of its token, a device has no endpoint and is enabled.
    is_of_row = device.endpoint_arn is None and device.enabled
    row = row_in(DEVICES, read.row) if read.states is None or is_of_row else row_in(device_states.INDEX, read.states)
    return PersonDevice(device, row)
