"""The questions to SES about senders, answered by the stand-in."""

from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest

from local.devstack.sns_process import SnsStandIn
from local.emulators.sns_stand_in import emails
from masscomm.aws.signature import Credentials
from masscomm.channels.ses_senders import SesSenders
from masscomm.clock import FixedClock
from masscomm.domain.email_settings import EmailOrigin
from masscomm.domain.time_limits import SENDER_CHECK_VALID_S
from masscomm.errors import Retry

OWN = EmailOrigin(sender="Club 7 <news@club7.example>", configuration_set="c7", ses_tenant="club-7")


@pytest.fixture(scope="module")
def sns() -> Iterator[SnsStandIn]:
    with SnsStandIn.start() as running:
        yield running


@pytest.fixture(scope="module")
def ses(sns: SnsStandIn) -> Any:
    session: Any = boto3.session.Session(aws_access_key_id="test", aws_secret_access_key="test")
    return session.client("sesv2", region_name="us-east-1", endpoint_url=sns.url)


def senders(url: str, clock: FixedClock) -> SesSenders:
    return SesSenders(clock, url=url, region="us-east-1", credentials=lambda: Credentials("test", "test"))


def test_sender_needs_identity_and_associations(sns: SnsStandIn, ses: Any) -> None:
    clock = FixedClock()
    known = senders(sns.url, clock)
    steps: list[Callable[[], Any]] = [
        lambda: ses.create_email_identity(EmailIdentity="club7.example"),
        lambda: ses.create_tenant(TenantName="club-7"),
        lambda: ses.create_tenant_resource_association(
            TenantName="club-7", ResourceArn=emails.identity_arn("club7.example")
        ),
        lambda: ses.create_tenant_resource_association(
            TenantName="club-7", ResourceArn=emails.configuration_set_arn("c7")
        ),
    ]
    for step in steps:
        assert not known.accepts(OWN)
        step()
        assert not known.accepts(OWN), "an answer is valid for some minutes"
        clock.advance(SENDER_CHECK_VALID_S)
    assert known.accepts(OWN)
    assert not known.accepts(EmailOrigin(sender="a@other.example"))


def test_service_that_is_down_has_one_request() -> None:
    clock = FixedClock()
    known = senders("http://127.0.0.1:1", clock)
    calls = []

    def answer(*call: Any, until: float) -> tuple[int, bytes]:
        calls.append(call)
        return 503, b""

    known._http.request = answer  # type: ignore[assignment, method-assign]
    for _ in range(3):
        with pytest.raises(Retry, match="503"):
            known.accepts(OWN)
    assert len(calls) == 1
