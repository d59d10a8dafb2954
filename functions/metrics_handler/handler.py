"""metrics_handler: serves metrics, trends, the stream of changes, sends and users' notifications over HTTP."""

from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any

from functions.metrics_handler.http.request import CSV, Request, uncached
from functions.metrics_handler.routes.metrics import MetricsRoute
from functions.metrics_handler.routes.send import SendRoute
from functions.metrics_handler.routes.stream import OPEN_POLLS, StreamRoute
from functions.metrics_handler.routes.trending import TrendingRoute
from functions.metrics_handler.routes.user_notifications import UserNotificationsRoute
from functions.metrics_handler.store.poll_slots import PollSlots
from functions.metrics_handler.store.port import MetricsStore
from masscomm import environment
from masscomm.aws.authentication import database_url
from masscomm.clock import Clock, SystemClock
from masscomm.http import rest
from masscomm.http.rest import JSON, Response
from masscomm.lambda_context import LambdaContext
from masscomm.observability import logs
from masscomm.observability.invocation import observed

logger = logs.logger("metrics_handler")
api = rest.Api(logger, retry_after_s=2)


@dataclass(frozen=True)
class UseCases:
    """The routes' use cases."""

    metrics_route: MetricsRoute
    trending_route: TrendingRoute
    stream_route: StreamRoute
    send_route: SendRoute
    user_notifications_route: UserNotificationsRoute


@cache
def bootstrap() -> UseCases:
    """Build the adapters once for each environment, at the first invocation."""
    from functions.metrics_handler.store.poll_slots_dynamodb import DynamoDbPollSlots
    from functions.metrics_handler.store.postgres import PostgresMetricsStore, connection_pool

    store = PostgresMetricsStore(connection_pool(database_url(environment.required("METRICS_DATABASE_URL"))))
    return use_cases(
        store,
        SystemClock(),
        timedelta(seconds=environment.number("METRICS_GRACE_S", 5)),
        DynamoDbPollSlots.from_environment(),
        int(environment.number("METRICS_OPEN_POLLS", OPEN_POLLS)),
    )


def use_cases(
    store: MetricsStore, clock: Clock, grace: timedelta, slots: PollSlots, open_polls: int = OPEN_POLLS
) -> UseCases:
    """Return the use cases over one store. slots, open_polls: for long polls."""
    metrics_route = MetricsRoute(store, clock, grace)
    return UseCases(
        metrics_route,
        TrendingRoute(store, clock, grace),
        StreamRoute(store, clock, metrics_route, slots, open_polls),
        SendRoute(store, clock),
        UserNotificationsRoute(store, clock, grace),
    )


@api.get("/v1/metrics")
def get_metrics(asked: rest.Request) -> Response:
    """Counts by bucket."""
    request = Request.of(asked, JSON, CSV)
    body = bootstrap().metrics_route.answer(request.parameters, request.clubs)
    return request.answer(body, ("bucket", *body["dimensions"], "count_total"))


@api.get("/v1/metrics/trending")
def get_trending(asked: rest.Request) -> Response:
    """What there is most of just now."""
    request = Request.of(asked, JSON, CSV)
    body = bootstrap().trending_route.answer(request.parameters, request.clubs)
    return request.answer(body, (body["by"], "count_total", "before"))


@api.get("/v1/metrics/stream")
def get_stream(asked: rest.Request) -> Response:
    """What has been counted since, once something has."""
    request = Request.of(asked, JSON)
    remaining_s = asked.remaining_s()
    watch = bootstrap().stream_route
    return uncached(watch.answer(request.parameters, request.clubs, caller=asked.caller, remaining_s=remaining_s))


@api.get("/v1/sends/{send_id}")
def get_send(asked: rest.Request, send_id: str) -> Response:
    """What became of a send."""
    request = Request.of(asked, JSON)
    return request.answer(bootstrap().send_route.answer(send_id, request.parameters, request.clubs))


@api.get("/v1/users/{user_id}/notifications")
def get_user_notifications(asked: rest.Request, user_id: str) -> Response:
    """What a user was to get."""
    request = Request.of(asked, JSON)
    return request.answer(bootstrap().user_notifications_route.answer(user_id, request.parameters, request.clubs))


@observed(logger, ahead=("functions.metrics_handler.store.postgres",))
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Process an API Gateway REST proxy event and return its response."""
    return api.answer(event, context)
