"""The SNS stand-in responds as SNS and SES do for our adapters, and records the accepted messages."""

import asyncio
import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode
from uuid import uuid4

import boto3
import httpx
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from mypy_boto3_sns import SNSClient

from functions.device_registrar.endpoints import SnsEndpoints
from functions.receipts.answers import body_of
from functions.receipts.reading import Receipt, read
from local.devstack.service import AWS_CREDENTIALS
from local.devstack.sns_process import SnsStandIn
from local.emulators.lambda_host.invocation import InvocationResult
from local.emulators.sms_events import SmsEvents
from local.emulators.sns_stand_in import Rule, emails, endpoint_arn
from local.emulators.sns_stand_in.server import form_fields
from masscomm.aws.signature import Credentials
from masscomm.channels.aws_sms import AwsSms
from masscomm.channels.email import email_message
from masscomm.channels.provider import EmailProvider, Sms, SmsProvider
from masscomm.channels.ses_email import SesEmail
from masscomm.channels.sns_push import SnsPush
from masscomm.clock import SystemClock
from masscomm.domain.email_settings import EmailOrigin
from masscomm.domain.provider_errors import (
    ApplicationOff,
    CountryNotAllowed,
    OptedOut,
    ProviderError,
    TargetGone,
    TargetUnknown,
    Transient,
)
from masscomm.domain.sms_answers import SmsAnswer, Word
from masscomm.domain.statuses import Status
from tests.support.contracts.device_registrar import SnsEndpointsContract
from tests.support.contracts.provider import (
    EmailContract,
    PushContract,
    PushTargets,
    SmsContract,
    message,
    send,
    send_sms,
)
from tests.support.contracts.provider import publish as contract_publish


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SnsStandIn]:
    with SnsStandIn.start(log=tmp_path_factory.mktemp("sns") / "published.jsonl") as sns:
        yield sns


@pytest.fixture
def sns(running: SnsStandIn) -> Iterator[SnsStandIn]:
    yield running
    running.clear()


def client_of(sns: SnsStandIn) -> SNSClient:
    return boto3.client(
        "sns",
        region_name="us-east-1",
        endpoint_url=sns.url,
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(retries={"total_max_attempts": 1}, read_timeout=5),
    )


def push_to(url: str) -> SnsPush:
    return SnsPush(url=url, region="us-east-1", credentials=lambda: Credentials("test", "test"))


@pytest.fixture(scope="module")
def client(running: SnsStandIn) -> SNSClient:
    return client_of(running)


@pytest.fixture
def applications(client: SNSClient) -> dict[str, str]:
    return {
        platform.lower(): client.create_platform_application(Name=f"t{uuid4().hex}", Platform=platform, Attributes={})[
            "PlatformApplicationArn"
        ]
        for platform in ("GCM", "APNS")
    }


class TestPush(PushContract):
    @pytest.fixture
    def targets(self, client: SNSClient, applications: dict[str, str]) -> PushTargets:
        def endpoint() -> str:
            made = client.create_platform_endpoint(PlatformApplicationArn=applications["gcm"], Token=str(uuid4()))
            return made["EndpointArn"]

        disabled, absent = endpoint(), endpoint()
        client.set_endpoint_attributes(EndpointArn=disabled, Attributes={"Enabled": "false"})
        client.delete_endpoint(EndpointArn=absent)
        return PushTargets(push_to(client.meta.endpoint_url), endpoint(), disabled, absent)


@pytest.mark.parametrize(
    "fields",
    [
        {"Message": '{"default": "Grüße = 1 + 1 & 100 % \\n"}', "TargetArn": "arn:aws:sns:a/b", "Empty": ""},
        {"RawMessage.Data": base64.b64encode(bytes(range(256))).decode(), "Source": "a <b@c>"},
        {"Message": "line\r\n two  \n=\n=3D _ ~"},
    ],
)
def test_form_is_decoded_as_by_the_library(fields: dict[str, str]) -> None:
    body = urlencode(fields).encode()
    assert form_fields(body) == dict(parse_qsl(body.decode(), keep_blank_values=True)) == fields
    assert form_fields(b"a=b=c&d=%41") == {"a": "b=c", "d": "A"}


