"""The rules of a tenant for its users, and those for every tenant, which apply where a user has no rule.

GET, PUT, DELETE /v1/tenants/{tenant}/preferences   `tenant` is a club's id, or `default` for every tenant
"""

from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict

from functions.preferences_handler.preferences_body import rules_in
from masscomm.clock import Clock
from masscomm.directory.document_publisher import DocumentPublisher
from masscomm.directory.port import Directory
from masscomm.directory.tenant_preference_store import StoredTenantPreferences, TenantPreferenceStore
from masscomm.domain.audit import Action
from masscomm.domain.source_tables import TENANT_SETTINGS, is_mapped
from masscomm.domain.tenant_preferences import EVERY_CLUB, INDEX, TenantPreferences
from masscomm.domain.users import UserSettings
from masscomm.errors import Retry
from masscomm.http.conditions import Conditions, etag_of
from masscomm.http.parameters import time_of_ms
from masscomm.http.problem import FieldError, Problem, invalid
from masscomm.http.rest import Links
from masscomm.http.tenant import Clubs, parse_club_id
from masscomm.stores.audit_log.port import Audit
from masscomm.texts import Text

DEFAULT = "default"
# The attempts to store rules while other requests change them.
_ATTEMPTS = 3
# A look-up needs a user: no user has this id.
_NO_USER = 0


class TenantPreferencesFields(TypedDict):
    """The body of a request to PUT /v1/tenants/{tenant}/preferences. It replaces all rules."""

    channels: NotRequired[dict[str, bool]]
    """Channel → whether users get it, for categories without a rule of their own."""
    categories: NotRequired[dict[str, bool | dict[str, bool]]]
    """Category → whether users get it, on every channel or by channel."""


class TenantPreferencesBody(TypedDict):
    """The rules of a tenant, or of every tenant."""

    club_id: int | None
    """The tenant; null: the rules are for every tenant."""
    channels: dict[str, bool]
    """The rules for channels."""
    categories: dict[str, bool | dict[str, bool]]
    """The rules for categories."""
    changed_at: str | None
    """The time of the last change; null: there was none, or it is unknown."""
    etag: str
    """The header `ETag`, for `If-Match` of a change."""
    links: Links


@dataclass(frozen=True, kw_only=True)
class TenantPreferencesRoute:
    """The use case. Methods raise Problem (400, 403, 409, 412), Retry or Stop."""

    directory: Directory
    store: TenantPreferenceStore
    publisher: DocumentPublisher
    clock: Clock

    def show(self, tenant: str, clubs: Clubs) -> TenantPreferencesBody:
        club_id = _club(tenant, clubs)
        if _is_captured(club_id):
            return _body(club_id, self.directory.layers([_NO_USER], [club_id]).tenants.get(club_id))
        stored = self.store.read(club_id)
        if stored is not None and stored.preferences is None:
            raise Retry(f"the preferences of tenant {club_id} cannot be read; PUT replaces them")
        return _body(club_id, _rules(stored))

    def put(
        self, tenant: str, content: str | None, clubs: Clubs, audit: Audit, conditions: Conditions
    ) -> TenantPreferencesBody:
        """Replace the rules, and return them."""
        club_id = _own_club(tenant, clubs)
        channels, categories = rules_in(content)
        return self._store(club_id, channels, categories, audit, conditions)

    def delete(self, tenant: str, clubs: Clubs, audit: Audit, conditions: Conditions) -> TenantPreferencesBody:
        """Remove all rules, and return the rest: none. A repeated request succeeds."""
        return self._store(_own_club(tenant, clubs), {}, {}, audit, conditions)

    def _store(
        self,
        club_id: int,
        channels: dict[str, Any],
        categories: dict[str, Any],
        audit: Audit,
        conditions: Conditions,
    ) -> TenantPreferencesBody:
        for _ in range(_ATTEMPTS):
            before = self.store.read(club_id)
            known, is_damaged = _rules(before), before is not None and before.preferences is None
            rules = ({}, {}) if known is None else (dict(known.channels), dict(known.categories))
            # A repeated request finds its own rules, and succeeds as before.
            if is_damaged or rules != (channels, categories):  # guard: preferences.damaged_rules_replaced
                conditions.check(None if is_damaged else _body(club_id, known)["etag"])
                version = max(self.clock.now_ms(), 0 if known is None else known.version + 1)
                changed = TenantPreferences(club_id=club_id, channels=channels, categories=categories, version=version)
                if not self.store.write(changed, after=before):
                    continue
                audit(
                    Action.TENANT_PREFERENCES_STORED,
                    subject=_name(club_id),
                    clubs=[None if club_id == EVERY_CLUB else club_id],
                    detail="" if channels or categories else "no rules",
                )
            self.publisher.publish(INDEX, [str(club_id)])  # guard: preferences.published_rules
            return _body(club_id, _rules(self.store.read(club_id)))
        raise Retry("the preferences of this tenant are changed by other requests at the same time")


def _club(tenant: str, clubs: Clubs) -> int:
    """Return the club in a path. Raises Problem (400, 403)."""
    if tenant == DEFAULT:
        if not clubs.every:  # guard: tenancy.rules_of_every_tenant
            raise Problem(403, Text.EVERY_CLUB_NEEDED.filled())
        return EVERY_CLUB
    try:
        club_id = parse_club_id(tenant)
    except ValueError:
        club_id = EVERY_CLUB
    if club_id <= EVERY_CLUB:
        raise invalid([FieldError("tenant", Text.TENANT_FORM.filled())])
    if club_id not in clubs:  # guard: tenancy.rules_of_tenant
        raise Problem(403, Text.CLUBS_NOT_PERMITTED.filled())
    return club_id


def _own_club(tenant: str, clubs: Clubs) -> int:
    """Return the club in a path whose rules are masscomm's own. Raises Problem (400, 403, 409)."""
    club_id = _club(tenant, clubs)
    if _is_captured(club_id):  # guard: preferences.owner_of_captured_rules
        raise Problem(409, Text.TENANT_RULES_CAPTURED.filled())
    return club_id


def _is_captured(club_id: int) -> bool:
    """Return whether the rules of a club are rows of the monolith. Those for every club never are."""
    return club_id != EVERY_CLUB and is_mapped(TENANT_SETTINGS)


def _rules(stored: StoredTenantPreferences | None) -> UserSettings | None:
    return None if stored is None or stored.preferences is None else stored.preferences.settings


def _name(club_id: int) -> str:
    return DEFAULT if club_id == EVERY_CLUB else str(club_id)


def _body(club_id: int, known: UserSettings | None) -> TenantPreferencesBody:
    rules: dict[str, Any] = {
        "channels": {} if known is None else dict(known.channels),
        "categories": {} if known is None else dict(known.categories),
        "changed_at": None if known is None or known.changed_at is None else time_of_ms(known.changed_at),
    }
    return {
        "club_id": None if club_id == EVERY_CLUB else club_id,
        "channels": rules["channels"],
        "categories": rules["categories"],
        "changed_at": rules["changed_at"],
        "etag": etag_of(rules),
        "links": {"self": f"/v1/tenants/{_name(club_id)}/preferences"},
    }
