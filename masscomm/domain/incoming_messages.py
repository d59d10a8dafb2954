"""The messages in which the door puts incoming webhooks into the queue: JSON with source, received_at, headers, body.

In AWS a mapping template of API Gateway writes them (infra/cdk/resources/door.py); values of callers are base64.
"""

import base64
import json
from collections.abc import Mapping

from masscomm.domain.webhook_sources import IncomingWebhook
from masscomm.json_reader import read_json

# The path to which senders post.
DOOR = "/v1/in/{source}"
# The largest message of SQS, and the body that it can contain in base64, beside the largest headers.
MAX_MESSAGE_BYTES = 1_048_576
MAX_BODY_KB = 760
# The types of bodies that the door takes; another one is answered with 415.
CONTENT_TYPES = ("application/json", "application/cloudevents+json", "application/x-www-form-urlencoded", "text/plain")


class InvalidMessage(ValueError):
    """The door has not written this message."""


def message_of(source_id: str, headers: Mapping[str, str], body: bytes, received_at_ms: int) -> str:
    """Return the message with a webhook."""
    encoded = {name: _encoded(value.encode("utf-8", "surrogateescape")) for name, value in headers.items()}
    message = {"source": source_id, "received_at": received_at_ms, "headers": encoded, "body": _encoded(body)}
    return json.dumps(message, separators=(",", ":"))


def read_message(message_id: str, text: str) -> IncomingWebhook:
    """Return the webhook in a message. Raises InvalidMessage."""
    try:
        message = read_json(text)
        headers = {name.lower(): _decoded(value).decode(errors="replace") for name, value in message["headers"].items()}
        return IncomingWebhook(
            source_id=str(message["source"]),
            message_id=message_id,
            headers=headers,
            body=_decoded(message["body"]),
            received_at_ms=int(message["received_at"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidMessage(repr(error)) from error


def _decoded(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _encoded(value: bytes) -> str:
    return base64.b64encode(value).decode()
