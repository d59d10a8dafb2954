"""Builds push messages in the form that SNS forwards to Firebase (GCM) and Apple (APNS).

Source: Amazon SNS developer guide, "Creating a platform-specific payload", "Using Google Firebase Cloud Messaging v1
payloads in Amazon SNS", "Using the Amazon SNS time to live message attribute" and "Mobile app attributes"; Firebase,
"REST Resource: projects.messages"; Apple, "Generating a remote notification" and "Pushing background updates to your
App". Both services accept 4,096 bytes at most.
"""

import json
from bisect import bisect_right
from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Literal, NamedTuple
from uuid import uuid4

from masscomm.aws.request import QuotedText, quoted
from masscomm.domain.provider_errors import Rejected, TargetGone
from masscomm.domain.push_options import PushOptions, push_options
from masscomm.rendering.graphemes import clusters

MAX_PAYLOAD_BYTES = 4_096
# The platform as people name it.
PLATFORM_NAMES: Mapping[str, Literal["ios", "android"]] = {"apns": "ios", "gcm": "android"}
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
_ELLIPSIS = "…"
# SNS requires a text for devices of other platforms; no device of ours gets it.
_SILENT_DEFAULT = "-"
_NO_OPTIONS = PushOptions()


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
    push: str | None = None,
) -> str:
    """Return the `Message` parameter of SNS' Publish with MessageStructure json.

    Args:
        endpoint_arn: The device's endpoint. It contains Apple's environment (production or sandbox): SNS sends the text
            under the key of the endpoint's own platform, and the default text if there is no such key.
        notification_id: A UUID: JSON escapes none of its characters.
        collapse_id: The id of collapse_id_of.
        url: The deep link, which the app opens when the user taps the message.
        push: The field push of the send (masscomm.domain.push_options).

    Raises:
        Rejected: The payload is too large for the platform.
        TargetGone: The device's platform is unknown.
    """
    if platform not in ("gcm", "apns"):
        raise TargetGone(f"unknown platform: {platform}")
    key = "GCM" if platform == "gcm" else _apple(endpoint_arn)
    shared, send = _message_around_ids(key, title, body, collapse_id, url, push), _send_texts(send_id)
    size = shared.payload_bytes + len(notification_id) + send.payload_bytes
    if size > MAX_PAYLOAD_BYTES:
        error = Rejected(f"too large: {size} bytes of payload, {MAX_PAYLOAD_BYTES} is the most", too_large=True)
        error.excess_bytes = size - MAX_PAYLOAD_BYTES
        raise error
    return QuotedText.joined(
        (shared.before, notification_id, shared.between, send.text, shared.after),
        (shared.quoted_before, quoted(notification_id), shared.quoted_between, send.quoted, shared.quoted_after),
    )


def payload_bytes(
    platform: str, *, title: str, body: str, id_bytes: int, url: str | None = None, push: str | None = None
) -> int:
    """Return the size of the payload of a message. `id_bytes` are those of the ids of notification and send."""
    key = "GCM" if platform == "gcm" else "APNS"
    return _message_around_ids(key, title, body, None, url, push).payload_bytes + id_bytes


@lru_cache(maxsize=_CACHED_MESSAGES)
def shortened_body(body: str, excess_bytes: int) -> str | None:
    """Return the longest beginning of a body with an ellipsis whose payload has at least `excess_bytes` less; None if
    the whole body has not as many. It ends between characters as readers count them (grapheme clusters).
    """
    room = len(_escaped(body)) - excess_bytes - len(_escaped(_ELLIPSIS))
    if room <= 0:
        return None
    # A character has at least one byte, so that the last cluster, which may be cut here, is never kept.
    found = clusters(body[: room + 1])
    kept = bisect_right(range(len(found)), room, key=lambda number: len(_escaped("".join(found[:number])))) - 1
    return "".join(found[:kept]) + _ELLIPSIS if kept else None


def _escaped(text: str) -> bytes:
    """Return a text as a payload has it."""
    return _ENCODER.encode(text)[1:-1].encode()


@lru_cache(maxsize=_CACHED_MESSAGES)
def collapse_id_of(club_id: int, collapse_key: str) -> str:
    """Return the id under which a device replaces an earlier push of the same club (tenant) with the same key. Several
    clubs may have one app.
    """
    name = f"{club_id}/{collapse_key}"  # guard: push.collapse_id
    return blake2b(name.encode(), digest_size=_COLLAPSE_ID_BYTES).hexdigest()


