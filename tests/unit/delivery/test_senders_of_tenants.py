"""E-mails with the senders and tenants of SES of their clubs."""

import email
import email.policy
from email.message import EmailMessage

import pytest

from masscomm.domain.records import ContentColumn, DeliveryRequested
from tests.support.emails import SENDER, emails_of_club_7
from tests.support.harness.chain import delivery
from tests.support.harness.delivery import Delivery


class Mailing(Delivery):
    """Delivery in which club 7 has a sender of its own."""

    emails = emails_of_club_7()

    def mail(self, category: str = "news", club_id: int = 7, **values: object) -> tuple[EmailMessage, str | None]:
        """Deliver an e-mail; return its message and its tenant of SES."""
        self.deliver(by_email(category, club_id, **values))
        sent = self.email.sent[-1]
        return email.message_from_bytes(sent.message, policy=email.policy.default), sent.origin.ses_tenant


def by_email(category: str = "news", club_id: int = 7, **values: object) -> DeliveryRequested:
    texts = {"subject": "Hello", "text": "There is news."}
    content = [ContentColumn(field=name, values=[text], index=[]) for name, text in texts.items()]
    usual = {"channel": "email", "addresses": ["ada@example.com"], "content": content}
    return delivery([1], club_id=club_id, type=category, **usual | values)


def test_email_has_the_sender_of_its_club() -> None:
    message, ses_tenant = Mailing().mail()
    assert (message["From"], message["Reply-To"]) == ("Club 7 <news@club7.example>", "help@club7.example")
    assert str(message["Message-ID"]).endswith("@club7.example>")
    assert ses_tenant == "club-7"


def test_email_has_the_sender_of_its_category() -> None:
    message, ses_tenant = Mailing().mail("score")
    assert (message["From"], ses_tenant) == ("scores@club7.example", "club-7")


def test_email_of_another_club_has_the_usual_sender() -> None:
    message, ses_tenant = Mailing().mail(club_id=8)
    assert (message["From"], message["Reply-To"], ses_tenant) == (SENDER, None, None)


@pytest.mark.parametrize(("club_id", "sender"), [(7, "Club 7 <news@club7.example>"), (8, SENDER)])
def test_mandatory_email_has_the_tenant_of_mandatory_ones(club_id: int, sender: str) -> None:
    message, ses_tenant = Mailing().mail("security_alert", club_id)
    assert (message["From"], ses_tenant) == (sender, "accounts")
