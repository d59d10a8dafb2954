"""The routes of sends_api."""

from typing import Any

from functions.sends_api.routes import recipients, send_events, sends, user_notifications
from functions.sends_api.routes.cancel import CancelBody
from functions.sends_api.routes.message import MessageBody
from functions.sends_api.routes.notification import NotificationBody
from functions.sends_api.routes.pause import PauseBody, ResumeBody
from functions.sends_api.routes.reschedule import RescheduleBody, RescheduleRequest
from functions.sends_api.routes.send import SendBody
from functions.sends_api.routes.words import STATUS_WORDS
from masscomm.domain.ids import notification_id
from masscomm.domain.limits import SMALLEST_GROUP
from masscomm.domain.send_states import SendState
from masscomm.domain.sends import Origin
from masscomm.domain.statuses import Reason, Status
from masscomm.http import parameters as parse
from masscomm.operations import send_lists
from ops.openapi.examples import NOON, SEND_ID
from ops.openapi.operation import TEXT, Operation, Parameter, several
from ops.openapi.parameters import (
    CHANNEL,
    CLUB_ID,
    END,
    NOTIFICATION,
    START,
    TYPE,
    WAIT,
    WAITING,
    WATERMARK,
    WORDS,
    page,
)

_TOTALS = {"requested": 3, "queued": 2, "suppressed": {"opted_out": 1}, "failed": {}, "sent": 2}
_SENT = {"status": "sent", "decision": STATUS_WORDS[Status.SENT]}
LISTED_SEND = {
    "origin": "request",
    "status": "ended",
    "requested": 3,
    "published": 2,
    "digested": 0,
    "suppressed": 1,
    "failed": 0,
    "cancelled": 0,
    "in_flight": 0,
}
_NOT_FOUND = {404: "The send is unknown, or was requested by Kafka and none of its records is counted yet"}


def _control(body: type, *, description: str, success: str, example: dict[str, Any], conflict: str) -> Operation:
    """Return the description of a route that records a control of the send."""
    return Operation(
        description=description,
        response=body,
        status=202,
        success=success,
        headers={"Location": "The path of the send"},
        example=example,
        problems=_NOT_FOUND | {409: conflict},
    )


