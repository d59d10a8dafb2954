"""The send_handler function: POST /v1/sends produces the chunks of a send to the topic send.api and returns 202,
POST /v1/sends/batch those of several small sends. A repeated request with the same Idempotency-Key is executed once.

The previews function, from the same package: POST /v1/previews renders messages, POST /v1/dry-runs forecasts a send,
and GET /v1/templates lists templates. They read the directory, need no Kafka, and send nothing.
"""

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from masscomm import environment
from masscomm.clock import SystemClock
from masscomm.domain.key_limits import RECIPIENTS
from masscomm.domain.limits import CHUNK_SIZE
from masscomm.errors import Stop
from masscomm.http import idempotency, rest
from masscomm.http.rate_limits import RateLimiter, maximum_of
from masscomm.http.rest import JSON, Response
from masscomm.http.scopes import Scope
from masscomm.http.single_users import check_named_users
from masscomm.kafka.avro import Codec, HttpSchemaRegistry
from masscomm.kafka.producer import KafkaProducer
from masscomm.lambda_context import LambdaContext
from masscomm.observability import logs, traces
from masscomm.observability.invocation import ON_KAFKA, observed
from masscomm.operations.costly_requests import CostlyRequests
from masscomm.stores.request_slots.port import Kind

if TYPE_CHECKING:
    from functions.send_handler.dry_run import DryRunSend
    from functions.send_handler.request_once import Answer, RequestOnce
    from functions.send_handler.request_send import RequestSend
    from functions.send_handler.send_records import Caller, SendIdentity
    from functions.send_handler.send_request import SendRequest
    from functions.send_handler.send_warnings import SendWarnings
    from masscomm.directory.port import Directory
    from masscomm.rendering.templates import TemplateCache

logger = logs.logger("send_handler")


@cache
def limiter() -> RateLimiter:
    from masscomm.stores.key_usage.dynamodb import DynamoDbKeyUsage

    return RateLimiter(usage=DynamoDbKeyUsage.from_environment(), clock=SystemClock())


api = rest.Api(logger, retry_after_s=5, limiter=limiter)


@dataclass(frozen=True, kw_only=True)
class UseCases:
    requests: "RequestSend"
    once: "RequestOnce"
    warnings: "SendWarnings"


@cache
def directory() -> "Directory":
    from masscomm.directory.opensearch import OpenSearchDirectory

    return OpenSearchDirectory.from_environment()


@cache
def cached_templates() -> "TemplateCache":
    from masscomm.rendering.templates import TemplateCache

    return TemplateCache(directory(), SystemClock(), keep_empty=True)


@cache
def dry_runs() -> "DryRunSend":
    from functions.send_handler.dry_run import DryRunSend
    from functions.send_handler.registration import DynamoDbRequestedSends
    from masscomm.rendering.templates import TemplateCache

    clock = SystemClock()
    return DryRunSend(
        directory=directory(),
        # Another thread uses the cache of the warnings.
        templates=TemplateCache(directory(), clock, keep_empty=True),
        clock=clock,
        sends=DynamoDbRequestedSends.from_environment(),
    )


@cache
def costly() -> CostlyRequests:
    return CostlyRequests.from_environment()


@cache
def bootstrap() -> UseCases:
    from functions.send_handler.registration import DynamoDbRequestedSends, Registration
    from functions.send_handler.request_once import RequestOnce
    from functions.send_handler.request_send import RequestSend
    from functions.send_handler.send_warnings import SendWarnings
    from masscomm.stores.audit_log.dynamodb import DynamoDbAuditLog
    from masscomm.stores.idempotency_keys.dynamodb import DynamoDbIdempotencyKeys

    traces.check_config()
    clock = SystemClock()
    return UseCases(
        requests=RequestSend(
            codec=Codec(HttpSchemaRegistry(environment.required("SCHEMA_REGISTRY_URL"))),
            producer=KafkaProducer.from_environment(),
            clock=clock,
            audit_log=DynamoDbAuditLog.from_environment(),
            registration=Registration(sends=DynamoDbRequestedSends.from_environment()),
            chunk_size=environment.whole_number("SEND_CHUNK_SIZE", CHUNK_SIZE, lowest=1),
        ),
        once=RequestOnce(keys=DynamoDbIdempotencyKeys.from_environment(), clock=clock),
        warnings=SendWarnings(cached_templates),
    )


