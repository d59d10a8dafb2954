"""The send_handler function: POST /v1/sends produces the chunks of a send to the topic send.api and returns 202. A
repeated request with the same Idempotency-Key is executed once.
"""

import json
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from masscomm import environment
from masscomm.clock import SystemClock
from masscomm.domain.limits import CHUNK_SIZE
from masscomm.http import idempotency, rest
from masscomm.http.rest import JSON, Response
from masscomm.kafka.avro import Codec, HttpSchemaRegistry
from masscomm.kafka.producer import KafkaProducer
from masscomm.lambda_context import LambdaContext
from masscomm.observability import logs, traces
from masscomm.observability.invocation import ON_KAFKA, observed

if TYPE_CHECKING:
    from functions.send_handler.request_once import RequestOnce

logger = logs.logger("send_handler")
api = rest.Api(logger, retry_after_s=5)


@cache
def bootstrap() -> "RequestOnce":
    from functions.send_handler.request_once import RequestOnce
    from functions.send_handler.request_send import RequestSend
    from masscomm.stores.idempotency_keys_dynamodb import DynamoDbIdempotencyKeys

    traces.check_config()
    clock = SystemClock()
    return RequestOnce(
        requests=RequestSend(
            codec=Codec(HttpSchemaRegistry(environment.required("SCHEMA_REGISTRY_URL"))),
            producer=KafkaProducer.from_environment(),
            clock=clock,
            chunk_size=int(environment.number("SEND_CHUNK_SIZE", CHUNK_SIZE)),
        ),
        keys=DynamoDbIdempotencyKeys.from_environment(),
        clock=clock,
    )


@api.post("/v1/sends")
def post_send(request: rest.Request) -> Response:
    """202 with the send's id once every chunk is on its topic."""
    from functions.send_handler.request_once import KeyedRequest
    from functions.send_handler.request_send import (
        check_media_type,
        check_tenant,
        parse_request,
        read_body,
        scopes_needed,
    )

    key = idempotency.key_of(request)
    check_media_type(request.header("content-type"))
    document = read_body(request.text())
    use_case = bootstrap()
    send = parse_request(document, use_case.clock)
    check_tenant(send, request.clubs)
    for scope in scopes_needed(send):
        request.require(scope)
    logs.note(club_id=send.club_id)
    # The trace of the caller, if the request has valid trace headers.
    trace = traces.parse(request.header(traces.PARENT), request.header(traces.STATE))
    if key is None:
        accepted = use_case.requests.request(send, trace)
        return _accepted(accepted.send_id, json.dumps(accepted.body()))
    answer = use_case.request(
        KeyedRequest(
            send=send,
            key=key,
            digest=idempotency.digest_of("POST", "/v1/sends", document),
            remaining_ms=round(request.remaining_s() * 1000),
            came_with=trace,
        )
    )
    return _accepted(answer.send_id, answer.body, replayed=answer.replayed)


def _accepted(send_id: str, body: str, *, replayed: bool = False) -> Response:
    headers = {"Location": f"/v1/sends/{send_id}"} | ({idempotency.REPLAYED: "true"} if replayed else {})
    return Response(HTTPStatus.ACCEPTED, JSON, body, headers)


@observed(
    logger,
    ahead=(*ON_KAFKA, "functions.send_handler.request_once", "masscomm.stores.idempotency_keys_dynamodb"),
)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Process a REST proxy event of API Gateway and return its response."""
    return api.answer(event, context)
