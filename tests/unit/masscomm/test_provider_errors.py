"""Errors of SNS and SES, classified by delivery's reaction, through the adapters."""

import asyncio
import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from urllib.parse import parse_qs
from xml.sax.saxutils import escape

import boto3
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as BotocoreCredentials
from mypy_boto3_sns.type_defs import MessageAttributeValueTypeDef

from masscomm.aws.signature import Credentials
from masscomm.channels.circuit_breaker import UNKNOWN_IN_A_ROW, PushCircuitBreaker, application_of
from masscomm.channels.in_memory import InMemoryPush
from masscomm.channels.ses_email import SesEmail
from masscomm.channels.sns_push import SnsPush
from masscomm.clock import FixedClock
from masscomm.domain.provider_error_codes import TABLE
from masscomm.domain.provider_errors import (
    ApplicationOff,
    ProviderError,
    Rejected,
    SendingPaused,
    TargetGone,
    TargetUnknown,
    Transient,
)
from masscomm.errors import Retry, Stop
from tests.support.contracts.provider import PushContract, PushTargets, message, publish, send

ENDPOINT = "arn:aws:sns:eu-central-1:123456789012:endpoint/{}/11111111-1111-4111-8111-111111111111"
SENDER = "no-reply@masscomm.example"
UNVERIFIED = "Email address is not verified. The following identities failed the check in region EU-CENTRAL-1:"

# (code, message, HTTP status, expected error, its flag), as AWS' API references and forums quote them.
SNS = [
    ("EndpointDisabled", "Endpoint is disabled", 400, TargetGone, ""),
    ("EndpointDisabledException", "Endpoint is disabled", 400, TargetGone, ""),
    ("NotFound", "Endpoint does not exist", 404, TargetUnknown, ""),
    ("NotFound", "PlatformApplication does not exist", 404, ApplicationOff, ""),
    ("PlatformApplicationDisabled", "Platform application is disabled", 400, ApplicationOff, ""),
    ("InvalidParameter", "Invalid parameter: TargetArn Reason: No endpoint found", 400, TargetUnknown, ""),
    ("InvalidParameter", "Invalid parameter: Token Reason: must be at most 400 KB", 400, TargetGone, ""),
    ("InvalidParameter", "Invalid parameter: Message too long", 400, Rejected, "too_large"),
    ("InvalidParameter", "Invalid parameter: Message Structure - No default entry", 400, Rejected, ""),
    ("ParameterValueInvalid", "The value of a message attribute is invalid", 400, Rejected, ""),
    ("Throttling", "Rate exceeded", 400, Transient, "throttled"),
    ("ThrottledException", "Rate exceeded", 429, Transient, "throttled"),
    ("KMSThrottling", "Rate exceeded", 400, Transient, "throttled"),
    ("InternalError", "", 500, Transient, ""),
    ("ServiceUnavailable", "", 503, Transient, ""),
    ("502", "Bad Gateway", 502, Transient, ""),
    ("ExpiredToken", "The security token included in the request is expired", 403, Transient, ""),
    ("ExpiredTokenException", "The security token included in the request is expired", 403, Transient, ""),
    ("InvalidClientTokenId", "The security token included in the request is invalid", 403, Transient, ""),
    ("SignatureDoesNotMatch", "Signature expired: 20261121T090000Z is now earlier than …", 403, Transient, ""),
    ("RequestExpired", "Request has expired", 400, Transient, ""),
    ("AuthorizationError", "User is not authorized to perform SNS:Publish", 403, Transient, ""),
    ("ANewCode", "whatever", 400, Transient, ""),
]
NOT_ASSOCIATED = "Tenant not associated with resources [arn:aws:ses:eu-central-1:1:identity/club.example]."
# The exceptions of SendEmail by SES' API reference v2, those of version 1, and the texts that SES sends.
SES = [
    ("MessageRejected", f"{UNVERIFIED} ada@example.com", 400, Transient, ""),
    ("MessageRejected", f"{UNVERIFIED} {SENDER}", 400, ApplicationOff, ""),
    ("MessageRejected", "Address blacklisted.", 400, Rejected, ""),
    ("MessageRejected", "Sending paused for this account. For more information, please check …", 400, Transient, ""),
    ("MessageRejected", "Sending suspended for this account. For more information, …", 400, Transient, ""),
    ("BadRequestException", "Missing final '@domain'", 400, Rejected, ""),
    ("BadRequestException", "Message length is too long", 400, Rejected, "too_large"),
    ("BadRequestException", "Configuration set <set> does not exist.", 400, ApplicationOff, ""),
    ("TooManyRequestsException", "Maximum sending rate exceeded.", 429, Transient, "throttled"),
    ("TooManyRequestsException", "Daily message quota exceeded.", 429, Transient, "throttled"),
    ("LimitExceededException", "", 400, Transient, ""),
    ("SendingPausedException", "Email sending for the account is paused.", 400, Transient, ""),
    ("SendingPausedException", "Sending is paused for tenant club-7.", 400, SendingPaused, ""),
    ("SendingPausedException", "Sending is paused for configuration set club-7.", 400, SendingPaused, ""),
    ("AccountSuspendedException", "", 400, Transient, ""),
    ("AccountSendingPausedException", "Sending paused for this account", 400, Transient, ""),
    ("ConfigurationSetSendingPausedException", "", 400, SendingPaused, ""),
    ("MailFromDomainNotVerifiedException", "The MAIL FROM domain is not verified", 400, ApplicationOff, ""),
    ("NotFoundException", "Tenant club not found.", 404, ApplicationOff, ""),
    ("NotFoundException", "Configuration set <set> does not exist.", 404, ApplicationOff, ""),
    ("AccessDeniedException", NOT_ASSOCIATED, 403, ApplicationOff, ""),
    ("AccessDeniedException", "User is not authorized to perform ses:SendEmail", 403, Transient, ""),
    ("InternalFailure", "", 500, Transient, ""),
    ("ExpiredTokenException", "The security token included in the request is expired", 403, Transient, ""),
]


