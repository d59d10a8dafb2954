"""Receipts are read in each format that AWS documents; invalid documents differ from receipts without effect."""

import json
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functions.receipts.reading import OTHER, Receipt, read
from masscomm.domain.statuses import Reason, Status
from masscomm.errors import DeadLetter
from tests.support.inputs import receipt_events
from tests.support.inputs.receipt_events import RECEIPTS


def _read(document: dict[str, Any]) -> Receipt:
    receipt = read(json.dumps(document))
    assert isinstance(receipt, Receipt)
    return receipt


def _with(document: Any, **values: Any) -> dict[str, Any]:
    """Replace the values of these fields at any depth."""
    if isinstance(document, dict):
        return {name: values[name] if name in values else _with(value, **values) for name, value in document.items()}
    return document  # type: ignore[no-any-return]


def _ms(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("document", "status", "reason", "at", "code"),
    [
        (receipt_events.PUSHED, Status.DELIVERED, None, "2015-01-26 23:07:39.605", ""),
        (receipt_events.PUSH_FAILED, Status.BOUNCED, Reason.DEVICE_INACTIVE, "2015-01-26 23:29:37.129", "invalidtoken"),
        (receipt_events.SMS_TAKEN, Status.DELIVERED, None, "2016-06-28 00:40:35.157", ""),
        (receipt_events.SMS_FAILED, Status.BOUNCED, Reason.BOUNCED_TRANSIENT, "2016-06-28 00:40:35.979", "other"),
        (
            receipt_events.APPLICATION_EVENT,
            Status.BOUNCED,
            Reason.DEVICE_INACTIVE,
            "2025-09-30 11:31:53.650",
            "InvalidPlatformToken",
        ),
        (receipt_events.DELIVERED, Status.DELIVERED, None, "2017-08-05 00:40:04.133", ""),
        (
            receipt_events.BOUNCED,
            Status.BOUNCED,
            Reason.BOUNCED_PERMANENT,
            "2017-08-05 00:41:02.669",
            "Permanent/General",
        ),
        (receipt_events.COMPLAINED, Status.DELIVERED, None, "2017-08-05 00:41:02.669", "complaint/abuse"),
        (
            receipt_events.COMPLAINED_BEFORE,
            Status.BOUNCED,
            Reason.COMPLAINED,
            "2017-08-05 00:41:02.669",
            "complaint/abuse",
        ),
        (receipt_events.REJECTED, Status.BOUNCED, Reason.PROVIDER_REJECTED, "2017-08-05 00:40:02.012", "Reject"),
        (
            receipt_events.NOT_RENDERED,
            Status.BOUNCED,
            Reason.PROVIDER_REJECTED,
            "2017-08-05 00:40:02.012",
            "Rendering Failure",
        ),
    ],
)
def test_documented_receipt_is_read(
    document: dict[str, Any], status: Status, reason: Reason | None, at: str, code: str
) -> None:
    receipt = _read(document)
    assert (receipt.message_id, receipt.status, receipt.reason, receipt.at_ms) == ("m", status, reason, _ms(at))
    assert receipt.code == code


@pytest.mark.parametrize(
    ("answer", "code", "reason"),
    [
        (
            '{"error":{"code":404,"status":"NOT_FOUND","details":[{"errorCode":"UNREGISTERED"}]}}',
            404,
            "device_inactive",
        ),
        ('{"failure":1,"results":[{"error":"NotRegistered"}]}', 200, "device_inactive"),
        ('{"reason":"BadDeviceToken"}', 400, "device_inactive"),
        ('{"reason":"Unregistered","timestamp":1}', 410, "device_inactive"),
        ("EndpointDisabled", 400, "device_inactive"),
        ('{"reason":"PayloadTooLarge"}', 413, "provider_rejected"),
        ('{"reason":"TooManyRequests"}', 429, "bounced_transient"),
        ('{"reason":"ExpiredProviderToken"}', 403, "bounced_transient"),
        # The credentials of another project or app: every device gets this answer until they are corrected.
        (
            '{"error":{"code":403,"status":"PERMISSION_DENIED","details":[{"errorCode":"SENDER_ID_MISMATCH"}]}}',
            403,
            "bounced_transient",
        ),
        ('{"failure":1,"results":[{"error":"MismatchSenderId"}]}', 200, "bounced_transient"),
        ('{"reason":"DeviceTokenNotForTopic"}', 400, "bounced_transient"),
        ('{"error":{"code":401,"status":"UNAUTHENTICATED"}}', 401, "bounced_transient"),
        ('{"reason":"InternalServerError"}', 500, "bounced_transient"),
    ],
)
@pytest.mark.kills(guard="receipts.credentials_of_another_app")
def test_push_service_answer_has_its_reason(answer: str, code: int, reason: str) -> None:
    receipt = _read(_with(receipt_events.PUSH_FAILED, providerResponse=answer, statusCode=code))
    assert receipt.reason == reason
    assert receipt.dead_endpoint == (receipt_events.APNS if reason == "device_inactive" else None)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("InvalidPlatformToken", "device_inactive"),
        ("EndpointDisabled", "device_inactive"),
        ("InvalidNotification", "provider_rejected"),
        ("DependencyUnavailable", "bounced_transient"),
        ("Throttled", "bounced_transient"),
        ("UnexpectedFailure", "bounced_transient"),
        ("InvalidCredentials", "bounced_transient"),
        ("SomethingNew", "bounced_transient"),
    ],
)
def test_platform_application_failure_has_its_reason(kind: str, reason: str) -> None:
    receipt = _read(_with(receipt_events.APPLICATION_EVENT, FailureType=kind))
    assert receipt.reason == reason
    assert receipt.dead_endpoint == (receipt_events.GCM if reason == "device_inactive" else None)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("Phone has blocked SMS", "bounced_permanent"),
        ("Phone number is opted out", "bounced_permanent"),
        ("Phone is currently unreachable/unavailable", "bounced_transient"),
        ("Phone carrier is currently unreachable/unavailable", "bounced_transient"),
    ],
)
def test_carriers_answer_gives_the_documented_reason(answer: str, reason: str) -> None:
    assert _read(_with(receipt_events.SMS_FAILED, providerResponse=answer)).reason == reason


