"""The routes of metrics_handler. The descriptions of most parameters are the docstrings of their parsers."""

from dataclasses import replace
from typing import Any

from functions.metrics_handler import buckets
from functions.metrics_handler.measures import parse_measure, parse_measures
from functions.metrics_handler.routes import metrics, stream, trending
from functions.operations_handler.routes import audit
from functions.send_handler import list_templates as templates
from functions.sends_api.routes import recipients, send_events, sends, user_notifications
from functions.sends_api.routes.cancel import CancelBody
from functions.sends_api.routes.notification import NotificationBody
from functions.sends_api.routes.pause import PauseBody, ResumeBody
from functions.sends_api.routes.reschedule import RescheduleBody, RescheduleRequest
from functions.sends_api.routes.send import SendBody
from functions.sends_api.routes.words import STATUS_WORDS
from masscomm.domain.grains import EVERY_GRAIN, Grain
from masscomm.domain.ids import notification_id
from masscomm.domain.measures import MEASURES
from masscomm.domain.send_states import SendState
from masscomm.domain.statuses import Status
from masscomm.domain.time_limits import STREAM_WAIT_S
from masscomm.http import parameters as parse
from masscomm.http.tenant import parse_club_id
from masscomm.stores.metrics.port import Dimension, Order
from ops.openapi.operation import DATE_TIME, ID, Operation, Parameter, number, several

_SEND_ID = "3f5e7b0c-6d0e-4a52-9d5c-0d3c3a1f7f39"
_NOON, _ONE = "2026-11-21T12:00:00Z", "2026-11-21T13:00:00Z"
_WORDS = {"type": "string", "minLength": 1, "maxLength": 200}
_CSV = {"text/csv": {"type": "string"}}


def _parameter(name: str, description: str | None, schema: Any, example: Any = None) -> Parameter:
    return Parameter(name=name, description=description or "", schema=schema, example=example)


_START = _parameter("start", parse.time.form, DATE_TIME, _NOON)
_END = _parameter("end", parse.time.form, DATE_TIME, _ONE)
_CURSOR = _parameter("cursor", "`next_cursor` of the previous page", {"type": "string"})
_CLUB_ID = _parameter("club_id", parse_club_id.form, several(ID), [1])
_TYPE = _parameter("type", parse.words.form, several(_WORDS), ["news"])
_CHANNEL = _parameter("channel", parse.words.form, several(_WORDS), ["push"])
_MEASURE = _parameter("measure", parse_measure.form, several({"enum": list(MEASURES)}))
_SEND_IN_PATH = Parameter(
    name="send_id",
    location="path",
    description="The id of the send",
    schema={"type": "string", "minLength": 1},
    example=_SEND_ID,
)


def _limit(default: int, highest: int) -> Parameter:
    return _parameter("limit", "The maximum number of rows", number(1, highest, default), 10)


_QUERY = (
    replace(
        _parameter("granularity", f"one of {EVERY_GRAIN}", {"type": "string", "enum": list(Grain)}, Grain.HOUR),
        required=True,
    ),
    replace(_START, required=True),
    replace(_END, required=True),
    _parameter("time_zone", buckets.time_zone.form, {"type": "string"}),
    _parameter(
        "order",
        f"one of {', '.join(Order)}",
        {"type": "string", "enum": list(Order), "default": Order.BUCKET},
        Order.LATEST,
    ),
    _parameter("fill", "zero: add rows of 0", {"type": "string", "enum": ["zero"]}),
    _limit(metrics.DEFAULT_LIMIT, metrics.MAX_LIMIT),
    _CURSOR,
    _CLUB_ID,
    _TYPE,
    _CHANNEL,
    _MEASURE,
    _parameter("measures", parse_measures.form, several({"type": "string"}), ["sent,failed"]),
    _parameter(
        "dimensions",
        f"any of {', '.join(Dimension)}, several times or with commas between them",
        several({"type": "string"}),
        ["club_id,type"],
    ),
)
_METRICS_EXAMPLE = {
    "granularity": "hour",
    "start": _NOON,
    "end": _ONE,
    "time_zone": "UTC",
    "dimensions": ["club_id", "type", "measure"],
    "rows": [{"bucket": _NOON, "club_id": 1, "type": "news", "measure": "sent", "count_total": 12}],
    "truncated": False,
    "next_cursor": None,
    "watermark": _ONE,
    "grace_ms": 5000,
    "complete": False,
    "revised_at": None,
    "revised": [],
    "kept_since": None,
    "generated_at": _ONE,
}
_TOTALS_EXAMPLE = {
    "requested": 3,
    "duplicates": 0,
    "queued": 2,
    "suppressed": {"opted_out": 1},
    "failed": {},
    "held": 0,
    "scheduled": 0,
    "cancelled": 0,
    "expired": 0,
    "sent": 2,
    "delivered": 0,
    "bounced": 0,
    "in_flight": 0,
}
_HEADERS = {
    "Masscomm-Watermark": "The member watermark of the body",
    "Masscomm-Generated-At": "The member generated_at of the body",
}
_WAIT = _parameter("wait", f"seconds to wait, at most {STREAM_WAIT_S}", number(0, STREAM_WAIT_S), 0)
_WAITING = {429: "The key has as many requests waiting as it may; Retry-After has the seconds until a retry"}
_NOT_FOUND = {404: "The send is unknown, or was requested by Kafka and none of its records is counted yet"}

