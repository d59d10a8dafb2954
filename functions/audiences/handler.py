"""The audiences function: it counts the users of an audience over HTTP."""

import json
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from masscomm.http import rest
from masscomm.http.rest import JSON, Response
from masscomm.lambda_context import LambdaContext
from masscomm.observability import logs
from masscomm.observability.invocation import observed
from masscomm.operations.bootstrap import rest_api
from masscomm.stores.categories.known import known_categories

if TYPE_CHECKING:
    from functions.audiences.count_audience import CountAudience

logger = logs.logger("audiences")


api = rest_api(logger, retry_after_s=5)


@cache
def bootstrap() -> "CountAudience":
    from functions.audiences.count_audience import CountAudience
    from masscomm.directory.chosen import directory_from_environment
    from masscomm.stores.saved_audiences.dynamodb import DynamoDbSavedAudiences

    return CountAudience(directory=directory_from_environment(), saved=DynamoDbSavedAudiences.from_environment())


@api.post("/v1/audiences/count")
def post_count(request: rest.Request) -> Response:
    """Count the users of an audience, and by channel those that it can reach."""
    from functions.audiences.count_audience import parse_count

    known_categories().read()
    query = parse_count(request.text())
    logs.note(club_id=query.club_id)
    body = bootstrap().count(query, request.clubs, request.scopes, request.remaining_s)
    return Response(HTTPStatus.OK, JSON, json.dumps(body), {"Cache-Control": "no-store"})


@observed(
    logger,
    ahead=(
        "functions.audiences.count_audience",
        "masscomm.directory.opensearch",
        "masscomm.stores.request_slots.dynamodb",
    ),
)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Process a REST proxy event of API Gateway and return its response."""
    return api.answer(event, context)
