"""The previews function: POST /v1/previews renders messages, POST /v1/dry-runs forecasts a send, and GET /v1/templates
lists templates. They read the directory, and send nothing.
"""

import json
from functools import cache
from http import HTTPStatus
from typing import Any

from functions.send_handler.dry_run import DryRunSend
from functions.send_handler.list_templates import TemplatesRoute
from functions.send_handler.preview_messages import parse_preview, previewed
from functions.send_handler.registration import DynamoDbRequestedSends
from functions.send_handler.send_request import (
    check_permitted,
    check_tenant,
    parse_request,
    read_document,
    with_definition,
)
from masscomm.clock import SystemClock
from masscomm.http import rest
from masscomm.http.read_request import ReadRequest
from masscomm.http.rest import JSON, Response
from masscomm.http.scopes import Scope
from masscomm.http.single_users import check_named_users
from masscomm.lambda_context import LambdaContext
from masscomm.observability import logs
from masscomm.observability.invocation import observed
from masscomm.operations.bootstrap import rest_api
from masscomm.operations.directory_bootstrap import directory, templates
from masscomm.stores.categories.known import known_categories
from masscomm.stores.frequency_caps.dynamodb import DynamoDbFrequencyCaps
from masscomm.stores.saved_audiences.dynamodb import DynamoDbSavedAudiences
from masscomm.stores.saved_audiences.port import SavedAudiences

logger = logs.logger("send_handler")
api = rest_api(logger, retry_after_s=5)


@cache
def dry_runs() -> DryRunSend:
    sends = DynamoDbRequestedSends.from_environment()
    return DryRunSend(
        directory=directory(),
        templates=templates(),
        clock=SystemClock(),
        sends=sends,
        frequency_caps=DynamoDbFrequencyCaps.from_environment(),
    )


@cache
def saved_audiences() -> SavedAudiences:
    return DynamoDbSavedAudiences.from_environment()


@api.post("/v1/dry-runs")
def post_dry_run(request: rest.Request) -> Response:
    """Forecast a send: its notifications by channel and reason. Nothing is sent."""
    use_case = dry_runs()
    known_categories().read()
    send = parse_request(read_document(request), use_case.clock)
    check_permitted(request, send)
    logs.note(club_id=send.club_id)
    # Its counts are those of the sent one.
    request.require(Scope.READ)  # guard: scopes.dry_run
    send = with_definition(send, saved_audiences())
    body = use_case.answer(
        send,
        use_case.identify(send),
        request.remaining_s,
        is_test=request.is_test,
        scopes=request.scopes,
    )
    logger.info("dry run", requested=body["requested"], estimated=body["estimated"])
    return rest.uncached(body)


@api.get("/v1/templates")
def get_templates(request: rest.Request) -> Response:
    """The templates of the caller's tenants and those for every tenant."""
    asked = ReadRequest.of(request, JSON)
    return asked.answer(TemplatesRoute(directory()).answer(asked.parameters, asked.clubs))


@api.post("/v1/previews")
def post_preview(request: rest.Request) -> Response:
    """Render messages without sending them, for a user or for given values."""
    wanted = parse_preview(read_document(request))
    check_tenant(wanted, request.clubs)
    known_categories().refresh(wanted.type)
    if wanted.user_id is not None:
        check_named_users(request.scopes, "user_id")
    body = json.dumps(previewed(wanted, directory()), ensure_ascii=False)
    return Response(HTTPStatus.OK, JSON, body, {"Cache-Control": "no-store"})


@observed(
    logger,
    ahead=(
        "confluent_kafka",
        "urllib3",
        "masscomm.directory.opensearch",
        "masscomm.stores.request_slots.dynamodb",
    ),
)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Process a REST proxy event of API Gateway and return its response."""
    return api.answer(event, context)