OPERATIONS = {
    ("GET", "/v1/sends"): Operation(
        description=(
            "Each row has the state of the send and its counts. A page by `status` may have fewer rows than `limit`: "
            "`next_cursor: null` is the end. While the metrics database is down, counts are null and `counts_known` is "
            "false. A key of every tenant that names none sees counted sends only, and `registered_listed` is false: "
            "scheduled sends to audiences are in the lists of their tenants."
        ),
        parameters=(
            START,
            END,
            TYPE,
            Parameter("status", sends.send_status.form, several({"enum": list(SendState)}), ["ended"]),
            Parameter(
                "origin",
                "What made the sends. Messages of digests are left out by default",
                several({"enum": list(Origin)}),
                ["digest"],
            ),
            Parameter(
                "search",
                "A part of the name, the category or the id, in any case. A page then reads 200 sends, and may have no"
                " row; `next_cursor` continues",
                WORDS,
            ),
            *page(sends.DEFAULT_LIMIT, send_lists.MAX_LIMIT),
            CLUB_ID,
        ),
        response=sends.SendListBody,
        example={
            "rows": [LISTED_SEND],
            "counts_known": True,
            "registered_listed": True,
        },
        headers=WATERMARK,
        revalidated=True,
    ),
    ("GET", "/v1/sends/{send_id}"): Operation(
        description=(
            "`totals` has the notifications by status and reason, and `complete` is true when each of them has ended. "
            "Counts are seconds behind, except of sends to up to 1,000 users. "
            "`conservation` compares their sum with the notifications that were requested."
        ),
        response=SendBody,
        example={
            "origin": "request",
            "status": "ended",
            "chunks": {"expected": 1, "counted": 1},
            "requested": 3,
            "duplicates": 0,
            "counts_known": True,
            "channels": {"push": _TOTALS},
            "totals": _TOTALS,
            "conservation": {"terminal": 3, "ok": True},
            "complete": True,
            "fallbacks": [{"channel": "email", "waits_for": "push", "if": "not_sent", "after": "10m"}],
        },
        headers=WATERMARK,
        problems=_NOT_FOUND,
        revalidated=True,
    ),
    ("GET", "/v1/sends/{send_id}/events"): Operation(
        description=(
            "Where the server can stream, such as the local gateway, a request with `Accept: text/event-stream` gets"
            " server-sent events: the body as `data` and its `version` as `id`, until the send has ended."
            " `Last-Event-ID` is the same as `after`."
        ),
        parameters=(Parameter("after", "`version` of the previous response"), WAIT),
        response=send_events.SendEventBody,
        example={"version": "6f1b1c0b6c6b8d4d5f2a9a0f7f3d9f10", "complete": True},
        other_forms={"text/event-stream": TEXT},
        problems={**_NOT_FOUND, **WAITING},
    ),
    ("POST", "/v1/sends/{send_id}/cancel"): _control(
        CancelBody,
        description=(
            "A cancellation is final. Messages that are on their way are published for about a second more; "
            "`published_before` counts those before the request. A repeated request gets the same response."
        ),
        success="The cancellation is recorded; it takes effect with the next batches",
        example={"published_before": 2},
        conflict="The send has ended",
    ),
    ("POST", "/v1/sends/{send_id}/pause"): _control(
        PauseBody,
        description=(
            "Messages that are on their way are published for about a second more. A pause of 30 days ends as a "
            "cancellation. A repeated request gets the same response."
        ),
        success="The pause is recorded; it takes effect with the next batches",
        example={"paused_at": NOON, "published_before": 2},
        conflict="The send has ended or is cancelled",
    ),
    ("POST", "/v1/sends/{send_id}/resume"): _control(
        ResumeBody,
        description="The opt-outs, addresses, devices and quiet hours of this time apply. No message is repeated.",
        success="The end of the pause is recorded; held notifications continue within a minute",
        example={"resumed_at": NOON},
        conflict="The send is not paused, or is cancelled",
    ),
    ("PATCH", "/v1/sends/{send_id}"): Operation(
        description=(
            "The new time applies to the whole send. A send that has begun, is cancelled, or begins in less than 10 "
            "seconds gets a 409. Instead, `per_minute` changes the pace of a send that has one, also while it runs."
        ),
        request=RescheduleRequest,
        requests={"later": {"send_at": "2027-06-01T18:00:00+02:00"}},
        response=RescheduleBody,
        example={"send_at": "2027-06-01T16:00:00Z"},
        problems=_NOT_FOUND | {409: "The send is not scheduled or has no pace, is released, has ended or is cancelled"},
    ),
    ("GET", "/v1/sends/{send_id}/recipients"): Operation(
        description=(
            "One row for each user and channel, in their order. It needs the log of recipients, which is on unless "
            "`SPARK_RECIPIENT_LOG` is false."
        ),
        parameters=(
            Parameter(
                "status", recipients.notification_status.form, several({"enum": list(Status)}), [Status.SENT.value]
            ),
            Parameter("reason", parse.words.form, several(WORDS), [Reason.OPTED_OUT.value]),
            CHANNEL,
            *page(recipients.DEFAULT_LIMIT, recipients.MAX_LIMIT),
        ),
        response=recipients.RecipientsBody,
        example={"rows": [_SENT | {"links": {"self": f"/v1/notifications/{NOTIFICATION}"}}]},
        headers=WATERMARK,
        problems={404: "The send is unknown, none of its records is counted yet, or the log of recipients is off"},
        revalidated=True,
    ),
    ("GET", "/v1/sends/{send_id}/message"): Operation(
        description=(
            "The template's name and the variables that all recipients share, for 30 days; those of single recipients "
            "are not kept. `content` is a body of `POST /v1/previews`, which renders it with the present template. "
            f"The values of a send to fewer than {SMALLEST_GROUP} users need `users:read`. Messages of mandatory "
            "categories, of the critical lane and of small sends by Kafka are not kept."
        ),
        response=MessageBody,
        example={
            "content": {
                "type": "match_reminder",
                "club_id": 1,
                "channels": ["push"],
                "data": {"opponent": "FC Riverside", "kick_off": "19:30"},
            },
            "hidden": [],
        },
        problems=_NOT_FOUND,
    ),
    ("GET", "/v1/notifications/{notification}"): Operation(
        description=(
            "A notification is one recipient on one channel, named `<send_id>.<user_id>.<channel>`. `decided_by` has "
            "the rule and the settings that decided, for a text in another language."
        ),
        response=NotificationBody,
        example=_SENT
        | {
            "notification": NOTIFICATION,
            "notification_id": notification_id(SEND_ID, 42, "push"),
            "chain": [],
            "timeline": [_SENT],
        },
        headers=WATERMARK,
        problems={404: "No outcome of the notification is counted, or the log of recipients is off"},
        revalidated=True,
    ),
    ("GET", "/v1/users/{user_id}/notifications"): Operation(
        description=(
            "The newest first, each with its status and reason. It needs the log of recipients, which is on unless "
            "`SPARK_RECIPIENT_LOG` is false."
        ),
        parameters=(
            START,
            END,
            *page(user_notifications.DEFAULT_LIMIT, user_notifications.MAX_LIMIT),
            CLUB_ID,
            CHANNEL,
        ),
        response=user_notifications.UserNotificationsBody,
        example={"rows": [{"status": "sent"}]},
        headers=WATERMARK,
        problems={404: "The log of recipients is disabled"},
        revalidated=True,
    ),
}
