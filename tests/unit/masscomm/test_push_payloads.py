"""The payload of a push for each platform: its members, its size, and a body that is shortened.

Source: Amazon SNS developer guide, "Using Google Firebase Cloud Messaging v1 payloads in Amazon SNS" and "Mobile app
attributes"; Firebase, "REST Resource: projects.messages"; Apple, "Generating a remote notification" and "Pushing
background updates to your App".
"""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from masscomm.channels.push import MAX_PAYLOAD_BYTES, push_attributes, push_message, shortened_body
from masscomm.domain.limits import MAX_PUSH_BYTES
from masscomm.domain.provider_errors import Rejected
from masscomm.domain.push_options import push_text
from masscomm.rendering.graphemes import clusters

NOTIFICATION, SEND = "5f0c2a52-7b2e-5f7e-9a52-1f6f7a0d8a11", "8a6e0804-2bd0-4672-b79d-d97027f9071a"
IDS = {"notification_id": NOTIFICATION, "send_id": SEND}
ACTIONS = [{"id": "watch", "title": "Watch", "url": "riverside://7"}, {"id": "later", "title": "Später"}]
ALERT = {"alert": {"title": "Goal", "body": "2:1"}}
WORDS = {"title": "Goal", "body": "2:1"}
FAMILY = "👩‍👩‍👧"


def _payload(platform: str, push: dict[str, Any] | None, *, body: str = "2:1", collapse_id: str | None = None) -> Any:
    """Return the payload of a platform, and check that no other platform has one."""
    message = json.loads(
        push_message(
            platform,
            None,
            title="Goal",
            body=body,
            notification_id=NOTIFICATION,
            send_id=SEND,
            collapse_id=collapse_id,
            push=None if push is None else push_text(push),
        )
    )
    key = {"gcm": "GCM", "apns": "APNS"}[platform]
    assert sorted(message) == [key, "default"]
    assert len(message[key].encode()) <= MAX_PAYLOAD_BYTES
    assert message["default"], "SNS refuses a message without a default text"
    payload = json.loads(message[key])
    return payload["fcmV1Message"]["message"] if platform == "gcm" else payload


@pytest.mark.parametrize(
    ("push", "aps", "others"),
    [
        (None, ALERT, {}),
        ({}, ALERT, {}),
        ({"silent": False}, ALERT, {}),
        ({"badge": 0}, ALERT | {"badge": 0}, {}),
        ({"sound": "goal.caf"}, ALERT | {"sound": "goal.caf"}, {}),
        ({"android_channel": "matches"}, ALERT, {}),
        ({"interruption_level": "passive"}, ALERT | {"interruption-level": "passive"}, {}),
        ({"interruption_level": "time_sensitive"}, ALERT | {"interruption-level": "time-sensitive"}, {}),
        ({"interruption_level": "critical"}, ALERT | {"interruption-level": "critical"}, {}),
        (
            {"interruption_level": "critical", "sound": "default"},
            ALERT | {"interruption-level": "critical", "sound": {"critical": 1, "name": "default", "volume": 1}},
            {},
        ),
        ({"image": "https://c.example/a"}, ALERT | {"mutable-content": 1}, {"image": "https://c.example/a"}),
        ({"actions": ACTIONS}, ALERT | {"category": "watch.later"}, {"actions": ACTIONS}),
    ],
)
def test_payload_for_apple_has_the_members(
    push: dict[str, Any] | None, aps: dict[str, Any], others: dict[str, Any]
) -> None:
    assert _payload("apns", push) == {"aps": aps, "masscomm": IDS | others}


@pytest.mark.parametrize(
    ("push", "expected"),
    [
        (None, {"notification": WORDS, "data": IDS}),
        ({}, {"notification": WORDS, "data": IDS}),
        ({"badge": 3}, {"notification": WORDS, "data": IDS, "android": {"notification": {"notification_count": 3}}}),
        # "If zero or unspecified, systems that support badging use the default".
        ({"badge": 0}, {"notification": WORDS, "data": IDS}),
        ({"sound": "default"}, {"notification": WORDS, "data": IDS, "android": {"notification": {"sound": "default"}}}),
        (
            {"android_channel": "matches"},
            {"notification": WORDS, "data": IDS, "android": {"notification": {"channel_id": "matches"}}},
        ),
        ({"interruption_level": "critical"}, {"notification": WORDS, "data": IDS}),
        (
            {"image": "https://c.example/a"},
            {"notification": WORDS | {"image": "https://c.example/a"}, "data": IDS},
        ),
        (
            {"actions": ACTIONS},
            {
                "notification": WORDS,
                "data": IDS
                | {"actions": '[{"id":"watch","title":"Watch","url":"riverside://7"},{"id":"later","title":"Später"}]'},
            },
        ),
    ],
)
def test_payload_for_android_has_the_members(push: dict[str, Any] | None, expected: dict[str, Any]) -> None:
    assert _payload("gcm", push) == expected


