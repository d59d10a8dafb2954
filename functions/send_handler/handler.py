"""send_handler: POST /v1/sends → the send's chunks on send.api, 202."""

import json
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools.event_handler import APIGatewayRestResolver, Response, content_types
from aws_lambda_powertools.utilities.typing import LambdaContext

from masscomm import logs, settings, traces
from masscomm.clock import SystemClock
from masscomm.invocation import ON_KAFKA, observed
from masscomm.problem import Problem, answer_problems
from masscomm.producer import KafkaProducer
from masscomm.tenant import clubs_of
from masscomm.wire import Codec, HttpSchemaRegistry

if TYPE_CHECKING:
    from functions.send_handler.request_send import RequestSend

logger = logs.logger("send_handler")
app = APIGatewayRestResolver()
answer_problems(app, logger, retry_after_s=5)


@cache
def bootstrap() -> "RequestSend":
    """The adapters, built at the first invocation and kept."""
    from functions.send_handler.request_send import RequestSend

    traces.check_settings()
    return RequestSend(
        codec=Codec(HttpSchemaRegistry(settings.required("SCHEMA_REGISTRY_URL"))),
        producer=KafkaProducer.from_environment(),
        clock=SystemClock(),
    )


@app.post("/v1/sends")
def post_send() -> Response[str]:
    """202 with the send's id once every chunk is on its topic."""
    from functions.send_handler.request_send import check_tenant, parse_request

    send = parse_request(_body())
    check_tenant(send, clubs_of(app.current_event.raw_event["requestContext"].get("authorizer")))
    logs.note(club_id=send.club_id)
    accepted = bootstrap().request(send, _trace())
    logger.info("send accepted", requested=accepted.requested)
    return Response(
        status_code=HTTPStatus.ACCEPTED,
        content_type=content_types.APPLICATION_JSON,
        body=json.dumps(accepted.body()),
        headers={"Location": f"/v1/sends/{accepted.send_id}"},
    )


def _trace() -> traces.Trace | None:
    """The caller's, where the request came with a valid one."""
    headers = {name.lower(): value for name, value in (app.current_event.raw_event.get("headers") or {}).items()}
    return traces.parse(headers.get(traces.PARENT), headers.get(traces.STATE))


def _body() -> str | None:
    try:
        return app.current_event.decoded_body
    except ValueError as error:  # base64 that is none, or bytes that are not UTF-8
        raise Problem(400, f"the body is not UTF-8 text: {error}") from error


@observed(logger, ahead=(*ON_KAFKA, "functions.send_handler.request_send"))
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Entry point: an API Gateway REST proxy event to its answer."""
    return app.resolve(event, context)
