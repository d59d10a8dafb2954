"""The routes of preferences_handler: users and their preferences."""

from functions.preferences_handler import list_users, read_users, tenant_preferences
from functions.preferences_handler.preferences_body import PreferencesBody, PreferencesRequest
from functions.preferences_handler.user_body import UserBody
from masscomm.http.tenant import parse_club_id
from ops.openapi.operation import ID, IF_MATCH, Operation, Parameter
from ops.openapi.parameters import WAIT, WAITING, page

_NOT_FOUND = {404: "The user is unknown, or belongs to a tenant that the key may not see"}
_OWN_ROW = {"table": "user_settings", "version": 26843545600, "changed_at": "2026-11-20T08:00:00Z"}
_CHANGES_ROW = {"table": "preference_changes", "version": 1795262400000, "changed_at": "2026-11-21T12:00:00Z"}
_USER_ROW = {"table": "users", "version": 26843545464, "changed_at": "2026-11-02T09:30:00Z"}
_DEVICE_ROW = {"table": "device_state", "version": 3, "changed_at": "2026-11-20T08:00:01Z"}
_EXAMPLE = {
    "channels": {"push": True},
    "categories": {"newsletter": {"email": False}},
    "quiet_hours": {"start": "22:00", "end": "07:00"},
    "effective": [
        {"category": "newsletter", "wanted": True, "layer": "user", "rule": "channel:push", "row": _OWN_ROW},
        {
            "category": "newsletter",
            "channel": "email",
            "layer": "user",
            "rule": "category:newsletter channel:email",
            "row": _CHANGES_ROW,
        },
    ],
    "texts": {"newsletter": {"titles": {"en": "Newsletter"}, "descriptions": {"en": "What happens in the club"}}},
    "quiet_hours_row": _OWN_ROW,
    "changed_at": "2026-11-21T12:00:00Z",
    "pending": True,
    "links": {"self": "/v1/users/42/preferences"},
}
_USER_EXAMPLE = {
    "first_name": "Ada",
    "last_name": "Lovelace",
    "locale": "en",
    "time_zone": "Europe/London",
    "channels": ["push", "email"],
    "devices": [
        {
            "device_id": 420,
            "platform": "apns",
            "status": "active",
            "changed_at": "2026-11-20T08:00:00Z",
            "row": _DEVICE_ROW,
        }
    ],
    "suppression": None,
    "row": _USER_ROW,
    "links": {
        "self": "/v1/users/42",
        "preferences": "/v1/users/42/preferences",
        "notifications": "/v1/users/42/notifications",
        "stream": "/v1/users/42/stream",
    },
}

_PAGES = {
    404: "The link is not valid, or has expired",
    429: "The link was requested too often; Retry-After has the seconds until the next request",
    503: "A dependency is down",
}

_RULES = {"channels": {"push": True}, "categories": {"newsletter": {"email": False}}}
_TENANT_EXAMPLE = {
    **_RULES,
    "changed_at": "2026-11-21T12:00:00Z",
    "etag": '"6f1ed002ab5595859014ebf0951522d9"',
    "links": {"self": "/v1/tenants/1/preferences"},
}
_ETAG = {"ETag": "`etag` of the body"}
_CHANGED = {
    404: "The name contains a control character",
    409: "The rules are rows of a table of the monolith",
    412: "The rules have changed since they were read",
}