def push_attributes(
    platform: str, endpoint_arn: str | None, *, collapse_id: str | None, ttl_s: int | None, silent: bool = False
) -> dict[str, str]:
    """Return the message attributes of SNS' Publish."""
    attributes = {}
    if platform == "apns":
        attributes["AWS.SNS.MOBILE.APNS.PUSH_TYPE"] = "background" if silent else "alert"
        if silent:  # APNs delivers no background push with another priority.
            attributes["AWS.SNS.MOBILE.APNS.PRIORITY"] = "5"
        if collapse_id is not None:
            attributes["AWS.SNS.MOBILE.APNS.COLLAPSE_ID"] = collapse_id
    if ttl_s is not None and platform in ("gcm", "apns"):
        named = _apple(endpoint_arn) if platform == "apns" else _FIREBASE_ATTRIBUTE
        attributes[f"AWS.SNS.MOBILE.{named}.TTL"] = str(min(max(ttl_s, 0), _MAX_TTL_S))
    return attributes


def _apple(endpoint_arn: str | None) -> str:
    """Return SNS' name of an Apple platform, from arn:…:endpoint/APNS_SANDBOX/application/id."""
    return _SANDBOX if f":endpoint/{_SANDBOX}/" in (endpoint_arn or "") else "APNS"  # guard: push.sandbox_key


def _firebase(
    title: str, body: str, data: dict[str, str], collapse_id: str | None, options: PushOptions
) -> dict[str, Any]:
    if options.actions:
        # Firebase shows no buttons: the app does, and values of data are texts.
        data |= {"actions": _ENCODER.encode([action.fields() for action in options.actions])}
    message: dict[str, Any] = {"data": {**data, **options.data}}
    shown = {
        "channel_id": options.android_channel,
        "sound": options.sound,
        # Firebase takes 0 for no number.
        "notification_count": options.badge or None,
        # The key of android replaces a message that has not arrived, the tag a notification that is displayed.
        "tag": None if options.silent else collapse_id,
    }
    notification = {name: value for name, value in shown.items() if value is not None}
    android: dict[str, Any] = {"collapse_key": collapse_id} if collapse_id is not None else {}
    android |= {"notification": notification} if notification else {}
    if not options.silent:
        picture = {} if options.image is None else {"image": options.image}
        message = {"notification": {"title": title, "body": body} | picture} | message
    return message | ({"android": android} if android else {})


def _apns(title: str, body: str, data: dict[str, Any], options: PushOptions) -> dict[str, Any]:
    if options.silent:
        # With a member that shows or plays something, APNs delivers no background push.
        return {"aps": {"content-available": 1}, "masscomm": data, **options.data}
    aps: dict[str, Any] = {"alert": {"title": title, "body": body}}
    if options.badge is not None:
        aps["badge"] = options.badge
    if options.sound is not None:
        is_critical = options.interruption_level == "critical"
        aps["sound"] = {"critical": 1, "name": options.sound, "volume": 1} if is_critical else options.sound
    if options.interruption_level is not None:
        aps["interruption-level"] = options.interruption_level.replace("_", "-")
    if options.image is not None:
        # The notification service extension of the app loads the picture.
        aps["mutable-content"] = 1
        data |= {"image": options.image}
    if options.actions:
        # The category of the buttons, which the app has registered.
        aps["category"] = ".".join(action.id for action in options.actions)
        data |= {"actions": [action.fields() for action in options.actions]}
    return {"aps": aps, "masscomm": data, **options.data}


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
def _message_around_ids(
    key: str, title: str, body: str, collapse_id: str | None, url: str | None, push: str | None
) -> _MessageAroundIds:
    """Return the message of a content. `key` is SNS' name of the platform."""
    data = {"notification_id": _ID, "send_id": _SEND_ID} | ({"url": url} if url else {})
    options = _NO_OPTIONS if push is None else push_options(push)
    if key == "GCM":
        payload = {"fcmV1Message": {"message": _firebase(title, body, data, collapse_id, options)}}
    else:
        payload = _apns(title, body, data, options)
    text = _ENCODER.encode(payload)
    default = _SILENT_DEFAULT if options.silent else body
    before, _, rest = _ENCODER.encode({"default": default, key: text}).partition(_ID)
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
