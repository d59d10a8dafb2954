"""metrics_handler: GET /v1/metrics and GET /v1/sends/{send_id}, read from what spark_metrics counted."""

import json
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.event_handler import APIGatewayRestResolver, Response, content_types
from aws_lambda_powertools.utilities.typing import LambdaContext

from functions.metrics_handler.postgres_store import PostgresMetricsStore, connection_pool
from functions.metrics_handler.query_metrics import QueryMetrics
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
    return _json(bootstrap().query_metrics.answer(_parameters()))


@app.get("/v1/sends/<send_id>")
def get_send(send_id: str) -> Response[str]:
    """What became of a send."""
    return _json(bootstrap().tell_send.answer(send_id, _parameters()))


def _parameters() -> dict[str, list[str]]:
    return app.current_event.resolved_query_string_parameters


def _json(body: dict[str, Any]) -> Response[str]:
    # Counts of a moment ago must not be served from anybody's cache.
    return Response(200, content_types.APPLICATION_JSON, json.dumps(body), {"Cache-Control": "no-store"})


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Entry point: an API Gateway REST proxy event to its answer."""
    return app.resolve(event, context)
