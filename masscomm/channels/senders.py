"""Sends the notifications of a channel: each channel of masscomm.domain.channels has one sender."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from masscomm.channels.provider import EmailProvider, PushProvider, Sms, SmsProvider
from masscomm.channels.push import (
    PLATFORM_NAMES,
    collapse_id_of,
    push_attributes,
    push_message,
    shortened_body,
)
from masscomm.channels.sms import sms_of
from masscomm.channels.unsubscribe_links import NO_WAY_OUT, UnsubscribeLinks, WaysOut
from masscomm.domain.call_results import ONE_MESSAGE, CallRate, Shortened, WrittenSms
from masscomm.domain.categories import category
from masscomm.domain.channels import CHANNELS
from masscomm.domain.email_settings import EmailTable
from masscomm.domain.provider_errors import ApplicationOff, ProviderError, Rejected, SendingPaused, Transient
from masscomm.domain.push_options import PUSH, is_silent
from masscomm.domain.unsubscribe_tokens import Subscription
from masscomm.domain.users import Device
from masscomm.errors import MasscommError, Stop


class Notification(NamedTuple):
    """One recipient's message on a channel."""

    id: str
    send_id: str
    # The recipient and the category of the message, to which its unsubscribe link applies.
    subscription: Subscription
    # The texts of the message by field name, such as title and body; a missing text is empty.
    texts: Mapping[str, str]
    collapse_key: str | None = None
    # Seconds until the notification expires; None if it does not expire.
    ttl_s: int | None = None
    # The options of a push (masscomm.domain.push_options).
    push: str | None = None
    # The SMS, if `rate` has written it.
    sms: WrittenSms | None = None
    # The time of the send in milliseconds since the epoch, whose version of the category applies; None: the last one.
    requested_at_ms: int | None = None

    def text(self, name: str) -> str:
        return self.texts.get(name, "")


class Sender(Protocol):
    """Sends the notifications of one channel through the provider of that channel."""

    async def send(self, notification: Notification, target: Device | str) -> str | Shortened:
        """Send a notification and return the provider's message id.

        Args:
            notification: the message.
            target: a device of the recipient, or the recipient's address (masscomm.domain.channels.Channel.user_field).

        Raises:
            ProviderError: the provider has not accepted the message.
        """
        ...

    def rate(self, club_id: int, category: str, address: str, texts: Mapping[str, str]) -> CallRate:  # noqa: ARG002
        """Return what a message to an address takes of the provider's rate."""
        return ONE_MESSAGE


def senders_of(
    *,
    push: PushProvider,
    email: EmailProvider,
    sms: SmsProvider,
    emails: EmailTable,
    unsubscribe: UnsubscribeLinks | None = None,
) -> dict[str, Sender]:
    """Return the sender of each channel. A new channel adds its own, with its provider as a further argument."""
    return {
        "push": PushSender(provider=push),
        "email": EmailSender(provider=email, emails=emails, unsubscribe=unsubscribe),
        "sms": SmsSender(provider=sms),
    }


def check_senders(senders: Mapping[str, Sender]) -> None:
    """Check that each channel has a sender: without one, its recipients would have no provider call.

    Raises:
        Stop: A channel has no sender.
    """
    missing = CHANNELS.keys() - senders.keys()
    if missing:  # guard: channels.each_has_a_sender
        raise Stop(f"channels without a sender: {', '.join(sorted(missing))}")


