"""The scopes of API keys, the scopes and limits of people's roles, and the scope that each route needs.

An authorizer's context lists the scopes of its key: {"scopes": "send read"}. A context without `scopes` has none.
"""

import json
from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType

from masscomm.domain.key_limits import LIMITS, RECIPIENTS, REQUESTS

SCOPES = "scopes"


class Scope(StrEnum):
    """A permission of an API key."""

    SEND = "send"  # The key may request and control sends.
    SEND_CRITICAL = "send:critical"  # The key may request sends in the critical lane.
    # The key may send in a mandatory category, which bypasses opt-outs.
    SEND_MANDATORY = "send:mandatory"
    SEND_CONTENT = "send:content"  # The key may send texts of its own in place of a template.
    READ = "read"  # The key may read metrics and sends.
    # The key may read what is known of a single user (masscomm.http.single_users).
    USERS_READ = "users:read"
    USERS_WRITE = "users:write"  # The key may change the preferences of a single user.
    WEBHOOKS = "webhooks"  # The key may manage webhook endpoints and read their deliveries.
    EVENTS = "events"  # The key may report events.
    OPERATE = "operate"  # The key may repair: handle dead letters and suppressions.
    ADMIN = "admin"  # The key may read the audit log, and manage API keys.


ALL_SCOPES = frozenset(Scope)
# The scopes of a key that was created without any.
DEFAULT_SCOPES = frozenset({Scope.READ})


class Role(StrEnum):
    """A role of a person who signs in."""

    VIEWER = "viewer"
    SENDER = "sender"
    # Builds integrations of a tenant: endpoints, subscriptions and sources of events. Sends nothing to users.
    DEVELOPER = "developer"
    ADMIN = "admin"


_VIEWER = frozenset({Scope.READ, Scope.USERS_READ})
ROLE_SCOPES: Mapping[Role, frozenset[Scope]] = MappingProxyType(
    {
        Role.VIEWER: _VIEWER,
        Role.SENDER: _VIEWER | {Scope.SEND, Scope.SEND_CONTENT},
        Role.DEVELOPER: frozenset({Scope.READ, Scope.WEBHOOKS}),
        Role.ADMIN: ALL_SCOPES,
    }
)

# The limits of each person, as masscomm.domain.key_limits.LIMITS names them. A role that makes API keys has none: a key
# has no higher limit than its maker.
ROLE_LIMITS: Mapping[Role, Mapping[str, int]] = MappingProxyType(
    {
        Role.VIEWER: {REQUESTS.setting: 600},
        Role.SENDER: {REQUESTS.setting: 600, RECIPIENTS.setting: 1_000_000},
        Role.DEVELOPER: {REQUESTS.setting: 600},
        Role.ADMIN: {},
    }
)