OPERATIONS = {
    ("GET", "/v1/unsubscribe/{token}"): Operation(
        description="The route needs no API key. It changes nothing, because programs request the links of e-mails.",
        success="A page with a button",
        problems=_PAGES,
    ),
    ("POST", "/v1/unsubscribe/{token}"): Operation(
        description="The route needs no API key. Mail programs request it for the header List-Unsubscribe-Post.",
        form={"List-Unsubscribe": "One-Click"},
        success="The recipient is unsubscribed",
        problems=_PAGES | {400: "The body is not the one of RFC 8058"},
    ),
    ("GET", "/v1/users"): Operation(
        description="The users of one tenant, as the directory has them. A key that may see several tenants must name "
        "one. The audit log has each page that is read.",
        parameters=(
            Parameter("club_id", parse_club_id.form, ID, 1),
            *page(list_users.DEFAULT_LIMIT, list_users.MAX_LIMIT),
        ),
        response=list_users.UsersBody,
        example={
            "rows": [
                {
                    "first_name": "Ada",
                    "last_name": "Lovelace",
                    "locale": "en",
                    "time_zone": "Europe/London",
                    "links": {"self": "/v1/users/42"},
                }
            ]
        },
    ),
    ("GET", "/v1/users/{user_id}/stream"): Operation(
        description="A long poll: it is answered once what is shown of the user has changed, by the monolith, a "
        "device's state, an opt-out or a suppression, and at the end of the wait. Only a response with the user is in "
        "the audit log.",
        parameters=(Parameter("after", "`version` of the previous response"), WAIT),
        response=read_users.UserStreamBody,
        example={
            "version": "6f1b1c0b6c6b8d4d5f2a9a0f7f3d9f10",
            "changed": True,
            "user": _USER_EXAMPLE,
            "preferences": _EXAMPLE,
        },
        problems=_NOT_FOUND | WAITING,
    ),
    ("GET", "/v1/users/{user_id}"): Operation(
        description="What the directory knows of the user now, with the rows that decide. Addresses and tokens are not "
        "in the response. It needs no counts, so it is answered while the metrics database is away. The audit log has "
        "each reading.",
        response=UserBody,
        example=_USER_EXAMPLE,
        problems=_NOT_FOUND,
    ),
    ("GET", "/v1/users/{user_id}/preferences"): Operation(
        description=(
            "`effective` says for each category and channel whether the user gets it, and why. `pending` is true "
            "while a change through masscomm is not yet in the monolith's row. `row` is the row of the directory that "
            "decides. The audit log has each reading."
        ),
        response=PreferencesBody,
        example=_EXAMPLE,
        problems=_NOT_FOUND,
    ),
    ("PUT", "/v1/users/{user_id}/preferences"): Operation(
        description="The change applies to each notification that is decided after the response. The monolith gets it "
        "on the topic preference_change. Mandatory categories have no preferences.",
        request=PreferencesRequest,
        requests={
            "category": {"categories": {"newsletter": {"email": False}}},
            "channel": {"channels": {"push": True}, "categories": {"news": False}},
            "quiet_hours": {"quiet_hours": {"start": "22:00", "end": "07:00"}},
            "no_quiet_hours": {"quiet_hours": None},
        },
        response=PreferencesBody,
        success="The change is stored, applies, and is on its way to the monolith",
        example=_EXAMPLE,
        problems=_NOT_FOUND,
    ),
    ("GET", "/v1/tenants/{tenant}/preferences"): Operation(
        description="A tenant without rules of its own has none here. Where `schemas/source.yaml` maps the table "
        "`tenant_settings`, its rows are shown, which only the monolith changes. `default` has the rules for every "
        "tenant, which only credentials for every tenant may read and change.",
        response=tenant_preferences.TenantPreferencesBody,
        example=_TENANT_EXAMPLE,
        headers=_ETAG,
        problems={404: "The name contains a control character"},
    ),
    ("PUT", "/v1/tenants/{tenant}/preferences"): Operation(
        description="The request replaces all rules. They apply where a user has no rule: those of the tenant before "
        "those of every tenant, to each notification that is decided once the directory has them. A user's rule for "
        "the category lifts them; a rule of a tenant is no opt-in. Mandatory categories have no preferences.",
        parameters=(IF_MATCH,),
        request=tenant_preferences.TenantPreferencesFields,
        requests={"rules": _RULES, "none": {}},
        response=tenant_preferences.TenantPreferencesBody,
        success="The rules are stored",
        example=_TENANT_EXAMPLE,
        headers=_ETAG,
        problems=_CHANGED,
    ),
    ("DELETE", "/v1/tenants/{tenant}/preferences"): Operation(
        description="A repeated request succeeds.",
        parameters=(IF_MATCH,),
        response=tenant_preferences.TenantPreferencesBody,
        success="The tenant has no rules",
        example={**_TENANT_EXAMPLE, "channels": {}, "categories": {}},
        headers=_ETAG,
        problems=_CHANGED,
    ),
}
