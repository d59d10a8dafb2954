"""The routes of schedules."""

from typing import Any

from functions.send_handler import schedules
from masscomm.domain.schedules import MAX_SCHEDULES
from ops.openapi.examples import NOON
from ops.openapi.operation import ID, Operation, Parameter

_CLUB = (Parameter("club_id", "The tenant", ID, 1, required=True),)
_SEND = {"type": "news", "club_id": 1, "audience": {"all_users": True}}
_NEXT = {"local_time": "2026-11-24T09:00", "at": "2026-11-24T08:00:00Z"}
_ROW: dict[str, Any] = {
    "name": "weekly",
    "state": "active",
    "paused": None,
    "rule": "FREQ=WEEKLY;BYDAY=TU;BYHOUR=9;BYMINUTE=0",
    "time_zone": "Europe/Zurich",
    "type": "news",
    "next": _NEXT,
    "changed_at": NOON,
}
_SCHEDULE = {
    **_ROW,
    "starts_at_local": "2023-11-01T00:00",
    "expires_after_minutes": None,
    "catch_up": "none",
    "owner": "7d793037a0760186",
    "send": _SEND,
    "next_times": [_NEXT],
    "history": [],
}
_REQUEST = {
    "rule": "FREQ=WEEKLY;BYDAY=TU;BYHOUR=9;BYMINUTE=0",
    "time_zone": "Europe/Zurich",
    "starts_at_local": "2023-11-01T00:00",
    "send": _SEND,
}
_UNKNOWN = {404: "The schedule is unknown"}
_CHANGED = {409: "Another request has changed the schedule"}

OPERATIONS = {
    ("GET", "/v1/schedules"): Operation(
        description="They are in the order of their names.",
        parameters=_CLUB,
        response=schedules.SchedulesBody,
        example={"rows": [_ROW]},
    ),
    ("GET", "/v1/schedules/{schedule}"): Operation(
        description="Without `users:read`, the send has no `to_users`, `recipient_data`, `data` and `except_users` "
        "that would show single users.",
        parameters=_CLUB,
        response=schedules.ScheduleBody,
        example=_SCHEDULE,
        problems=_UNKNOWN,
    ),
    ("PUT", "/v1/schedules/{schedule}"): Operation(
        description=(
            "At each time of the rule, a send is made with the permissions that the caller has then. It needs the "
            "scopes of `POST /v1/sends`. The first occurrence is at least a minute ahead. A paused schedule stays "
            "paused."
        ),
        parameters=_CLUB,
        request=schedules.ScheduleRequest,
        requests={"weekly": _REQUEST},
        response=schedules.ScheduleBody,
        success="The schedule is saved",
        example=_SCHEDULE,
        problems={
            404: "The name contains a control character",
            409: f"The club has {MAX_SCHEDULES} schedules, or another request has changed the schedule",
            415: "The Content-Type is not JSON",
        },
    ),
    ("DELETE", "/v1/schedules/{schedule}"): Operation(
        description="Sends that it made are not affected.",
        parameters=_CLUB,
        response=schedules.DeletedScheduleBody,
        example={"name": "weekly"},
        problems=_UNKNOWN,
    ),
    ("POST", "/v1/schedules/{schedule}/pause"): Operation(
        description="It makes no send until it is resumed.",
        parameters=_CLUB,
        response=schedules.ScheduleBody,
        example=_SCHEDULE,
        problems=_UNKNOWN | _CHANGED,
    ),
    ("POST", "/v1/schedules/{schedule}/resume"): Operation(
        description="It continues with its next time; those that it missed are not made. The caller is its owner then.",
        parameters=_CLUB,
        response=schedules.ScheduleBody,
        example=_SCHEDULE,
        problems=_UNKNOWN | _CHANGED,
    ),
}