def _assert_is(error: ProviderError, wanted: type[ProviderError], flag: str) -> None:
    assert type(error) is wanted
    flags = {name for name in ("throttled", "too_large", "answer_lost") if getattr(error, name, False)}
    assert flags == ({flag} if flag else set())


@pytest.mark.guarantee("provider_errors.each_code_has_one_meaning")
@pytest.mark.parametrize(("code", "text", "status", "wanted", "flag"), SNS)
def test_sns_error_has_its_documented_meaning(
    code: str, text: str, status: int, wanted: type[ProviderError], flag: str
) -> None:
    with _server(_answer(status, _error(code, text))) as (url, _), pytest.raises(ProviderError) as caught:
        publish(_push(url), endpoint_arn=ENDPOINT.format("GCM/app"), message=message(), attributes={})
    _assert_is(caught.value, wanted, flag)
    assert text in str(caught.value)


@pytest.mark.kills(guard="provider_errors.paused_account")
@pytest.mark.kills(guard="provider_errors.sandbox")
@pytest.mark.kills(guard="provider_errors.association")
@pytest.mark.kills(guard="provider_errors.paused_tenant")
@pytest.mark.parametrize(("code", "text", "status", "wanted", "flag"), SES)
def test_ses_error_has_its_documented_meaning(
    code: str, text: str, status: int, wanted: type[ProviderError], flag: str
) -> None:
    with _server(_answer(status, json.dumps({"message": text}), f"x-amzn-ErrorType: {code}\r\n")) as (url, _):
        keys = Credentials("key", "secret")
        mail = SesEmail(url=url, region="eu-central-1", credentials=lambda: keys)
        with pytest.raises(ProviderError) as caught:
            send(mail, recipient="ada@example.com", message=b"x")
    _assert_is(caught.value, wanted, flag)
    assert str(caught.value) == f"{code}: {text}"


def test_ses_error_with_a_namespace_keeps_its_code() -> None:
    with _server(_answer(429, "{}", "X-Amzn-Errortype: aws.ses#TooManyRequestsException:http://x/\r\n")) as (url, _):
        mail = SesEmail(url=url, region="eu-central-1", credentials=lambda: Credentials("a", "b"))
        with pytest.raises(Transient, match="TooManyRequests") as caught:
            send(mail, recipient="ada@example.com", message=b"x")
    assert caught.value.throttled


