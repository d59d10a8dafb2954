"""The routes of metrics_handler."""

from dataclasses import replace

from functions.metrics_handler import buckets
from functions.metrics_handler.measures import parse_measure, parse_measures
from functions.metrics_handler.routes import latency, metrics, stream, trending, webhooks
from masscomm.domain.grains import EVERY_GRAIN, Grain
from masscomm.domain.latencies import MEASURED
from masscomm.domain.measures import MEASURES
from masscomm.domain.statuses import Reason
from masscomm.domain.webhooks import AttemptResult
from masscomm.stores.metrics.port import Dimension, Order
from ops.openapi.examples import NOON
from ops.openapi.operation import TEXT, Operation, Parameter, number, several
from ops.openapi.parameters import CHANNEL, CLUB_ID, END, EVENT_ID, START, TYPE, WAIT, WAITING, WATERMARK, page

_CSV = {"text/csv": TEXT}
_MEASURE = {"enum": list(MEASURES)}
_QUERY = (
    Parameter("granularity", f"one of {EVERY_GRAIN}", TEXT | {"enum": list(Grain)}, Grain.HOUR, required=True),
    replace(START, required=True),
    replace(END, required=True),
    Parameter("time_zone", buckets.time_zone.form),
    Parameter(
        "order", f"one of {', '.join(Order)}", TEXT | {"enum": list(Order), "default": Order.BUCKET}, Order.LATEST
    ),
    Parameter("fill", "zero: add rows of 0", TEXT | {"enum": ["zero"]}),
    *page(metrics.DEFAULT_LIMIT, metrics.MAX_LIMIT),
    CLUB_ID,
    TYPE,
    CHANNEL,
    Parameter("measure", parse_measure.form, several(_MEASURE)),
    Parameter("measures", parse_measures.form, several(TEXT), ["sent,failed"]),
    Parameter("reason", f"any of {', '.join(Reason)}", several(TEXT | {"enum": list(Reason)})),
    Parameter(
        "dimensions",
        f"any of {', '.join(Dimension)}, several times or with commas between them",
        several(TEXT),
        ["club_id,type"],
    ),
)
_METRICS_EXAMPLE = {
    "granularity": "hour",
    "time_zone": "UTC",
    "dimensions": ["club_id", "type", "measure"],
    "rows": [{"bucket": NOON, "club_id": 1, "type": "news", "measure": "sent", "count_total": 12}],
    "revised": [],
}

_EVENT_TYPE = replace(TYPE, example=["match.finished"])
_STATUS = Parameter(
    "status", f"one of {', '.join(AttemptResult)}", several(TEXT | {"enum": list(AttemptResult)}), ["retried"]
)
_NO_ENDPOINT = {404: "The endpoint belongs to another tenant, or its id is malformed"}

