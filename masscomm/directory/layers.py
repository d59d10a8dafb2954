"""The documents about recipients that a look-up reads with the users, and the layers of preferences in them."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from masscomm.directory import documents
from masscomm.directory.documents import Read
from masscomm.directory.port import Layers, Related
from masscomm.domain.memberships import membership_id
from masscomm.domain.row_ids import row_id
from masscomm.domain.source_tables import MEMBERSHIPS, TENANT_USER_SETTINGS, is_mapped

_NOTHING: Related = {}


def related_to(recipients: Iterable[tuple[Iterable[int], int, str | None]]) -> Related:
    """Return the documents, besides those under the users' ids, that decide about recipients.

    Args:
        recipients: Users, the club whose notifications they get, and the object that they must follow.
    """
    of_tenants, of_objects = is_mapped(TENANT_USER_SETTINGS), is_mapped(MEMBERSHIPS)
    if not of_tenants and not of_objects:
        return _NOTHING
    found: dict[int, dict[tuple[str, str], None]] = {}
    for user_ids, club_id, follows in recipients:
        for user_id in user_ids if of_tenants else ():
            found.setdefault(user_id, {})[TENANT_USER_SETTINGS, row_id(user_id, club_id)] = None
        for user_id in user_ids if of_objects and follows is not None else ():
            found.setdefault(user_id, {})[MEMBERSHIPS, membership_id(user_id, str(follows))] = None
    return found


def related_documents(user_ids: Iterable[int], related: Related) -> Collection[tuple[str, str]]:
    """Return (table, id) of the documents that are related to users."""
    return [each for user_id in user_ids for each in related.get(user_id, ())] if related else ()


def layers_in(found: Mapping[Any, Read]) -> Layers:
    """Return the layers in documents by (table, id)."""
    return Layers(
        users=documents.users_in(found),
        settings=documents.merged_settings(found),
        tenants=documents.tenants_in(found),
        tenant_users=documents.tenant_users_in(found),
        memberships=documents.memberships_in(found),
    )
