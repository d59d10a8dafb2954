"""GET /v1/users/{user_id}: a user with the devices, for callers of the user's club."""

import json
from typing import Any

import pytest

from functions.preferences_handler.user_body import MOST_DEVICES
from masscomm.domain.users import Device, User
from tests.support.harness.preferences_api import ADA, USER, PreferencesApi

CLUB_8 = {"principalId": "k", "club_ids": "8", "scopes": "users:read"}


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> PreferencesApi:
    return PreferencesApi(monkeypatch)


def _device(device_id: int, **values: Any) -> Device:
    fields = {"platform": "gcm", "endpoint_arn": "arn:secret"} | values
    return Device(device_id=device_id, user_id=USER, **fields)


def _body(api: PreferencesApi) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(api.respond("GET", f"/v1/users/{USER}")["body"])
    return found


def test_user_is_returned_without_addresses_and_tokens(api: PreferencesApi) -> None:
    api.directory.put(
        ADA._replace(first_name="Ada", locale="de", time_zone="Europe/Berlin"),
        _device(1, changed_at_ms=1_777_803_720_000),
        _device(2, platform="apns", endpoint_arn=None),
        _device(3, enabled=False),
    )
    answer = api.respond("GET", f"/v1/users/{USER}")
    body = json.loads(answer["body"])
    assert answer["statusCode"] == 200
    assert (body["first_name"], body["locale"], body["time_zone"]) == ("Ada", "de", "Europe/Berlin")
    devices = [(each["device_id"], each["platform"], each["status"]) for each in body["devices"]]
    assert devices == [(1, "gcm", "active"), (2, "apns", "unregistered"), (3, "gcm", "disabled")]
    assert body["devices"][0]["changed_at"] == "2026-05-03T10:22:00Z"
    assert "secret" not in answer["body"]
    assert ADA.email not in answer["body"]


def test_channels_are_those_that_reach_the_user(api: PreferencesApi) -> None:
    assert _body(api)["channels"] == ["email"], "no device"
    api.directory.put(ADA._replace(email=None), _device(1, enabled=False))
    assert _body(api)["channels"] == [], "the device is disabled"
    api.directory.put(_device(2))
    assert _body(api)["channels"] == ["push"]


def test_devices_beyond_the_limit_are_omitted(api: PreferencesApi) -> None:
    api.directory.put(*(_device(number) for number in range(1, MOST_DEVICES + 1)))
    assert not _body(api)["truncated"]
    api.directory.put(_device(MOST_DEVICES + 1))
    body = _body(api)
    assert (len(body["devices"]), body["truncated"]) == (MOST_DEVICES, True)


@pytest.mark.kills(guard="tenancy.user")
def test_user_of_another_club_is_a_404(api: PreferencesApi) -> None:
    api.directory.put(User(user_id=43, club_id=8))
    theirs = api.respond("GET", f"/v1/users/{USER}", requestContext={"authorizer": CLUB_8})
    own = api.respond("GET", "/v1/users/43", requestContext={"authorizer": CLUB_8})
    unknown = api.respond("GET", "/v1/users/44", requestContext={"authorizer": CLUB_8})
    assert (theirs["statusCode"], own["statusCode"]) == (404, 200)
    assert theirs["body"] == unknown["body"]
