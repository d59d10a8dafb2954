"""The metrics_handler function: it serves metrics, trends, the stream of changes, sends and users' notifications
over HTTP, and cancels, pauses, resumes and moves sends.
"""

import json
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from functions.metrics_handler.http.request import CSV, Request
from functions.metrics_handler.routes.audit import AuditRoute
from functions.metrics_handler.routes.cancel import CancelRoute
from functions.metrics_handler.routes.controllable import Control
from functions.metrics_handler.routes.metrics import MetricsRoute
from functions.metrics_handler.routes.notification import NotificationRoute
from functions.metrics_handler.routes.pause import PauseRoute, ResumeRoute
from functions.metrics_handler.routes.recipients import RecipientsRoute
from functions.metrics_handler.routes.reschedule import RescheduleRoute
from functions.metrics_handler.routes.send import SendRoute
from functions.metrics_handler.routes.send_events import SendEventsRoute
from functions.metrics_handler.routes.sends import SendsRoute
from functions.metrics_handler.routes.stream import StreamRoute
from functions.metrics_handler.routes.trending import TrendingRoute
from functions.metrics_handler.routes.user_notifications import UserNotificationsRoute
from functions.metrics_handler.routes.waiting import OPEN_POLLS, Waiting
from functions.metrics_handler.store.port import MetricsStore
from masscomm import environment
from masscomm.aws.authentication import database_url
from masscomm.clock import Clock, SystemClock
from masscomm.http import rest
from masscomm.http.rate_limits import RateLimiter
from masscomm.http.rest import JSON, Response, uncached
from masscomm.lambda_context import LambdaContext
from masscomm.observability import logs
from masscomm.observability.invocation import observed
from masscomm.operations.costly_requests import CostlyRequests
from masscomm.stores.audit_log.port import AuditLog
from masscomm.stores.changed_sends import ChangedSends
from masscomm.stores.delayed_records.port import DelayStore
from masscomm.stores.expansions import Expansions
from masscomm.stores.request_slots.port import Kind, RequestSlots
from masscomm.stores.send_controls import SendControls

if TYPE_CHECKING:
    from functions.metrics_handler.routes.templates import TemplatesRoute

logger = logs.logger("metrics_handler")


@cache
def limiter() -> RateLimiter:
    from masscomm.stores.key_usage.dynamodb import DynamoDbKeyUsage

    return RateLimiter(usage=DynamoDbKeyUsage.from_environment(), clock=SystemClock())


api = rest.Api(logger, retry_after_s=2, limiter=limiter)


@dataclass(frozen=True)
class UseCases:
    metrics_route: MetricsRoute
    trending_route: TrendingRoute
    stream_route: StreamRoute
    send_route: SendRoute
    send_events_route: SendEventsRoute
    sends_route: SendsRoute
    cancel_route: CancelRoute
    pause_route: PauseRoute
    resume_route: ResumeRoute
    reschedule_route: RescheduleRoute
    recipients_route: RecipientsRoute
    notification_route: NotificationRoute
    user_notifications_route: UserNotificationsRoute
    audit_route: AuditRoute


@cache
def templates_route() -> "TemplatesRoute":
    from functions.metrics_handler.routes.templates import TemplatesRoute
    from masscomm.directory.opensearch import OpenSearchDirectory

    return TemplatesRoute(OpenSearchDirectory.from_environment())


@cache
def costly() -> CostlyRequests:
    return CostlyRequests.from_environment()


