"""The types of masscomm's own events, with descriptions and examples. Operators describe the types of other events."""

from collections.abc import Mapping
from types import MappingProxyType

from masscomm.domain.events import EventType
from masscomm.domain.ids import notification_id
from masscomm.domain.send_states import SendState
from masscomm.domain.statuses import Reason, Status
from masscomm.domain.webhooks import EventType as OwnType
from masscomm.domain.webhooks import NotificationEventType

_SEND_ID = "8a6e0804-2bd0-4672-b79d-d97027f9071a"
_CLUB_ID, _USER_ID = 7, 101
_ENDPOINT_ID = f"ep_{_CLUB_ID}_4fq2m7x9c1r8w3k5t6zb"


def _of_send(name: OwnType, description: str, state: SendState, sequence: int, **totals: int) -> EventType:
    data = {
        "send_id": _SEND_ID,
        "club_id": _CLUB_ID,
        "reference": "order-4711",
        "mode": "live",
        "type": "news",
        "status": str(state),
        "sequence": sequence,
        "requested_at": "2026-11-23T11:58:41Z",
        "requested": 4,
        "duplicates": 0,
        "counts_known": True,
        "totals": totals,
        "links": {"self": f"/v1/sends/{_SEND_ID}"},
    }
    return EventType(name=str(name), description=description, example=data)


def _of_notification(
    name: NotificationEventType, description: str, status: Status, reason: Reason | None = None
) -> EventType:
    data = {
        "notification_id": notification_id(_SEND_ID, _USER_ID, "push"),
        "send_id": _SEND_ID,
        "user_id": _USER_ID,
        "channel": "push",
        "type": "news",
        "status": str(status),
        "reason": None if reason is None else str(reason),
    }
    return EventType(name=str(name), description=description, example=data, user_path="user_id")


_TYPES = (
    _of_send(OwnType.ACCEPTED, "The recipients of a send are being decided about", SendState.ACCEPTED, 1),
    _of_send(OwnType.EXPANDED, "The users of a send's audience are found", SendState.ACCEPTED, 2),
    _of_send(OwnType.PAUSED, "A send was paused", SendState.PAUSED, 3, sent=1),
    _of_send(OwnType.RESUMED, "A paused send was resumed", SendState.IN_PROGRESS, 5, sent=1),
    _of_send(OwnType.COMPLETED, "Each notification of a send has ended", SendState.ENDED, 4, failed=1, sent=3),
    _of_send(
        OwnType.CANCELLED, "Each notification has ended, some as cancelled", SendState.CANCELLED, 6, cancelled=3, sent=1
    ),
    _of_send(OwnType.FAILED, "The audience of a send could not be expanded", SendState.FAILED, 4),
    _of_notification(NotificationEventType.SENT, "The provider accepted a notification", Status.SENT),
    _of_notification(NotificationEventType.DELIVERED, "A notification was delivered", Status.DELIVERED),
    _of_notification(NotificationEventType.BOUNCED, "A notification bounced", Status.BOUNCED, Reason.BOUNCED_PERMANENT),
    _of_notification(
        NotificationEventType.FAILED, "A notification could not be sent", Status.FAILED, Reason.NO_TEMPLATE
    ),
    _of_notification(
        NotificationEventType.SUPPRESSED, "A user does not get a notification", Status.SUPPRESSED, Reason.OPTED_OUT
    ),
    EventType(
        name=str(OwnType.TEST),
        description="A test of an endpoint",
        example={"club_id": _CLUB_ID, "endpoint_id": _ENDPOINT_ID},
    ),
    EventType(
        name=str(OwnType.DISABLED),
        description="masscomm disabled an endpoint",
        example={
            "endpoint_id": _ENDPOINT_ID,
            "reason": "No attempt succeeded for 5 days.",
            "failing_since": "2026-11-18T11:58:41Z",
            "contact_user_id": _USER_ID,
        },
        user_path="contact_user_id",
    ),
)
# Name → type.
OWN_EVENTS: Mapping[str, EventType] = MappingProxyType({each.name: each for each in _TYPES})
