"""The e-mails of a tenant beyond the limits of bounces and complaints wait; mandatory ones and other tenants go on."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from masscomm.domain.delays import PAUSED
from masscomm.domain.email_pauses import MS_AN_HOUR, EmailCounts, hours_since, limit_passed, pause_key
from masscomm.domain.email_settings import read_emails
from masscomm.domain.provider_errors import ApplicationOff, ProviderError, SendingPaused, Transient
from masscomm.domain.records import ContentColumn, DeliveryRequested
from masscomm.domain.sends import Send, SendControl, SendKey, Source, controlled
from masscomm.domain.time_limits import PAUSE_LIMIT_S
from masscomm.errors import Retry
from masscomm.http.problem import Problem
from masscomm.kafka import topics
from masscomm.stores.sends.port import change
from tests.support.contracts.sent_messages import outcome
from tests.support.harness.chain import delivery
from tests.support.harness.control_api import OWN, ControlApi
from tests.support.harness.delivery import Delivery
from tests.support.harness.receipts import Receipts
from tests.support.inputs import receipt_events

KEY = pause_key(7)


# --- when they are paused ---------------------------------------------------------------------------------------------


@pytest.mark.kills(guard="email_pauses.limit")
@pytest.mark.kills(guard="email_pauses.least_sent")
@pytest.mark.parametrize(
    ("counts", "reason"),
    [
        (EmailCounts(500, 50, 2), ""),
        (EmailCounts(500, 51, 0), "51 permanent bounces of 500 e-mails in 24 hours, more than 10.0%"),
        (EmailCounts(1_000, 0, 6), "6 complaints of 1000 e-mails in 24 hours, more than 0.5%"),
        (EmailCounts(499, 499, 499), ""),
    ],
)
def test_limit_is_passed_by_more_than_its_share(counts: EmailCounts, reason: str) -> None:
    assert limit_passed(counts) == reason


def test_hours_before_the_end_of_a_pause_do_not_count() -> None:
    now_ms = 1_000 * MS_AN_HOUR + 5
    assert list(hours_since(now_ms, None)) == list(range(977, 1_001))
    assert list(hours_since(now_ms, 998 * MS_AN_HOUR + 1)) == [999, 1_000]
    assert list(hours_since(now_ms, now_ms)) == []


class Mails(Receipts):
    """Receipts of e-mails of club 7."""

    def sent(self, count: int, **values: Any) -> None:
        """Process the outcome of e-mails that SES accepted; the messages are m0, m1, …"""
        usual = {"channel": "email"}
        self.sent_messages(*([f"m{number}"] for number in range(count)), **usual | values)

    def bounces(self, numbers: range, event: dict[str, Any] = receipt_events.BOUNCED) -> None:
        for number in numbers:
            detail: Any = deepcopy(event)
            detail["mail"]["messageId"] = f"m{number}"
            for part in detail.values():
                if isinstance(part, dict):  # It occurs now.
                    part.pop("timestamp", None)
            self.ingest({"source": "aws.ses", "detail": detail})
        assert self.reprocess() == []

    @property
    def is_paused(self) -> bool:
        return self.register.controls([KEY])[KEY].paused_at_ms is not None


def test_bounces_beyond_the_limit_pause_the_club() -> None:
    mails = Mails()
    mails.sent(500)
    mails.bounces(range(50))
    assert mails.reprocess() == [], "redelivered receipts count once"
    assert not mails.is_paused
    mails.bounces(range(51))
    assert mails.is_paused
    [entry] = mails.audit_log.entries
    assert (entry.club_id, entry.subject) == (7, KEY.send_id)
    assert "51 permanent bounces of 500" in entry.detail


def test_complaints_beyond_the_limit_pause_the_club() -> None:
    mails = Mails()
    mails.sent(500)
    mails.bounces(range(5), receipt_events.COMPLAINED_BEFORE)
    mails.bounces(range(5, 7), receipt_events.COMPLAINED)
    assert not mails.is_paused
    mails.bounces(range(8), receipt_events.COMPLAINED)
    assert mails.is_paused


@pytest.mark.parametrize("values", [{"type": "security_alert"}, {"channel": "push"}])
def test_mandatory_emails_and_pushes_do_not_count(values: dict[str, Any]) -> None:
    mails = Mails()
    mails.sent(500, **values)
    assert mails.counter.counts == {}


def test_counts_that_are_down_redeliver_the_record() -> None:
    mails = Mails()
    mails.counter.failing = Retry("DynamoDB is down")
    record = outcome("44444444-4444-5444-8444-444444444444", [["m"]], channel="email")
    assert mails.run(mails.process, mails.encoded(record, topics.OUTCOME)) == [0]


@pytest.mark.parametrize(
    ("tenant", "kind", "is_paused"),
    [
        ("club-7", "Sending Status Disabled", True),
        ("club-7", "Sending Status Enabled", False),
        ("accounts", "Sending Status Disabled", False),
    ],
)
def test_tenant_that_ses_pauses_is_paused(tenant: str, kind: str, is_paused: bool) -> None:
    mails = Mails()
    event = {
        "id": "3cc76530",
        "detail-type": kind,
        "source": "aws.ses",
        "resources": [f"arn:aws:ses:eu-central-1:1:tenant/{tenant}/tn-2a8c"],
        "detail": {"version": "1.0.0", "data": {"origin": "AWS_SES_MANAGED", "record": {"status": "DISABLED"}}},
    }
    assert mails.receive(event) == []
    assert mails.is_paused is is_paused


# --- what waits -------------------------------------------------------------------------------------------------------


def by_email(club_id: int = 7, category: str = "news", **values: Any) -> DeliveryRequested:
    texts = {"subject": "Hello", "text": "There is news."}
    content = [ContentColumn(field=name, values=[text], index=[]) for name, text in texts.items()]
    usual: dict[str, Any] = {"channel": "email", "addresses": ["ada@example.com"], "content": content}
    return delivery([1], club_id=club_id, type=category, **usual | values)


class PausedMails(Delivery):
    """Delivery while the e-mails of club 7 are paused."""

    def __init__(self) -> None:
        super().__init__()
        self.set_paused(self.clock.now_ms())

    def set_paused(self, at_ms: int | None) -> None:
        known = self.register.find(KEY.send_id) or Send(key=KEY)
        change(self.register, known, lambda send: controlled(send, paused_at_ms=at_ms))

    def held(self, key: SendKey = KEY) -> list[Any]:
        return list(self.delay_store.of_send(key, PAUSED))


@pytest.mark.kills(guard="email_pauses.held")
@pytest.mark.kills(guard="email_pauses.released")
def test_email_of_a_paused_club_waits_until_it_is_resumed() -> None:
    mails = PausedMails()
    assert mails.deliver(by_email()) == []
    assert (mails.email.sent, mails.outcomes()) == ([], [])
    [held] = mails.held()
    mails.set_paused(None)
    record = DeliveryRequested.from_avro(mails.codec.decode("DeliveryRequested", held.value))
    assert mails.deliver(record) == []
    assert [each.recipient for each in mails.email.sent] == ["user1@example.com"]


@pytest.mark.kills(guard="email_pauses.mandatory")
@pytest.mark.parametrize("record", [by_email(category="security_alert"), by_email(club_id=8), delivery([1])])
def test_mandatory_mail_and_others_go_on(record: DeliveryRequested) -> None:
    mails = PausedMails()
    assert mails.deliver(record) == []
    assert len(mails.email.sent) + len(mails.push.published) == 1
    assert mails.held() == []


def test_pauses_of_send_and_club_have_copies_of_their_own() -> None:
    mails = PausedMails()
    record = by_email()
    mails.deliver(record)
    key = SendKey(7, record.send_id)
    mails.register.put(controlled(Send(key=key, source=Source.REST), paused_at_ms=mails.clock.now_ms()))
    mails.deliver(record)
    assert {len(mails.held()), len(mails.held(key))} == {1}
    assert mails.held()[0].id != mails.held(key)[0].id


@pytest.mark.kills(guard="email_pauses.overdue")
def test_email_at_the_limit_of_a_pause_has_expired() -> None:
    mails = PausedMails()
    mails.clock.advance(PAUSE_LIMIT_S)
    mails.deliver(by_email(built_at=mails.clock.now_ms()))
    [record] = mails.outcomes()
    assert [result.status for result in record.results] == ["expired"]
    assert mails.email.sent == []


# --- SES has paused the sending ---------------------------------------------------------------------------------------

OWN_SET = {"ses_tenant": "club-7", "mandatory_ses_tenant": "accounts", "configuration_set": "club-7"}


class RefusedMails(PausedMails):
    """Delivery while SES refuses the e-mails of a tenant or a configuration set of its own."""

    emails = read_emails({"tenants": {7: OWN_SET}}, sender="no-reply@masscomm.example", configuration_set="all")

    def __init__(self, error: ProviderError) -> None:
        super().__init__()
        self.set_paused(None)
        self.audit_log.entries.clear()
        self.email.fail = lambda _recipient: error

    @property
    def control(self) -> SendControl:
        return self.register.controls([KEY])[KEY]


OF_TENANT = SendingPaused("SendingPaused: Sending is paused for tenant club-7.", is_of_set=False)
OF_SET = SendingPaused("SendingPaused: Sending is paused for configuration set club-7.", is_of_set=True)


@pytest.mark.kills(guard="email_pauses.paused_by_ses")
@pytest.mark.parametrize("error", [OF_TENANT, OF_SET])
def test_email_waits_once_ses_has_paused_its_tenant(error: SendingPaused) -> None:
    mails = RefusedMails(error)
    two = [replace(by_email(), record_id=f"{number}4444444-4444-5444-8444-444444444444") for number in (1, 2)]
    assert mails.deliver(*two) == []
    assert mails.deliver(by_email()) == []
    assert mails.control.paused_at_ms is not None
    assert len(mails.held()) == 3
    assert [(each.action, str(error) in each.detail) for each in mails.audit_log.entries] == [("send.paused", True)]
    mails.email.fail = lambda _recipient: None
    mails.set_paused(None)
    records = [mails.codec.decode("DeliveryRequested", each.value) for each in mails.held()]
    assert mails.deliver(*map(DeliveryRequested.from_avro, records)) == []
    assert len(mails.email.sent) == 3


@pytest.mark.parametrize(
    ("record", "error"),
    [
        (by_email(category="security_alert"), OF_TENANT),
        (by_email(), Transient("SendingPaused: Email sending for the account is paused.")),
        (by_email(), ApplicationOff("NotFound: Tenant club-7 not found.")),
    ],
)
def test_email_is_retried_without_a_pause(record: DeliveryRequested, error: ProviderError) -> None:
    mails = RefusedMails(error)
    mails.deliver(record)
    assert (mails.control.paused_at_ms, mails.held()) == (None, [])
    assert [each.delay_reason for each in mails.delay_store.items.values()] == ["back_off"]


@pytest.mark.kills(guard="email_pauses.shared_set")
def test_shared_configuration_set_pauses_no_club() -> None:
    mails = RefusedMails(OF_SET)
    key = pause_key(8)
    mails.deliver(by_email(club_id=8))
    assert mails.register.controls([key])[key].paused_at_ms is None
    assert [each.delay_reason for each in mails.delay_store.items.values()] == ["back_off"]


def test_register_that_is_down_redelivers_the_record() -> None:
    mails = RefusedMails(OF_TENANT)

    def down(_send_id: str) -> Send | None:
        raise Retry("DynamoDB is down")

    mails.register.find = down  # type: ignore[assignment, method-assign]
    assert mails.deliver(by_email()) == [0]
    assert mails.control.paused_at_ms is None


# --- control ----------------------------------------------------------------------------------------------------------


@pytest.mark.kills(guard="email_pauses.resumed_late")
def test_emails_are_resumed_as_a_send_however_late() -> None:
    api = ControlApi()
    api.register.put(controlled(Send(key=KEY), paused_at_ms=api.clock.now_ms()))
    api.clock.advance(PAUSE_LIMIT_S)
    body = api.resume_route.answer(KEY.send_id, {}, OWN, None)
    assert body["status"] == "resumed"
    assert api.register.controls([KEY])[KEY].paused_at_ms is None
    assert list(api.delay_store.changed) == [KEY]


def test_emails_of_a_club_cannot_be_cancelled() -> None:
    api = ControlApi()
    api.register.put(controlled(Send(key=KEY), paused_at_ms=api.clock.now_ms()))
    with pytest.raises(Problem) as refused:
        api.cancel(KEY.send_id)
    assert refused.value.status == 409