@dataclass(frozen=True, kw_only=True)
class PushSender(Sender):
    provider: PushProvider

    async def send(self, notification: Notification, target: Device | str) -> str | Shortened:
        if isinstance(target, str):
            raise TypeError("a push goes to a device")
        collapse_id = None
        if notification.collapse_key:
            collapse_id = collapse_id_of(notification.subscription.club_id, notification.collapse_key)
        shortened = None
        try:
            message = self._message(notification, target, collapse_id, notification.text("body"))
        except Rejected as error:
            shortened = self._shortened(notification, error)
            if shortened is None:
                raise
            message = self._message(notification, target, collapse_id, shortened)
        attributes = push_attributes(
            target.platform,
            target.endpoint_arn,
            collapse_id=collapse_id,
            ttl_s=notification.ttl_s,
            silent=is_silent(notification.push, PUSH),
        )
        if target.endpoint_arn is None:
            raise Transient("the device has no endpoint yet")
        published = await self.provider.publish(
            endpoint_arn=target.endpoint_arn, message=message, attributes=attributes
        )
        return published if shortened is None else Shortened(published, PLATFORM_NAMES[target.platform])

    @staticmethod
    def _message(notification: Notification, target: Device, collapse_id: str | None, body: str) -> str:
        return push_message(
            target.platform,
            target.endpoint_arn,
            title=notification.text("title"),
            body=body,
            notification_id=notification.id,
            send_id=notification.send_id,
            collapse_id=collapse_id,
            url=notification.texts.get("url"),
            push=notification.push,
        )

    @staticmethod
    def _shortened(notification: Notification, error: Rejected) -> str | None:
        """Return the body that fits after an error; None if there is none, or the category does not permit it."""
        subscription = notification.subscription
        found = category(subscription.category, subscription.club_id, notification.requested_at_ms)
        if not found.shorten:  # guard: push.shortened_by_category
            return None
        return shortened_body(notification.text("body"), error.excess_bytes)


@dataclass(frozen=True, kw_only=True)
class EmailSender(Sender):
    provider: EmailProvider
    # The senders of clubs and categories.
    emails: EmailTable
    # The ways to unsubscribe in the headers of e-mails; None: they have no such header.
    unsubscribe: UnsubscribeLinks | None = None

    async def send(self, notification: Notification, target: Device | str) -> str:
        from masscomm.channels.email import email_message

        if not isinstance(target, str):
            raise TypeError("an e-mail goes to an address")
        _, club_id, name = notification.subscription
        mandatory = category(name).mandatory  # guard: unsubscribe.mandatory_category
        origin = self.emails.club(club_id).of(name, is_mandatory=mandatory)
        message = email_message(
            sender=origin.sender,
            reply_to=origin.reply_to,
            recipient=target,
            subject=notification.text("subject"),
            text=notification.text("text"),
            html=notification.texts.get("html"),
            notification_id=notification.id,
            ways_out=NO_WAY_OUT if mandatory else self._ways_out(notification.subscription),
        )
        try:
            return await self.provider.send(recipient=target, message=message, origin=origin)
        except SendingPaused as error:
            # A configuration set of several clubs pauses none of them: an operator resumes it, and not each club.
            # guard: email_pauses.shared_set
            if error.is_of_set and not self.emails.is_own_set(club_id, origin.configuration_set):
                raise ApplicationOff(str(error)) from error
            raise

    def _ways_out(self, subscription: Subscription) -> WaysOut:
        """Return how the recipient unsubscribes. Raises Transient if it cannot be signed now: no e-mail is sent without
        it.
        """
        try:
            return NO_WAY_OUT if self.unsubscribe is None else self.unsubscribe.ways_out(subscription)
        except MasscommError as error:
            raise Transient(f"the unsubscribe link cannot be signed: {error}") from error


@dataclass(frozen=True, kw_only=True)
class SmsSender(Sender):
    provider: SmsProvider

    async def send(self, notification: Notification, target: Device | str) -> str:
        if not isinstance(target, str):
            raise TypeError("an SMS goes to a number")
        subscription = notification.subscription
        written = notification.sms
        if written is None:
            written = sms_of(subscription.club_id, subscription.category, target, notification.text("text"))
        return await self.provider.send(
            Sms(
                number=target,
                identity=written.origin.identity,
                text=written.text,
                is_transactional=written.is_transactional,
                notification_id=notification.id,
                ttl_s=notification.ttl_s,
            )
        )

    def rate(self, club_id: int, category: str, address: str, texts: Mapping[str, str]) -> CallRate:
        try:
            written = sms_of(club_id, category, address, texts.get("text", ""))
        except ProviderError:
            return ONE_MESSAGE  # It is refused without a call.
        origin = written.origin
        return CallRate(written.segments, origin.identity, origin.segments_per_s, written)