OPERATIONS = {
    ("GET", "/v1/metrics"): Operation(
        tag="Metrics",
        parameters=_QUERY,
        response=metrics.MetricsBody,
        example=_METRICS_EXAMPLE,
        headers=_HEADERS,
        other_forms=_CSV,
        revalidated=True,
    ),
    ("GET", "/v1/metrics/trending"): Operation(
        tag="Metrics",
        parameters=(
            _parameter("by", "one of type, club_id", {"type": "string", "enum": ["type", "club_id"]}, "type"),
            _parameter("window", "minutes", number(1, trending.MAX_WINDOW_MIN, trending.DEFAULT_WINDOW_MIN), 15),
            _parameter("measure", parse_measure.form, {"enum": list(MEASURES)}, "sent"),
            _parameter("top", "The maximum number of rows", number(1, trending.MAX_TOP, trending.DEFAULT_TOP), 10),
            _CLUB_ID,
            _TYPE,
            _CHANNEL,
        ),
        response=trending.TrendsBody,
        example={
            "by": "type",
            "measure": "sent",
            "start": _NOON,
            "end": _ONE,
            "rows": [{"type": "news", "count_total": 12, "before": 3}],
            "watermark": _ONE,
            "grace_ms": 5000,
            "complete": False,
            "generated_at": _ONE,
        },
        headers=_HEADERS,
        other_forms=_CSV,
        revalidated=True,
    ),
    ("GET", "/v1/metrics/stream"): Operation(
        tag="Metrics",
        parameters=(
            _parameter("since", "`cursor` of the previous response", {"type": "string"}, "0-0-0"),
            _WAIT,
            *(replace(each, required=False) for each in _QUERY),
        ),
        response=stream.StreamBody,
        example={
            "cursor": "17-1795266000000000-1795265940",
            "changed": True,
            "metrics": _METRICS_EXAMPLE,
            "watermark": _ONE,
            "complete": True,
            "generated_at": _ONE,
        },
        problems=_WAITING,
    ),
    ("GET", "/v1/sends"): Operation(
        tag="Sends",
        parameters=(
            _START,
            _END,
            _TYPE,
            _parameter("status", sends.send_status.form, several({"enum": list(SendState)}), ["ended"]),
            _limit(sends.DEFAULT_LIMIT, sends.MAX_LIMIT),
            _CURSOR,
            replace(_CLUB_ID, description="Only these clubs; required if the key may see every club"),
        ),
        response=sends.SendListBody,
        example={
            "rows": [
                {
                    "send_id": _SEND_ID,
                    "club_id": 1,
                    "type": "news",
                    "reference": "derby-2026",
                    "requested_at": _NOON,
                    "status": "ended",
                    "requested": 3,
                    "published": 2,
                    "cancelled": 0,
                    "in_flight": 0,
                    "links": {"self": f"/v1/sends/{_SEND_ID}"},
                }
            ],
            "truncated": False,
            "next_cursor": None,
            "counts_known": True,
            "watermark": _ONE,
            "kept_since": None,
            "generated_at": _ONE,
        },
        headers=_HEADERS,
        revalidated=True,
    ),
    ("GET", "/v1/sends/{send_id}"): Operation(
        tag="Sends",
        parameters=(_SEND_IN_PATH,),
        response=SendBody,
        example={
            "send_id": _SEND_ID,
            "club_id": 1,
            "type": "news",
            "reference": "derby-2026",
            "status": "ended",
            "requested_at": _NOON,
            "send_at": None,
            "send_at_local": None,
            "chunks": {"expected": 1, "counted": 1},
            "requested": 3,
            "duplicates": 0,
            "counts_known": True,
            "channels": {"push": _TOTALS_EXAMPLE},
            "totals": _TOTALS_EXAMPLE,
            "conservation": {"terminal": 3, "in_flight": 0, "ok": True},
            "watermark": _ONE,
            "complete": True,
            "control": None,
            "expansion": None,
            "cancellation": None,
            "generated_at": _ONE,
        },
        headers=_HEADERS,
        problems=_NOT_FOUND,
        revalidated=True,
    ),
    ("GET", "/v1/sends/{send_id}/events"): Operation(
        tag="Sends",
        description=(
            "Where the server can stream, such as the local gateway, a request with `Accept: text/event-stream` gets"
            " server-sent events: the body as `data` and its `version` as `id`, until the send has ended."
            " `Last-Event-ID` is the same as `after`."
        ),
        parameters=(
            _SEND_IN_PATH,
            _parameter("after", "`version` of the previous response", {"type": "string"}),
            _WAIT,
        ),
        response=send_events.SendEventBody,
        example={
            "version": "6f1b1c0b6c6b8d4d5f2a9a0f7f3d9f10",
            "changed": False,
            "complete": True,
            "send": None,
        },
        other_forms={"text/event-stream": {"type": "string"}},
        problems={**_NOT_FOUND, **_WAITING},
    ),
    ("POST", "/v1/sends/{send_id}/cancel"): Operation(
        tag="Sends",
        parameters=(_SEND_IN_PATH,),
        response=CancelBody,
        status=202,
        success="The cancellation is recorded; it takes effect with the next batches",
        headers={"Location": "The path of the send"},
        example={
            "send_id": _SEND_ID,
            "status": "cancelling",
            "requested_at": _NOON,
            "published_before": 2,
            "links": {"self": f"/v1/sends/{_SEND_ID}"},
        },
        problems=_NOT_FOUND | {409: "The send has ended"},
    ),
    ("POST", "/v1/sends/{send_id}/pause"): Operation(
        tag="Sends",
        parameters=(_SEND_IN_PATH,),
        response=PauseBody,
        status=202,
        success="The pause is recorded; it takes effect with the next batches",
        headers={"Location": "The path of the send"},
        example={
            "send_id": _SEND_ID,
            "status": "paused",
            "paused_at": _NOON,
            "published_before": 2,
            "links": {"self": f"/v1/sends/{_SEND_ID}"},
        },
        problems=_NOT_FOUND | {409: "The send has ended or is cancelled"},
    ),
    ("POST", "/v1/sends/{send_id}/resume"): Operation(
        tag="Sends",
        parameters=(_SEND_IN_PATH,),
        response=ResumeBody,
        status=202,
        success="The end of the pause is recorded; held notifications continue within a minute",
        headers={"Location": "The path of the send"},
        example={
            "send_id": _SEND_ID,
            "status": "resumed",
            "resumed_at": _NOON,
            "links": {"self": f"/v1/sends/{_SEND_ID}"},
        },
        problems=_NOT_FOUND | {409: "The send is not paused, or is cancelled"},
    ),
    ("PATCH", "/v1/sends/{send_id}"): Operation(
        tag="Sends",
        parameters=(_SEND_IN_PATH,),
        request=RescheduleRequest,
        requests={"later": {"send_at": "2027-06-01T18:00:00+02:00"}},
        response=RescheduleBody,
        example={
            "send_id": _SEND_ID,
            "status": "scheduled",
            "send_at": "2027-06-01T16:00:00Z",
            "links": {"self": f"/v1/sends/{_SEND_ID}"},
        },
        problems=_NOT_FOUND | {409: "The send is not scheduled, is released, or is cancelled"},
    ),
    ("GET", "/v1/sends/{send_id}/recipients"): Operation(
        tag="Sends",
        parameters=(
            _SEND_IN_PATH,
            _parameter(
                "status", recipients.notification_status.form, several({"enum": list(Status)}), [Status.SENT.value]
            ),
            _CHANNEL,
            _limit(recipients.DEFAULT_LIMIT, recipients.MAX_LIMIT),
            _CURSOR,
        ),
        response=recipients.RecipientsBody,
        example={
            "send_id": _SEND_ID,
            "rows": [
                {
                    "user_id": 42,
                    "channel": "push",
                    "status": "sent",
                    "reason": None,
                    "decision": STATUS_WORDS[Status.SENT],
                    "decided_by": None,
                    "at": _NOON,
                    "links": {"self": f"/v1/notifications/{_SEND_ID}.42.push"},
                }
            ],
            "truncated": False,
            "next_cursor": None,
            "since": None,
            "watermark": _ONE,
            "generated_at": _ONE,
        },
        headers=_HEADERS,
        problems={404: "The send is unknown, none of its records is counted yet, or the log of recipients is off"},
        revalidated=True,
    ),
    ("GET", "/v1/notifications/{notification}"): Operation(
        tag="Sends",
        parameters=(
            Parameter(
                name="notification",
                location="path",
                description="The notification: `<send_id>.<user_id>.<channel>`",
                schema={"type": "string", "minLength": 1},
                example=f"{_SEND_ID}.42.push",
            ),
        ),
        response=NotificationBody,
        example={
            "notification": f"{_SEND_ID}.42.push",
            "notification_id": notification_id(_SEND_ID, 42, "push"),
            "send_id": _SEND_ID,
            "user_id": 42,
            "channel": "push",
            "club_id": 1,
            "type": "news",
            "requested_at": _NOON,
            "status": "sent",
            "reason": None,
            "decision": STATUS_WORDS[Status.SENT],
            "decided_by": None,
            "timeline": [
                {
                    "at": _NOON,
                    "status": "sent",
                    "reason": None,
                    "decision": STATUS_WORDS[Status.SENT],
                    "decided_by": None,
                }
            ],
            "since": None,
            "watermark": _ONE,
            "generated_at": _ONE,
        },
        headers=_HEADERS,
        problems={404: "No outcome of the notification is counted, or the log of recipients is off"},
        revalidated=True,
    ),
    ("GET", "/v1/users/{user_id}/notifications"): Operation(
        tag="Users",
        parameters=(
            Parameter(name="user_id", location="path", description="The id of the user", schema=ID, example=42),
            _START,
            _END,
            _limit(user_notifications.DEFAULT_LIMIT, user_notifications.MAX_LIMIT),
            _CURSOR,
            _CLUB_ID,
            _CHANNEL,
        ),
        response=user_notifications.UserNotificationsBody,
        example={
            "user_id": 42,
            "rows": [
                {
                    "at": _NOON,
                    "send_id": _SEND_ID,
                    "channel": "push",
                    "club_id": 1,
                    "type": "news",
                    "status": "sent",
                    "reason": None,
                }
            ],
            "truncated": False,
            "next_cursor": None,
            "since": None,
            "watermark": _ONE,
            "grace_ms": 5000,
            "complete": False,
            "generated_at": _ONE,
        },
        headers=_HEADERS,
        problems={404: "The log of recipients is disabled"},
        revalidated=True,
    ),
    ("GET", "/v1/audit"): Operation(
        tag="Audit",
        parameters=(
            replace(
                _CLUB_ID,
                description="The club; required if the key may see several clubs. Without it, a key that may see every "
                "club gets the entries that concern every club",
                schema=ID,
                example=1,
            ),
            _START,
            _END,
            _limit(audit.DEFAULT_LIMIT, audit.MAX_LIMIT),
            _CURSOR,
        ),
        response=audit.AuditBody,
        example={
            "rows": [
                {
                    "at": _NOON,
                    "club_id": 1,
                    "principal": "7d793037a0760186",
                    "action": "send.requested",
                    "subject": _SEND_ID,
                    "result": "ok",
                    "detail": "news, 3 recipients",
                }
            ],
            "truncated": False,
            "next_cursor": None,
            "generated_at": _ONE,
        },
    ),
    ("GET", "/v1/templates"): Operation(
        tag="Templates",
        parameters=(_CLUB_ID, _TYPE, _CHANNEL, _limit(templates.DEFAULT_LIMIT, templates.MAX_LIMIT), _CURSOR),
        response=templates.TemplatesBody,
        example={
            "rows": [
                {
                    "id": 1001,
                    "club_id": 1,
                    "type": "match_reminder",
                    "channel": "push",
                    "locale": "de-CH",
                    "title": "{{ data.opponent }}",
                    "variables": ["data.kick_off", "data.opponent", "user.first_name"],
                    "problem": None,
                    "problem_text": None,
                }
            ],
            "truncated": False,
            "next_cursor": None,
        },
        revalidated=True,
    ),
}