@api.post("/v1/sends")
def post_send(request: rest.Request) -> Response:
    """Request a send: 202 with its id once every chunk is on its topic."""
    with _slot(request):  # guard: costly_requests.large_send
        return _send(request)


def _send(request: rest.Request) -> Response:
    from functions.send_handler.request_once import KeyedRequest
    from functions.send_handler.send_request import parse_request, read_document

    key = idempotency.key_of(request)
    document = read_document(request)
    use_cases = bootstrap()
    requests = use_cases.requests
    send = parse_request(document, requests.clock)
    _check(request, send)
    logs.note(club_id=send.club_id)
    caller, limits = _caller(request), dict[str, str]()

    def execute(identity: "SendIdentity") -> str:
        use_cases.warnings.check_template(send)
        requests.check_id(send, identity, caller)
        # Only a request with an Idempotency-Key or a send_id may have been counted before.
        # guard: limits.recipients_of_a_part
        counted_as = None if key is None and send.send_id is None else f"{identity.send_id}{send.part_suffix}"
        # guard: limits.recipients_of_a_send
        if send.audience is None:  # The recipients of an audience are counted when they are known.
            limits.update(api.take(request, RECIPIENTS, send.recipients, send_id=counted_as))
        identity = requests.placed(send, identity, caller)
        warnings = use_cases.warnings.begin(send)
        return json.dumps(requests.produce(send, identity, caller).body(warnings()))

    if key is None:
        identity = requests.identify(send)
        return _accepted(identity.send_id, execute(identity), limits)
    answer = use_cases.once.request(
        KeyedRequest(
            club_id=send.club_id,
            key=key,
            is_test=request.is_test,
            digest=idempotency.digest_of("POST", "/v1/sends", document),
            remaining_ms=round(request.remaining_s() * 1000),
            identify=lambda: requests.identify(send),
            execute=execute,
        )
    )
    return _accepted(answer.identity.send_id, answer.body, limits | _replayed(answer))


@api.post("/v1/dry-runs")
def post_dry_run(request: rest.Request) -> Response:
    """Forecast a send: its notifications by channel and reason. Nothing is sent."""
    with costly().one(Kind.DRY_RUN, request):  # guard: costly_requests.dry_run
        return _dry_run(request)


def _dry_run(request: rest.Request) -> Response:
    from functions.send_handler.send_request import parse_request, read_document

    send = parse_request(read_document(request), dry_runs().clock)
    _check(request, send)
    logs.note(club_id=send.club_id)
    # Its counts are those of the sent one.
    request.require(Scope.READ)  # guard: scopes.dry_run
    use_case = dry_runs()
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
    with costly().one(Kind.TEMPLATES, request):  # guard: costly_requests.templates
        return _templates(request)


def _templates(request: rest.Request) -> Response:
    from functions.send_handler.list_templates import TemplatesRoute
    from masscomm.http.read_request import ReadRequest

    asked = ReadRequest.of(request, JSON)
    return asked.answer(TemplatesRoute(directory()).answer(asked.parameters, asked.clubs))


@api.post("/v1/sends/batch")
def post_batch(request: rest.Request) -> Response:
    """Request up to 1,000 small sends, with a result for each."""
    with _slot(request):  # guard: costly_requests.large_batch
        return _batch(request)


