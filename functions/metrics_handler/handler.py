"""The metrics_handler function: it serves metrics, trends, latencies, the stream of changes and results of webhooks."""

from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any

from functions.metrics_handler.routes.latency import LatencyRoute
from functions.metrics_handler.routes.metrics import MetricsRoute
from functions.metrics_handler.routes.stream import StreamRoute
from functions.metrics_handler.routes.trending import TrendingRoute
from functions.metrics_handler.routes.webhooks import WebhooksRoute
from masscomm import environment
from masscomm.clock import Clock, SystemClock
from masscomm.http import rest
from masscomm.http.read_request import CSV, ReadRequest
from masscomm.http.rest import JSON, Response, uncached
from masscomm.lambda_context import LambdaContext
from masscomm.observability import logs
from masscomm.observability.invocation import observed
from masscomm.operations.bootstrap import rest_api
from masscomm.operations.waiting import Waiting
from masscomm.stores.metrics.port import MetricsStore

logger = logs.logger("metrics_handler")


api = rest_api(logger, retry_after_s=2)


@dataclass(frozen=True)
class UseCases:
    metrics_route: MetricsRoute
    trending_route: TrendingRoute
    latency_route: LatencyRoute
    stream_route: StreamRoute
    webhooks_route: WebhooksRoute


@cache
def bootstrap() -> UseCases:
    from masscomm.stores.metrics.postgres import PostgresMetricsStore

    clock = SystemClock()
    return use_cases(
        PostgresMetricsStore.from_environment("metrics_handler"),
        clock,
        timedelta(seconds=environment.number("METRICS_GRACE_S", 5)),
        Waiting.from_environment(clock),
    )


def use_cases(store: MetricsStore, clock: Clock, grace: timedelta, waiting: Waiting) -> UseCases:
    """Return the use cases over one metrics store. `waiting` limits the long polls."""
    metrics_route = MetricsRoute(store, clock, grace)
    return UseCases(
        metrics_route,
        TrendingRoute(store, clock, grace),
        LatencyRoute(store, clock, grace),
        StreamRoute(store, clock, metrics_route, waiting),
        WebhooksRoute(store, clock),
    )


@api.get("/v1/metrics")
def get_metrics(asked: rest.Request) -> Response:
    """Counts by bucket."""
    request = ReadRequest.of(asked, JSON, CSV)
    body = bootstrap().metrics_route.answer(request.parameters, request.clubs)
    return request.answer(body, ("bucket", *body["dimensions"], "count_total"))


@api.get("/v1/metrics/trending")
def get_trending(asked: rest.Request) -> Response:
    """The categories or tenants with the most notifications in the last minutes."""
    request = ReadRequest.of(asked, JSON, CSV)
    body = bootstrap().trending_route.answer(request.parameters, request.clubs)
    return request.answer(body, (body["by"], "count_total", "before"))


@api.get("/v1/metrics/latency")
def get_latency(asked: rest.Request) -> Response:
    """How long notifications took from due to sent and delivered."""
    request = ReadRequest.of(asked, JSON, CSV)
    body = bootstrap().latency_route.answer(request.parameters, request.clubs)
    return request.answer(body, ("bucket", *body["dimensions"], "count_total", "p50_ms", "p95_ms", "p99_ms"))


@api.get("/v1/metrics/stream")
def get_stream(asked: rest.Request) -> Response:
    """Wait until a batch has been counted."""
    request = ReadRequest.of(asked, JSON)
    remaining_s = asked.remaining_s()
    watch = bootstrap().stream_route
    return uncached(watch.answer(request.parameters, request.clubs, caller=asked.caller, remaining_s=remaining_s))


@api.get("/v1/webhooks/{endpoint_id}/log")
def get_webhook_log(asked: rest.Request, endpoint_id: str) -> Response:
    """Attempts to send events to an endpoint."""
    request = ReadRequest.of(asked, JSON)
    return request.answer(bootstrap().webhooks_route.log(endpoint_id, request.parameters, request.clubs))


@api.get("/v1/webhooks/{endpoint_id}/metrics")
def get_webhook_metrics(asked: rest.Request, endpoint_id: str) -> Response:
    """Counts of the attempts to send events to an endpoint."""
    request = ReadRequest.of(asked, JSON)
    return request.answer(bootstrap().webhooks_route.metrics(endpoint_id, request.parameters, request.clubs))


@observed(logger, ahead=("masscomm.stores.metrics.postgres",))
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Process an API Gateway REST proxy event and return its response."""
    return api.answer(event, context)
