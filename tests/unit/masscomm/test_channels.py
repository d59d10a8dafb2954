"""The form of a message for each channel, and the errors of a provider."""

import email
import email.policy
import json
import re
from email.message import EmailMessage
from urllib.parse import quote_plus

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from masscomm.aws.request import form, quoted
from masscomm.channels.email import email_message
from masscomm.channels.push import collapse_id_of, push_attributes, push_message
from masscomm.channels.unsubscribe_links import NO_WAY_OUT, WaysOut
from masscomm.domain.ids import address_id
from masscomm.domain.provider_error_codes import refusal
from masscomm.domain.provider_errors import (
    InvalidAddress,
    ProviderError,
    Rejected,
    TargetGone,
    TargetUnknown,
    Transient,
)

NOTIFICATION = "5f0c2a52-7b2e-5f7e-9a52-1f6f7a0d8a11"
MAILTO = "mailto:unsubscribe@masscomm.example?subject=unsubscribe%20token"
LONG_URL = "https://unsubscribe.a-long-tenant-name.masscomm.example/v1/notifications/unsubscribe"


def _push(
    platform: str,
    body: str = "There is news.",
    collapse_id: str | None = None,
    arn: str | None = None,
    send_id: str = "s",
    url: str | None = None,
) -> dict[str, str]:
    text = push_message(
        platform,
        arn,
        title="Hello",
        body=body,
        notification_id=NOTIFICATION,
        send_id=send_id,
        collapse_id=collapse_id,
        url=url,
    )
    message: dict[str, str] = json.loads(text)
    return message


def test_push_to_android_has_the_form_of_firebase() -> None:
    message = _push("gcm", collapse_id="match")
    assert sorted(message) == ["GCM", "default"]
    assert json.loads(message["GCM"]) == {
        "fcmV1Message": {
            "message": {
                "notification": {"title": "Hello", "body": "There is news."},
                "data": {"notification_id": NOTIFICATION, "send_id": "s"},
                "android": {"collapse_key": "match", "notification": {"tag": "match"}},
            }
        }
    }


@given(
    st.text(max_size=50), st.text(max_size=50), st.sampled_from([NOTIFICATION, "n ü&"]), st.lists(st.text(max_size=9))
)
def test_push_message_has_its_form_value(title: str, body: str, notification: str, send_ids: list[str]) -> None:
    for send_id in ("s", *send_ids, "s"):  # Later messages have the cached parts.
        message = push_message(
            "gcm", None, title=title, body=body, notification_id=notification, send_id=send_id, collapse_id=None
        )
        payload = json.loads(json.loads(message)["GCM"])["fcmV1Message"]["message"]
        assert payload["notification"] == {"title": title, "body": body}
        assert payload["data"] == {"notification_id": notification, "send_id": send_id}
        assert quoted(message) == quote_plus(str(message))
        assert form("Publish", "1", [("Message", message)]).decode().endswith(f"&Message={quote_plus(str(message))}")


@pytest.mark.parametrize("url", ["riverside://matches/7?from=push", "https://club.example/a%20b", None, ""])
def test_push_has_its_deep_link(url: str | None) -> None:
    """The app reads it in the data of Android's payload, and in `masscomm` of Apple's."""
    ids = {"notification_id": NOTIFICATION, "send_id": "s"}
    data = {**ids, "url": url} if url else ids
    assert json.loads(_push("gcm", url=url)["GCM"])["fcmV1Message"]["message"]["data"] == data
    assert json.loads(_push("apns", url=url)["APNS"])["masscomm"] == data
    assert json.loads(_push("apns")["APNS"])["masscomm"] == ids, "another message has no link"


def test_push_to_iphone_has_the_form_of_apple() -> None:
    message = _push("apns", body="Grüezi & <b>")
    assert sorted(message) == ["APNS", "default"]
    assert json.loads(message["APNS"]) == {
        "aps": {"alert": {"title": "Hello", "body": "Grüezi & <b>"}},
        "masscomm": {"notification_id": NOTIFICATION, "send_id": "s"},
    }


