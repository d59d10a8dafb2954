"""Reads the documents of the directory: the sources that cdc_consumer and masscomm's own writers store become users,
settings, devices and templates. Every adapter of the directory has the same documents.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from masscomm.cdc.captured_tables import USER_SETTINGS, USERS
from masscomm.directory import device_states
from masscomm.domain import preference_changes, tenant_preferences
from masscomm.domain.memberships import Membership
from masscomm.domain.platforms import platform_named, platform_of_arn
from masscomm.domain.row_ids import SEPARATOR
from masscomm.domain.source_tables import (
    MEMBERSHIPS,
    OPTIONAL_TABLES,
    TENANT_SETTINGS,
    TENANT_USER_SETTINGS,
    directory_table,
    is_mapped,
)
from masscomm.domain.tenant_preferences import TenantPreferences
from masscomm.domain.users import Device, Template, User, UserSettings
from masscomm.errors import Retry
from masscomm.integers import integer
from masscomm.observability.unreadable_items import read_each

# The types of a user's texts, and these.
_TEXTS = frozenset((str, type(None)))
# The tables that are not settings of users in general.
_OTHER_TABLES = frozenset((USERS, tenant_preferences.INDEX, *OPTIONAL_TABLES))
_USER_TEXTS = ("first_name", "last_name", "email", "phone", "locale", "time_zone")

type Source = Mapping[str, Any]
# A row, its version, and the name of its index, which ends with its snapshot generation.
type Read = tuple[Source, int, str]


def users(rows: Iterable[tuple[int, Source]]) -> dict[int, User]:
    """Return the users by id. One that cannot be read is absent, so that nothing is sent to this user."""
    found = read_each(rows, lambda row: user(*row), store=USERS, key=lambda row: {"id": str(row[0])})
    return {each.user_id: each for each in found}


def users_in(found: Mapping[tuple[str, int], Read]) -> dict[int, User]:
    """Return the users by id among rows of several tables."""
    return users((user_id, source) for (table, user_id), (source, *_) in found.items() if table == USERS)


def is_answered(table: str, source: Source) -> bool:
    """Return whether a look-up by id answers with a document: not with a deleted row, except of settings, whose version
    tells which changes through masscomm are older.
    """
    # guard: preferences.version_of_deleted_settings
    return not source.get("deleted") or directory_table(table) == USER_SETTINGS


def user(user_id: int, source: Source) -> User:
    """Return the user in a row. Raises an error of DAMAGE."""
    club_id = source["club_id"]
    if not isinstance(club_id, int) or not _TEXTS.issuperset(map(type, map(source.get, _USER_TEXTS))):
        raise TypeError(f"a user without a club, or with a value that is no text: {sorted(source)}")
    return User(
        user_id=user_id,
        club_id=club_id,
        first_name=source.get("first_name") or "",
        last_name=source.get("last_name") or "",
        email=source.get("email"),
        phone=source.get("phone"),
        locale=source.get("locale") or "en",
        time_zone=source.get("time_zone") or "UTC",
        attributes=source.get("attributes") or {},
    )


def merged_settings(found: Mapping[tuple[str, int], Read]) -> dict[int, UserSettings]:
    """Return the settings by user id. Settings from several tables are merged column by column; their version is the
    newest one. Those of deleted rows are absent. The users' changes through masscomm are applied to them.
    """
    merged: dict[int, Read] = {}
    present: set[int] = set()
    changes: dict[int, Source] = {}
    for (table, user_id), (source, version, index) in found.items():
        if table == preference_changes.INDEX:
            changes[user_id] = source
        elif table not in _OTHER_TABLES:
            known, newest, _ = merged.get(user_id, ({}, 0, ""))
            # The rows of every snapshot have one version, but each snapshot has an LSN of its own.
            version_of_row = source.get("snapshot_lsn") or version  # guard: preferences.snapshot_of_settings
            merged[user_id] = _over(known, source) if known else source, max(newest, version_of_row), index
            if not source.get("deleted"):
                present.add(user_id)
    settings = {
        user_id: UserSettings(
            user_id=user_id,
            channels=_rules(source.get("channels")),
            categories=_rules(source.get("categories")),
            quiet_hours=source.get("quiet_hours"),
            version=version,
            preference_version=source.get("preference_version") or 0,
            is_absent=user_id not in present,
            changed_at=ms_of(source.get("updated_at")),
            generation=index.partition("-")[2],
        )
        for user_id, (source, version, index) in merged.items()
    }
    for user_id, document in changes.items():
        changed = preference_changes.with_changes(settings.get(user_id), document, user_id)
        if changed is not None:
            settings[user_id] = changed
    return settings


def tenants_in(found: Mapping[tuple[str, int], Read]) -> dict[int, UserSettings]:
    """Return the rules of clubs among documents: the monolith's rows, and masscomm's own documents. Raises Retry if
    these cannot be read: nothing is let through without them.
    """
    tenants: dict[int, UserSettings] = {}
    for (index, club_id), (source, version, _) in found.items():
        if index == TENANT_SETTINGS:
            tenants[club_id] = _layer(source, version)
        elif index == tenant_preferences.INDEX:
            try:
                tenants[club_id] = TenantPreferences.read(source).settings
            except ValueError as error:  # guard: preferences.unreadable_rules_of_tenant
                raise Retry(f"the preferences of tenant {club_id} cannot be read: {error}") from error
    return tenants


def tenant_users_in(found: Mapping[tuple[str, Any], Read]) -> dict[tuple[int, int], UserSettings]:
    """Return (user id, club) → the user's settings for the club, among documents."""
    of_club: dict[tuple[int, int], UserSettings] = {}
    for (table, id_), (source, version, _) in found.items():
        if table == TENANT_USER_SETTINGS:
            user_id, club_id = map(integer, id_.split(SEPARATOR))
            of_club[user_id, club_id] = _layer(source, version, user_id)
    return of_club


