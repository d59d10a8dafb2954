"""The long poll for a user's changes in memory, with a clock that sleep() advances; and the audit of readings."""

from collections.abc import Callable
from typing import Any

import pytest

from masscomm.domain.preference_changes import PreferenceChanges, Wish
from masscomm.domain.statuses import Reason
from masscomm.domain.suppressions import Suppression
from masscomm.domain.time_limits import STREAM_RESERVE_S, STREAM_WAIT_S
from masscomm.domain.users import Device, UserSettings
from masscomm.errors import Retry
from masscomm.stores.request_slots.port import Kind
from tests.support.harness.chain import NOW
from tests.support.harness.preferences_api import ADA, TIMEOUT_S, USER, PreferencesApi

CLUB_7 = {"principalId": "k", "club_ids": "7", "scopes": "users:read"}
DEVICE = Device(device_id=1, user_id=USER, platform="gcm", endpoint_arn="arn")


class StreamApi(PreferencesApi):
    """The function, whose clock also makes the planned change while a request waits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(monkeypatch)
        self.slept = 0.0
        self.planned: list[Callable[[], None]] = []
        monkeypatch.setattr(self.clock, "sleep", self._sleep)
        self.directory.put(DEVICE)

    def _sleep(self, seconds: float) -> None:
        self.slept += seconds
        self.clock.advance(seconds)
        if self.planned and self.slept >= 3:
            self.planned.pop()()

    def stream(self, authorizer: dict[str, str] = CLUB_7, **parameters: str) -> tuple[int, dict[str, Any]]:
        return self.read(f"/v1/users/{USER}/stream", authorizer, **parameters)

    def suppress(self) -> None:
        at = {"at_ms": NOW, "expires_ms": NOW + 10**9}
        self.directory.suppress(Suppression(club_id=7, address=str(ADA.email), reason=Reason.COMPLAINED, **at))

    def opt_out(self) -> None:
        settings = self.directory.user_settings([USER]).get(USER)
        changes = PreferenceChanges(user_id=USER, club_id=7).after([Wish("news", None, False)], settings, NOW)
        self.directory.preference_changes[USER] = changes.document


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> StreamApi:
    return StreamApi(monkeypatch)


def test_first_request_has_user_and_preferences_at_once(api: StreamApi) -> None:
    status, body = api.stream()
    assert (status, body["changed"], api.slept) == (200, True, 0)
    assert body["user"] == api.read(f"/v1/users/{USER}", CLUB_7)[1]
    assert body["preferences"] == api.call("GET")[1]


def test_unchanged_user_is_answered_when_the_wait_ends(api: StreamApi) -> None:
    version = api.stream()[1]["version"]
    read = api.directory.calls["person"]
    status, body = api.stream(after=version, wait="5")
    assert (status, api.slept) == (200, 5)
    assert body == {"version": version, "changed": False, "user": None, "preferences": None}
    assert api.directory.calls["person"] - read <= 11, "two look-ups a second"
    api.stream(after=version)
    assert api.slept - 5 == STREAM_WAIT_S <= TIMEOUT_S - STREAM_RESERVE_S


@pytest.mark.parametrize(
    "change",
    [
        lambda api: api.directory.put(ADA._replace(first_name="Ada")),
        lambda api: api.directory.put(ADA),
        lambda api: api.directory.put(UserSettings(user_id=USER, channels={"push": False})),
        lambda api: api.directory.put(DEVICE._replace(device_id=2)),
        lambda api: api.directory.put(DEVICE._replace(enabled=False)),
        lambda api: api.directory.remove(DEVICE),
        StreamApi.opt_out,
        StreamApi.suppress,
    ],
    ids=["name", "version", "settings", "device", "state", "no device", "opt-out", "suppression"],
)
def test_change_of_each_kind_ends_the_wait(api: StreamApi, change: Callable[[StreamApi], None]) -> None:
    before = api.stream()[1]
    api.planned.append(lambda: change(api))
    _, after = api.stream(after=before["version"])
    assert (after["changed"], api.slept) == (True, 3)
    assert after["version"] != before["version"]
    assert (after["user"], after["preferences"]) != (before["user"], before["preferences"])


def test_user_that_is_deleted_meanwhile_is_a_404(api: StreamApi) -> None:
    version = api.stream()[1]["version"]
    api.planned.append(lambda: api.directory.remove(ADA))
    assert api.stream(after=version)[0] == 404


@pytest.mark.kills(guard="tenancy.user")
def test_stream_of_another_tenants_user_is_a_404(api: StreamApi) -> None:
    assert api.stream(CLUB_7 | {"club_ids": "8"})[0] == 404
    assert api.stream(CLUB_7 | {"scopes": "read users:write"})[0] == 403


def test_waiting_requests_of_a_key_have_slots(api: StreamApi) -> None:
    version = api.stream()[1]["version"]
    for _ in range(2):
        assert api.slots.take(Kind.POLL, "k", 2, now_ms=NOW, until_ms=NOW + 60_000) is not None
    assert api.stream(after=version)[0] == 429
    assert api.stream()[0] == 200, "it need not wait"


@pytest.mark.kills(guard="audit.user")
def test_each_reading_of_a_user_is_audited(api: StreamApi) -> None:
    api.read(f"/v1/users/{USER}", CLUB_7)
    api.call("GET", authorizer=CLUB_7)
    version = api.stream()[1]["version"]
    api.stream(after=version, wait="0")
    api.read("/v1/users/43", CLUB_7)
    found = [(each.action, each.club_id, each.principal, each.subject) for each in api.audit_log.entries]
    assert found == [("user.shown", 7, "k", str(USER))] * 3, "what is unchanged or unknown is not shown"


@pytest.mark.kills(guard="audit.before_reading")
def test_nothing_is_shown_without_the_audit_log(api: StreamApi) -> None:
    api.audit_log.failing = Retry("down")
    assert api.stream()[0] == 503
    for path in ("/v1/users", f"/v1/users/{USER}", f"/v1/users/{USER}/preferences"):
        assert api.read(path, CLUB_7)[0] == 503
