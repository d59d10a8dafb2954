"""Builds push messages in the form that SNS forwards to Firebase (GCM) and Apple (APNS).

Source: Amazon SNS developer guide, "Creating a platform-specific payload" and "Using the Amazon SNS time to live
message attribute"; both services accept 4,096 bytes at most.
"""

import json
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple
from uuid import uuid4

from masscomm.aws.request import QuotedText, quoted
from masscomm.domain.provider_errors import Rejected, TargetGone

_MAX_PAYLOAD_BYTES = 4_096
# The longest time to live: Firebase stores a message for at most four weeks, and refuses longer values.
_MAX_TTL_S = 2_419_200
# APNs gets the id in an HTTP header, apns-collapse-id: letters and digits, at most 64 bytes.
_COLLAPSE_ID_BYTES = 16
# SNS calls Firebase GCM in the names of applications, and FCM in its message attributes.
_FIREBASE_ATTRIBUTE = "FCM"
_SANDBOX = "APNS_SANDBOX"
# One shared encoder: json.dumps would create an encoder for each call with these options.
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
# Random texts in place of the ids of notification and send in a cached message; no content contains them.
_ID, _SEND_ID = uuid4().hex, uuid4().hex
# The number of cached messages, and of cached ids of sends. Many recipients have the same content: encoding a message
# takes 7 µs, a cached one less than 1.
_CACHED_MESSAGES = 32


def push_message(
    platform: str,
    endpoint_arn: str | None,
    *,
    title: str,
    body: str,
    notification_id: str,
    send_id: str,
    collapse_id: str | None,
    url: str | None = None,
) -> str:
    """Return the `Message` parameter of SNS' Publish with MessageStructure json.

    Args:
        endpoint_arn: The device's endpoint. It contains Apple's environment (production or sandbox): SNS sends the text
            under the key of the endpoint's own platform, and the default text if there is no such key.
        notification_id: A UUID: JSON escapes none of its characters.
        collapse_id: The id of collapse_id_of.
        url: The deep link, which the app opens when the user taps the message.

    Raises:
        Rejected: The payload is too large for the platform.
        TargetGone: The device's platform is unknown.
    """
    if platform not in ("gcm", "apns"):
        raise TargetGone(f"unknown platform: {platform}")
    key = "GCM" if platform == "gcm" else _apple(endpoint_arn)
    shared, send = _message_around_ids(key, title, body, collapse_id, url), _send_texts(send_id)
    size = shared.payload_bytes + len(notification_id) + send.payload_bytes
    if size > _MAX_PAYLOAD_BYTES:
        raise Rejected(f"too large: {size} bytes of payload, {_MAX_PAYLOAD_BYTES} is the most", too_large=True)
    return QuotedText.joined(
        (shared.before, notification_id, shared.between, send.text, shared.after),
        (shared.quoted_before, quoted(notification_id), shared.quoted_between, send.quoted, shared.quoted_after),
    )


@lru_cache(maxsize=_CACHED_MESSAGES)
def collapse_id_of(club_id: int, collapse_key: str) -> str:
    """Return the id under which a device replaces an earlier push of the same club (tenant) with the same key. Several
    clubs may have one app.
    """
    name = f"{club_id}/{collapse_key}"  # guard: push.collapse_id
    return blake2b(name.encode(), digest_size=_COLLAPSE_ID_BYTES).hexdigest()


def push_attributes(
    platform: str, endpoint_arn: str | None, *, collapse_id: str | None, ttl_s: int | None
) -> dict[str, str]:
    """Return the message attributes of SNS' Publish."""
    attributes = {}
    if platform == "apns":
        attributes["AWS.SNS.MOBILE.APNS.PUSH_TYPE"] = "alert"
        if collapse_id is not None:
            attributes["AWS.SNS.MOBILE.APNS.COLLAPSE_ID"] = collapse_id
    if ttl_s is not None and platform in ("gcm", "apns"):
        named = _apple(endpoint_arn) if platform == "apns" else _FIREBASE_ATTRIBUTE
        attributes[f"AWS.SNS.MOBILE.{named}.TTL"] = str(min(max(ttl_s, 0), _MAX_TTL_S))
    return attributes


def _apple(endpoint_arn: str | None) -> str:
    """Return SNS' name of an Apple platform, from arn:…:endpoint/APNS_SANDBOX/application/id."""
    return _SANDBOX if f":endpoint/{_SANDBOX}/" in (endpoint_arn or "") else "APNS"  # guard: push.sandbox_key


def _firebase(title: str, body: str, data: dict[str, str], collapse_id: str | None) -> dict[str, Any]:
    message: dict[str, Any] = {"notification": {"title": title, "body": body}, "data": data}
    if collapse_id is not None:
        # The key replaces a message that has not arrived, the tag a notification that is displayed.
        message["android"] = {"collapse_key": collapse_id, "notification": {"tag": collapse_id}}
    return message


class _MessageAroundIds(NamedTuple):
    """A message without the ids of notification and send."""

    before: str
    between: str
    after: str
    quoted_before: str
    quoted_between: str
    quoted_after: str
    # The bytes of the payload.
    payload_bytes: int


@lru_cache(maxsize=_CACHED_MESSAGES)
def _message_around_ids(key: str, title: str, body: str, collapse_id: str | None, url: str | None) -> _MessageAroundIds:
    """Return the message of a content. `key` is SNS' name of the platform."""
    data = {"notification_id": _ID, "send_id": _SEND_ID} | ({"url": url} if url else {})
    payload: dict[str, Any]
    if key == "GCM":
        payload = {"fcmV1Message": {"message": _firebase(title, body, data, collapse_id)}}
    else:
        payload = {"aps": {"alert": {"title": title, "body": body}}, "masscomm": data}
    text = _ENCODER.encode(payload)
    before, _, rest = _ENCODER.encode({"default": body, key: text}).partition(_ID)
    between, _, after = rest.partition(_SEND_ID)
    size = len(text.encode()) - len(_ID) - len(_SEND_ID)
    return _MessageAroundIds(before, between, after, quoted(before), quoted(between), quoted(after), size)


class _SendTexts(NamedTuple):
    """The id of a send as a message contains it."""

    text: str
    quoted: str
    # The bytes of the payload.
    payload_bytes: int


@lru_cache(maxsize=_CACHED_MESSAGES)
def _send_texts(send_id: str) -> _SendTexts:
    in_payload = _ENCODER.encode(send_id)[1:-1]
    text = _ENCODER.encode(in_payload)[1:-1]  # The payload is itself a text in JSON.
    return _SendTexts(text, quoted(text), len(in_payload.encode()))