OPERATIONS = {
    ("GET", "/v1/metrics"): Operation(
        description=(
            "Counts of notifications by minute, hour or day, for each measure and for the chosen dimensions. Each "
            "notification is counted once. `complete` says whether the range is final, and `revised` lists the buckets "
            "that late records changed. With the dimension `reason`, or a filter by it, only notifications that have a "
            "reason are counted, by hour or day."
        ),
        parameters=_QUERY,
        response=metrics.MetricsBody,
        example=_METRICS_EXAMPLE,
        headers=WATERMARK,
        other_forms=_CSV,
        revalidated=True,
    ),
    ("GET", "/v1/metrics/trending"): Operation(
        description=(
            "The sums of the last `window` minutes, the highest first. It answers which category, or which tenant, "
            "sends most at the moment."
        ),
        parameters=(
            Parameter("by", "one of type, club_id", TEXT | {"enum": ["type", "club_id"]}, "type"),
            Parameter("window", "minutes", number(1, trending.MAX_WINDOW_MIN, trending.DEFAULT_WINDOW_MIN), 15),
            Parameter("measure", parse_measure.form, _MEASURE, "sent"),
            Parameter("top", "The maximum number of rows", number(1, trending.MAX_TOP, trending.DEFAULT_TOP), 10),
            CLUB_ID,
            TYPE,
            CHANNEL,
        ),
        response=trending.TrendsBody,
        example={"rows": [{"type": "news", "count_total": 12, "before": 3}]},
        headers=WATERMARK,
        other_forms=_CSV,
        revalidated=True,
    ),
    ("GET", "/v1/metrics/latency"): Operation(
        description=(
            "How long notifications took, by minute, hour or day: from the moment at which they were due until the "
            "provider accepted them (`sent`), or until they arrived (`delivered`). A notification is due when its send "
            "was requested or, if that is later, at the send's own time or at the end of what held it, such as quiet "
            "hours. The numbers are of all tenants together, for callers that may see every tenant."
        ),
        parameters=(
            *_QUERY[:3],
            TYPE,
            CHANNEL,
            Parameter("measure", latency.parse_status.form, several({"enum": list(MEASURED)}), ["sent"]),
            Parameter(
                "dimensions",
                f"any of {', '.join(latency.DIMENSIONS)}, several times or with commas between them",
                several(TEXT),
                ["channel"],
            ),
        ),
        response=latency.LatencyBody,
        example={
            "granularity": "hour",
            "dimensions": ["channel", "measure"],
            "rows": [
                {
                    "bucket": NOON,
                    "channel": "push",
                    "measure": "sent",
                    "count_total": 12,
                    "p50_ms": 412,
                    "p95_ms": 730,
                    "p99_ms": 1120,
                }
            ],
            "whole": [
                {
                    "channel": "push",
                    "measure": "sent",
                    "count_total": 12,
                    "p50_ms": 412,
                    "p95_ms": 730,
                    "p99_ms": 1120,
                }
            ],
            "error": 0.05,
        },
        headers=WATERMARK,
        other_forms=_CSV,
        revalidated=True,
    ),
    ("GET", "/v1/metrics/stream"): Operation(
        description=(
            "A long poll: it responds when a batch was counted after `since` or another minute is complete, at the "
            "latest after `wait` seconds. `changed` says which; the next request sends `cursor` as `since`. The other "
            "parameters are those of `/v1/metrics`."
        ),
        parameters=(
            Parameter("since", "`cursor` of the previous response", example="0-0-0"),
            WAIT,
            *(replace(each, required=False) for each in _QUERY),
        ),
        response=stream.StreamBody,
        example={
            "cursor": "17-1795266000000000-1795265940",
            "changed": True,
            "metrics": _METRICS_EXAMPLE,
            "complete": True,
        },
        problems=WAITING,
    ),
    ("GET", "/v1/webhooks/{endpoint_id}/log"): Operation(
        description=(
            "Each row is an attempt to send a message with an event. The log has every attempt that failed, every one "
            "after the first, and of each hour the first messages that arrived at once."
        ),
        parameters=(START, END, _EVENT_TYPE, _STATUS, *page(webhooks.DEFAULT_LIMIT, webhooks.MAX_LIMIT)),
        response=webhooks.WebhookLogBody,
        example={
            "rows": [
                {
                    "message_id": EVENT_ID,
                    "event_id": "match-4711-finished",
                    "type": "match.finished",
                    "status": "retried",
                    "attempt": 1,
                    "http_status": 503,
                    "duration_ms": 20,
                    "error": None,
                }
            ],
        },
        problems=_NO_ENDPOINT,
        revalidated=True,
    ),
    ("GET", "/v1/webhooks/{endpoint_id}/metrics"): Operation(
        description=(
            "Counts of the attempts to send messages with events, by minute, hour or day, tenant, event type and "
            "status. An attempt is counted a minute or two after its time."
        ),
        parameters=(
            *_QUERY[:3],
            _EVENT_TYPE,
            _STATUS,
            *page(webhooks.DEFAULT_COUNTS, webhooks.MAX_COUNTS),
        ),
        response=webhooks.WebhookMetricsBody,
        example={
            "granularity": "hour",
            "rows": [
                {
                    "bucket": NOON,
                    "type": "match.finished",
                    "status": "delivered",
                    "count_total": 12,
                    "duration_ms_mean": 20,
                }
            ],
        },
        problems=_NO_ENDPOINT,
        revalidated=True,
    ),
}
