"""The events of notifications: what became of a recipient, for the endpoints that subscribe to it."""

import json
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from masscomm.domain.ids import notification_id, own_event_id
from masscomm.domain.records import EventOccurred, NotificationOutcome
from masscomm.domain.statuses import Status
from masscomm.domain.webhooks import NotificationEventType

# The statuses that are events.
_TYPES: Mapping[str, NotificationEventType] = MappingProxyType(
    {
        Status.SENT: NotificationEventType.SENT,
        Status.DELIVERED: NotificationEventType.DELIVERED,
        Status.BOUNCED: NotificationEventType.BOUNCED,
        Status.FAILED: NotificationEventType.FAILED,
        Status.SUPPRESSED: NotificationEventType.SUPPRESSED,
    }
)


def events_of(outcome: NotificationOutcome) -> Iterator[EventOccurred]:
    """Yield an event for each recipient of an outcome record whose status is one, in the order of the record. Its id is
    derived from the notification and the status, so that a repeated outcome has the same events.
    """
    for user_id, place in zip(outcome.user_ids, outcome.result_index, strict=True):
        result = outcome.results[place]
        event_type = _TYPES.get(result.status)
        if event_type is None:
            continue
        notification = notification_id(outcome.send_id, user_id, outcome.channel)
        data = {
            "notification_id": notification,
            "send_id": outcome.send_id,
            "user_id": user_id,
            "channel": outcome.channel,
            "type": outcome.type,
            "status": result.status,
            "reason": result.reason,
        }
        yield EventOccurred(
            event_id=own_event_id(outcome.club_id, notification, event_type),
            type=event_type,
            club_id=outcome.club_id,
            key=notification,
            occurred_at=outcome.timestamp,
            data=json.dumps(data, separators=(",", ":")),
        )