SENDER = "no-reply@masscomm.example"


@pytest.fixture
def mail(sns: SnsStandIn) -> Any:
    session: Any = boto3.session.Session()
    made = session.client(
        "sesv2",
        region_name="us-east-1",
        endpoint_url=sns.url,
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(retries={"total_max_attempts": 1}, read_timeout=5),
    )
    made.create_email_identity(EmailIdentity=SENDER)
    return made


class TestEmail(EmailContract):
    @pytest.fixture
    def provider(self, sns: SnsStandIn, mail: Any, monkeypatch: pytest.MonkeyPatch) -> EmailProvider:
        for name, value in {**AWS_CREDENTIALS, "AWS_ENDPOINT_URL_SESV2": sns.url}.items():
            monkeypatch.setenv(name, value)
        return SesEmail()


class Boto3Email:
    """The provider's interface over boto3, for which the stand-in must respond as for our own client."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def send(self, *, recipient: str, message: bytes, origin: EmailOrigin) -> str:
        answer = self._client.send_email(Destination={"ToAddresses": [recipient]}, Content={"Raw": {"Data": message}})
        return str(answer["MessageId"])


class TestEmailByBoto3(EmailContract):
    @pytest.fixture
    def provider(self, mail: Any) -> EmailProvider:
        return Boto3Email(mail)


def raw_email(notification_id: str = "n") -> bytes:
    return email_message(
        sender=SENDER,
        recipient="ada@example.com",
        subject="Goal",
        text="We lead by one.",
        html=None,
        notification_id=notification_id,
    )


def test_email_is_known_by_its_notification(sns: SnsStandIn, mail: Any) -> None:
    message_id = send(Boto3Email(mail), recipient="ada@example.com", message=raw_email("some-id"))
    last = sns.received()[-1]
    assert (last.endpoint, last.message_id, last.notification_id) == ("ada@example.com", message_id, "some-id")


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"FromEmailAddress": "other@unverified.example"}, "MessageRejected"),
        ({"Destination": {"ToAddresses": ["nobody"]}}, "BadRequestException"),
        ({"Destination": {"ToAddresses": ["ada@exämple.com"]}}, "BadRequestException"),
        ({"Destination": {"ToAddresses": [f"{each}@example.com" for each in range(51)]}}, "MessageRejected"),
        ({"Content": {"Raw": {"Data": b""}}}, "BadRequestException"),
        ({"TenantName": "unknown"}, "NotFoundException"),
    ],
)
def test_invalid_email_is_refused_as_by_ses(sns: SnsStandIn, mail: Any, changes: dict[str, Any], code: str) -> None:
    before = len(sns.received())
    request = {"Destination": {"ToAddresses": ["ada@example.com"]}, "Content": {"Raw": {"Data": raw_email()}}} | changes
    with pytest.raises(ClientError) as refused:
        mail.send_email(**request)
    assert refused.value.response["Error"]["Code"] == code
    assert len(sns.received()) == before


def test_tenant_needs_its_identity_and_configuration_set(mail: Any) -> None:
    mail.create_tenant(TenantName="club")
    request: Any = {"Destination": {"ToAddresses": ["ada@example.com"]}, "Content": {"Raw": {"Data": raw_email()}}}
    request |= {"TenantName": "club", "ConfigurationSetName": "set"}
    for arn in (emails.identity_arn(SENDER), emails.configuration_set_arn("set")):
        with pytest.raises(ClientError, match=r"Tenant not associated with resources \[.*" + arn):
            mail.send_email(**request)
        mail.create_tenant_resource_association(TenantName="club", ResourceArn=arn)
    assert mail.send_email(**request)["MessageId"]
    arn = mail.get_tenant(TenantName="club")["Tenant"]["TenantArn"]
    mail.update_reputation_entity_customer_managed_status(
        ReputationEntityType="RESOURCE", ReputationEntityReference=arn, SendingStatus="DISABLED"
    )
    assert mail.get_tenant(TenantName="club")["Tenant"]["SendingStatus"] == "DISABLED"
    with pytest.raises(ClientError, match="SendingPausedException"):
        mail.send_email(**request)


@pytest.mark.usefixtures("mail")
def test_throttled_email_is_transient(sns: SnsStandIn) -> None:
    sns.limit(per_s=0.001, burst=1)
    keys = Credentials("test", "test")
    email = SesEmail(url=sns.url, region="us-east-1", credentials=lambda: keys)
    send(email, recipient="ada@example.com", message=raw_email())
    with pytest.raises(Transient, match="Maximum sending rate exceeded") as refused:
        send(email, recipient="ada@example.com", message=raw_email())
    assert refused.value.throttled


class TestEndpoints(SnsEndpointsContract):
    @pytest.fixture
    def endpoints(self, client: SNSClient, applications: dict[str, str]) -> SnsEndpoints:
        return SnsEndpoints(applications, client)


@pytest.fixture
def endpoint(client: SNSClient, applications: dict[str, str]) -> str:
    made = client.create_platform_endpoint(PlatformApplicationArn=applications["gcm"], Token="token")
    assert made["EndpointArn"] == endpoint_arn(applications["gcm"], "token")
    return made["EndpointArn"]


def publish(client: SNSClient, endpoint: str) -> str:
    push = push_to(client.meta.endpoint_url)
    return contract_publish(push, endpoint_arn=endpoint, message=message(), attributes={})


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("Throttling", Transient),
        ("EndpointDisabled", TargetGone),
        ("NotFound", TargetUnknown),
        ("InvalidParameter", TargetUnknown),
        ("ExpiredToken", Transient),
        ("PlatformApplicationDisabled", ApplicationOff),
        ("InternalError", Transient),
        ("ServiceUnavailable", Transient),
        ("reset_before", Transient),
    ],
)
def test_configured_error_is_understood_and_publishes_nothing(
    sns: SnsStandIn, client: SNSClient, endpoint: str, code: str, expected: type[ProviderError]
) -> None:
    before = len(sns.received())
    sns.answer(Rule(code=code, endpoint=endpoint, times=1))
    with pytest.raises(ProviderError) as refused:
        publish(client, endpoint)
    assert type(refused.value) is expected
    assert len(sns.received()) == before
    assert publish(client, endpoint)


def test_message_with_a_lost_response_was_accepted(sns: SnsStandIn, client: SNSClient, endpoint: str) -> None:
    before = len(sns.received())
    sns.answer(Rule(code="reset_after", times=1))
    with pytest.raises(Transient) as lost:
        publish(client, endpoint)
    assert lost.value.answer_lost
    assert len(sns.received()) == before + 1


def test_rule_applies_after_the_configured_number_of_calls(sns: SnsStandIn, client: SNSClient, endpoint: str) -> None:
    sns.answer(Rule(code="Throttling", after=2))
    for _ in range(2):
        publish(client, endpoint)
    with pytest.raises(Transient, match="Rate exceeded"):
        publish(client, endpoint)


def test_more_than_the_limit_is_throttled(sns: SnsStandIn, client: SNSClient, endpoint: str) -> None:
    sns.limit(per_s=0.001, burst=3)
    for _ in range(3):
        publish(client, endpoint)
    with pytest.raises(Transient) as refused:
        publish(client, endpoint)
    assert refused.value.throttled


def test_received_messages_are_known_by_notification(
    sns: SnsStandIn, client: SNSClient, endpoint: str, running: SnsStandIn, tmp_path: Path
) -> None:
    since = SystemClock().now_ms() / 1000
    message_id = publish(client, endpoint)
    last = sns.received()[-1]
    assert (last.endpoint, last.message_id, last.notification_id) == (endpoint, message_id, "n")
    assert last.time >= since - 1
    with SnsStandIn.start(log=tmp_path / "log", any_endpoint=True) as other:
        message_id = publish(client_of(other), "arn:aws:sns:us-east-1:000000000000:endpoint/GCM/app/never-made")
        assert other.counts().accepted == 1
    [line] = (tmp_path / "log").read_text().splitlines()
    assert json.loads(line)[2] == message_id


def texts_to(url: str) -> AwsSms:
    return AwsSms(url=url, region="us-east-1", credentials=lambda: Credentials("test", "test"))


@pytest.fixture
def texts(sns: SnsStandIn) -> AwsSms:
    sns.put_identities("Club")
    return texts_to(sns.url)


class TestSms(SmsContract):
    @pytest.fixture
    def provider(self, texts: AwsSms) -> SmsProvider:
        return texts


def test_sms_arrives_as_it_was_requested(sns: SnsStandIn, texts: AwsSms) -> None:
    message_id = send_sms(texts, SmsContract.SMS)
    assert sns.texts()[-1] == {
        "DestinationPhoneNumber": "+4915123456789",
        "OriginationIdentity": "Club",
        "MessageBody": "Grüße €",
        "MessageType": "PROMOTIONAL",
        "TimeToLive": 5,
        "Context": {"notification_id": "n"},
        "MessageId": message_id,
    }
    assert sns.received()[-1].notification_id == "n"


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("Throttling", Transient),
        ("InternalError", Transient),
        ("ServiceQuotaExceededException", Transient),
        ("reset_after", Transient),
        ("DESTINATION_PHONE_NUMBER_OPTED_OUT", OptedOut),
        ("DESTINATION_COUNTRY_BLOCKED_BY_PROTECT_CONFIGURATION", CountryNotAllowed),
    ],
)
def test_refused_sms_has_its_error(sns: SnsStandIn, texts: AwsSms, code: str, error: type[ProviderError]) -> None:
    sns.answer(Rule(code=code))
    with pytest.raises(error) as refused:
        send_sms(texts, SmsContract.SMS)
    assert getattr(refused.value, "throttled", False) is (code == "Throttling")
    assert getattr(refused.value, "answer_lost", False) is (code == "reset_after")


class Boto3Sms:
    """The provider's interface over boto3, for which the stand-in must respond as for our own client."""

    def __init__(self, url: str) -> None:
        self._client = boto3.client(
            "pinpoint-sms-voice-v2",
            region_name="us-east-1",
            endpoint_url=url,
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )

    async def send(self, sms: Sms) -> str:
        answer = self._client.send_text_message(
            DestinationPhoneNumber=sms.number, OriginationIdentity=sms.identity, MessageBody=sms.text
        )
        return str(answer["MessageId"])


