"""Push messages as SNS passes them to Firebase (GCM) and Apple (APNS).

Source: Amazon SNS developer guide, "Creating a platform-specific payload" and "Using the Amazon SNS time to live
message attribute"; both services accept 4,096 bytes at most.
"""

import json
from collections.abc import Mapping
from typing import Any

from masscomm.channels.provider import Rejected

_MAX_PAYLOAD_BYTES = 4_096
# Four weeks, the longest time for which Firebase stores a message; it refuses more.
_MAX_TTL_S = 2_419_200
_MAX_APNS_COLLAPSE_ID_BYTES = 64
# SNS names an application GCM, and its message attribute FCM.
_FIREBASE_ATTRIBUTE = "FCM"
_SANDBOX = "APNS_SANDBOX"


def push_message(
    platform: str,
    endpoint_arn: str | None,
    *,
    title: str,
    body: str,
    notification_id: str,
    send_id: str,
    collapse_key: str | None,
) -> str:
    """Return the Message of a Publish with MessageStructure json.

    endpoint_arn: contains Apple's environment: SNS sends the text under the key of the endpoint's own platform, and the
    default text where there is no such key.

    Raises:
        Rejected: The payload is too large for the platform, or the platform is unknown.
    """
    if platform == "gcm":
        return _by_platform(
            body, "GCM", {"fcmV1Message": {"message": _firebase(title, body, notification_id, send_id, collapse_key)}}
        )
    if platform == "apns":
        payload = {
            "aps": {"alert": {"title": title, "body": body}},
            "masscomm": {"notification_id": notification_id, "send_id": send_id},
        }
        return _by_platform(body, _apple(endpoint_arn), payload)
    raise Rejected(f"no such platform: {platform}")


def push_attributes(
    platform: str, endpoint_arn: str | None, *, collapse_key: str | None, ttl_s: int | None
) -> dict[str, str]:
    """Return the message attributes of the Publish.

    A collapse key above Apple's limit is omitted: it is more important to deliver the message than to replace an
    earlier one.
    """
    attributes = {}
    if platform == "apns":
        attributes["AWS.SNS.MOBILE.APNS.PUSH_TYPE"] = "alert"
        if collapse_key and len(collapse_key.encode()) <= _MAX_APNS_COLLAPSE_ID_BYTES:
            attributes["AWS.SNS.MOBILE.APNS.COLLAPSE_ID"] = collapse_key
    if ttl_s is not None and platform in ("gcm", "apns"):
        named = _apple(endpoint_arn) if platform == "apns" else _FIREBASE_ATTRIBUTE
        attributes[f"AWS.SNS.MOBILE.{named}.TTL"] = str(min(max(ttl_s, 0), _MAX_TTL_S))
    return attributes


def _apple(endpoint_arn: str | None) -> str:
    """SNS' name of an Apple platform, from arn:…:endpoint/APNS_SANDBOX/application/id."""
    return _SANDBOX if f":endpoint/{_SANDBOX}/" in (endpoint_arn or "") else "APNS"  # guard: push.sandbox_key


def _firebase(title: str, body: str, notification_id: str, send_id: str, collapse_key: str | None) -> dict[str, Any]:
    message: dict[str, Any] = {
        "notification": {"title": title, "body": body},
        "data": {"notification_id": notification_id, "send_id": send_id},
    }
    if collapse_key is not None:
        message["android"] = {"collapse_key": collapse_key}
    return message


def _by_platform(default: str, key: str, payload: Mapping[str, Any]) -> str:
    text = json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
    if len(text.encode()) > _MAX_PAYLOAD_BYTES:
        raise Rejected(
            f"too large: {len(text.encode())} bytes of payload, {_MAX_PAYLOAD_BYTES} is the most", too_large=True
        )
    return json.dumps({"default": default, key: text}, ensure_ascii=False, separators=(",", ":"))