@pytest.mark.parametrize("kind", ["Transient", "Undetermined"])
def test_transient_bounce_leaves_the_address_alive(kind: str) -> None:
    receipt = _read(_with(receipt_events.BOUNCED, bounceType=kind, bounceSubType="MailboxFull"))
    assert (receipt.reason, receipt.dead_addresses) == (Reason.BOUNCED_TRANSIENT, ())


@pytest.mark.kills(guard="receipts.automatic_reply")
def test_out_of_office_reply_does_not_count_as_a_bounce() -> None:
    """SES reports it as Transient/General. The message has arrived, and SES has reported its delivery before."""
    recipients = [{"emailAddress": receipt_events.ADDRESS}]
    bounce: Any = receipt_events.BOUNCED["bounce"]
    reply = {**bounce, "bounceType": "Transient", "bouncedRecipients": recipients}
    del reply["reportingMTA"]
    document = {**receipt_events.BOUNCED, "bounce": reply}
    assert _read(document).status is None
    of_bounces: list[dict[str, Any]] = [
        {"bounceType": "Permanent"},
        {"bounceSubType": "MailboxFull"},
        {"reportingMTA": "dsn; mta.example.com"},
        {"bouncedRecipients": [{**recipients[0], "status": "4.4.7"}]},
    ]
    for changes in of_bounces:
        assert _read({**document, "bounce": {**reply, **changes}}).status is Status.BOUNCED


@pytest.mark.parametrize("recipient", [{}, {"emailAddress": ""}, {"emailAddress": None}])
def test_bounce_without_its_address_is_a_bounce(recipient: dict[str, Any]) -> None:
    """SES cannot retrieve the address from some bounces (subtype NoEmail)."""
    receipt = _read(_with(receipt_events.BOUNCED, bounceSubType="NoEmail", bouncedRecipients=[recipient]))
    assert (receipt.status, receipt.code, receipt.dead_addresses) == (Status.BOUNCED, "Permanent/NoEmail", ())


@pytest.mark.kills(guard="receipts.long_address")
def test_long_address_in_a_bounce_is_ignored() -> None:
    """A mail server writes it. Python's parser recurses for each of these colons, and the record would be redelivered
    for ever.
    """
    named = [{"emailAddress": "a:" * 10_000}, {"emailAddress": receipt_events.ADDRESS}]
    assert _read(_with(receipt_events.BOUNCED, bouncedRecipients=named)).dead_addresses == (receipt_events.ADDRESS,)
    assert _read(_with(receipt_events.BOUNCED, destination=["a:" * 10_000])).dead_addresses == ()


def test_permanent_bounce_or_complaint_names_the_dead_address() -> None:
    assert _read(receipt_events.BOUNCED).dead_addresses == (receipt_events.ADDRESS,)
    assert _read(receipt_events.COMPLAINED).dead_addresses == (receipt_events.ADDRESS,)
    named = [{"emailAddress": f"A Name <{receipt_events.ADDRESS}>"}]
    assert _read(_with(receipt_events.BOUNCED, bouncedRecipients=named)).dead_addresses == (receipt_events.ADDRESS,)


