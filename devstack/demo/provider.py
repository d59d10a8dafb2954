"""Reads LocalStack's record of the pushes and e-mails that it accepted as the provider."""

import email
import email.policy
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message
from typing import Any

import httpx

_PUSHES = "/_aws/sns/platform-endpoint-messages"


class ProviderError(Exception):
    """A message in LocalStack's record has no notification id."""


@dataclass(frozen=True)
class Call:
    """One push or e-mail that the provider accepted."""

    channel: str
    notification_id: str
    target: str  # The ARN of an endpoint, or an e-mail address.
    title: str  # The title of a push, or the subject of an e-mail.
    text: str  # The text of a push, or the plain text of an e-mail.
    unsubscribe_link: str | None = None  # The link for one click of an e-mail; None: it has none.
    url: str | None = None  # The deep link of a push; None: it has none.


def calls(aws_url: str) -> list[Call]:
    """Return all pushes and e-mails that the provider has accepted since its start. Raises httpx.HTTPError or
    ProviderError.
    """
    return [*pushes(aws_url), *emails(aws_url)]


def pushes(aws_url: str) -> list[Call]:
    """Return all pushes that the provider has accepted since its start. Raises the errors of `calls`."""
    return list(_pushes(_page(aws_url, _PUSHES, timeout_s=60)["platform_endpoint_messages"]))


def pushes_to(aws_url: str, endpoint_arn: str) -> list[Call]:
    """Return the pushes to the endpoint of one device. Raises the errors of `calls`."""
    answer = _page(aws_url, _PUSHES, timeout_s=10, endpointArn=endpoint_arn)
    return list(_pushes(answer["platform_endpoint_messages"]))


def emails(aws_url: str) -> list[Call]:
    """Return all e-mails that the provider has accepted since its start. Raises the errors of `calls`."""
    return list(_mails(_page(aws_url, "/_aws/ses", timeout_s=60)["messages"]))


def _page(aws_url: str, path: str, *, timeout_s: float, **parameters: str) -> Any:
    with httpx.Client(base_url=aws_url, timeout=timeout_s, trust_env=False) as client:
        return client.get(path, params=parameters).raise_for_status().json()


def _pushes(messages: dict[str, list[dict[str, Any]]]) -> Iterator[Call]:
    for endpoint_arn, sent in messages.items():
        for message in sent:
            payload: Any = message["Message"]
            while isinstance(payload, str):  # The payload can be JSON that was encoded as a JSON string several times.
                payload = json.loads(payload)
            payload = _decoded(payload)
            notification_id = _find(payload, "notification_id")
            if notification_id is None:
                raise ProviderError(f"a push to {endpoint_arn} has no notification id: {payload}")
            title, body = (str(_find(payload, name)) for name in ("title", "body"))
            yield Call("push", str(notification_id), endpoint_arn, title, body, url=_find(payload, "url"))


def _mails(messages: list[dict[str, Any]]) -> Iterator[Call]:
    for message in messages:
        parsed = email.message_from_string(message["RawData"], policy=email.policy.default)
        # The message id has the form <notification_id@the sender's domain>.
        notification_id, at, _ = str(parsed["Message-ID"]).lstrip("<").partition("@")
        if not at:
            raise ProviderError(f"an e-mail to {parsed['To']} has no notification id")
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


def _find(value: Any, name: str) -> Any:
    """Return the value of the first key with that name at any depth; None if there is none."""
    if isinstance(value, dict):
        if name in value:
            return value[name]
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            if (found := _find(item, name)) is not None:
                return found
    return None
