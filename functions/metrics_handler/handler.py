"""metrics_handler: GET /v1/metrics and GET /v1/sends/{send_id}, read from what spark_metrics counted."""

from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.event_handler import APIGatewayRestResolver, Response
from aws_lambda_powertools.utilities.typing import LambdaContext

from functions.metrics_handler.postgres_store import PostgresMetricsStore, connection_pool
from functions.metrics_handler.query_metrics import QueryMetrics
from functions.metrics_handler.request import CSV, JSON, Request
from functions.metrics_handler.tell_send import TellSend
from masscomm import settings
from masscomm.clock import SystemClock
from masscomm.problem import answer_problems

logger = Logger()
app = APIGatewayRestResolver()
answer_problems(app, logger, retry_after_s=2)


@dataclass(frozen=True)
class UseCases:
    """What the routes call."""

    query_metrics: QueryMetrics
    tell_send: TellSend


@cache
def bootstrap() -> UseCases:
    """The adapters, built at the first invocation and kept."""
    store = PostgresMetricsStore(connection_pool(settings.required("METRICS_DATABASE_URL")))
    clock, grace = SystemClock(), timedelta(seconds=settings.number("METRICS_GRACE_S", 5))
    return UseCases(QueryMetrics(store, clock, grace), TellSend(store, clock))


@app.get("/v1/metrics")
def get_metrics() -> Response[str]:
    """Counts by bucket."""
    request = _request(JSON, CSV)
    body = bootstrap().query_metrics.answer(request.parameters, request.clubs)
    return request.answer(body, ("bucket", *body["dimensions"], "count_total"))


@app.get("/v1/sends/<send_id>")
def get_send(send_id: str) -> Response[str]:
    """What became of a send."""
    request = _request(JSON)
    return request.answer(bootstrap().tell_send.answer(send_id, request.parameters, request.clubs))


def _request(*offered: str) -> Request:
    event = app.current_event
    return Request.of(event.raw_event, event.resolved_query_string_parameters, offered)


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Entry point: an API Gateway REST proxy event to its answer."""
    return app.resolve(event, context)
