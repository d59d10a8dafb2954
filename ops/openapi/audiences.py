"""The routes of audiences."""

from functions.audiences.count_audience import CountBody, CountRequest
from functions.operations_handler.routes import audiences
from masscomm.domain.limits import SMALLEST_GROUP
from masscomm.domain.saved_audiences import MAX_SAVED_AUDIENCES
from ops.openapi.examples import NOON
from ops.openapi.operation import ID, IF_MATCH, IF_NONE_MATCH, Operation, Parameter

_CLUB = (Parameter("club_id", "The tenant", ID, 1, required=True),)
_AUDIENCE = {"where": {"field": "locale", "is": "de"}}
_SAVED = {
    "name": "germans",
    "changed_at": NOON,
    "audience": _AUDIENCE,
    "etag": '"6f1ed002ab5595859014ebf0951522d9"',
}
_ETAG = {"ETag": "`etag` of the body"}
_CHANGED = {412: "Another request has changed it"}
_UNKNOWN = {404: "The audience is unknown"}

OPERATIONS = {
    ("GET", "/v1/audiences"): Operation(
        description="They are in the order of their names.",
        parameters=_CLUB,
        response=audiences.SavedAudiencesBody,
        example={"rows": [{"name": "germans", "changed_at": NOON}]},
    ),
    ("GET", "/v1/audiences/{name}"): Operation(
        description="`POST /v1/audiences/count` counts its users, and `POST /v1/dry-runs` what they would get.",
        parameters=_CLUB,
        response=audiences.SavedAudienceBody,
        example=_SAVED,
        headers=_ETAG,
        problems=_UNKNOWN,
    ),
    ("PUT", "/v1/audiences/{name}"): Operation(
        description=(
            'A send with `"audience": {"saved": "<name>"}` has a copy of the conditions, made at its request: a later '
            "change does not concern it."
        ),
        parameters=(*_CLUB, IF_MATCH, IF_NONE_MATCH),
        request=audiences.SavedAudienceFields,
        requests={"germans": {"audience": _AUDIENCE}},
        response=audiences.SavedAudienceBody,
        success="The audience is saved",
        example=_SAVED,
        headers=_ETAG,
        problems={
            404: "The name contains a control character",
            409: f"The club has {MAX_SAVED_AUDIENCES} saved audiences",
            412: "Another request has changed it, or it exists",
        },
    ),
    ("DELETE", "/v1/audiences/{name}"): Operation(
        description="Sends that were requested keep their copies of its conditions.",
        parameters=(*_CLUB, IF_MATCH),
        response=audiences.DeletedAudienceBody,
        example={"name": "germans"},
        problems=_UNKNOWN | _CHANGED,
    ),
    ("POST", "/v1/audiences/count"): Operation(
        description=(
            "An audience has `where` (a condition), `follows` (an object that its users follow, such as `team:42`), "
            "both of them, `all_users` or `saved` (a name), and `except_users`. A count of a large tenant may end "
            "before all users are examined: `complete` is false then. With `except_users`, and "
            f"for fewer than {SMALLEST_GROUP} users, it needs `users:read`."
        ),
        request=CountRequest,
        requests={
            "all_users": {"club_id": 1, "audience": {"all_users": True}},
            "segment": {
                "club_id": 1,
                "audience": {
                    "where": {
                        "all": [
                            {"field": "locale", "in": ["de", "de-AT"]},
                            {"not": {"field": "settings.categories.news", "is": False}},
                        ]
                    },
                    "except_users": [42],
                },
                "channels": ["email"],
            },
        },
        response=CountBody,
        example={"users": 1200, "channels": {"push": 1100, "email": 900}, "examined": 5000, "complete": True},
    ),
}
