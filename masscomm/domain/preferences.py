"""Decides from rules in layers whether a notification is sent, with the reason.

The layers are the user's settings for the tenant, the user's own settings, the rules of the tenant, and those of every
tenant. The first layer with a rule decides, and in it the most specific rule: category and channel, then category, then
channel. Only a user's rule for the category permits a notification that a tenant's rule excludes. Without a rule a
notification is sent, unless its category needs an opt-in (schemas/categories.yaml), which also only a user's rule for
the category can be. A mandatory category ignores all layers and quiet hours.

An unknown name may be an opt-out in other words. Therefore it is one: for everything, or for the category whose rule
contains it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Self

from masscomm.domain.categories import category
from masscomm.domain.channels import CHANNELS
from masscomm.domain.names import folded
from masscomm.domain.setting_names import malformed, read_names, setting_names
from masscomm.domain.source_tables import TENANT_SETTINGS, TENANT_USER_SETTINGS, is_mapped
from masscomm.domain.statuses import Reason, Status
from masscomm.domain.tenant_preferences import NO_TENANT_LAYERS, TenantLayers
from masscomm.domain.users import User, UserSettings

# The layers, as decisions name them.
TENANT_USER, USER, TENANT, GLOBAL = "tenant_user", "user", "tenant", "global"


class Decision(NamedTuple):
    """The result of the rules for one recipient."""

    # None: the notification may be sent. Otherwise the status is final, or the decision is deferred until until_ms.
    status: Status | None
    reason: Reason | None = None
    # The source of the decision: a layer of preferences, default, directory or provider.
    layer: str = "default"
    # The setting that determined the decision, such as `category:news channel:push`.
    rule: str | None = None
    # The version of the settings that decided, or of the user's own ones if no rule did; None: there are none.
    settings_version: int | None = None
    # The end of the status HELD, in ms since the epoch.
    until_ms: int | None = None
    # The time of the newest change in these settings, in ms since the epoch; None if unknown.
    settings_changed_at: int | None = None

    def by(self, user_settings: UserSettings) -> Self:
        """Return this decision with the version and the time of the settings that were read."""
        return self._replace(settings_version=user_settings.version, settings_changed_at=user_settings.changed_at)


# The decision for a missing user, and also for a user of another club: a tenant must learn nothing about other tenants'
# users.
UNKNOWN = Decision(Status.SUPPRESSED, Reason.UNKNOWN_USER, "directory")


# The decision without a user's rule for a category that needs one.
NOT_OPTED_IN = Decision(Status.SUPPRESSED, Reason.NOT_OPTED_IN, "default", "opt_in")


def is_member(user: User | None, club_id: int) -> bool:
    """Return whether the user belongs to the club; users of other clubs are treated as missing."""
    return user is not None and user.club_id == club_id


def decide(
    user: User | None,
    user_settings: UserSettings | None,
    *,
    club_id: int,
    type: str,
    channel: str,
    at_ms: int | None = None,
    tenant: TenantLayers = NO_TENANT_LAYERS,
) -> Decision:
    """Return the decision for a user of the club on a channel.

    Args:
        user: The user's row; None if the user is confirmed as missing.
        user_settings: The settings' row; None if the user is confirmed to have no settings.
        tenant: The layers of the club.
        at_ms: The timestamp of the send, in milliseconds since the epoch; None: the category is as it was put last.
    """
    if channel not in CHANNELS:
        return Decision(Status.FAILED, Reason.UNKNOWN_CHANNEL, "default", f"channel:{channel}")
    if not is_member(user, club_id):
        return UNKNOWN
    return decide_by_user_settings(
        user_settings, club_id=club_id, type=type, channel=channel, at_ms=at_ms, tenant=tenant
    )


def needs_confirmation(
    user: User | None,
    user_settings: UserSettings | None,
    *,
    club_id: int,
    type: str,
    channels: Collection[str],
    at_ms: int | None = None,
    tenant: TenantLayers = NO_TENANT_LAYERS,
) -> bool:
    """Return whether a missing row could change the decision. Only then must the directory be confirmed as complete."""
    if not any(channel in CHANNELS for channel in channels):
        return False
    if not is_member(user, club_id):  # guard: tenancy.other_tenants_user
        return True
    is_missing = user_settings is None or user_settings.is_absent  # guard: preferences.changes_without_a_row
    # guard: preferences.missing_layers
    is_missing = is_missing or any(layer is None and is_mapped(table) for table, layer in _captured_layers(tenant))
    return is_missing and not category(type, at_ms=at_ms).mandatory  # guard: preferences.mandatory_without_settings


def _captured_layers(tenant: TenantLayers) -> Iterable[tuple[str, UserSettings | None]]:
    """Return the layers that are rows of the monolith, if it has their tables."""
    return (TENANT_USER_SETTINGS, tenant.user), (TENANT_SETTINGS, tenant.own)


def decide_by_user_settings(
    user_settings: UserSettings | None,
    *,
    club_id: int | None = None,
    type: str,
    channel: str,
    at_ms: int | None = None,
    tenant: TenantLayers = NO_TENANT_LAYERS,
) -> Decision:
    """Decide by the layers of preferences alone. A newer opt-out can change this part of the decision until the message
    is published.
    """
    kind = category(type, club_id, at_ms)
    if kind.mandatory:
        return _by(user_settings, Decision(None, None, "default", "mandatory"))
    if tenant is NO_TENANT_LAYERS:
        # Most clubs have no rules: the layers take longer.
        return _decide_by_user(user_settings, type, channel, needs_opt_in=channel in kind.opt_in)
    of_user = [(TENANT_USER, tenant.user), (USER, user_settings)]  # guard: preferences.first_layer
    first = next(_rules(of_user, type, channel), None)
    if first is not None and not first.wanted:
        return first.opt_out
    # guard: preferences.tenant_layers
    of_tenant = next(_rules([(TENANT, tenant.own), (GLOBAL, tenant.every)], type, channel), None)
    needs_opt_in = channel in kind.opt_in
    is_excluded = of_tenant is not None and not of_tenant.wanted
    if needs_opt_in or is_excluded:
        consent = next((each for each in _rules(of_user, type, channel) if each.is_consent), None)
        if consent is not None:
            return consent.permission
    if of_tenant is not None and is_excluded:  # guard: preferences.consent_by_category
        return of_tenant.opt_out
    if needs_opt_in:  # guard: preferences.opt_in
        return _by(user_settings, NOT_OPTED_IN)
    deciding = first or of_tenant
    return _by(user_settings, Decision(None)) if deciding is None else deciding.permission


def _decide_by_user(user_settings: UserSettings | None, type_: str, channel: str, *, needs_opt_in: bool) -> Decision:
    """Decide by one layer, the user's own."""
    if user_settings is None:
        return NOT_OPTED_IN if needs_opt_in else Decision(None)
    wanted, rule = _wanted(user_settings, type_, channel)
    if not wanted:
        return Decision(Status.SUPPRESSED, Reason.OPTED_OUT, USER, rule).by(user_settings)
    if needs_opt_in and not _is_about_category(rule):  # guard: preferences.opt_in_without_tenants
        return NOT_OPTED_IN.by(user_settings)
    return Decision(None, None, USER if rule else "default", rule).by(user_settings)