def test_own_data_are_members_of_both_payloads() -> None:
    own = {"match": "7", "title": "of the app"}
    assert _payload("apns", {"data": own}) == {"aps": ALERT, "masscomm": IDS, **own}
    assert _payload("gcm", {"data": own}) == {"notification": WORDS, "data": IDS | own}


def test_a_silent_push_has_data_only() -> None:
    push = {"silent": True, "data": {"refresh": "scores"}}
    assert _payload("apns", push, body="") == {"aps": {"content-available": 1}, "masscomm": IDS, "refresh": "scores"}
    assert _payload("gcm", push, body="", collapse_id="k") == {
        "data": IDS | {"refresh": "scores"},
        "android": {"collapse_key": "k"},
    }


def test_a_silent_push_to_apple_is_a_background_push() -> None:
    """Source: Apple, "Pushing background updates to your App": apns-push-type background, apns-priority 5."""
    assert push_attributes("apns", None, collapse_id="k", ttl_s=60, silent=True) == {
        "AWS.SNS.MOBILE.APNS.PUSH_TYPE": "background",
        "AWS.SNS.MOBILE.APNS.PRIORITY": "5",
        "AWS.SNS.MOBILE.APNS.COLLAPSE_ID": "k",
        "AWS.SNS.MOBILE.APNS.TTL": "60",
    }
    assert push_attributes("gcm", None, collapse_id="k", ttl_s=60, silent=True) == {"AWS.SNS.MOBILE.FCM.TTL": "60"}


def test_every_value_of_data_for_android_is_a_text() -> None:
    """Source: Firebase, "REST Resource: projects.messages": data is a map (key: string, value: string)."""
    message = _payload("gcm", {"actions": ACTIONS, "data": {"match": "7"}, "badge": 1, "image": "https://c.example/a"})
    assert {type(value) for value in message["data"].values()} == {str}


_cluster = st.sampled_from(["a", '"', "\\", "\n", "ü", "e\u0301", "🇨🇭", FAMILY, "\x00", "क्षि", "⚽"])
_pushes = st.sampled_from(
    [
        {},
        {"badge": 1, "sound": "default"},
        {"data": {"k": "x" * (MAX_PUSH_BYTES - 17)}},
        {"actions": ACTIONS, "image": "https://c.example/a"},
    ]
)


@given(st.sampled_from(["gcm", "apns"]), st.lists(_cluster, min_size=1, max_size=9), st.integers(1, 4000), _pushes)
@example("apns", [FAMILY], 400, {})
@example("gcm", ["\x00"], 4000, {"data": {"k": "x" * (MAX_PUSH_BYTES - 17)}})
def test_a_shortened_body_is_the_longest_that_fits(
    platform: str, repeated: list[str], times: int, push: dict[str, Any]
) -> None:
    body = "".join(repeated) * times
    try:
        _payload(platform, push, body=body)
    except Rejected as error:
        shortened = shortened_body(body, error.excess_bytes)
    else:
        return
    assert shortened is not None
    kept = shortened.removesuffix("…")
    assert shortened == f"{kept}…"
    whole = list(clusters(body))
    assert list(clusters(kept)) == whole[: len(clusters(kept))], "it ends between characters"
    _payload(platform, push, body=shortened)
    with pytest.raises(Rejected):
        _payload(platform, push, body=f"{''.join(whole[: len(clusters(kept)) + 1])}…")


@pytest.mark.parametrize(("body", "excess"), [("", 1), ("abc", 1), ("abcd", 2), (FAMILY + "abc", 7)])
def test_a_body_without_room_is_not_shortened(body: str, excess: int) -> None:
    assert shortened_body(body, excess) is None
