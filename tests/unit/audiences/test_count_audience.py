"""POST /v1/audiences/count, with the directory in memory."""

import json
from typing import Any

import pytest

from functions.audiences import handler as module
from functions.audiences.count_audience import CountAudience
from masscomm.clock import FixedClock
from masscomm.directory.in_memory import InMemoryDirectory
from masscomm.domain.limits import SMALLEST_GROUP
from masscomm.domain.saved_audiences import SavedAudience
from masscomm.domain.users import Device, User, UserSettings
from masscomm.stores.saved_audiences.in_memory import InMemorySavedAudiences
from tests.support.contracts.directory import follow
from tests.support.harness.chain import Context
from tests.support.harness.slots import use_slots
from tests.support.inputs.api_gateway_events import EVERY_CLUB, EVERY_SCOPE
from tests.support.inputs.optional_tables import mapped

ALL: dict[str, Any] = {"all_users": True}
TIMEOUT_S = 29.0
SENDER = {"principalId": "k9", "club_ids": "9", "scopes": "send read"}


class CountApi:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.directory = InMemoryDirectory(page_size=2)
        self.clock = FixedClock()
        self.saved = InMemorySavedAudiences()
        counting = CountAudience(directory=self.directory, saved=self.saved)
        monkeypatch.setattr(module, "bootstrap", lambda: counting)
        use_slots(monkeypatch, self.clock)

    def call(self, body: Any, authorizer: dict[str, Any] = EVERY_CLUB) -> tuple[int, dict[str, Any]]:
        event = {
            "path": "/v1/audiences/count",
            "httpMethod": "POST",
            "requestContext": {"authorizer": authorizer},
            "body": body if isinstance(body, str) else json.dumps(body),
        }
        answer = module.handler(event, Context(self.clock, TIMEOUT_S))
        return answer["statusCode"], json.loads(answer["body"])


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> CountApi:
    found = CountApi(monkeypatch)
    for user_id in range(1, 8):
        email = f"{user_id}@club.example" if user_id % 2 else None
        found.directory.put(User(user_id=user_id, club_id=7, locale="de" if user_id < 4 else "en", email=email))
    found.directory.put(User(user_id=100, club_id=8, locale="de"))
    return found


def test_users_of_a_saved_audience_are_counted(api: CountApi) -> None:
    definition = {"where": {"field": "locale", "is": "de"}}
    api.saved.put(SavedAudience(club_id=7, name="germans", definition=definition, changed_at_ms=0))
    assert api.call({"club_id": 7, "audience": {"saved": "germans"}})[1]["users"] == 3
    assert api.call({"club_id": 7, "audience": {"saved": "germans", "except_users": [1]}})[1]["users"] == 2
    # An audience of another club is as an unknown one.
    assert api.call({"club_id": 8, "audience": {"saved": "germans"}})[0] == 400
    assert api.call({"club_id": 7, "audience": {"saved": "germans"}}, SENDER)[0] == 403


def test_users_of_the_club_are_counted_by_channel(api: CountApi) -> None:
    api.directory.put(
        Device(device_id=1, user_id=2, platform="gcm"),
        Device(device_id=2, user_id=3, platform="gcm", enabled=False),
        Device(device_id=3, user_id=4, platform="gcm"),
    )
    status, body = api.call({"club_id": 7, "audience": {"where": {"field": "locale", "is": "de"}}})
    channels = {"push": 1, "email": 2, "sms": 0}
    assert (status, body) == (200, {"users": 3, "channels": channels, "examined": 7, "complete": True})
    everybody = api.call({"club_id": 7, "audience": ALL | {"except_users": [1, 100]}, "channels": ["email"]})[1]
    assert (everybody["users"], everybody["channels"]) == (6, {"email": 3})


def test_conditions_read_settings(api: CountApi) -> None:
    api.directory.put(UserSettings(user_id=5, categories={"news": False}))
    where = {"not": {"field": "settings.categories.news", "is": False}}
    assert api.call({"club_id": 7, "audience": {"where": where}, "channels": []})[1]["users"] == 6
    assert api.directory.calls["devices"] == 0


def test_unknown_club_has_no_users(api: CountApi) -> None:
    status, body = api.call({"club_id": 9, "audience": ALL})
    assert (status, body["users"], body["complete"]) == (200, 0, True)


@pytest.mark.kills(guard="tenancy.counted_audience")
def test_another_tenants_users_are_not_counted(api: CountApi) -> None:
    status, body = api.call({"club_id": 7, "audience": ALL}, EVERY_SCOPE | {"club_ids": "8"})
    assert (status, [error["field"] for error in body["errors"]]) == (403, ["club_id"])
    assert api.directory.calls["users_of_club"] == 0


def _groups(api: CountApi) -> dict[str, int]:
    """Add users of club 9, some of them with an address, and return their number by locale."""
    sizes = {"fr": SMALLEST_GROUP, "it": SMALLEST_GROUP - 1}
    for number, locale in enumerate(locale for locale, size in sizes.items() for _ in range(size)):
        api.directory.put(User(user_id=1_000 + number, club_id=9, locale=locale))
    return sizes


