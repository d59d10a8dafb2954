"""One recipient's provider calls: a push for each device that may take it, or an e-mail."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from masscomm.channels.provider import EmailProvider, ProviderError, PushProvider, Transient
from masscomm.channels.push import push_attributes, push_message
from masscomm.clock import Clock
from masscomm.domain.ids import notification_id
from masscomm.domain.records import DeliveryRequested
from masscomm.domain.users import Device


class Expired(ProviderError):
    """Its time came while we were trying: nothing is published after expires_at."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """One provider call.

    target: as the ledger names it (delivery_ledger.CallResult); make: answers a message id; device: of a push.
    """

    target: str
    make: Callable[[], str]
    device: Device | None = None


@dataclass(frozen=True, kw_only=True)
class Caller:
    """Makes the calls of a recipient. unsubscribe_url: for the headers of e-mails, None without a page of one's own."""

    push: PushProvider
    email: EmailProvider
    clock: Clock
    sender: str
    unsubscribe_url: str | None = None

    def calls(self, delivery: DeliveryRequested, row: int, devices: Sequence[Device]) -> list[Call]:
        """The calls for the recipient in that row of the record; devices: for push, those to call."""
        texts = {column.field: column.value_at(row) for column in delivery.content}
        notification = notification_id(delivery.send_id, delivery.user_ids[row], delivery.channel)
        if delivery.channel == "email":
            send = partial(self._send_email, delivery, delivery.addresses[row], texts, notification)
            return [Call(target="email", make=send)]
        return [
            Call(
                target=str(device.device_id),
                make=partial(self._push, delivery, device, texts, notification),
                device=device,
            )
            for device in devices
        ]

    def _push(self, delivery: DeliveryRequested, device: Device, texts: Mapping[str, str], notification: str) -> str:
        self._check_expiry(delivery)
        message = push_message(
            device.platform,
            device.endpoint_arn,
            title=texts.get("title", ""),
            body=texts.get("body", ""),
            notification_id=notification,
            send_id=delivery.send_id,
            collapse_key=delivery.collapse_key,
        )
        ttl_s = None if delivery.expires_at is None else max(0, (delivery.expires_at - self.clock.now_ms()) // 1000)
        attributes = push_attributes(
            device.platform, device.endpoint_arn, collapse_key=delivery.collapse_key, ttl_s=ttl_s
        )
        if device.endpoint_arn is None:
            raise Transient("the device has no endpoint yet")
        return self.push.publish(endpoint_arn=device.endpoint_arn, message=message, attributes=attributes)

    def _send_email(
        self, delivery: DeliveryRequested, address: str, texts: Mapping[str, str], notification: str
    ) -> str:
        from masscomm.channels.email import email_message

        self._check_expiry(delivery)
        message = email_message(
            sender=self.sender,
            recipient=address,
            subject=texts.get("subject", ""),
            text=texts.get("text", ""),
            html=texts.get("html"),
            notification_id=notification,
            unsubscribe_url=self.unsubscribe_url,
        )
        return self.email.send(recipient=address, message=message)

    def _check_expiry(self, delivery: DeliveryRequested) -> None:
        if delivery.expires_at is not None and delivery.expires_at <= self.clock.now_ms():  # guard: delivery.expires_at
            raise Expired("expires_at has passed")
