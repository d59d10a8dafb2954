"""GET /v1/users/{user_id} and its preferences name the row of the directory that each part comes from."""

import json
from typing import Any

import pytest

from masscomm.domain.preference_changes import INDEX, PreferenceChanges, Wish
from masscomm.domain.statuses import Reason
from masscomm.domain.suppressions import Suppression
from masscomm.domain.tenant_preferences import TenantPreferences
from masscomm.domain.users import Device, UserSettings
from tests.support.harness.chain import NOW
from tests.support.harness.preferences_api import ADA, USER, PreferencesApi

CHANGED_MS, CHANGED_AT = 1_777_803_720_000, "2026-05-03T10:22:00Z"
OWN = {"table": "user_settings", "version": 77, "changed_at": CHANGED_AT}


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> PreferencesApi:
    return PreferencesApi(monkeypatch)


def _settings(api: PreferencesApi, **values: Any) -> None:
    api.directory.put(UserSettings(user_id=USER, version=77, changed_at=CHANGED_MS, **values))


def _deciding(api: PreferencesApi) -> dict[tuple[str, str], Any]:
    """Return (category, channel) → (wanted, table of the row)."""
    effective = api.call("GET")[1]["effective"]
    return {
        (each["category"], each["channel"]): (each["wanted"], each["row"] and each["row"]["table"])
        for each in effective
    }


def test_settings_decide_with_their_version_and_time(api: PreferencesApi) -> None:
    _settings(api, channels={"push": False}, categories={"news": {"email": True}})
    body = api.call("GET")[1]
    rows = {(each["category"], each["channel"]): each["row"] for each in body["effective"]}
    assert rows["news", "email"] == rows["match_reminder", "push"] == OWN
    assert rows["match_reminder", "email"] is None, "the category decides"
    assert rows["one_time_password", "push"] is None, "a mandatory category ignores the settings"


def test_change_through_masscomm_decides_until_it_is_applied(api: PreferencesApi) -> None:
    _settings(api, channels={"push": False})
    api.put(channels={"push": True, "email": False})
    found = _deciding(api)
    assert found["match_reminder", "push"] == (True, "preference_changes")
    assert found["match_reminder", "email"] == (False, "preference_changes")
    _settings(api, channels={"push": True, "email": False}, preference_version=NOW)
    found = _deciding(api)
    assert found["match_reminder", "email"] == (False, "user_settings")


def test_change_equal_to_the_row_does_not_decide(api: PreferencesApi) -> None:
    _settings(api, channels={"push": False})
    api.put(channels={"push": False})
    assert _deciding(api)["match_reminder", "push"] == (False, "user_settings")


def test_rules_of_a_tenant_decide_with_their_layer(api: PreferencesApi) -> None:
    rules = TenantPreferences(club_id=7, channels={"email": False}, categories={}, version=NOW)
    api.directory.tenant_preferences[7] = rules.document
    _settings(api, channels={"email": True}, categories={"news": True})
    effective = {(each["category"], each["channel"]): each for each in api.call("GET")[1]["effective"]}
    email = effective["match_reminder", "email"]
    assert (email["wanted"], email["layer"], email["row"]["table"]) == (False, "tenant", "tenant_preferences")
    assert (effective["news", "email"]["wanted"], effective["news", "email"]["layer"]) == (True, "user")


def test_unreadable_change_decides_about_everything(api: PreferencesApi) -> None:
    _settings(api)
    changes = PreferenceChanges(user_id=USER, club_id=7).after([Wish("news", None, True)], None, NOW)
    api.directory.preference_changes[USER] = changes.document | {"changes": [{"wanted": "?"}]}
    assert _deciding(api)["match_reminder", "push"] == (False, INDEX)
    assert api.call("GET")[1]["pending"]


def test_quiet_hours_have_their_row(api: PreferencesApi) -> None:
    assert api.call("GET")[1]["quiet_hours_row"] is None
    _settings(api, quiet_hours={"start": "22:00", "end": "07:00"})
    assert api.call("GET")[1]["quiet_hours_row"] == OWN
    body = api.put(quiet_hours=None)[1]
    assert (body["quiet_hours"], body["quiet_hours_row"]["table"]) == (None, "preference_changes")


def test_state_of_a_device_or_its_row_decides(api: PreferencesApi) -> None:
    device = Device(device_id=1, user_id=USER, platform="gcm", changed_at_ms=CHANGED_MS)
    api.directory.put(device, device._replace(device_id=2, endpoint_arn="arn"))
    body = json.loads(api.respond("GET", f"/v1/users/{USER}")["body"])
    found = [(each["status"], each["row"]["table"]) for each in body["devices"]]
    assert found == [("unregistered", "devices"), ("active", "device_state")]


def test_suppressed_address_is_shown_while_it_lasts(api: PreferencesApi) -> None:
    api.directory.suppress(
        Suppression(
            club_id=7,
            address=str(ADA.email),
            reason=Reason.COMPLAINED,
            at_ms=CHANGED_MS,
            expires_ms=NOW + 1_000,
        )
    )
    answer = api.respond("GET", f"/v1/users/{USER}")
    found = json.loads(answer["body"])["suppression"]
    assert (found["reason"], found["row"]["table"], found["row"]["changed_at"]) == (
        "complained",
        "suppressions",
        CHANGED_AT,
    )
    assert str(ADA.email) not in answer["body"]
    api.clock.advance(1)
    assert json.loads(api.respond("GET", f"/v1/users/{USER}")["body"])["suppression"] is None
