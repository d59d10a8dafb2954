"""metrics_handler: GET /v1/metrics and GET /v1/sends/{send_id}, read from what spark_metrics counted."""

import json
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.event_handler import APIGatewayRestResolver, Response, content_types
from aws_lambda_powertools.event_handler.exceptions import NotFoundError
from aws_lambda_powertools.utilities.typing import LambdaContext

from functions.metrics_handler.postgres_store import PostgresMetricsStore, connection_pool
from functions.metrics_handler.query_metrics import QueryMetrics
from functions.metrics_handler.tell_send import TellSend
from masscomm import settings
from masscomm.clock import SystemClock
from masscomm.errors import Retry, Stop
from masscomm.problem import Problem

logger = Logger()
app = APIGatewayRestResolver()


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


@app.exception_handler(Problem)
def problem(error: Problem) -> Response[str]:
    """Problem details for what the caller can mend."""
    return error.response()


@app.exception_handler(Retry)
def unavailable(error: Retry) -> Response[str]:
    """The database is away: the caller may come again."""
    logger.warning("a dependency is down", error=str(error))
    return Problem(503, str(error), retry_after_s=2).response()


@app.exception_handler(Stop)
def misconfigured(error: Stop) -> Response[str]:
    """An operator must act; the caller learns no more than that."""
    logger.error("misconfigured", error=str(error))
    return Problem(500, "the service is misconfigured").response()


@app.exception_handler(Exception)
def fault(_error: Exception) -> Response[str]:
    """A fault in the code: ours to read in the log, nobody else's."""
    logger.exception("a request failed in our own code")
    return Problem(500, "the service failed").response()


@app.not_found
def not_found(_error: NotFoundError) -> Response[str]:
    """No such resource here."""
    return Problem(404, "there is no such resource").response()


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Entry point: an API Gateway REST proxy event to its answer."""
    return app.resolve(event, context)
