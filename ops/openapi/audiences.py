"""The routes of the audiences function."""

from functions.audiences.count_audience import CountBody, CountRequest
from masscomm.domain.limits import SMALLEST_GROUP
from ops.openapi.operation import Operation

OPERATIONS = {
    ("POST", "/v1/audiences/count"): Operation(
        description=(
            "An audience has `where` (a condition) or `all_users`, and `except_users`. A count of a large tenant may "
            "end before all users are examined: `complete` is false then. With `except_users`, and for fewer than "
            f"{SMALLEST_GROUP} users, it needs `users:read`."
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
