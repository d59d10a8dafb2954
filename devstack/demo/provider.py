"""Read LocalStack's record of the pushes and e-mails that the provider accepted."""

import email
import email.policy
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx

_PUSHES = "/_aws/sns/platform-endpoint-messages"


class ProviderError(Exception):
    """A message at the provider has no notification id."""


@dataclass(frozen=True)
class Call:
    """One push or e-mail that the provider accepted."""

    channel: str
    notification_id: str
    target: str  # an endpoint's ARN or an e-mail address
    title: str  # as the recipient sees it


def calls(aws_url: str) -> list[Call]:
    """All pushes and e-mails the provider accepted since it started. Errors: httpx.HTTPError, ProviderError."""
    mails = _page(aws_url, "/_aws/ses", timeout_s=60)
    return [*pushes(aws_url), *_mails(mails["messages"])]


def pushes(aws_url: str) -> list[Call]:
    """All pushes the provider accepted since it started. Errors: as for `calls`."""
    return list(_pushes(_page(aws_url, _PUSHES, timeout_s=60)["platform_endpoint_messages"]))


def pushes_to(aws_url: str, endpoint_arn: str) -> list[Call]:
    """The pushes to one device's endpoint. Errors: as for `calls`."""
    answer = _page(aws_url, _PUSHES, timeout_s=10, endpointArn=endpoint_arn)
    return list(_pushes(answer["platform_endpoint_messages"]))


def _page(aws_url: str, path: str, *, timeout_s: float, **parameters: str) -> Any:
    with httpx.Client(base_url=aws_url, timeout=timeout_s, trust_env=False) as client:
        return client.get(path, params=parameters).raise_for_status().json()


def _pushes(messages: dict[str, list[dict[str, Any]]]) -> Iterator[Call]:
    for endpoint_arn, sent in messages.items():
        for message in sent:
            payload: Any = message["Message"]
            while isinstance(payload, str):  # a JSON text of a JSON text
                payload = json.loads(payload)
            payload = _decoded(payload)
            notification_id = _find(payload, "notification_id")
            if notification_id is None:
                raise ProviderError(f"a push to {endpoint_arn} does not say which notification it is: {payload}")
            yield Call("push", str(notification_id), endpoint_arn, str(_find(payload, "title")))


def _mails(messages: list[dict[str, Any]]) -> Iterator[Call]:
    for message in messages:
        parsed = email.message_from_string(message["RawData"], policy=email.policy.default)
        # <notification_id@the sender's domain>
        notification_id, at, _ = str(parsed["Message-ID"]).lstrip("<").partition("@")
        if not at:
            raise ProviderError(f"an e-mail to {parsed['To']} does not say which notification it is")
        yield Call("email", notification_id, str(parsed["To"]), str(parsed["Subject"]))


def _decoded(value: Any) -> Any:
    """A payload with every JSON object in a text decoded: a platform's data holds texts only."""
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
    """The value of the first key of that name at any depth; None where there is none."""
    if isinstance(value, dict):
        if name in value:
            return value[name]
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            if (found := _find(item, name)) is not None:
                return found
    return None
