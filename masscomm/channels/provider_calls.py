"""The provider calls for one recipient: one for each device that may get the message, or one for the e-mail address."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from masscomm.channels.senders import Notification, Sender, check_senders
from masscomm.clock import Clock
from masscomm.decisions.delivery import Recipient
from masscomm.domain.call_results import Call, Shortened, WrittenSms
from masscomm.domain.channels import CHANNELS
from masscomm.domain.ids import notification_id
from masscomm.domain.provider_errors import Expired
from masscomm.domain.records import DeliveryRequested
from masscomm.domain.unsubscribe_tokens import Subscription
from masscomm.domain.users import Device


@dataclass(frozen=True, kw_only=True)
class Caller:
    """Makes the provider calls for a recipient.

    Args:
        senders: The sender of each channel.
        clock: The clock with which expires_at is compared.

    Raises:
        Stop: A channel has no sender.
    """

    senders: Mapping[str, Sender]
    clock: Clock

    def __post_init__(self) -> None:
        check_senders(self.senders)

    def calls(self, delivery: DeliveryRequested, recipient: Recipient) -> list[Call]:
        """Return the calls for a recipient: one for each device, or one for the address."""
        texts = {column.field: column.value_at(recipient.row) for column in delivery.content}
        if CHANNELS[delivery.channel].to_devices:
            return [
                Call(
                    target=str(device.device_id),
                    make=partial(self._send, delivery, recipient, texts, device),
                    device=device,
                )
                for device in recipient.devices
            ]
        rate = self.senders[delivery.channel].rate(delivery.club_id, delivery.type, recipient.address, texts)
        send = partial(self._send, delivery, recipient, texts, recipient.address, rate.sms)
        return [Call(target=delivery.channel, make=send, rate=rate)]

    async def _send(
        self,
        delivery: DeliveryRequested,
        recipient: Recipient,
        texts: Mapping[str, str],
        target: Device | str,
        sms: WrittenSms | None = None,
    ) -> str | Shortened:
        now_ms, expires_at = self.clock.now_ms(), delivery.expires_at
        if expires_at is not None and expires_at <= now_ms:  # guard: delivery.expires_at
            raise Expired("expires_at has passed")
        notification = Notification(
            id=notification_id(delivery.send_id, recipient.user_id, delivery.channel),
            send_id=delivery.send_id,
            subscription=Subscription(recipient.user_id, delivery.club_id, delivery.type),
            texts=texts,
            collapse_key=delivery.collapse_key,
            push=delivery.push,
            sms=sms,
            requested_at_ms=delivery.timestamp,
            ttl_s=None if expires_at is None else max(0, (expires_at - now_ms) // 1000),
        )
        return await self.senders[delivery.channel].send(notification, target)