@pytest.mark.kills(guard="push.sandbox_key")
@pytest.mark.parametrize("key", ["APNS", "APNS_SANDBOX"])
def test_a_push_to_apple_has_the_key_of_its_environment(key: str) -> None:
    """Source: SNS developer guide, "Publishing with platform-specific payload", "Using the Amazon SNS time to live"."""
    arn = f"arn:aws:sns:eu-central-1:123456789012:endpoint/{key}/club/986cb8a1-4f6b-34b1-9a1b-d9e9cb553944"
    assert sorted(_push("apns", arn=arn)) == [key, "default"]
    attributes = push_attributes("apns", arn, collapse_id=None, ttl_s=60)
    assert attributes == {"AWS.SNS.MOBILE.APNS.PUSH_TYPE": "alert", f"AWS.SNS.MOBILE.{key}.TTL": "60"}


@pytest.mark.parametrize("platform", ["gcm", "apns"])
@pytest.mark.parametrize("send_id", ["s", 'ü"\\'])
def test_push_one_byte_over_the_limit_is_rejected(platform: str, send_id: str) -> None:
    key = platform.upper()
    room = 4096 - len(_push(platform, send_id=send_id, body="")[key].encode())
    assert len(_push(platform, send_id=send_id, body="x" * room)[key].encode()) == 4096
    with pytest.raises(Rejected) as caught:
        _push(platform, send_id=send_id, body="x" * (room - 1) + "ü")
    assert caught.value.too_large


def test_unknown_platform_is_a_fault_of_the_device() -> None:
    with pytest.raises(TargetGone, match="pager"):
        _push("pager")


def test_attributes_are_named_as_sns_names_them() -> None:
    assert push_attributes("gcm", None, collapse_id="k", ttl_s=60) == {"AWS.SNS.MOBILE.FCM.TTL": "60"}
    assert push_attributes("apns", None, collapse_id="k", ttl_s=60) == {
        "AWS.SNS.MOBILE.APNS.PUSH_TYPE": "alert",
        "AWS.SNS.MOBILE.APNS.COLLAPSE_ID": "k",
        "AWS.SNS.MOBILE.APNS.TTL": "60",
    }
    assert push_attributes("gcm", None, collapse_id=None, ttl_s=None) == {}


def test_ttl_is_cut_to_the_providers_maximum() -> None:
    assert push_attributes("gcm", None, collapse_id=None, ttl_s=10**9)["AWS.SNS.MOBILE.FCM.TTL"] == "2419200"


@pytest.mark.kills(guard="push.collapse_id")
@pytest.mark.parametrize("key", ["4711", "ü", "match\r\nx: y", "\x00", "⚽" * 20, " 4711", "x" * 65])
def test_a_collapse_id_is_of_one_club_and_fits_a_header(key: str) -> None:
    """APNs does not deliver a message with an invalid header. A push of a club must not replace one of another club."""
    assert re.fullmatch("[0-9a-f]{1,64}", collapse_id_of(7, key))
    assert len({collapse_id_of(7, key), collapse_id_of(8, key), collapse_id_of(7, f"{key}2")}) == 3


def _bytes(
    recipient: str = "ada@example.com",
    subject: str = "News",
    text: str = "Hello",
    html: str | None = None,
    ways_out: WaysOut = WaysOut(LONG_URL),  # noqa: B008 - immutable
    sender: str = "no-reply@masscomm.example",
) -> bytes:
    return email_message(
        sender=sender,
        recipient=recipient,
        subject=subject,
        text=text,
        html=html,
        notification_id=NOTIFICATION,
        ways_out=ways_out,
    )


def _parsed(data: bytes) -> EmailMessage:
    return email.message_from_bytes(data, policy=email.policy.default)


def test_email_carries_subject_text_and_html() -> None:
    message = _parsed(_bytes(subject="Grüße aus dem Verein " * 10, text="Grüezi\r\nAda", html="<p>Grüezi</p>"))
    assert message["To"] == "ada@example.com"
    assert message["Subject"].split() == ["Grüße", "aus", "dem", "Verein"] * 10
    body, html = message.get_body(("plain",)), message.get_body(("html",))
    assert body is not None
    assert html is not None
    assert body.get_content().splitlines() == ["Grüezi", "Ada"]
    assert html.get_content().splitlines() == ["<p>Grüezi</p>"]


