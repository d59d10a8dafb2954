"""The send_handler function: POST /v1/sends produces the chunks of a send to the topic send.api and returns 202,
POST /v1/sends/batch those of several small sends. A repeated request with the same Idempotency-Key is executed once.
/v1/schedules has the sends that recur.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from typing import Any

from functions.send_handler.registration import DynamoDbRequestedSends, Registration, begin_problem
from functions.send_handler.request_batch import pack_results, parse_batch, produce_batch, types_in, unpack_results
from functions.send_handler.request_once import KeyedRequest, RequestOnce
from functions.send_handler.request_send import RequestSend
from functions.send_handler.schedules import SchedulesRoute
from functions.send_handler.send_records import Caller
from functions.send_handler.send_request import check_permitted, parse_request, read_document, with_definition
from functions.send_handler.send_warnings import SendWarnings, result_of
from functions.send_handler.sender_checks import SenderChecks
from masscomm import environment
from masscomm.channels.ses_senders import SesSenders
from masscomm.clock import SystemClock
from masscomm.domain.email_settings import email_table
from masscomm.domain.key_limits import RECIPIENTS
from masscomm.domain.limits import CHUNK_SIZE
from masscomm.http import idempotency, rest
from masscomm.http.body import check_empty
from masscomm.http.rest import JSON, Response, uncached
from masscomm.kafka.avro import Codec, HttpSchemaRegistry
from masscomm.kafka.producer import KafkaProducer
from masscomm.lambda_context import LambdaContext
from masscomm.observability import logs, traces
from masscomm.observability.invocation import ON_KAFKA, observed
from masscomm.operations.bootstrap import audit_log, rest_api
from masscomm.operations.directory_bootstrap import content_checks
from masscomm.stores.audit_log.port import Audit, PrincipalAudit
from masscomm.stores.categories.known import known_categories
from masscomm.stores.delayed_records.dynamodb import DynamoDbDelayStore
from masscomm.stores.idempotency_keys.dynamodb import DynamoDbIdempotencyKeys
from masscomm.stores.saved_audiences.dynamodb import DynamoDbSavedAudiences
from masscomm.stores.saved_audiences.port import SavedAudiences
from masscomm.stores.schedules.dynamodb import DynamoDbSchedules

logger = logs.logger("send_handler")
api = rest_api(logger, retry_after_s=5)


@dataclass(frozen=True, kw_only=True)
class UseCases:
    requests: RequestSend
    once: RequestOnce
    warnings: SendWarnings
    senders: SenderChecks
    saved_audiences: SavedAudiences
    schedules: SchedulesRoute


@cache
def bootstrap() -> UseCases:
    traces.check_config()
    clock, codec = SystemClock(), Codec(HttpSchemaRegistry.from_environment())
    saved_audiences = DynamoDbSavedAudiences.from_environment()
    return UseCases(
        requests=RequestSend(
            codec=codec,
            producer=KafkaProducer.from_environment(),
            clock=clock,
            audit_log=audit_log(),
            registration=Registration(sends=DynamoDbRequestedSends.from_environment()),
            chunk_size=environment.whole_number("SEND_CHUNK_SIZE", CHUNK_SIZE, lowest=1),
        ),
        once=RequestOnce(keys=DynamoDbIdempotencyKeys.from_environment(), clock=clock),
        warnings=SendWarnings(content_checks),
        senders=SenderChecks(email_table, cache(lambda: SesSenders(clock))),
        saved_audiences=saved_audiences,
        schedules=SchedulesRoute(
            store=DynamoDbSchedules.from_environment(),
            saved_audiences=saved_audiences,
            delay_store=DynamoDbDelayStore.from_environment(),
            codec=codec,
            clock=clock,
        ),
    )


@api.post("/v1/sends")
def post_send(request: rest.Request) -> Response:
    """Request a send: 202 with its id once every chunk is on its topic."""
    key = idempotency.key_of(request)
    document = read_document(request)
    use_cases = bootstrap()
    requests, once, warnings = use_cases.requests, use_cases.once, use_cases.warnings
    known_categories().refresh(document.get("type"))
    send = parse_request(document, requests.clock)
    check_permitted(request, send)
    logs.note(club_id=send.club_id)
    caller = Caller.of(request)
    new, limits = requests.new_identity(send.send_id), dict[str, str]()
    refused = begin_problem(send, new.requested_at_ms, requests.registration.sends)
    attempt = once.begin(_keyed(request, "/v1/sends", document, send.club_id, key), new, refused)
    identity = attempt.identity
    headers = {"Location": f"/v1/sends/{identity.send_id}"}
    if attempt.response is not None:
        return Response(HTTPStatus.ACCEPTED, JSON, attempt.response, {**headers, idempotency.REPLAYED: "true"})
    with once.running(attempt):
        send = with_definition(send, use_cases.saved_audiences)
        warnings.check_template(send)
        use_cases.senders.check(send)
        found = requests.find_part(send, identity, caller)
        # Only a request with an Idempotency-Key or a send_id may have been counted before.
        is_new = attempt.claim is None and send.send_id is None
        # guard: limits.recipients_of_a_part
        counted_as = None if is_new else f"{identity.send_id}{send.part_suffix}"
        # guard: limits.recipients_of_a_send
        if send.audience is None:  # The recipients of an audience are counted when they are known.
            limits = api.take(request, RECIPIENTS, send.recipients, send_id=counted_as)
        identity = requests.placed(send, identity, caller, found)
        look_up = warnings.begin(send)
        accepted = requests.produce(send, identity, caller)
        body = json.dumps(accepted.body(result_of(look_up)))
    once.complete(attempt, body)
    return Response(HTTPStatus.ACCEPTED, JSON, body, headers | limits)


@api.post("/v1/sends/batch")
def post_batch(request: rest.Request) -> Response:
    """Request up to 1,000 small sends, with a result for each."""
    key = idempotency.required_key_of(request)
    document = read_document(request)
    use_cases = bootstrap()
    requests, once = use_cases.requests, use_cases.once
    known_categories().refresh(*types_in(document))
    batch = parse_batch(document, request, requests.clock, use_cases.senders.check)
    new, limits = requests.new_identity(), dict[str, str]()
    if batch.club_id is None:  # No send is accepted, so there is no request to repeat.
        return Response(HTTPStatus.OK, JSON, json.dumps(batch.body(new), ensure_ascii=False))
    logs.note(club_id=batch.club_id)
    caller = Caller.of(request)
    attempt = once.begin(_keyed(request, "/v1/sends/batch", document, batch.club_id, key), new)
    identity = attempt.identity
    if attempt.response is None:
        with once.running(attempt):
            if recipients := batch.recipients(identity):
                # guard: limits.recipients_of_a_batch
                limits = api.take(request, RECIPIENTS, recipients, send_id=identity.send_id)
            produce_batch(requests, batch, identity, caller)
        once.complete(attempt, pack_results(batch.body(identity)))
    else:
        limits = {idempotency.REPLAYED: "true"}
    results = batch.body(identity) if attempt.response is None else unpack_results(attempt.response)
    body = json.dumps(results, ensure_ascii=False)  # guard: idempotency.stored_results
    return Response(HTTPStatus.OK, JSON, body, limits)


@api.get("/v1/schedules")
def get_schedules(request: rest.Request) -> Response:
    """The schedules of a tenant."""
    return uncached(bootstrap().schedules.of_club(request))


@api.get("/v1/schedules/{schedule}")
def get_schedule(request: rest.Request, schedule: str) -> Response:
    """A schedule with its next times and its last occurrences."""
    return uncached(bootstrap().schedules.show(schedule, request))


@api.put("/v1/schedules/{schedule}")
def put_schedule(request: rest.Request, schedule: str) -> Response:
    """Save a schedule, in the place of an earlier one with its name."""
    document, use_cases = read_document(request), bootstrap()
    known_categories().read()
    saved, send = use_cases.schedules.parsed(schedule, document, request)
    use_cases.warnings.check_template(send)
    use_cases.senders.check(send)
    return uncached(use_cases.schedules.put(saved, request, _audit(request)))


@api.delete("/v1/schedules/{schedule}")
def delete_schedule(request: rest.Request, schedule: str) -> Response:
    """Delete a schedule. Its sends stay."""
    return uncached(bootstrap().schedules.delete(schedule, request, _audit(request)))


@api.post("/v1/schedules/{schedule}/pause")
def post_schedule_pause(request: rest.Request, schedule: str) -> Response:
    """Pause a schedule."""
    check_empty(request.text())
    return uncached(bootstrap().schedules.pause(schedule, request, _audit(request)))


@api.post("/v1/schedules/{schedule}/resume")
def post_schedule_resume(request: rest.Request, schedule: str) -> Response:
    """Continue a paused schedule with its next time. The caller is its owner then."""
    check_empty(request.text())
    known_categories().read()
    return uncached(bootstrap().schedules.resume(schedule, request, _audit(request)))


def _audit(request: rest.Request) -> Audit:
    requests = bootstrap().requests
    return PrincipalAudit(
        audit_log=requests.audit_log, clock=requests.clock, logger=logger, principal=request.principal
    )


def _keyed(
    request: rest.Request, path: str, document: Mapping[str, Any], club_id: int, key: str | None
) -> KeyedRequest | None:
    """Return a request that has an Idempotency-Key; None without one."""
    if key is None:
        return None
    return KeyedRequest(
        club_id=club_id,
        key=key,
        is_test=request.is_test,
        digest=idempotency.digest_of("POST", path, document),
        remaining_ms=round(request.remaining_s() * 1000),
    )


@observed(
    logger,
    ahead=(
        *ON_KAFKA,
        "masscomm.directory.opensearch",
        "masscomm.http.unused_content",
        "masscomm.stores.audit_log.dynamodb",
        "masscomm.stores.request_slots.dynamodb",
    ),
)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Process a REST proxy event of API Gateway and return its response."""
    return api.answer(event, context)