# (method, path) → the scope of a request to this route. A route without an entry needs the scope admin.
ROUTE_SCOPES: Mapping[tuple[str, str], Scope] = MappingProxyType(
    {
        ("POST", "/v1/sends"): Scope.SEND,
        ("POST", "/v1/sends/batch"): Scope.SEND,
        ("POST", "/v1/sends/{send_id}/cancel"): Scope.SEND,
        ("POST", "/v1/sends/{send_id}/pause"): Scope.SEND,
        ("POST", "/v1/sends/{send_id}/resume"): Scope.SEND,
        ("PATCH", "/v1/sends/{send_id}"): Scope.SEND,
        ("POST", "/v1/dry-runs"): Scope.SEND,
        # A caller that may send to an audience may count it, without users:read if it has enough users.
        ("POST", "/v1/audiences/count"): Scope.SEND,
        ("GET", "/v1/audiences"): Scope.READ,
        ("GET", "/v1/audiences/{name}"): Scope.READ,
        ("PUT", "/v1/audiences/{name}"): Scope.SEND,
        ("DELETE", "/v1/audiences/{name}"): Scope.SEND,
        ("GET", "/v1/schedules"): Scope.READ,
        # The users of a send need users:read.
        ("GET", "/v1/schedules/{schedule}"): Scope.READ,
        ("PUT", "/v1/schedules/{schedule}"): Scope.SEND,
        ("DELETE", "/v1/schedules/{schedule}"): Scope.SEND,
        ("POST", "/v1/schedules/{schedule}/pause"): Scope.SEND,
        ("POST", "/v1/schedules/{schedule}/resume"): Scope.SEND,
        ("GET", "/v1/sends"): Scope.READ,
        ("GET", "/v1/sends/{send_id}"): Scope.READ,
        ("POST", "/v1/previews"): Scope.READ,
        ("GET", "/v1/templates"): Scope.READ,
        ("GET", "/v1/metrics"): Scope.READ,
        ("GET", "/v1/metrics/trending"): Scope.READ,
        ("GET", "/v1/metrics/latency"): Scope.READ,
        ("GET", "/v1/metrics/stream"): Scope.READ,
        ("GET", "/v1/sends/{send_id}/events"): Scope.READ,
        # The values of a send to few users need users:read.
        ("GET", "/v1/sends/{send_id}/message"): Scope.READ,
        ("GET", "/v1/sends/{send_id}/recipients"): Scope.USERS_READ,
        ("GET", "/v1/notifications/{notification}"): Scope.USERS_READ,
        ("GET", "/v1/users/{user_id}/notifications"): Scope.USERS_READ,
        ("GET", "/v1/users"): Scope.USERS_READ,
        ("GET", "/v1/users/{user_id}"): Scope.USERS_READ,
        ("GET", "/v1/users/{user_id}/stream"): Scope.USERS_READ,
        ("GET", "/v1/users/{user_id}/preferences"): Scope.USERS_READ,
        ("PUT", "/v1/users/{user_id}/preferences"): Scope.USERS_WRITE,
        ("GET", "/v1/tenants/{tenant}/preferences"): Scope.READ,
        ("PUT", "/v1/tenants/{tenant}/preferences"): Scope.ADMIN,
        ("DELETE", "/v1/tenants/{tenant}/preferences"): Scope.ADMIN,
        ("GET", "/v1/audit"): Scope.ADMIN,
        ("GET", "/v1/categories"): Scope.READ,
        ("GET", "/v1/categories/{category}"): Scope.READ,
        ("PUT", "/v1/categories/{category}"): Scope.ADMIN,
        # Its parts need the scopes of their own routes.
        ("GET", "/v1/overview"): Scope.READ,
        ("GET", "/v1/health"): Scope.OPERATE,
        ("GET", "/v1/alarms"): Scope.OPERATE,
        ("GET", "/v1/dead-letters"): Scope.OPERATE,
        ("GET", "/v1/dead-letters/{position}"): Scope.OPERATE,
        ("POST", "/v1/dead-letters/{position}/replay"): Scope.OPERATE,
        ("POST", "/v1/dead-letters/{position}/discard"): Scope.OPERATE,
        ("GET", "/v1/devices"): Scope.OPERATE,
        ("GET", "/v1/devices/counts"): Scope.OPERATE,
        ("POST", "/v1/devices/{device_id}/enable"): Scope.OPERATE,
        ("GET", "/v1/suppressions"): Scope.OPERATE,
        ("DELETE", "/v1/suppressions/{suppression}"): Scope.OPERATE,
        ("GET", "/v1/webhooks"): Scope.WEBHOOKS,
        ("POST", "/v1/webhooks"): Scope.WEBHOOKS,
        ("GET", "/v1/webhooks/{endpoint_id}"): Scope.WEBHOOKS,
        ("PATCH", "/v1/webhooks/{endpoint_id}"): Scope.WEBHOOKS,
        ("DELETE", "/v1/webhooks/{endpoint_id}"): Scope.WEBHOOKS,
        ("POST", "/v1/webhooks/{endpoint_id}/rotate"): Scope.WEBHOOKS,
        ("POST", "/v1/webhooks/{endpoint_id}/test"): Scope.WEBHOOKS,
        ("POST", "/v1/webhooks/{endpoint_id}/test/{event_type}"): Scope.WEBHOOKS,
        ("GET", "/v1/webhooks/{endpoint_id}/deliveries"): Scope.WEBHOOKS,
        ("POST", "/v1/webhooks/{endpoint_id}/deliveries/{delivery_id}/resend"): Scope.WEBHOOKS,
        ("GET", "/v1/webhooks/{endpoint_id}/dead-letters"): Scope.WEBHOOKS,
        ("POST", "/v1/webhooks/{endpoint_id}/dead-letters/ack"): Scope.WEBHOOKS,
        ("POST", "/v1/webhooks/{endpoint_id}/dead-letters/replay"): Scope.WEBHOOKS,
        ("GET", "/v1/webhooks/{endpoint_id}/log"): Scope.WEBHOOKS,
        ("GET", "/v1/webhooks/{endpoint_id}/metrics"): Scope.WEBHOOKS,
        ("POST", "/v1/events"): Scope.EVENTS,
        ("GET", "/v1/event-types"): Scope.READ,
        ("GET", "/v1/event-types/{event_type}"): Scope.READ,
        # With this scope alone the routes refuse: a type concerns every club.
        ("PUT", "/v1/event-types/{event_type}"): Scope.ADMIN,
        ("DELETE", "/v1/event-types/{event_type}"): Scope.ADMIN,
        ("GET", "/v1/sources"): Scope.WEBHOOKS,
        ("POST", "/v1/sources"): Scope.WEBHOOKS,
        ("GET", "/v1/sources/{source_id}"): Scope.WEBHOOKS,
        ("PUT", "/v1/sources/{source_id}"): Scope.WEBHOOKS,
        ("DELETE", "/v1/sources/{source_id}"): Scope.WEBHOOKS,
        ("GET", "/v1/subscriptions"): Scope.WEBHOOKS,
        ("POST", "/v1/subscriptions"): Scope.WEBHOOKS,
        # It changes nothing.
        ("POST", "/v1/subscriptions/matches"): Scope.WEBHOOKS,
        ("GET", "/v1/subscriptions/{subscription_id}"): Scope.WEBHOOKS,
        ("DELETE", "/v1/subscriptions/{subscription_id}"): Scope.WEBHOOKS,
        ("GET", "/v1/keys"): Scope.ADMIN,
        ("POST", "/v1/keys"): Scope.ADMIN,
        ("POST", "/v1/keys/{key_id}/rotate"): Scope.ADMIN,
        ("POST", "/v1/keys/{key_id}/revoke"): Scope.ADMIN,
    }
)

