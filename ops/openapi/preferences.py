"""The routes of preferences_handler: users and their preferences."""

from functions.preferences_handler.preferences_body import PreferencesBody, PreferencesRequest
from functions.preferences_handler.user_body import UserBody
from ops.openapi.operation import Operation

_NOT_FOUND = {404: "The user is unknown, or belongs to a tenant that the key may not see"}
_EXAMPLE = {
    "channels": {"push": True},
    "categories": {"newsletter": {"email": False}},
    "quiet_hours": {"start": "22:00", "end": "07:00"},
    "effective": [
        {"category": "newsletter", "wanted": True, "layer": "user", "rule": "channel:push"},
        {"category": "newsletter", "channel": "email", "layer": "user", "rule": "category:newsletter channel:email"},
    ],
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
    "devices": [{"device_id": 420, "platform": "apns", "status": "active", "changed_at": "2026-11-20T08:00:00Z"}],
    "links": {
        "self": "/v1/users/42",
        "preferences": "/v1/users/42/preferences",
        "notifications": "/v1/users/42/notifications",
    },
}

_PAGES = {
    404: "The link is not valid, or has expired",
    429: "The link was requested too often; Retry-After has the seconds until the next request",
    503: "A dependency is down",
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
    ("GET", "/v1/users/{user_id}"): Operation(
        description="What the directory knows of the user now. Addresses and tokens are not in the response. It needs "
        "no counts, so it is answered while the metrics database is away.",
        response=UserBody,
        example=_USER_EXAMPLE,
        problems=_NOT_FOUND,
    ),
    ("GET", "/v1/users/{user_id}/preferences"): Operation(
        description=(
            "`effective` says for each category and channel whether the user gets it, and why. `pending` is true "
            "while a change through masscomm is not yet in the monolith's row."
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
}