def _of_locale(locale: str) -> dict[str, Any]:
    return {"club_id": 9, "audience": {"where": {"field": "locale", "is": locale}}}


@pytest.mark.guarantee("single_users.small_group")
@pytest.mark.kills(guard="single_users.small_group")
@pytest.mark.parametrize(("locale", "status"), [("fr", 200), ("it", 403), ("es", 403)])
def test_count_of_few_users_needs_users_read(api: CountApi, locale: str, status: int) -> None:
    """An audience without users says of each one that it does not match."""
    sizes = _groups(api)
    answered, body = api.call(_of_locale(locale), SENDER)
    assert (answered, body.get("users")) == (status, sizes[locale] if status == 200 else None)
    if status == 403:
        assert (body["code"], body["parameters"]) == ("users_few", {"minimum": SMALLEST_GROUP, "scope": "users:read"})
    assert api.call(_of_locale(locale))[1]["users"] == sizes.get(locale, 0)


@pytest.mark.guarantee("single_users.named")
@pytest.mark.kills(guard="single_users.named")
def test_count_with_named_exceptions_needs_users_read(api: CountApi) -> None:
    """The counts with and without one user differ by what this user is."""
    _groups(api)
    counted = {"club_id": 9, "audience": ALL | {"except_users": [1_000]}}
    status, body = api.call(counted, SENDER)
    assert (status, [each["field"] for each in body["errors"]]) == (403, ["audience.except_users"])
    assert api.directory.calls["users_of_club"] == 0
    assert api.call(counted)[0] == 200


def test_cut_count_of_few_users_needs_users_read(api: CountApi, monkeypatch: pytest.MonkeyPatch) -> None:
    _groups(api)

    def slow(user_ids: Any) -> dict[int, list[Device]]:
        api.clock.advance(29)
        return {}

    monkeypatch.setattr(api.directory, "devices", slow)
    assert api.call({"club_id": 9, "audience": ALL}, SENDER)[0] == 403


def test_count_ends_in_the_time_of_a_request(api: CountApi, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(user_ids: Any) -> dict[int, list[Device]]:
        api.clock.advance(9)
        return {user_id: [] for user_id in user_ids}

    monkeypatch.setattr(api.directory, "devices", slow)
    status, body = api.call({"club_id": 7, "audience": ALL})
    assert (status, body["examined"], body["users"], body["complete"]) == (200, 4, 4, False)


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ("", [""]),
        ("[1]", [""]),
        ('{"club_id": 1', [""]),
        ({}, ["club_id", "audience"]),
        ({"club_id": 0, "audience": ALL}, ["club_id"]),
        ({"club_id": True, "audience": ALL}, ["club_id"]),
        ({"club_id": 2**63, "audience": ALL}, ["club_id"]),
        ({"club_id": 7, "audience": ALL, "channels": ["fax"]}, ["channels"]),
        ({"club_id": 7, "audience": ALL, "channels": [{}]}, ["channels"]),
        ({"club_id": 7, "audience": ALL, "to_users": [1]}, ["to_users"]),
        (
            {"club_id": 7, "audience": {"where": {"field": "x", "is": None}}},
            ["audience.where.field", "audience.where.is"],
        ),
    ],
)
def test_invalid_request_names_its_fields(api: CountApi, body: Any, fields: list[str]) -> None:
    status, problem = api.call(body)
    assert (status, [error["field"] for error in problem["errors"]]) == (400, fields)


def test_followers_of_an_object_are_counted(api: CountApi) -> None:
    with mapped("memberships"):
        rows = (follow(user_id) for user_id in (1, 2, 3, 5, 100))
        api.directory.rows |= {("memberships", id_): row for id_, row in rows}
        for audience, users in (
            ({"follows": "team:42"}, 4),
            ({"follows": "team:42", "where": {"field": "locale", "is": "de"}}, 3),
            ({"follows": "team:41"}, 0),
        ):
            status, body = api.call({"club_id": 7, "audience": audience, "channels": ["email"]})
            assert (status, body["users"], body["complete"]) == (200, users, True)
            assert body["examined"] == (0 if users == 0 else 4)
        definition = {"follows": "team:42"}
        api.saved.put(SavedAudience(club_id=7, name="followers", definition=definition, changed_at_ms=0))
        assert api.call({"club_id": 7, "audience": {"saved": "followers"}})[1]["users"] == 4
        both = {"saved": "followers", "follows": "team:42"}
        assert api.call({"club_id": 7, "audience": both})[1]["errors"][0]["field"] == "audience.saved"
        for wrong in ("team", "team:4 2", 42, None):
            status, body = api.call({"club_id": 7, "audience": {"follows": wrong}})
            assert (status, body["errors"][0]["code"]) == (400, "follows_form")


def test_follows_without_their_table_are_refused(api: CountApi) -> None:
    status, body = api.call({"club_id": 7, "audience": {"follows": "team:42"}})
    assert (status, body["errors"][0]["field"], body["errors"][0]["code"]) == (
        400,
        "audience.follows",
        "follows_unmapped",
    )
