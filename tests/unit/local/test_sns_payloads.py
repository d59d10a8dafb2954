"""The SNS stand-in refuses the payloads that SNS, Firebase and Apple refuse, and accepts those that masscomm builds."""

import json
from typing import Any

import pytest

from local.emulators.sns_stand_in.endpoints import Refused
from local.emulators.sns_stand_in.payloads import check_publish
from masscomm.channels.push import push_attributes, push_message
from masscomm.domain.provider_error_codes import refusal
from masscomm.domain.provider_errors import Rejected
from masscomm.domain.push_options import push_text

ARN = "arn:aws:sns:eu-central-1:000000000000:endpoint/{}/club/1"
ALERT = {"aps": {"alert": "x"}}
BACKGROUND = {"PUSH_TYPE": "background", "PRIORITY": "5"}


def _check(platform: str, document: dict[str, Any], **attributes: str) -> None:
    parameters = {"Message": json.dumps(document)}
    for number, (name, value) in enumerate(attributes.items(), start=1):
        parameters[f"MessageAttributes.entry.{number}.Name"] = f"AWS.SNS.MOBILE.APNS.{name}"
        parameters[f"MessageAttributes.entry.{number}.Value.StringValue"] = value
    check_publish(ARN.format(platform), parameters, document)


def _gcm(message: Any) -> dict[str, str]:
    return {"default": "x", "GCM": json.dumps({"fcmV1Message": {"message": message}})}


def _apns(payload: Any) -> dict[str, str]:
    return {"default": "x", "APNS": payload if isinstance(payload, str) else json.dumps(payload)}


@pytest.mark.parametrize(
    "push",
    [
        {},
        {"badge": 0, "sound": "default", "interruption_level": "critical", "android_channel": "a"},
        {"image": "https://c.example/a", "actions": [{"id": "a", "title": "A"}], "data": {"a": "b"}},
        {"silent": True, "data": {"a": "b"}},
    ],
)
@pytest.mark.parametrize(("platform", "key"), [("gcm", "GCM"), ("apns", "APNS"), ("apns", "APNS_SANDBOX")])
def test_payloads_of_masscomm_are_accepted(platform: str, key: str, push: dict[str, Any]) -> None:
    message = push_message(
        platform,
        ARN.format(key),
        title="Hello",
        body="It works.",
        notification_id="n",
        send_id="s",
        collapse_id=None,
        push=push_text(push),
    )
    silent = push.get("silent", False)
    attributes = push_attributes(platform, ARN.format(key), collapse_id=None, ttl_s=None, silent=silent)
    _check(key, json.loads(message), **{name.rpartition(".")[2]: value for name, value in attributes.items()})


@pytest.mark.parametrize(
    ("platform", "document", "attributes"),
    [
        ("GCM", _gcm({"data": {"from": "x"}}), {}),
        ("GCM", _gcm({"data": {"google.a": "x"}}), {}),
        ("GCM", _gcm({"data": {"badge": 1}}), {}),
        ("GCM", _gcm({"android": {"notification": {"notification_count": "1"}}}), {}),
        ("GCM", _gcm(None), {}),
        ("GCM", _gcm({"data": {"k": "x" * 4_096}}), {}),
        ("APNS", _apns("{"), {}),
        ("APNS", _apns({"alert": "x"}), {}),
        ("APNS", _apns({"aps": {}}), {}),
        ("APNS", _apns({"aps": {"alert": "x", "interruption-level": "time_sensitive"}}), {}),
        ("APNS", _apns({"aps": {"alert": "x", "content-available": 1}}), BACKGROUND),
        ("APNS", _apns({"aps": {"content-available": 1}}), {"PUSH_TYPE": "background", "PRIORITY": "10"}),
        ("APNS", _apns({"aps": {"content-available": 1}}), {"PUSH_TYPE": "background"}),
        ("APNS", _apns({"aps": {"content-available": 1}}), {"PUSH_TYPE": "alert"}),
        ("APNS", _apns(ALERT), {"COLLAPSE_ID": ""}),
        ("APNS", _apns(ALERT) | {"default": "x" * 262_144}, {}),
    ],
)
def test_other_payloads_are_refused(platform: str, document: dict[str, Any], attributes: dict[str, str]) -> None:
    with pytest.raises(Refused) as caught:
        _check(platform, document, **attributes)
    refused = caught.value.refusal
    assert refused.status == 400
    if refused.code == "InvalidParameter":
        error = refusal(refused.code, refused.message)
        assert isinstance(error, Rejected)
        assert error.too_large is (len(json.dumps(document)) > 4_096)


def test_a_payload_that_is_no_text_is_ignored() -> None:
    """The device gets the default text."""
    _check("APNS", {"default": "x", "APNS": {"aps": {}}})