def test_email_has_a_one_click_unsubscribe_header() -> None:
    data = _bytes(ways_out=WaysOut(LONG_URL, MAILTO))
    message = _parsed(data)
    assert message["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    assert message["List-Unsubscribe"] == f"<{LONG_URL}>, <{MAILTO}>"
    # The header must not be encoded, because mail programs do not decode addresses in it.
    assert f"List-Unsubscribe: <{LONG_URL}>".encode() in data


@pytest.mark.parametrize("html", [None, "<p>Grüezi</p>"])
def test_emails_of_one_content_differ_in_recipient_and_id(html: str | None) -> None:
    """Messages are cached by their content: each one has its own recipient, message id and unsubscribe links."""
    another = "22222222-2222-4222-8222-222222222222"
    first, second = (
        email_message(
            sender="Riverside Club <club@masscomm.example>",
            recipient=recipient,
            subject="Grüße aus dem Verein " * 10,
            text="Grüezi",
            html=html,
            notification_id=notification_id,
            ways_out=WaysOut(f"{LONG_URL}/{notification_id}", f"mailto:a@b.example?subject={notification_id}"),
        )
        for recipient, notification_id in (("ada@example.com", NOTIFICATION), ("bob@example.com", another))
    )
    assert first.count(NOTIFICATION.encode()) == second.count(another.encode()) == 3
    expected = first.replace(NOTIFICATION.encode(), another.encode()).replace(b"ada@example.com", b"bob@example.com")
    assert second == expected


@pytest.mark.parametrize("ways_out", [NO_WAY_OUT, WaysOut(LONG_URL)])
def test_email_asks_responders_for_no_reply(ways_out: WaysOut) -> None:
    assert _parsed(_bytes(ways_out=ways_out))["Auto-Submitted"] == "auto-generated"


def test_email_without_ways_out_has_no_unsubscribe_header() -> None:
    """No e-mail offers the sender's address: nothing reads it."""
    message = _parsed(_bytes(ways_out=NO_WAY_OUT))
    assert (message["List-Unsubscribe"], message["List-Unsubscribe-Post"]) == (None, None)


def test_one_click_header_needs_a_link() -> None:
    message = _parsed(_bytes(ways_out=WaysOut(mailto=MAILTO)))
    assert message["List-Unsubscribe-Post"] is None
    assert message["List-Unsubscribe"] == f"<{MAILTO}>"


def test_a_sender_may_have_a_name() -> None:
    message = _parsed(_bytes(sender="Riverside Club <club@masscomm.example>"))
    assert message["From"] == "Riverside Club <club@masscomm.example>"
    assert message["Message-ID"] == f"<{NOTIFICATION}@masscomm.example>"


def test_every_byte_of_an_e_mail_passes_a_relay_of_seven_bits() -> None:
    data = _bytes(subject="Grüße", text="Grüezi", html="<p>ü</p>")
    assert data.isascii()
    assert max(map(len, data.split(b"\r\n"))) <= 998


@pytest.mark.parametrize(
    ("domain", "in_ascii"),
    [
        ("bücher.example", "xn--bcher-kva.example"),
        ("BÜCHER.example", "xn--bcher-kva.example"),
        ("i❤.example", "xn--i-7iq.example"),
        # IDNA 2003 makes strasse.example of it, the domain of another owner.
        ("straße.example", "xn--strae-oqa.example"),
        ("Müllerstra\u1e9eE.bücher.example", "xn--mllerstrae-e4a35a.xn--bcher-kva.example"),
        ("\u03ba\u03bb\u03b1\u03c1\u03b1-\u03c3\u03c9\u03bb\u03b9\u03c2.example", "xn----ylba7abgd9bnh0e.example"),
        ("\u0646\u0627\u0645\u0647\u200c\u0627\u06cc.example", "xn--mgba3gch31f060k.example"),
    ],
)
@pytest.mark.kills(guard="email.domain_of_another_owner")
def test_international_domain_is_written_in_ascii(domain: str, in_ascii: str) -> None:
    assert f"To: a@{in_ascii}\r\n".encode() in _bytes(recipient=f"a@{domain}")
    assert address_id(f"A@{domain} ") == address_id(f"a@{in_ascii}")


@pytest.mark.parametrize("domain", ["ß..example", "ß" * 60 + ".example", "ü..example", "ß\u0007.example"])
def test_invalid_international_domain_is_rejected(domain: str) -> None:
    with pytest.raises(InvalidAddress):
        _bytes(recipient=f"a@{domain}")


@pytest.mark.parametrize("subject", ["News\r\nBcc: eve@example.com", "News\nX: y", "News\r\rX: y"])
def test_a_subject_cannot_begin_another_header(subject: str) -> None:
    with pytest.raises(Rejected):
        _bytes(subject=subject)


@pytest.mark.parametrize(
    "recipient",
    [
        *("", "ada", "@", "ada@", "<a@b>", "(x)", "a@b, c@d", "a@b\r\nBcc: c@d", "Ada <a@b.example>", "ä@b.example"),
        *("a@b c", "a@" + "ü" * 80 + ".example", "\x00@b.example", "a@b.exa\nmple"),
    ],
)
def test_malformed_address_is_rejected(recipient: str) -> None:
    with pytest.raises(InvalidAddress):
        _bytes(recipient=recipient)


@pytest.mark.parametrize("recipient", ["(" * 320, "\\" * 320, '""' * 160, "a." * 160, "(" * 160 + ")" * 160])
def test_an_address_that_is_too_long_is_rejected_unparsed(monkeypatch: pytest.MonkeyPatch, recipient: str) -> None:
    """Python's parser of addresses recurses, and takes minutes for 100,000 backslashes."""
    monkeypatch.setattr("masscomm.channels.email.Address", None)
    with pytest.raises(InvalidAddress):
        _bytes(recipient=f"{recipient}@b.example")


@example(".@[")
@given(st.text('()<>[]\\".,:;@ a', max_size=318))
def test_any_address_of_allowed_length_is_parsed_or_rejected(recipient: str) -> None:
    try:
        assert _bytes(recipient=recipient)
    except InvalidAddress:
        return


@given(st.text(max_size=40) | st.emails().map(str))
def test_any_address_gets_its_own_message_or_is_rejected(recipient: str) -> None:
    try:
        message = _parsed(_bytes(recipient=recipient))
    except Rejected:
        return
    assert len(message["To"].addresses) == 1
    assert sorted(set(message.keys())) == sorted(message.keys())
    assert message["Bcc"] is None


@given(st.text(max_size=60))
def test_any_subject_adds_no_header_or_is_rejected(subject: str) -> None:
    try:
        message = _parsed(_bytes(subject=subject))
    except Rejected:
        return
    assert set(message.keys()) == set(_parsed(_bytes()).keys())


def _error(code: str, message: str = "") -> ProviderError:
    return refusal(code, message)


@pytest.mark.parametrize(
    ("code", "message", "kind"),
    [
        ("EndpointDisabled", "Endpoint is disabled", TargetGone),
        ("NotFound", "Endpoint does not exist", TargetUnknown),
        ("InvalidParameter", "Invalid parameter: TargetArn Reason: No endpoint found", TargetUnknown),
        ("InvalidParameter", "Invalid parameter: Message too long", Rejected),
        ("MessageRejected", "Address blacklisted", Rejected),
        ("InternalError", "", Transient),
        ("ServiceUnavailable", "", Transient),
        ("NobodyListedThis", "", Transient),
        ("", "", Transient),
    ],
)
def test_error_code_has_one_meaning(code: str, message: str, kind: type[ProviderError]) -> None:
    assert type(_error(code, message)) is kind


@pytest.mark.parametrize(("code", "throttled"), [("Throttling", True), ("Throttled", True), ("InternalError", False)])
def test_throttling_code_is_marked_as_throttled(code: str, throttled: bool) -> None:
    error = _error(code)
    assert isinstance(error, Transient)
    assert error.throttled is throttled