# The routes that need no API key, because their path has a credential of its own.
PUBLIC_ROUTES = frozenset({("GET", "/v1/unsubscribe/{token}"), ("POST", "/v1/unsubscribe/{token}")})


def scopes_of(authorizer: object) -> frozenset[Scope]:
    """Return the scopes in an authorizer's context. Unknown words are ignored."""
    if not isinstance(authorizer, Mapping):
        return frozenset()
    given = authorizer.get(SCOPES)  # guard: scopes.without_scopes
    words = given.split() if isinstance(given, str) else []
    return frozenset(Scope(word) for word in words if word in ALL_SCOPES)


def scopes_text(scopes: Iterable[str]) -> str:
    """Return scopes as an authorizer's context and a stored key list them."""
    return " ".join(sorted(scopes))


def scopes_of_roles(roles: object) -> frozenset[Scope]:
    """Return the scopes of a token's claim `roles`, a list of roles. Unknown roles have none."""
    return frozenset(scope for role in _known(roles) for scope in ROLE_SCOPES[role])


def limits_of_roles(roles: object, limits: Mapping[Role, Mapping[str, int]]) -> Mapping[str, int]:
    """Return the limits of a token's claim `roles`: of several roles the highest maximum, none if one role has none."""
    of_roles = [limits.get(role, {}) for role in _known(roles)]
    maxima = {kind.setting: [each.get(kind.setting) for each in of_roles] for kind in LIMITS}
    return {
        name: max(number for number in numbers if number is not None)
        for name, numbers in maxima.items()
        if numbers and None not in numbers
    }


def role_limits(text: str) -> Mapping[Role, Mapping[str, int]]:
    """Return the limits in a JSON object: role → limit → its maximum, a whole number. A role that is not named has no
    limit. Raises ValueError.
    """
    found = json.loads(text)
    if not isinstance(found, dict) or not all(isinstance(limits, dict) for limits in found.values()):
        raise ValueError("role limits are an object of objects")
    settings = {kind.setting for kind in LIMITS}
    for role, limits in found.items():
        if role not in set(Role) or limits.keys() - settings:
            raise ValueError(f"role limits: {role} or one of {', '.join(limits)} is unknown")
        if not all(type(maximum) is int and maximum >= 1 for maximum in limits.values()):
            raise ValueError(f"role limits: a maximum of {role} is no whole number of at least 1")
    return {Role(role): limits for role, limits in found.items()}


def _known(roles: object) -> list[Role]:
    return [Role(role) for role in roles if role in list(Role)] if isinstance(roles, list) else []