def _batch(request: rest.Request) -> Response:
    from functions.send_handler.request_batch import pack_results, parse_batch, produce_batch, unpack_results
    from functions.send_handler.request_once import KeyedRequest
    from functions.send_handler.send_request import read_document

    key = idempotency.required_key_of(request)
    document = read_document(request)
    use_cases = bootstrap()
    requests = use_cases.requests
    batch = parse_batch(document, requests.clock, lambda send: _check(request, send))
    if batch.club_id is None:  # No send is accepted, so there is no request to repeat.
        refused = json.dumps(batch.body(requests.new_identity()), ensure_ascii=False)
        return Response(HTTPStatus.OK, JSON, refused)
    logs.note(club_id=batch.club_id)
    caller, limits = _caller(request), dict[str, str]()

    def execute(identity: "SendIdentity") -> str:
        if recipients := batch.recipients(identity):
            # guard: limits.recipients_of_a_batch
            limits.update(api.take(request, RECIPIENTS, recipients, send_id=identity.send_id))
        produce_batch(requests, batch, identity, caller)
        return pack_results(batch.body(identity))

    answer = use_cases.once.request(
        KeyedRequest(
            club_id=batch.club_id,
            key=key,
            is_test=request.is_test,
            digest=idempotency.digest_of("POST", "/v1/sends/batch", document),
            remaining_ms=round(request.remaining_s() * 1000),
            identify=requests.new_identity,
            execute=execute,
        )
    )
    results = unpack_results(answer.body) if answer.replayed else batch.body(answer.identity)
    body = json.dumps(results, ensure_ascii=False)  # guard: idempotency.stored_results
    return Response(HTTPStatus.OK, JSON, body, limits | _replayed(answer))


@api.post("/v1/previews")
def post_preview(request: rest.Request) -> Response:
    """Render messages without sending them, for a user or for given values."""
    with costly().one(Kind.PREVIEW, request):  # guard: costly_requests.preview
        return _preview(request)


def _preview(request: rest.Request) -> Response:
    from functions.send_handler.preview_messages import parse_preview, previewed
    from functions.send_handler.send_request import check_tenant, read_document

    wanted = parse_preview(read_document(request))
    check_tenant(wanted, request.clubs)
    if wanted.user_id is not None:
        check_named_users(request.scopes, "user_id")
    body = json.dumps(previewed(wanted, directory()), ensure_ascii=False)
    return Response(HTTPStatus.OK, JSON, body, {"Cache-Control": "no-store"})


def _slot(request: rest.Request) -> AbstractContextManager[None]:
    """Return the slot that a request with a large body holds; reading it takes long. Small sends need none."""
    return costly().one(Kind.LARGE_BODY, request) if request.has_large_body else nullcontext()


def _check(request: rest.Request, send: "SendRequest") -> None:
    """Check that the caller may request a send. Raises Problem with status 403."""
    from functions.send_handler.send_request import check_simulated, check_tenant, scopes_needed

    check_tenant(send, request.clubs)
    if request.is_test:
        check_simulated(send)
    for scope in scopes_needed(send):
        request.require(scope)
    if send.audience is not None and send.audience.get("except_users"):
        check_named_users(request.scopes, "audience.except_users")


def _caller(request: rest.Request) -> "Caller":
    from functions.send_handler.send_records import Caller

    # The trace of the caller, if the request has valid trace headers.
    trace = traces.parse(request.header(traces.PARENT), request.header(traces.STATE))
    recipients_a_day = maximum_of(request.authorizer, RECIPIENTS)
    if recipients_a_day is not None and not request.counted_under:
        raise Stop("the authorizer's context has a limit and no principal")
    return Caller(
        principal=request.principal,
        counted_under=request.counted_under,
        trace=trace,
        recipients_a_day=recipients_a_day,
        is_test=request.is_test,
    )


def _replayed(answer: "Answer") -> dict[str, str]:
    return {idempotency.REPLAYED: "true"} if answer.replayed else {}


def _accepted(send_id: str, body: str, further: Mapping[str, str]) -> Response:
    headers = {"Location": f"/v1/sends/{send_id}", **further}
    return Response(HTTPStatus.ACCEPTED, JSON, body, headers)


@observed(
    logger,
    ahead=(
        *ON_KAFKA,
        "functions.send_handler.dry_run",
        "functions.send_handler.list_templates",
        "functions.send_handler.registration",
        "functions.send_handler.request_once",
        "functions.send_handler.preview_messages",
        "functions.send_handler.request_batch",
        "functions.send_handler.send_warnings",
        "masscomm.directory.opensearch",
        "masscomm.http.unused_content",
        "masscomm.stores.audit_log.dynamodb",
        "masscomm.stores.idempotency_keys.dynamodb",
        "masscomm.stores.request_slots.dynamodb",
    ),
)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Process a REST proxy event of API Gateway and return its response."""
    return api.answer(event, context)