@pytest.mark.guarantee("provider_answer.each_code_has_a_row")
def test_each_error_has_a_row_and_each_row_an_error() -> None:
    answers = [(code.removesuffix("Exception"), f"{code}: {text}") for code, text, *_ in SNS + SES]
    rows = {answer: next((row for row in TABLE if row.fits(*answer)), None) for answer in answers}
    assert {code for (code, _), row in rows.items() if row is None} == {"502", "ANewCode"}
    met = set(rows.values())
    unmet = [row for row in TABLE if row not in met]
    # Codes without a case: those of encrypted topics (KMS…), and a message size that our own limits prevent.
    assert {code for row in unmet for code in row.codes if not code.startswith("KMS")} == {"RequestEntityTooLarge"}


# --- SNS's own adapter ------------------------------------------------------------------------------------------------


def _push(url: str, *, region: str = "eu-central-1") -> SnsPush:
    return SnsPush(
        url=url,
        region=region,
        credentials=lambda: Credentials("key", "secret", "token"),
        now=lambda: datetime(2026, 11, 21, tzinfo=UTC),
    )


def _error(code: str, text: str) -> str:
    """Return an error response in SNS' format."""
    return (
        '<ErrorResponse xmlns="http://sns.amazonaws.com/doc/2010-03-31/"><Error><Type>Sender</Type>'
        f"<Code>{code}</Code><Message>{escape(text)}</Message></Error><RequestId>r</RequestId></ErrorResponse>"
    )


def _answer(status: int, body: str, headers: str = "") -> bytes:
    return f"HTTP/1.1 {status} X\r\n{headers}Content-Length: {len(body.encode())}\r\n\r\n{body}".encode()


