"""The contract of every provider adapter: the in-memory and the real one run the same tests."""

from dataclasses import dataclass

import pytest

from masscomm.channels.email import email_message
from masscomm.channels.provider import EmailProvider, PushProvider, Rejected, TargetGone
from masscomm.channels.push import push_attributes, push_message


@dataclass(frozen=True)
class PushTargets:
    """A provider with an endpoint that takes messages, one that is disabled, and one there is none of."""

    provider: PushProvider
    enabled: str
    disabled: str
    absent: str


def message() -> str:
    """A push as delivery makes it."""
    return push_message("gcm", None, title="Hello", body="Grüezi", notification_id="n", send_id="s", collapse_key=None)


class PushContract:
    """Subclasses give the fixture `targets`."""

    def test_accepted_message_has_an_id_of_its_own(self, targets: PushTargets) -> None:
        attributes = push_attributes("gcm", None, collapse_key=None, ttl_s=60)
        ids = [
            targets.provider.publish(endpoint_arn=targets.enabled, message=message(), attributes=attributes)
            for _ in range(2)
        ]
        assert all(ids)
        assert len(set(ids)) == 2

    def test_a_disabled_endpoint_is_gone(self, targets: PushTargets) -> None:
        with pytest.raises(TargetGone):
            targets.provider.publish(endpoint_arn=targets.disabled, message=message(), attributes={})

    def test_unknown_endpoint_is_gone(self, targets: PushTargets) -> None:
        with pytest.raises(TargetGone):
            targets.provider.publish(endpoint_arn=targets.absent, message=message(), attributes={})

    def test_malformed_message_is_rejected(self, targets: PushTargets) -> None:
        with pytest.raises(Rejected):
            targets.provider.publish(endpoint_arn=targets.enabled, message="not JSON", attributes={})


class EmailContract:
    """Subclasses give the fixture `provider`, whose sender is no-reply@masscomm.example."""

    def test_accepted_message_has_an_id_of_its_own(self, provider: EmailProvider) -> None:
        data = email_message(
            sender="no-reply@masscomm.example",
            recipient="ada@example.com",
            subject="Grüße",
            text="Hello",
            html="<p>Hello</p>",
            notification_id="n",
            unsubscribe_url="https://unsubscribe.example/u",
        )
        ids = [provider.send(recipient="ada@example.com", message=data) for _ in range(2)]
        assert all(ids)
        assert len(set(ids)) == 2
