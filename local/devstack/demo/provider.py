"""Reads what the providers accepted: pushes from LocalStack, e-mails and SMS from the stand-in."""

import email
import email.policy
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from email.message import Message
from email.utils import parseaddr
from typing import Any

import httpx

_PUSHES = "/_aws/sns/platform-endpoint-messages"


class ProviderError(Exception):
    """A message in LocalStack's record has no notification id, or another form than masscomm's messages."""


@dataclass(frozen=True)
class Call:
    """One message that the provider accepted."""

    channel: str
    notification_id: str
    target: str  # The ARN of an endpoint, an e-mail address, or a phone number.
    title: str  # The title of a push, or the subject of an e-mail; an SMS has none.
    text: str  # The text of a push or an SMS, or the plain text of an e-mail.
    unsubscribe_link: str | None = None  # The link for one click of an e-mail; None: it has none.
    url: str | None = None  # The deep link of a push; None: it has none.


@dataclass(frozen=True)
class Foreign:
    """A push or e-mail that the provider accepted, and that is none of masscomm's messages."""

    channel: str
    target: str  # The ARN of an endpoint, or an e-mail address.
    text: str  # The message as it was accepted.


def calls(aws_url: str, mail_url: str) -> list[Call]:
    """Return all pushes, e-mails and SMS that the providers have accepted since their start. Raises httpx.HTTPError or
    ProviderError.
    """
    return [*pushes(aws_url), *_own(emails(mail_url)), *texts(mail_url)]


def pushes(aws_url: str) -> list[Call]:
    """Return all pushes that the provider has accepted since its start. Raises the errors of `calls`."""
    return _own(_pushes(_page(aws_url, _PUSHES, timeout_s=60)["platform_endpoint_messages"]))


def pushes_to(aws_url: str, endpoint_arn: str) -> list[Call | Foreign]:
    """Return the pushes to the endpoint of one device. Raises httpx.HTTPError."""
    answer = _page(aws_url, _PUSHES, timeout_s=10, endpointArn=endpoint_arn)
    return list(_pushes(answer["platform_endpoint_messages"]))


def emails(mail_url: str) -> list[Call | Foreign]:
    """Return all e-mails that the provider has accepted since its start. Raises httpx.HTTPError."""
    return list(_mails(_page(mail_url, "/_control/emails", timeout_s=60)))


def texts(sms_url: str) -> list[Call]:
    """Return all SMS that the provider has accepted since its start. Raises httpx.HTTPError."""
    return [
        Call("sms", each["Context"]["notification_id"], each["DestinationPhoneNumber"], "", each["MessageBody"])
        for each in _page(sms_url, "/_control/texts", timeout_s=60)
    ]


def stop(sms_url: str, number: str, to: str) -> None:
    """Let the owner of a number answer STOP to the sender of an SMS. Raises httpx.HTTPError."""
    document = {"number": number, "to": to, "text": "STOP", "message_id": None}
    with httpx.Client(base_url=sms_url, timeout=10, trust_env=False) as client:
        client.post("/_control/answers", json=document).raise_for_status()


def _own(messages: Iterable[Call | Foreign]) -> list[Call]:
    found = []
    for message in messages:
        if isinstance(message, Foreign):
            raise ProviderError(f"the {message.channel} to {message.target} is not masscomm's: {message.text}")
        found.append(message)
    return found


def _page(aws_url: str, path: str, *, timeout_s: float, **parameters: str) -> Any:
    with httpx.Client(base_url=aws_url, timeout=timeout_s, trust_env=False) as client:
        return client.get(path, params=parameters).raise_for_status().json()


def _pushes(messages: dict[str, list[dict[str, Any]]]) -> Iterator[Call | Foreign]:
    for endpoint_arn, sent in messages.items():
        for message in sent:
            payload = _payload(message["Message"])
            data = _with(payload, "notification_id")
            if data is None:  # guard: inbox.foreign_message
                yield Foreign("push", endpoint_arn, str(message["Message"]))
                continue
            shown = _with(payload, "body")
            title, body = ("(silent)", "") if shown is None else (str(shown.get("title")), str(shown["body"]))
            yield Call("push", str(data["notification_id"]), endpoint_arn, title, body, url=data.get("url"))


def _payload(message: Any) -> Any:
    """Return the payload of a push, which can be JSON that was encoded as a JSON string several times."""
    while isinstance(message, str):
        try:
            message = json.loads(message)
        except ValueError:  # SNS has sent the default text, as for a message without the key of the platform.
            return message
    return _decoded(message)


def _mails(messages: list[dict[str, Any]]) -> Iterator[Call | Foreign]:
    for message in messages:
        raw = message["RawData"]
        parsed = email.message_from_string(raw, policy=email.policy.default)
        # The message id has the form <notification_id@the sender's domain>.
        notification_id, at, _ = str(parsed["Message-ID"]).lstrip("<").partition("@")
        if not at:
            yield Foreign("email", parseaddr(str(parsed["To"]))[1], raw)
            continue
        plain = parsed.get_body(("plain",))
        text = "" if plain is None else "\n".join(str(plain.get_content()).splitlines())
        link = _one_click_link(parsed) if parsed["List-Unsubscribe-Post"] else None
        yield Call("email", notification_id, str(parsed["To"]), str(parsed["Subject"]), text, link)


def _one_click_link(message: Message) -> str | None:
    """Return the first address for HTTP in the header List-Unsubscribe (RFC 2369)."""
    ways = re.findall(r"<([^>]*)>", str(message["List-Unsubscribe"]))
    return next((way for way in ways if way.startswith("http")), None)


def _decoded(value: Any) -> Any:
    """Return a payload in which every string that contains a JSON object is decoded."""
    if isinstance(value, str) and value[:1] == "{":
        try:
            return _decoded(json.loads(value))
        except ValueError:
            return value
    if isinstance(value, dict):
        return {key: _decoded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_decoded(item) for item in value]
    return value


def _with(value: Any, name: str) -> dict[str, Any] | None:
    """Return the first object with a member of that name at any depth; None if there is none."""
    if isinstance(value, dict):
        if name in value:
            return value
        value = list(value.values())
    if isinstance(value, list):
        return next((found for item in value if (found := _with(item, name)) is not None), None)
    return None
