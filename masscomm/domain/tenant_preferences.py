"""Rules of a tenant for its users, which apply where the users have none (masscomm.domain.preferences).

Each tenant has at most one document of rules; that of every tenant is under a reserved id.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from masscomm.domain.users import UserSettings

# The index, whose documents have the club's id as their id.
INDEX = "tenant_preferences"
# The id of the document with the rules for every club. No club has it.
EVERY_CLUB = 0


class TenantLayers(NamedTuple):
    """The layers of preferences that a club adds to the own settings of one of its users."""

    # The user's settings for the club; None if there are none, as in the other layers.
    user: UserSettings | None = None
    # The rules of the club.
    own: UserSettings | None = None
    # The rules for every club.
    every: UserSettings | None = None


NO_TENANT_LAYERS = TenantLayers()


@dataclass(frozen=True, kw_only=True)
class TenantPreferences:
    """The rules of a club."""

    # EVERY_CLUB: the rules are for every club.
    club_id: int
    # As in UserSettings.
    channels: Mapping[str, Any]
    categories: Mapping[str, Any]
    # The time of the newest change in ms since the epoch, or one more than the previous version.
    version: int

    @property
    def settings(self) -> UserSettings:
        """Return the rules as a layer."""
        return UserSettings(
            user_id=0,
            channels=self.channels,
            categories=self.categories,
            version=self.version,
            changed_at=self.version,
        )

    @property
    def document(self) -> dict[str, Any]:
        """Return the source of the document in OpenSearch."""
        return {
            "club_id": self.club_id,
            "version": self.version,
            "channels": dict(self.channels),
            "categories": dict(self.categories),
        }

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Return the rules in a document. Raises ValueError if it is malformed."""
        club_id, version = document.get("club_id"), document.get("version")
        channels, categories = document.get("channels"), document.get("categories")
        if type(club_id) is not int or type(version) is not int:
            raise ValueError("malformed preferences of a tenant: a number was expected")
        if not isinstance(channels, Mapping) or not isinstance(categories, Mapping):
            raise ValueError("malformed preferences of a tenant: an object was expected")  # noqa: TRY004 - as any other
        return cls(club_id=club_id, channels=channels, categories=categories, version=version)


def layers_for(
    layers: TenantLayers, tenant_users: Mapping[tuple[int, int], UserSettings], user_id: int, club_id: int
) -> TenantLayers:
    """Return the layers of a club with the settings of one of its users for it.

    Args:
        layers: The layers of the club.
        tenant_users: (User, club) → the user's settings for the club.
    """
    own = tenant_users.get((user_id, club_id)) if tenant_users else None
    return layers if own is None else layers._replace(user=own)


def layers_of(tenants: Mapping[int, UserSettings], club_id: int) -> TenantLayers:
    """Return the layers of a club.

    Args:
        tenants: Club → its rules, with those of EVERY_CLUB.
    """
    if not tenants:
        return NO_TENANT_LAYERS
    return TenantLayers(own=tenants.get(club_id), every=tenants.get(EVERY_CLUB))  # guard: tenancy.layers_of_tenant