def test_sms_is_accepted_from_boto3(sns: SnsStandIn, texts: AwsSms) -> None:
    assert send_sms(Boto3Sms(sns.url), SmsContract.SMS) == sns.texts()[-1]["MessageId"]


def test_answers_and_reports_reach_their_function(sns: SnsStandIn, texts: AwsSms) -> None:
    """An event is passed on until its invocation succeeds."""
    passed: list[dict[str, Any]] = []

    async def invoke(payload: bytes) -> InvocationResult:
        passed.append(json.loads(payload))
        return InvocationResult(payload=b"{}", request_id="r", function_error="Unhandled" if len(passed) == 1 else None)

    async def run() -> None:
        events = SmsEvents(url=sns.url, invoke=invoke)
        events.start()
        async with asyncio.timeout(30):
            while len(passed) < 3:
                await asyncio.sleep(0.02)
        await events.stop()

    message_id = send_sms(texts, SmsContract.SMS)
    sns.answer_text(SmsContract.SMS.number, "+4915799912345", "Stop", message_id)
    sns.report_text(message_id)
    asyncio.run(run())
    assert passed[0] == passed[1]
    (stop,) = [each["Sns"] for each in passed[1]["Records"]]
    answer = read(body_of(stop["Message"], stop["Timestamp"]) or "")
    assert isinstance(answer, SmsAnswer)
    assert answer[:3] == (SmsContract.SMS.number, "+4915799912345", Word.STOP)
    assert answer.message_id == message_id
    report = read(json.dumps(passed[2]["detail"]))
    assert isinstance(report, Receipt)
    assert (report.message_id, report.status) == (message_id, Status.DELIVERED)
    with pytest.raises(httpx.HTTPStatusError):
        sns.report_text("unknown")