@cache
def bootstrap() -> UseCases:
    from functions.metrics_handler.store.postgres import PostgresMetricsStore
    from masscomm.stores.audit_log.dynamodb import DynamoDbAuditLog
    from masscomm.stores.changed_sends_dynamodb import DynamoDbChangedSends
    from masscomm.stores.delayed_records.dynamodb import DynamoDbDelayStore
    from masscomm.stores.expansions_dynamodb import DynamoDbExpansions
    from masscomm.stores.metrics_database import connection_pool
    from masscomm.stores.request_slots.dynamodb import DynamoDbRequestSlots
    from masscomm.stores.send_controls_dynamodb import DynamoDbSendControls

    store = PostgresMetricsStore(
        connection_pool(database_url(environment.required("METRICS_DATABASE_URL")), "metrics_handler")
    )
    return use_cases(
        store,
        SystemClock(),
        timedelta(seconds=environment.number("METRICS_GRACE_S", 5)),
        DynamoDbRequestSlots.from_environment(),
        DynamoDbSendControls.from_environment(),
        DynamoDbDelayStore.from_environment(),
        DynamoDbAuditLog.from_environment(),
        environment.whole_number("METRICS_OPEN_POLLS", OPEN_POLLS),
        DynamoDbExpansions.from_environment(),
        DynamoDbChangedSends.from_environment(),
    )


def use_cases(
    store: MetricsStore,
    clock: Clock,
    grace: timedelta,
    slots: RequestSlots,
    controls: SendControls,
    delay_store: DelayStore,
    audit_log: AuditLog,
    open_polls: int = OPEN_POLLS,
    expansions: Expansions | None = None,
    changed: ChangedSends | None = None,
) -> UseCases:
    """Return the use cases over one metrics store. `slots` and `open_polls` limit the long polls."""
    metrics_route = MetricsRoute(store, clock, grace)
    send_route = SendRoute(store, controls, clock, expansions)
    waiting = Waiting(clock, slots, open_polls)
    control = Control(store, controls, delay_store, clock, audit_log, changed)
    return UseCases(
        metrics_route,
        TrendingRoute(store, clock, grace),
        StreamRoute(store, clock, metrics_route, waiting),
        send_route,
        SendEventsRoute(send_route, waiting),
        SendsRoute(store, controls, clock, expansions),
        CancelRoute(control),
        PauseRoute(control),
        ResumeRoute(control),
        RescheduleRoute(control),
        RecipientsRoute(store, controls, clock),
        NotificationRoute(store, controls, clock),
        UserNotificationsRoute(store, clock, grace),
        AuditRoute(audit_log, clock),
    )


@api.get("/v1/metrics")
def get_metrics(asked: rest.Request) -> Response:
    """Counts by bucket."""
    request = Request.of(asked, JSON, CSV)
    body = bootstrap().metrics_route.answer(request.parameters, request.clubs)
    return request.answer(body, ("bucket", *body["dimensions"], "count_total"))


@api.get("/v1/metrics/trending")
def get_trending(asked: rest.Request) -> Response:
    """The categories or clubs with the most notifications in the last minutes."""
    request = Request.of(asked, JSON, CSV)
    body = bootstrap().trending_route.answer(request.parameters, request.clubs)
    return request.answer(body, (body["by"], "count_total", "before"))


@api.get("/v1/metrics/stream")
def get_stream(asked: rest.Request) -> Response:
    """Wait until a batch has been counted."""
    request = Request.of(asked, JSON)
    remaining_s = asked.remaining_s()
    watch = bootstrap().stream_route
    return uncached(watch.answer(request.parameters, request.clubs, caller=asked.caller, remaining_s=remaining_s))


@api.get("/v1/sends")
def get_sends(asked: rest.Request) -> Response:
    """The sends of the caller's clubs, the latest first."""
    request = Request.of(asked, JSON)
    return request.answer(bootstrap().sends_route.answer(request.parameters, request.clubs))


@api.get("/v1/sends/{send_id}")
def get_send(asked: rest.Request, send_id: str) -> Response:
    """A send's notifications by status."""
    request = Request.of(asked, JSON)
    return request.answer(bootstrap().send_route.answer(send_id, request.parameters, request.clubs))


