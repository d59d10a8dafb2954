"""Events as API Gateway's REST APIs (v1) pass them to a function."""

from types import SimpleNamespace
from typing import Any

from masscomm.http.scopes import ALL_SCOPES, scopes_text

# The part of an authorizer context with every scope, and the context of an operator.
EVERY_SCOPE = {"scopes": scopes_text(ALL_SCOPES)}
EVERY_CLUB = EVERY_SCOPE | {"principalId": "operator", "all_clubs": "true"}


def get(path: str, **parameters: list[str]) -> dict[str, Any]:
    """A proxy event of a GET request by a caller with access to every club."""
    return {
        "resource": path,
        "path": path,
        "httpMethod": "GET",
        "headers": {"Accept": "application/json"},
        "multiValueHeaders": {"Accept": ["application/json"]},
        "queryStringParameters": {name: values[-1] for name, values in parameters.items()} or None,
        "multiValueQueryStringParameters": parameters or None,
        "pathParameters": None,
        "stageVariables": None,
        "requestContext": {
            "authorizer": EVERY_CLUB,
            "stage": "local",
            "requestId": "r",
            "httpMethod": "GET",
            "path": path,
        },
        "body": None,
        "isBase64Encoded": False,
    }


def lambda_context() -> Any:
    """Return a context with the fields that Powertools reads."""
    return SimpleNamespace(
        aws_request_id="r",
        function_name="f",
        memory_limit_in_mb=512,
        invoked_function_arn="arn",
        get_remaining_time_in_millis=lambda: 29_000,
    )
