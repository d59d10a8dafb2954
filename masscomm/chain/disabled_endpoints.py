"""Announces endpoints that masscomm disabled, by its own event `webhook.disabled`.

The function that disables an endpoint has no connection to Kafka: the scheduler releases the event from the delay
store. It reaches the tenant's other endpoints that subscribe to it, and the endpoint's contact, a user: event_matcher
requests a send, so that address, suppressions, receipts and erasure are those of any other e-mail.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from masscomm.chain.bundled_records import bundled_record
from masscomm.clock import Clock
from masscomm.domain.ids import contact_send_id, own_event_id
from masscomm.domain.limits import LARGEST_ID
from masscomm.domain.records import EventOccurred, SendRequested
from masscomm.domain.webhooks import Endpoint, EventType
from masscomm.http.parameters import time_of_ms
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec
from masscomm.kafka.bundled_schema import BundledSchema
from masscomm.stores.delayed_records.port import DelayStore

# The category and the template of the e-mail to the contact.
CATEGORY = "webhook_disabled"


@dataclass(frozen=True, kw_only=True)
class AnnounceDisabled:
    store: DelayStore
    clock: Clock
    codec: Codec = field(default_factory=lambda: Codec(BundledSchema(EventOccurred)))

    def __call__(self, endpoint: Endpoint) -> None:
        """Store the event that masscomm disables an endpoint, due now. Raises Retry or Stop.

        An endpoint is disabled once for each time that it was enabled: the id is derived from that time.
        """
        key, now_ms = endpoint.key, self.clock.now_ms()
        data: dict[str, Any] = {
            "endpoint_id": key.id,
            "reason": endpoint.disabled_reason,
            "failing_since": None if endpoint.failing_since_ms is None else time_of_ms(endpoint.failing_since_ms),
        }
        if endpoint.contact_user_id is not None:
            data["contact_user_id"] = endpoint.contact_user_id
        enabled_at_ms = endpoint.enabled_at_ms or endpoint.created_at_ms
        event = EventOccurred(
            event_id=own_event_id(key.club_id, key.id, f"{EventType.DISABLED}/{enabled_at_ms}"),
            type=EventType.DISABLED,
            club_id=key.club_id,
            key=key.id,
            occurred_at=now_ms,
            data=json.dumps(data, separators=(",", ":")),
        )
        delayed = bundled_record(
            self.codec, topics.EVENT, event, id_=event.event_id, due_ms=now_ms, delay_reason="webhook_disabled"
        )
        self.store.put(delayed, now_ms)


def send_to_contact(event: EventOccurred, data: Mapping[str, Any]) -> SendRequested | None:
    """Return the send to the contact of a disabled endpoint; None for any other event, or without a contact."""
    contact = data.get("contact_user_id")
    if event.type != EventType.DISABLED or type(contact) is not int or not 1 <= contact <= LARGEST_ID:
        return None
    return SendRequested(
        type=CATEGORY,
        club_id=event.club_id,
        timestamp=event.occurred_at,
        to_users=[contact],
        send_id=contact_send_id(event.club_id, event.event_id),
        channels=["email"],
        data={name: str(data[name]) for name in ("endpoint_id", "reason") if name in data},
        reference=event.key,
    )
