"""Checks the payload of a publish to a device: what SNS, Firebase and Apple refuse. The real services refuse some of it
only after the publish, so that the message is lost.

Source: Amazon SNS API reference, "Publish"; Amazon SNS developer guide, "Amazon SNS message attributes"; Firebase,
"REST Resource: projects.messages"; Apple, "Generating a remote notification", "Sending notification requests to APNs"
and "Pushing background updates to your App".
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from local.emulators.sns_stand_in.endpoints import Refused
from local.emulators.sns_stand_in.script import Refusal

_MAX_MESSAGE_BYTES = 262_144
_MAX_PAYLOAD_BYTES = 4_096
_LEVELS = {"passive", "active", "time-sensitive", "critical"}
_RESERVED = ("from", "message_type")
_RESERVED_PREFIXES = ("google", "gcm")
_APNS = "AWS.SNS.MOBILE.APNS."


def check_publish(endpoint: str, parameters: Mapping[str, str], document: Mapping[str, Any] | None) -> None:
    """Check a publish to an endpoint. Raises Refused.

    Args:
        endpoint: The ARN of the endpoint.
        parameters: The parameters of Publish.
        document: The message, if its structure is json.
    """
    if len(parameters.get("Message", "").encode()) > _MAX_MESSAGE_BYTES:
        raise _refused("Message too long")
    attributes = dict(_attributes(parameters))
    if document is None:
        return
    platform = endpoint.partition(":endpoint/")[2].partition("/")[0]
    text = document.get(platform)
    # SNS ignores a payload that is not a text.
    if not isinstance(text, str):
        return
    size = len(text.encode())
    if size > _MAX_PAYLOAD_BYTES:
        raise _refused(f"Message too long: a payload of {size} bytes for {platform}")
    problem = _problem_of_firebase(text) if platform == "GCM" else _problem_of_apple(text, attributes)
    if problem is not None:
        raise _refused(f"Message Reason: Invalid notification for protocol {platform}: {problem}")


def _attributes(parameters: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the message attributes. Raises Refused if one has no name or no value."""
    number = 1
    while (name := parameters.get(f"MessageAttributes.entry.{number}.Name")) is not None:
        value = parameters.get(f"MessageAttributes.entry.{number}.Value.StringValue", "")
        if not name or not value:
            message = f"The message attribute '{name}' must contain non-empty message attribute value."
            raise Refused(Refusal(400, "ParameterValueInvalid", message))
        yield name, value
        number += 1


def _object(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _problem_of_firebase(text: str) -> str | None:
    message = ((_object(text) or {}).get("fcmV1Message") or {}).get("message")
    if not isinstance(message, dict):
        return "fcmV1Message has no message"
    for name, value in message.get("data", {}).items():
        if name in _RESERVED or name.startswith(_RESERVED_PREFIXES):
            return f"data has the reserved key {name}"
        if not isinstance(value, str):
            return f"data.{name} is no string"
    count = message.get("android", {}).get("notification", {}).get("notification_count", 0)
    return None if type(count) is int and count >= 0 else "notification_count is no number"


def _problem_of_apple(text: str, attributes: Mapping[str, str]) -> str | None:
    aps = (_object(text) or {}).get("aps")
    if not isinstance(aps, dict):
        return "there is no aps"
    if aps.get("interruption-level", "active") not in _LEVELS:
        return "the interruption-level is unknown"
    if attributes.get(f"{_APNS}PUSH_TYPE") == "background":
        if aps.keys() != {"content-available"} or aps["content-available"] != 1:
            return "a background notification has content-available alone"
        if attributes.get(f"{_APNS}PRIORITY") != "5":
            return "a background notification has the priority 5"
    elif "alert" not in aps and "badge" not in aps and "sound" not in aps:
        return "an alert notification shows nothing"
    return None


def _refused(reason: str) -> Refused:
    return Refused(Refusal(400, "InvalidParameter", f"Invalid parameter: {reason}"))