@contextmanager
def _server(answer: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """A server that responds to one request and closes the connection. Yields its address and the request."""
    read: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                request = b""
                while not _is_whole(request):
                    request += connection.recv(65_536)
                read.append(request)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", read
        thread.join()


def _is_whole(request: bytes) -> bool:
    head, separator, body = request.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    return bool(separator) and length is not None and len(body) >= int(length[1])


TAKEN = (
    "<PublishResponse><PublishResult><MessageId>567910cd-659e-55d4-8ccb-5aaf14679dc0</MessageId></PublishResult>"
    "</PublishResponse>"
)


def test_request_and_signature_equal_those_of_the_sdk() -> None:
    arn, attributes = ENDPOINT.format("GCM/app"), {"AWS.SNS.MOBILE.APNS.TTL": "60", "a&b": "ü +~"}
    with _server(_answer(200, TAKEN)) as (url, requests):
        message_id = publish(_push(url), endpoint_arn=arn, message=message(), attributes=attributes)
    assert message_id == "567910cd-659e-55d4-8ccb-5aaf14679dc0"
    head, _, body = requests[0].partition(b"\r\n\r\n")
    with _server(_answer(200, TAKEN)) as (other, requests):
        client = boto3.client(
            "sns",
            endpoint_url=other,
            region_name="eu-central-1",
            aws_access_key_id="key",
            aws_secret_access_key="secret",
            aws_session_token="token",
        )
        values: dict[str, MessageAttributeValueTypeDef] = {
            name: {"DataType": "String", "StringValue": value} for name, value in attributes.items()
        }
        client.publish(TargetArn=arn, Message=message(), MessageStructure="json", MessageAttributes=values)
    sdk = requests[0].partition(b"\r\n\r\n")[2]
    assert parse_qs(body.decode()) == parse_qs(sdk.decode())
    headers = {name.lower(): value for name, value in re.findall(r"^([\w-]+): (.*?)\r?$", head.decode(), re.MULTILINE)}
    request = AWSRequest(method="POST", url=url + "/", data=body)
    for name in ("content-type", "x-amz-date", "x-amz-security-token"):
        request.headers[name] = headers[name]
    scope = "20261121/eu-central-1/sns/aws4_request"
    auth = SigV4Auth(BotocoreCredentials("key", "secret", "token"), "sns", "eu-central-1")
    request.context["timestamp"] = "20261121T000000Z"
    signature = auth.signature(auth.string_to_sign(request, auth.canonical_request(request)), request)
    assert f"Credential=key/{scope}" in headers["authorization"]
    assert headers["authorization"].endswith(f"Signature={signature}")
    assert headers["content-type"].startswith("application/x-www-form-urlencoded")


def test_email_has_its_raw_message_and_one_recipient() -> None:
    """A FromEmailAddress would replace the header From, and with it the name of the sender."""
    with _server(_answer(200, '{"MessageId": "m"}')) as (url, requests):
        keys = Credentials("key", "secret")
        mail = SesEmail(url=url, region="eu-central-1", credentials=lambda: keys)
        assert send(mail, recipient='"a\\"b"@example.com', message=b"x\xff") == "m"
    head, _, body = requests[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v2/email/outbound-emails HTTP/1.1\r\n")
    assert json.loads(body) == {
        "Content": {"Raw": {"Data": "eP8="}},
        "Destination": {"ToAddresses": ['"a\\"b"@example.com']},
    }


def test_connection_lost_after_the_request_is_a_lost_answer() -> None:
    with _server(b"") as (url, _), pytest.raises(Transient) as caught:
        publish(_push(url), endpoint_arn="arn", message=message(), attributes={})
    assert caught.value.answer_lost


def test_answer_without_a_message_id_is_a_lost_answer() -> None:
    with _server(_answer(200, "<html></html>")) as (url, _), pytest.raises(Transient) as caught:
        publish(_push(url), endpoint_arn="arn", message=message(), attributes={})
    assert caught.value.answer_lost


def test_refused_connection_is_not_a_lost_answer() -> None:
    with pytest.raises(Transient) as caught:
        publish(_push("http://127.0.0.1:1"), endpoint_arn="arn", message=message(), attributes={})
    assert not caught.value.answer_lost


def test_503_of_an_intermediary_is_transient_not_throttled() -> None:
    with _server(_answer(503, "<html>busy</html>")) as (url, _), pytest.raises(Transient, match="503") as caught:
        publish(_push(url), endpoint_arn="arn", message=message(), attributes={})
    assert not caught.value.throttled


def test_missing_credentials_are_transient() -> None:
    def none() -> Credentials:
        raise Retry("not now")

    push = SnsPush(url="http://127.0.0.1:1", region="eu-central-1", credentials=none)
    with pytest.raises(Transient, match="not now"):
        publish(push, endpoint_arn="arn", message=message(), attributes={})


@pytest.mark.parametrize(
    ("variables", "url"),
    [
        ({"AWS_REGION": "eu-west-1"}, "https://sns.eu-west-1.amazonaws.com/"),
        ({"AWS_DEFAULT_REGION": "cn-north-1"}, "https://sns.cn-north-1.amazonaws.com.cn/"),
        ({"AWS_REGION": "eu-west-1", "AWS_ENDPOINT_URL": "http://127.0.0.1:4566"}, "http://127.0.0.1:4566/"),
        (
            {"AWS_REGION": "r", "AWS_ENDPOINT_URL": "http://a", "AWS_ENDPOINT_URL_SNS": "http://127.0.0.1:1/"},
            "http://127.0.0.1:1/",
        ),
    ],
)
def test_sns_url_follows_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], url: str
) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_SNS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert SnsPush()._api.url == url


def test_missing_region_is_a_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(Stop, match="AWS_REGION"):
        SnsPush()


# --- circuit breaker --------------------------------------------------------------------------------------------------


class TestPushCircuitBreaker(PushContract):
    @pytest.fixture
    def targets(self) -> PushTargets:
        push = InMemoryPush()
        return PushTargets(
            PushCircuitBreaker(push, clock=FixedClock()),
            push.put("enabled"),
            push.put("disabled", enabled=False),
            "absent",
        )


