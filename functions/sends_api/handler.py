"""The sends_api function: it serves sends, their recipients and notifications over HTTP, and cancels, pauses, resumes
and moves sends. The sends_stream function, from the same package, serves the long poll of a send.
"""

import json
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from http import HTTPStatus
from typing import Any

from functions.sends_api.routes.cancel import CancelRoute
from functions.sends_api.routes.controllable import Control
from functions.sends_api.routes.message import MessageRoute
from functions.sends_api.routes.notification import NotificationRoute
from functions.sends_api.routes.pause import PauseRoute, ResumeRoute
from functions.sends_api.routes.recipients import RecipientsRoute
from functions.sends_api.routes.reschedule import RescheduleRoute
from functions.sends_api.routes.results_at_once import ResultsAtOnce
from functions.sends_api.routes.send import SendRoute
from functions.sends_api.routes.send_events import SendEventsRoute
from functions.sends_api.routes.sends import SendsRoute
from functions.sends_api.routes.user_notifications import UserNotificationsRoute
from masscomm import environment
from masscomm.clock import Clock, SystemClock
from masscomm.domain.time_limits import COUNTS_WAIT_S
from masscomm.http import rest
from masscomm.http.read_request import ReadRequest
from masscomm.http.rest import JSON, Response, uncached
from masscomm.lambda_context import LambdaContext
from masscomm.observability import logs
from masscomm.observability.invocation import observed
from masscomm.operations.bootstrap import audit_log, rest_api
from masscomm.operations.waiting import Waiting
from masscomm.stores.audit_log.port import AuditLog
from masscomm.stores.categories.known import known_categories
from masscomm.stores.delayed_records.port import DelayStore
from masscomm.stores.metrics.port import MetricsStore
from masscomm.stores.send_results.port import SETTING, SETTINGS, SendResults
from masscomm.stores.sends.port import Sends

logger = logs.logger("sends_api")


api = rest_api(logger, retry_after_s=2)


@dataclass(frozen=True)
class UseCases:
    send_route: SendRoute
    send_events_route: SendEventsRoute
    sends_route: SendsRoute
    cancel_route: CancelRoute
    pause_route: PauseRoute
    resume_route: ResumeRoute
    reschedule_route: RescheduleRoute
    recipients_route: RecipientsRoute
    message_route: MessageRoute
    notification_route: NotificationRoute
    user_notifications_route: UserNotificationsRoute


@cache
def bootstrap() -> UseCases:
    from masscomm.stores.delayed_records.dynamodb import DynamoDbDelayStore
    from masscomm.stores.metrics.postgres import PostgresMetricsStore
    from masscomm.stores.send_results.dynamodb import DynamoDbSendResults
    from masscomm.stores.sends.dynamodb import DynamoDbSends

    clock = SystemClock()
    return use_cases(
        # A send is answered without its counts within a second.
        PostgresMetricsStore.from_environment("sends_api", wait_s=COUNTS_WAIT_S),
        clock,
        timedelta(seconds=environment.number("METRICS_GRACE_S", 5)),
        Waiting.from_environment(clock),
        DynamoDbSends.from_environment(),
        DynamoDbDelayStore.from_environment(),
        audit_log(),
        DynamoDbSendResults.from_environment() if environment.choice(SETTING, SETTINGS) == SETTINGS[0] else None,
    )


def use_cases(
    store: MetricsStore,
    clock: Clock,
    grace: timedelta,
    waiting: Waiting,
    sends: Sends,
    delay_store: DelayStore,
    audit_log: AuditLog,
    results: SendResults | None = None,
) -> UseCases:
    """Return the use cases over one metrics store. `waiting` limits the long polls; without `results`, a send is
    answered with its counts alone.
    """
    at_once = None if results is None else ResultsAtOnce(store, results)
    send_route = SendRoute(store, sends, clock, at_once)
    control = Control(store, sends, delay_store, clock, audit_log, at_once)
    return UseCases(
        send_route,
        SendEventsRoute(send_route, waiting),
        SendsRoute(store, sends, clock),
        CancelRoute(control),
        PauseRoute(control),
        ResumeRoute(control),
        RescheduleRoute(control),
        RecipientsRoute(store, sends, clock),
        MessageRoute(store, sends, clock),
        NotificationRoute(store, sends, clock),
        UserNotificationsRoute(store, clock, grace),
    )


@api.get("/v1/sends")
def get_sends(asked: rest.Request) -> Response:
    """The sends of the caller's tenants, the latest first."""
    request = ReadRequest.of(asked, JSON)
    return request.answer(bootstrap().sends_route.answer(request.parameters, request.clubs))


@api.get("/v1/sends/{send_id}")
def get_send(asked: rest.Request, send_id: str) -> Response:
    """A send's notifications by status."""
    request = ReadRequest.of(asked, JSON)
    return request.answer(bootstrap().send_route.answer(send_id, request.parameters, request.clubs))


@api.get("/v1/sends/{send_id}/events")
def get_send_events(asked: rest.Request, send_id: str) -> Response:
    """Wait until a send has changed."""
    request = ReadRequest.of(asked, JSON)
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
    request = ReadRequest.of(asked, JSON)
    return request.answer(bootstrap().recipients_route.answer(send_id, request.parameters, request.clubs))


@api.get("/v1/sends/{send_id}/message")
def get_message(asked: rest.Request, send_id: str) -> Response:
    """The message of a send, while it is kept."""
    request = ReadRequest.of(asked, JSON)
    route = bootstrap().message_route
    known_categories().read()
    return uncached(route.answer(send_id, request.parameters, request.clubs, asked.scopes))


@api.get("/v1/notifications/{notification}")
def get_notification(asked: rest.Request, notification: str) -> Response:
    """A notification with the times of its statuses, each explained in words."""
    request = ReadRequest.of(asked, JSON)
    return request.answer(bootstrap().notification_route.answer(notification, request.parameters, request.clubs))


@api.get("/v1/users/{user_id}/notifications")
def get_user_notifications(asked: rest.Request, user_id: str) -> Response:
    """A user's notifications with their statuses."""
    request = ReadRequest.of(asked, JSON)
    return request.answer(bootstrap().user_notifications_route.answer(user_id, request.parameters, request.clubs))


@observed(logger, ahead=("masscomm.stores.metrics.postgres",))
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Process an API Gateway REST proxy event and return its response."""
    return api.answer(event, context)
