"""metrics_handler: GET of metrics, trends, the stream of changes and sends, read from what spark_metrics counted."""

from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any

from aws_lambda_powertools.event_handler import APIGatewayRestResolver, Response
from aws_lambda_powertools.utilities.typing import LambdaContext

from functions.metrics_handler.metrics_store import MetricsStore
from functions.metrics_handler.query_metrics import QueryMetrics
from functions.metrics_handler.request import CSV, JSON, Request, uncached
from functions.metrics_handler.tell_send import TellSend
from functions.metrics_handler.tell_trends import TellTrends
from functions.metrics_handler.tell_user import TellUser
from functions.metrics_handler.watch_metrics import WatchMetrics
from masscomm import logs, settings
from masscomm.authentication import database_url
from masscomm.clock import Clock, SystemClock
from masscomm.invocation import observed
from masscomm.problem import answer_problems

logger = logs.logger("metrics_handler")
app = APIGatewayRestResolver()
answer_problems(app, logger, retry_after_s=2)


@dataclass(frozen=True)
class UseCases:
    """What the routes call."""

    query_metrics: QueryMetrics
    tell_trends: TellTrends
    watch_metrics: WatchMetrics
    tell_send: TellSend
    tell_user: TellUser


@cache
def bootstrap() -> UseCases:
    """The adapters, built at the first invocation and kept."""
    from functions.metrics_handler.postgres_store import PostgresMetricsStore, connection_pool

    store = PostgresMetricsStore(connection_pool(database_url(settings.required("METRICS_DATABASE_URL"))))
    return use_cases(store, SystemClock(), timedelta(seconds=settings.number("METRICS_GRACE_S", 5)))


def use_cases(store: MetricsStore, clock: Clock, grace: timedelta) -> UseCases:
    """All of them over one store."""
    query_metrics = QueryMetrics(store, clock, grace)
    return UseCases(
        query_metrics,
        TellTrends(store, clock, grace),
        WatchMetrics(store, clock, query_metrics),
        TellSend(store, clock),
        TellUser(store, clock, grace),
    )


@app.get("/v1/metrics")
def get_metrics() -> Response[str]:
    """Counts by bucket."""
    request = _request(JSON, CSV)
    body = bootstrap().query_metrics.answer(request.parameters, request.clubs)
    return request.answer(body, ("bucket", *body["dimensions"], "count_total"))


@app.get("/v1/metrics/trending")
def get_trending() -> Response[str]:
    """What there is most of just now."""
    request = _request(JSON, CSV)
    body = bootstrap().tell_trends.answer(request.parameters, request.clubs)
    return request.answer(body, (body["by"], "count_total", "before"))


@app.get("/v1/metrics/stream")
def get_stream() -> Response[str]:
    """What has been counted since, once something has."""
    request = _request(JSON)
    remaining_s = app.lambda_context.get_remaining_time_in_millis() / 1000
    return uncached(bootstrap().watch_metrics.answer(request.parameters, request.clubs, remaining_s=remaining_s))


@app.get("/v1/sends/<send_id>")
def get_send(send_id: str) -> Response[str]:
    """What became of a send."""
    request = _request(JSON)
    return request.answer(bootstrap().tell_send.answer(send_id, request.parameters, request.clubs))


@app.get("/v1/users/<user_id>/notifications")
def get_user_notifications(user_id: str) -> Response[str]:
    """What a user was to get."""
    request = _request(JSON)
    return request.answer(bootstrap().tell_user.answer(user_id, request.parameters, request.clubs))


def _request(*offered: str) -> Request:
    event = app.current_event
    return Request.of(event.raw_event, event.resolved_query_string_parameters, offered)


@observed(logger, ahead=("functions.metrics_handler.postgres_store",))
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Entry point: an API Gateway REST proxy event to its answer."""
    return app.resolve(event, context)