def memberships_in(found: Mapping[tuple[str, Any], Read]) -> dict[str, Membership]:
    """Return id → the row about an object that a user follows, among documents."""
    return {
        # Any value but false is an opt-out.
        id_: Membership(club_id=source.get("club_id"), muted=source.get("muted") not in (None, False))
        for (table, id_), (source, *_) in found.items()
        if table == MEMBERSHIPS
    }


def _layer(source: Source, version: int, user_id: int = 0) -> UserSettings:
    """Return the rules in a row of the monolith about a tenant."""
    return UserSettings(
        user_id=user_id,
        channels=_rules(source.get("channels")),
        categories=_rules(source.get("categories")),
        version=source.get("snapshot_lsn") or version,
        changed_at=ms_of(source.get("updated_at")),
    )


def tenant_documents(club_ids: Iterable[int]) -> list[tuple[str, int]]:
    """Return (table or index, id) of the documents with the rules of clubs, and of every club."""
    # guard: preferences.owner_of_tenant_rules
    own = TENANT_SETTINGS if is_mapped(TENANT_SETTINGS) else tenant_preferences.INDEX
    every = tenant_preferences.INDEX, tenant_preferences.EVERY_CLUB
    return list(dict.fromkeys((*((own, club_id) for club_id in club_ids), every)))


def _over(known: Source, later: Source) -> Source:
    """Return the columns of two tables of settings. A null of the later one is not a rule, and replaces none."""
    return {**known, **{name: value for name, value in later.items() if value is not None}}


def _rules(value: Any) -> Any:
    """Return the rules in a column of user settings; none for null. Any other value that is not an object, such as
    false or [], stays as it is, because it is an opt-out (masscomm.domain.preferences).
    """
    return {} if value is None else value  # guard: preferences.rules_without_an_object


def ms_of(text: object) -> int | None:
    """Return a time of the monolith's row in ms since the epoch; None if it is none, or has no offset."""
    try:
        at = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return None if at is None or at.tzinfo is None else round(at.timestamp() * 1_000)


def device(device_id: int, source: Source, states: Source, *, generation: str) -> Device:
    """Return the device in a row. Raises an error of DAMAGE.

    Args:
        states: The document with the states of the device; an empty one if it has none.
        generation: The snapshot generation of the row.
    """
    # A new token has its own endpoint, or none yet.
    state = device_states.state_for(states, generation=generation, token=source["token"])
    platform = platform_named(source["platform"]) or source["platform"]  # guard: devices.platform_of_row
    arn = state.get("endpoint_arn")
    if arn is not None and platform_of_arn(arn) != platform:  # guard: devices.endpoint_of_platform
        # A corrected platform has its own endpoint, or none yet.
        state = {}
    return Device(
        device_id=device_id,
        user_id=source["user_id"],
        platform=platform,
        endpoint_arn=state.get("endpoint_arn"),
        enabled=bool(state.get("enabled", True)),
        changed_at_ms=source.get("changed_at_ms"),
    )


def template(template_id: int, source: Source) -> Template:
    """Return the template in a row. Raises an error of DAMAGE."""
    return Template(
        template_id=template_id,
        club_id=source.get("club_id"),
        type=source["type"],
        channel=source["channel"],
        locale=source["locale"],
        title=source["title"],
        body=source["body"],
        html=source.get("html"),
        url=source.get("url"),
        version=source.get("version") or 0,
    )
