"""send_handler: POST /v1/sends → the send's chunks on send.api, 202."""

import json
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from masscomm import environment
from masscomm.clock import SystemClock
from masscomm.http import rest
from masscomm.http.rest import JSON, Response
from masscomm.kafka.avro import Codec, HttpSchemaRegistry
from masscomm.kafka.producer import KafkaProducer
from masscomm.lambda_context import LambdaContext
from masscomm.observability import logs, traces
from masscomm.observability.invocation import ON_KAFKA, observed

if TYPE_CHECKING:
    from functions.send_handler.request_send import RequestSend

logger = logs.logger("send_handler")
api = rest.Api(logger, retry_after_s=5)


@cache
def bootstrap() -> "RequestSend":
    """The adapters, built at the first invocation and kept."""
    from functions.send_handler.request_send import RequestSend

    traces.check_config()
    return RequestSend(
        codec=Codec(HttpSchemaRegistry(environment.required("SCHEMA_REGISTRY_URL"))),
        producer=KafkaProducer.from_environment(),
        clock=SystemClock(),
    )


@api.post("/v1/sends")
def post_send(request: rest.Request) -> Response:
    """202 with the send's id once every chunk is on its topic."""
    from functions.send_handler.request_send import check_tenant, parse_request

    send = parse_request(request.text())
    check_tenant(send, request.clubs)
    logs.note(club_id=send.club_id)
    # The caller's trace, where the request came with a valid one.
    trace = traces.parse(request.header(traces.PARENT), request.header(traces.STATE))
    accepted = bootstrap().request(send, trace)
    logger.info("send accepted", requested=accepted.requested)
    location = {"Location": f"/v1/sends/{accepted.send_id}"}
    return Response(HTTPStatus.ACCEPTED, JSON, json.dumps(accepted.body()), location)


@observed(logger, ahead=(*ON_KAFKA, "functions.send_handler.request_send"))
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Entry point: an API Gateway REST proxy event to its answer."""
    return api.answer(event, context)