def _is_about_category(rule: str | None) -> bool:
    return rule is not None and rule.startswith("category:")


def settings_column(rule: str) -> str:
    """Return the column of the settings that a rule is in."""
    return "categories" if rule.startswith(("category:", "categories ")) else "channels"


class _Rule(NamedTuple):
    """The rule of a layer about a category on a channel."""

    layer: str
    settings: UserSettings
    wanted: bool
    rule: str

    @property
    def is_consent(self) -> bool:
        """Whether it is a rule for the category that permits notifications. A rule for the channel alone is none."""
        return self.wanted and _is_about_category(self.rule)

    @property
    def permission(self) -> Decision:
        return Decision(None, None, self.layer, self.rule).by(self.settings)

    @property
    def opt_out(self) -> Decision:
        return Decision(Status.SUPPRESSED, Reason.OPTED_OUT, self.layer, self.rule).by(self.settings)


def _rules(layers: Iterable[tuple[str, UserSettings | None]], type_: str, channel: str) -> Iterator[_Rule]:
    """Yield the rule of each layer that has one, the first layer first."""
    for layer, settings in layers:
        if settings is not None:
            wanted, rule = _wanted(settings, type_, channel)
            if rule is not None:
                yield _Rule(layer, settings, wanted, rule)


def _by(user_settings: UserSettings | None, decision: Decision) -> Decision:
    return decision if user_settings is None else decision.by(user_settings)


def _wanted(user_settings: UserSettings, type_: str, channel: str) -> tuple[bool, str | None]:
    """Return (wanted, rule). Any value but true is an opt-out, so that malformed user settings never count as consent.

    User settings are a customer's JSON. If a value is not an object where one is required, it is malformed, hence an
    opt-out. Null means that there is no rule.
    """
    by_category, by_channels = user_settings.categories, user_settings.channels
    for name, setting in (("categories", by_category), ("channels", by_channels)):
        if setting is not None and not isinstance(setting, Mapping):
            return False, f"{name} {malformed()}"
    names = setting_names()
    of_categories = read_names(by_category or {}, names.categories)
    of_channels = read_names(by_channels or {}, names.channels)
    wanted, rule = _by_rules(of_categories.known, of_channels.known, type_, channel)
    if not wanted:
        return wanted, rule
    if of_categories.unknown is not None:  # guard: preferences.unknown_category
        return False, f"categories {malformed(of_categories.unknown)}"
    if of_channels.unknown is not None:  # guard: preferences.unknown_channel
        return False, f"channels {malformed(of_channels.unknown)}"
    return True, rule


def _by_rules(
    by_category: Mapping[str, Any], by_channel: Mapping[str, Any], type_: str, channel: str
) -> tuple[bool, str | None]:
    """Return (wanted, rule) by the rules with known names."""
    about = by_category.get(folded(type_))
    if isinstance(about, Mapping):
        of_category, unknown = read_names(about, setting_names().in_category)
        if (setting := of_category.get(channel)) is not None and setting is not True:
            return False, f"category:{type_} channel:{channel}"
        if unknown is not None:  # guard: preferences.unknown_name_in_category
            return False, f"category:{type_} {malformed(unknown)}"
        if setting is not None:
            return True, f"category:{type_} channel:{channel}"
    elif about is not None:
        return about is True, f"category:{type_}"
    if (setting := by_channel.get(channel)) is not None:
        return setting is True, f"channel:{channel}"
    return True, None