@pytest.mark.kills(guard="receipts.no_complaint")
@pytest.mark.parametrize("feedback", ["not-spam", "auth-failure"])
def test_report_other_than_a_complaint_changes_nothing(feedback: str) -> None:
    receipt = _read(_with(receipt_events.COMPLAINED, complaintFeedbackType=feedback))
    assert (receipt.status, receipt.dead_addresses) == (None, ())


def test_address_the_message_did_not_go_to_is_not_suppressed() -> None:
    """The sender of a bounce chooses the recipients in it; SES itself writes the message's recipients."""
    named = [{"emailAddress": "victim@example.com"}, {"emailAddress": receipt_events.ADDRESS.upper()}]
    for document, field in (
        (receipt_events.BOUNCED, "bouncedRecipients"),
        (receipt_events.COMPLAINED, "complainedRecipients"),
    ):
        assert _read(_with(document, **{field: named})).dead_addresses == (receipt_events.ADDRESS.upper(),)


@pytest.mark.parametrize(
    "document",
    [
        _with(receipt_events.BOUNCED, bounceSubType="a@example.com"),
        _with(
            receipt_events.BOUNCED,
            bouncedRecipients=[{"emailAddress": receipt_events.ADDRESS, "diagnosticCode": "a@example.com"}],
        ),
        _with(receipt_events.COMPLAINED, complaintFeedbackType="a@example.com"),
        _with(receipt_events.REJECTED, reason="a@example.com"),
        _with(receipt_events.NOT_RENDERED, errorMessage="a@example.com"),
        _with(receipt_events.DELIVERED, smtpResponse="250 a@example.com"),
        _with(receipt_events.PUSH_FAILED, providerResponse="a@example.com", statusCode="a@example.com"),
        _with(receipt_events.SMS_FAILED, providerResponse="a@example.com"),
        _with(receipt_events.APPLICATION_EVENT, FailureType="a@example.com", FailureMessage="a@example.com"),
    ],
    ids=lambda document: next(iter(document)),
)
def test_a_providers_free_text_becomes_a_code(document: dict[str, Any]) -> None:
    code = _read(document).code
    assert "a@example.com" not in code
    assert (
        code in ("", OTHER)
        or code.endswith(f"/{OTHER}")
        or code in ("Permanent/General", "Reject", "Rendering Failure")
    )


def test_ses_own_feedback_is_the_same_under_another_name() -> None:
    renamed = {
        "notificationType" if name == "eventType" else name: value for name, value in receipt_events.BOUNCED.items()
    }
    assert _read(renamed) == _read(receipt_events.BOUNCED)


@pytest.mark.parametrize("document", receipt_events.OF_NO_ARRIVAL)
def test_event_without_an_arrival_has_no_status(document: dict[str, Any]) -> None:
    assert _read(document).status is None


def test_ses_greeting_is_ignored() -> None:
    assert read(receipt_events.SES_IS_THERE) is None


def _without(document: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    name, *rest = path
    return {
        key: _without(value, tuple(rest)) if rest and key == name else value
        for key, value in document.items()
        if rest or key != name
    }


@pytest.mark.parametrize(
    "body",
    [
        "",
        "not json",
        "null",
        "[]",
        "{}",
        json.dumps({"eventType": "Bounce", "mail": {}}),
        json.dumps({"eventType": "Something", "mail": receipt_events.MAIL}),
        json.dumps({"Service": "SNS", "EventType": "Something"}),
        json.dumps(_without(receipt_events.BOUNCED, ("bounce",))),
        json.dumps(_without(receipt_events.BOUNCED, ("mail", "messageId"))),
        json.dumps(_without(receipt_events.PUSHED, ("notification", "messageId"))),
        json.dumps(_with(receipt_events.PUSHED, status="MAYBE")),
        json.dumps(_with(receipt_events.PUSHED, timestamp="yesterday")),
        json.dumps(_with(receipt_events.BOUNCED, bouncedRecipients=[{"emailAddress": 7}])),
    ],
)
def test_value_other_than_a_receipt_is_undecodable(body: str) -> None:
    with pytest.raises(DeadLetter) as error:
        read(body)
    assert error.value.reason == "undecodable"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
NAMES = sorted(
    {
        name
        for shape in receipt_events.RECEIPTS
        for part in (shape, *shape.values())
        if isinstance(part, dict)
        for name in part
    }
)


@settings(max_examples=300)
@given(st.sampled_from(RECEIPTS), st.dictionaries(st.sampled_from(NAMES), VALUES, min_size=1, max_size=3))
def test_any_receipt_is_read_or_dead_lettered(document: dict[str, Any], values: dict[str, Any]) -> None:
    with suppress(DeadLetter):
        receipt = read(json.dumps(_with(document, **values)))
        assert receipt is None or isinstance(receipt.message_id, str)
