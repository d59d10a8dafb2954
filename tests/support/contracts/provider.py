"""The tests that every provider adapter must pass, in memory and real."""

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from masscomm.aws.request import Limits
from masscomm.channels.email import email_message
from masscomm.channels.provider import EmailProvider, PushProvider, Sms, SmsProvider
from masscomm.channels.push import push_attributes, push_message
from masscomm.channels.ses_email import SesEmail
from masscomm.channels.unsubscribe_links import WaysOut
from masscomm.domain.email_settings import EmailOrigin
from masscomm.domain.provider_errors import ApplicationOff, InvalidAddress, Rejected, TargetGone, TargetUnknown


@dataclass(frozen=True)
class PushTargets:
    """A push provider with one endpoint that accepts messages, one that is disabled, and one that does not exist."""

    provider: PushProvider
    enabled: str
    disabled: str
    absent: str


def publish(provider: PushProvider, *, endpoint_arn: str, message: str, attributes: Mapping[str, str]) -> str:
    """Publish in a separate event loop, which leaves no connection open."""
    return _alone(provider, provider.publish(endpoint_arn=endpoint_arn, message=message, attributes=attributes))


ORIGIN = EmailOrigin(sender="no-reply@masscomm.example")


def send(provider: EmailProvider, *, recipient: str, message: bytes, origin: EmailOrigin = ORIGIN) -> str:
    """Send in a separate event loop, which leaves no connection open."""
    return _alone(provider, provider.send(recipient=recipient, message=message, origin=origin))


def send_sms(provider: SmsProvider, sms: Sms) -> str:
    """Send in a separate event loop, which leaves no connection open."""
    return _alone(provider, provider.send(sms))


def _alone(provider: object, call: Coroutine[Any, Any, str]) -> str:
    async def closing() -> str:
        try:
            return await call
        finally:
            if (close := getattr(provider, "close", None)) is not None:
                await close()

    return asyncio.run(closing())


class SesAsBoto3:
    """SesEmail with the method of boto3's client of SES, version 2."""

    def __init__(self, _limits: Limits) -> None: ...

    def send_email(
        self,
        *,
        Destination: Any,
        Content: Any,
        ConfigurationSetName: str | None = None,
        TenantName: str | None = None,
    ) -> Any:
        (recipient,) = Destination["ToAddresses"]
        origin = EmailOrigin(configuration_set=ConfigurationSetName, ses_tenant=TenantName)
        return {"MessageId": send(SesEmail(), recipient=recipient, message=Content["Raw"]["Data"], origin=origin)}


def message() -> str:
    return push_message("gcm", None, title="Hello", body="Grüezi", notification_id="n", send_id="s", collapse_id=None)


class PushContract:
    """Subclasses define the fixture `targets`."""

    def test_accepted_message_has_an_id_of_its_own(self, targets: PushTargets) -> None:
        attributes = push_attributes("gcm", None, collapse_id=None, ttl_s=60)
        ids = [
            publish(targets.provider, endpoint_arn=targets.enabled, message=message(), attributes=attributes)
            for _ in range(2)
        ]
        assert all(ids)
        assert len(set(ids)) == 2

    def test_disabled_endpoint_is_gone(self, targets: PushTargets) -> None:
        with pytest.raises(TargetGone):
            publish(targets.provider, endpoint_arn=targets.disabled, message=message(), attributes={})

    def test_unknown_endpoint_is_gone(self, targets: PushTargets) -> None:
        with pytest.raises(TargetUnknown):
            publish(targets.provider, endpoint_arn=targets.absent, message=message(), attributes={})

    def test_malformed_message_is_rejected(self, targets: PushTargets) -> None:
        with pytest.raises(Rejected):
            publish(targets.provider, endpoint_arn=targets.enabled, message="not JSON", attributes={})


class EmailContract:
    """Subclasses define the fixture `provider`, whose sender is no-reply@masscomm.example."""

    def test_accepted_message_has_an_id_of_its_own(self, provider: EmailProvider) -> None:
        data = email_message(
            sender="no-reply@masscomm.example",
            recipient="ada@example.com",
            subject="Grüße",
            text="Hello",
            html="<p>Hello</p>",
            notification_id="n",
            ways_out=WaysOut("https://unsubscribe.example/u", "mailto:u@unsubscribe.example?subject=unsubscribe%20u"),
        )
        ids = [send(provider, recipient="ada@example.com", message=data) for _ in range(2)]
        assert all(ids)
        assert len(set(ids)) == 2


class SmsContract:
    """Subclasses define the fixture `provider`, for which the sender `Club` exists and `Other` does not."""

    SMS = Sms(
        number="+4915123456789", identity="Club", text="Grüße €", is_transactional=False, notification_id="n", ttl_s=1
    )

    def test_accepted_message_has_an_id_of_its_own(self, provider: SmsProvider) -> None:
        ids = [send_sms(provider, self.SMS) for _ in range(2)]
        assert all(ids)
        assert len(set(ids)) == 2

    def test_unknown_sender_holds_its_messages(self, provider: SmsProvider) -> None:
        with pytest.raises(ApplicationOff):
            send_sms(provider, self.SMS._replace(identity="Other"))

    def test_malformed_number_is_an_invalid_address(self, provider: SmsProvider) -> None:
        with pytest.raises(InvalidAddress):
            send_sms(provider, self.SMS._replace(number="12 34"))

    def test_blank_text_is_rejected_without_its_number(self, provider: SmsProvider) -> None:
        with pytest.raises(Rejected) as refused:
            send_sms(provider, self.SMS._replace(text=" "))
        assert "4915123456789" not in str(refused.value)