class Applications:
    """Two platform applications, one of them disabled."""

    def __init__(self) -> None:
        self.clock = FixedClock()
        self.inner = InMemoryPush()
        self.push = PushCircuitBreaker(self.inner, clock=self.clock, pause_s=30)
        self.off, self.on = ENDPOINT.format("GCM/off"), ENDPOINT.format("APNS/on")
        self.inner.put(self.off)
        self.inner.put(self.on)
        self.inner.fail = lambda arn: ApplicationOff("PlatformApplicationDisabled") if arn == self.off else None

    def publish(self, arn: str) -> str | None:
        """Publish to an application. Returns the message id; None if the application is disabled."""
        try:
            return asyncio.run(self.push.publish(endpoint_arn=arn, message=message(), attributes={}))
        except ApplicationOff:
            return None


def test_disabled_application_is_called_once_others_continue() -> None:
    both = Applications()
    for _ in range(5):
        assert both.publish(both.off) is None
        assert both.publish(both.on)
    assert both.inner.calls.count(both.off) == 1
    assert both.inner.calls.count(both.on) == 5


def test_one_call_probes_the_application_after_the_pause() -> None:
    both = Applications()
    both.publish(both.off)
    both.clock.advance(31)
    for _ in range(5):
        assert both.publish(both.off) is None
    assert both.inner.calls.count(both.off) == 2
    both.inner.fail = lambda _arn: None
    assert both.publish(both.off) is None
    both.clock.advance(31)
    assert both.publish(both.off)
    assert both.publish(both.off)


def test_one_call_at_a_time_probes_a_disabled_application() -> None:
    both = Applications()
    both.publish(both.off)
    both.clock.advance(31)
    called: list[int] = []

    class Slow:
        async def publish(self, **_: object) -> str:
            called.append(1)
            await asyncio.sleep(0)
            return "taken"

    both.push._provider = Slow()

    async def two() -> list[str | BaseException]:
        calls = (both.push.publish(endpoint_arn=both.off, message=message(), attributes={}) for _ in range(2))
        return await asyncio.gather(*calls, return_exceptions=True)

    first, second = asyncio.run(two())
    assert first == "taken"
    assert isinstance(second, ApplicationOff)
    assert called == [1]


def _unknown(number: int) -> str:
    """Return an endpoint of the application of Applications.on that SNS does not know."""
    return f"arn:aws:sns:eu-west-1:123456789012:endpoint/APNS/on/{number}"


@pytest.mark.guarantee("provider_answer.unknown_endpoints")
@pytest.mark.kills(guard="provider.unknown_endpoints")
def test_application_of_only_unknown_endpoints_is_off() -> None:
    """Each endpoint of a wrong region is unknown. The devices of these endpoints must stay enabled."""
    both = Applications()
    believed = 0
    for number in range(100):
        try:
            both.publish(_unknown(number))
        except TargetUnknown:
            believed += 1
    assert believed == UNKNOWN_IN_A_ROW - 1
    assert len(both.inner.calls) == UNKNOWN_IN_A_ROW
    both.clock.advance(31)
    assert both.publish(_unknown(100)) is None
    both.clock.advance(31)
    assert both.publish(both.on), "the region is correct again"
    with pytest.raises(TargetUnknown):
        both.publish(_unknown(101))


@pytest.mark.parametrize("known", ["accepted", "disabled"])
def test_single_unknown_endpoints_are_gone(known: str) -> None:
    both = Applications()
    both.inner.put("arn:aws:sns:eu-central-1:123456789012:endpoint/APNS/on/disabled", enabled=False)
    for number in range(3 * UNKNOWN_IN_A_ROW):
        with pytest.raises(TargetUnknown):
            both.publish(_unknown(number))
        if number % 10 == 0 and known == "accepted":
            assert both.publish(both.on)
        elif number % 10 == 0:
            with pytest.raises(TargetGone):
                both.publish("arn:aws:sns:eu-central-1:123456789012:endpoint/APNS/on/disabled")


def test_application_of_an_endpoint_is_read_from_its_arn() -> None:
    assert application_of(ENDPOINT.format("GCM/app")) == "GCM/app"
    assert application_of("arn-1") == "arn-1"