@api.get("/v1/sends/{send_id}/events")
def get_send_events(asked: rest.Request, send_id: str) -> Response:
    """Wait until a send has changed."""
    request = Request.of(asked, JSON)
    remaining_s = asked.remaining_s()
    events = bootstrap().send_events_route
    return uncached(
        events.answer(send_id, request.parameters, request.clubs, caller=asked.caller, remaining_s=remaining_s)
    )


@api.post("/v1/sends/{send_id}/cancel")
def post_cancel(asked: rest.Request, send_id: str) -> Response:
    """Cancel a send: each notification that is not published yet gets the status cancelled."""
    logs.note(send_id=send_id)
    return _controlled(asked, send_id, bootstrap().cancel_route, "send cancelled")


@api.post("/v1/sends/{send_id}/pause")
def post_pause(asked: rest.Request, send_id: str) -> Response:
    """Pause a send: its notifications that are not published yet are held until it is resumed or cancelled."""
    logs.note(send_id=send_id)
    return _controlled(asked, send_id, bootstrap().pause_route, "send paused")


@api.post("/v1/sends/{send_id}/resume")
def post_resume(asked: rest.Request, send_id: str) -> Response:
    """Resume a paused send: its held notifications continue within a minute."""
    logs.note(send_id=send_id)
    return _controlled(asked, send_id, bootstrap().resume_route, "send resumed")


def _controlled(
    asked: rest.Request, send_id: str, route: CancelRoute | PauseRoute | ResumeRoute, message: str
) -> Response:
    """Return the response of a route that controls a send, and log `message` if it succeeds."""
    body = route.answer(send_id, asked.parameters, asked.clubs, asked.text(), asked.principal)
    logger.info(message, principal=asked.principal)
    return Response(HTTPStatus.ACCEPTED, JSON, json.dumps(body), {"Location": body["links"]["self"]})


@api.patch("/v1/sends/{send_id}")
def patch_send(asked: rest.Request, send_id: str) -> Response:
    """Move a scheduled send to another time."""
    logs.note(send_id=send_id)
    body = bootstrap().reschedule_route.answer(send_id, asked.parameters, asked.clubs, asked.text(), asked.principal)
    logger.info("send moved", principal=asked.principal, send_at=body["send_at"])
    return Response(HTTPStatus.OK, JSON, json.dumps(body))


@api.get("/v1/sends/{send_id}/recipients")
def get_recipients(asked: rest.Request, send_id: str) -> Response:
    """A send's notifications, each with its status and the decision in words."""
    request = Request.of(asked, JSON)
    return request.answer(bootstrap().recipients_route.answer(send_id, request.parameters, request.clubs))


@api.get("/v1/notifications/{notification}")
def get_notification(asked: rest.Request, notification: str) -> Response:
    """A notification with the times of its statuses, each explained in words."""
    request = Request.of(asked, JSON)
    return request.answer(bootstrap().notification_route.answer(notification, request.parameters, request.clubs))


@api.get("/v1/users/{user_id}/notifications")
def get_user_notifications(asked: rest.Request, user_id: str) -> Response:
    """A user's notifications with their statuses."""
    request = Request.of(asked, JSON)
    return request.answer(bootstrap().user_notifications_route.answer(user_id, request.parameters, request.clubs))


@api.get("/v1/audit")
def get_audit(asked: rest.Request) -> Response:
    """The audit log of a club: which principal did what."""
    request = Request.of(asked, JSON)
    return uncached(bootstrap().audit_route.answer(request.parameters, request.clubs))


@api.get("/v1/templates")
def get_templates(asked: rest.Request) -> Response:
    """The templates of the caller's clubs and those for every club."""
    request = Request.of(asked, JSON)
    with costly().one(Kind.TEMPLATES, asked):  # guard: costly_requests.templates
        return request.answer(templates_route().answer(request.parameters, request.clubs))


@observed(logger, ahead=("functions.metrics_handler.store.postgres",))
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Process an API Gateway REST proxy event and return its response."""
    return api.answer(event, context)
