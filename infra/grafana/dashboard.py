"""Builds the dashboard. `python -m infra.grafana > infra/grafana/masscomm.json` writes it as Grafana imports it.

The form is Grafana's classic dashboard model, schema version 39, which Grafana migrates when it imports the file.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

UID = "masscomm"
# The variable by which the reader chooses the Prometheus that scrapes /metrics.
_VARIABLE = "prometheus"
_SOURCE = {"type": "prometheus", "uid": f"${{{_VARIABLE}}}"}
_COLUMNS, _WIDTH, _HEIGHT = 24, 12, 8
# Over which time a rate is computed. Grafana chooses it from the scrape interval.
RATE = "$__rate_interval"


@dataclass(frozen=True, kw_only=True)
class Query:
    # The query in PromQL.
    expression: str
    # The name of each series, with {{label}} for the value of a label.
    legend: str


@dataclass(frozen=True, kw_only=True)
class Panel:
    title: str
    description: str
    # A unit of Grafana: reqps, s, short, percentunit.
    unit: str
    queries: Sequence[Query]


def _quantiles(histogram: str, label: str) -> list[Query]:
    return [
        Query(
            expression=f"histogram_quantile({quantile}, sum by (le, {label}) (rate({histogram}_bucket[{RATE}])))",
            legend=f"p{quantile * 100:.0f} {{{{{label}}}}}",
        )
        for quantile in (0.5, 0.99)
    ]


def _rate(counter: str, *labels: str, subject: str = "") -> list[Query]:
    by = ", ".join(labels)
    legend = subject + " ".join(f"{{{{{label}}}}}" for label in labels)
    return [Query(expression=f"sum by ({by}) (rate({counter}[{RATE}]))", legend=legend)]


PANELS = (
    Panel(
        title="Requests",
        description="Requests to the API by route and status",
        unit="reqps",
        queries=_rate("masscomm_gateway_requests_total", "method", "route", "status"),
    ),
    Panel(
        title="Latency of requests",
        description="From a request to its response",
        unit="s",
        queries=_quantiles("masscomm_gateway_request_duration_seconds", "route"),
    ),
    Panel(
        title="Notifications by status",
        description="Outcomes of notifications a second; a redelivered record counts them again",
        unit="short",
        queries=_rate("masscomm_recipients_total", "status"),
    ),
    Panel(
        title="Latency of notifications",
        description="From due to sent or delivered, of the last 15 minutes; a redelivered record counts once",
        unit="s",
        queries=[
            Query(
                expression=f'max by (status, channel) (masscomm_notification_latency_seconds{{quantile="{quantile}"}})',
                legend=f"p{float(quantile) * 100:.0f} {{{{status}}}} {{{{channel}}}}",
            )
            for quantile in ("0.5", "0.95", "0.99")
        ],
    ),
    Panel(
        title="Sends by state",
        description="Sends that were requested in the last hour, by state as counted",
        unit="short",
        queries=[Query(expression="sum by (status) (masscomm_sends)", legend="{{status}}")],
    ),
    Panel(
        title="Latency by stage",
        description="From the production of a record for the stage to its end: decided, built, published, counted",
        unit="s",
        queries=_quantiles("masscomm_stage_latency_seconds", "stage"),
    ),
    Panel(
        title="Latency of invocations",
        description="One invocation of each function, of a Kafka-triggered function a whole batch",
        unit="s",
        queries=_quantiles("masscomm_invocation_duration_seconds", "function"),
    ),
    Panel(
        title="Records",
        description="Records that functions have received a second",
        unit="short",
        queries=_rate("masscomm_records_in_total", "function"),
    ),
    Panel(
        title="Records that failed",
        description="Records to be redelivered, and dead letters",
        unit="short",
        queries=[
            *_rate("masscomm_records_failed_total", "function"),
            *_rate("masscomm_dead_letters_total", "function", subject="dead letters "),
        ],
    ),
    Panel(
        title="Provider calls",
        description="Calls to providers a second",
        unit="reqps",
        queries=_rate("masscomm_provider_calls_total", "channel"),
    ),
    Panel(
        title="Latency of providers",
        description="How long calls to providers took",
        unit="s",
        queries=_quantiles("masscomm_provider_latency_seconds", "channel"),
    ),
    Panel(
        title="Delayed records",
        description="Records that are due and not released yet",
        unit="short",
        queries=[Query(expression="max(masscomm_waiting_backlog)", legend="backlog")],
    ),
    Panel(
        title="Staleness of the directory",
        description="The age of the newest heartbeat of the monolith's database when it was read",
        unit="s",
        queries=[Query(expression="max(masscomm_change_data_age_seconds)", legend="staleness")],
    ),
    Panel(
        title="Functions",
        description="Invocations in flight, and those that wait for an execution environment",
        unit="short",
        queries=[
            Query(expression="sum by (function) (masscomm_function_in_flight)", legend="in flight {{function}}"),
            Query(expression="sum by (function) (masscomm_function_queued)", legend="queued {{function}}"),
        ],
    ),
    Panel(
        title="Errors of functions",
        description="Invocations that failed and processes that ended a second",
        unit="short",
        queries=[
            *_rate("masscomm_function_errors_total", "function"),
            *_rate("masscomm_function_crashes_total", "function", subject="crashes "),
        ],
    ),
)


def dashboard() -> dict[str, Any]:
    """Return the dashboard as a JSON value."""
    return {
        "uid": UID,
        "title": "masscomm",
        "description": "Requests, notifications, functions and providers",
        "tags": ["masscomm"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "10s",
        "timezone": "browser",
        "time": {"from": "now-1h", "to": "now"},
        "annotations": {"list": []},
        "templating": {
            "list": [
                {
                    "type": "datasource",
                    "name": _VARIABLE,
                    "label": "Prometheus",
                    "description": "The Prometheus that scrapes /metrics of the gateway",
                    "query": "prometheus",
                    "includeAll": False,
                    "multi": False,
                }
            ]
        },
        "links": [],
        "panels": [_panel(number, panel) for number, panel in enumerate(PANELS)],
    }


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    position = number * _WIDTH
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.description,
        "datasource": _SOURCE,
        "gridPos": {"h": _HEIGHT, "w": _WIDTH, "x": position % _COLUMNS, "y": position // _COLUMNS * _HEIGHT},
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": _SOURCE,
                "expr": query.expression,
                "legendFormat": query.legend,
                "range": True,
            }
            for index, query in enumerate(panel.queries)
        ],
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
    }
