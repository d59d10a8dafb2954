"""GET and PUT /v1/users/{user_id}/preferences: a change applies at once and is produced for the monolith."""

import json
from dataclasses import replace
from typing import Any

import pytest

from functions.preferences_handler import handler as module
from masscomm.directory.preference_changes import InMemoryPreferenceChanges
from masscomm.domain.preference_changes import PreferenceChanges, Wish
from masscomm.domain.records import PreferenceChange, QuietHoursChange
from masscomm.domain.users import User, UserSettings
from masscomm.errors import DeadLetter, Retry
from masscomm.kafka import topics
from masscomm.stores.categories.in_memory import InMemoryCategories
from tests.support.categories import put_version
from tests.support.harness.chain import NOW, Context
from tests.support.harness.preferences_api import USER, PreferencesApi

UNREADABLE = "a stored item cannot be read"
CLUB_8 = {"principalId": "k", "club_ids": "8", "scopes": "users:read users:write"}


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> PreferencesApi:
    return PreferencesApi(monkeypatch)


def _effective(body: dict[str, Any]) -> dict[tuple[str, str], bool]:
    return {(each["category"], each["channel"]): each["wanted"] for each in body["effective"]}


def test_preferences_of_a_user_are_returned(api: PreferencesApi) -> None:
    assert api.call("GET")[1]["changed_at"] is None
    api.directory.put(
        UserSettings(
            user_id=USER, channels={"push": "yes"}, categories={"news": {"push": True}}, changed_at=1_777_803_720_000
        )
    )
    status, body = api.call("GET")
    assert status == 200
    assert body["changed_at"] == "2026-05-03T10:22:00Z"
    assert (body["user_id"], body["club_id"], body["pending"]) == (USER, 7, False)
    assert (body["channels"], body["categories"]) == ({"push": False}, {"news": {"push": True}})
    effective = _effective(body)
    assert effective["news", "push"]
    assert not effective["newsletter", "push"]
    assert effective["one_time_password", "push"], "mandatory"


def test_texts_of_categories_are_returned(api: PreferencesApi, stored_categories: InMemoryCategories) -> None:
    put_version(stored_categories, "news", {"channels": ["push"], "descriptions": {"de": "Neues"}})
    texts = api.call("GET")[1]["texts"]
    assert texts["news"] == {"titles": {}, "descriptions": {"de": "Neues"}}
    assert texts["newsletter"]["titles"]["de"] == "Newsletter"
    assert "announcement" not in texts


def test_names_are_shown_as_they_apply(api: PreferencesApi) -> None:
    api.directory.put(
        UserSettings(user_id=USER, channels={"Push": True, "fax": True}, categories={"News": {"EMAIL": False}})
    )
    body = api.call("GET")[1]
    assert (body["channels"], body["categories"]) == ({"push": True}, {"news": {"email": False}})
    rules = {(each["category"], each["channel"]): (each["layer"], each["rule"]) for each in body["effective"]}
    assert rules["newsletter", "push"] == ("user", "channels malformed: fax")
    assert rules["news", "email"] == ("user", "category:news channel:email")
    assert rules["one_time_password", "push"] == ("default", "mandatory")


def test_change_applies_at_once_and_is_produced(api: PreferencesApi) -> None:
    status, body = api.put(categories={"newsletter": {"email": False}, "news": False}, channels={"push": True})
    assert (status, body["pending"]) == (200, True)
    assert not _effective(body)["newsletter", "email"]
    assert api.call("GET")[1] == body
    assert api.directory.user_settings([USER])[USER].categories == {"newsletter": {"email": False}, "news": False}
    (record,) = api.records()
    assert (record.user_id, record.club_id, record.version, record.source) == (USER, 7, NOW, "api")
    assert record.principal == "operator"
    assert PreferenceChange(category="newsletter", channel="email", wanted=False, version=NOW) in record.changes
    assert [key for topic, key, *_ in api.producer.produced if topic == topics.PREFERENCE_CHANGE] == [b"42"]


def test_quiet_hours_apply_at_once_and_are_produced(api: PreferencesApi) -> None:
    hours = {"start": "22:00", "end": "07:00"}
    api.put(categories={"news": False})
    status, body = api.put(quiet_hours=hours)
    assert (status, body["pending"], body["quiet_hours"]) == (200, True, hours)
    assert body["categories"] == {"news": False}
    assert api.directory.user_settings([USER])[USER].quiet_hours == hours
    assert api.records()[-1].quiet_hours == QuietHoursChange(start="22:00", end="07:00", version=NOW + 1)
    assert api.put(quiet_hours=None)[1]["quiet_hours"] is None
    record = api.records()[-1]
    assert record.quiet_hours == QuietHoursChange(version=NOW + 2)
    assert [each.category for each in record.changes] == ["news"], "a record has every change"


def test_unreadable_quiet_hours_are_shown_as_applied(api: PreferencesApi) -> None:
    api.directory.put(UserSettings(user_id=USER, quiet_hours={"start": "22:00"}))
    assert api.call("GET")[1]["quiet_hours"] == {"start": "21:00", "end": "09:00"}


def test_record_has_all_changes_that_are_not_applied(api: PreferencesApi) -> None:
    """A record may be lost: the next one contains its change."""
    api.put(categories={"news": False})
    api.put(channels={"email": False})
    assert [each.channel for each in api.records()[-1].changes] == [None, "email"]
    api.directory.put(UserSettings(user_id=USER, preference_version=NOW + 1, version=9))
    assert not api.call("GET")[1]["pending"]
    api.put(categories={"match_reminder": False})
    assert [each.category for each in api.records()[-1].changes] == ["match_reminder"]


@pytest.mark.kills(guard="tenancy.user")
@pytest.mark.kills(guard="tenancy.changed_preferences")
def test_user_of_another_club_is_like_an_unknown_user(api: PreferencesApi) -> None:
    change = {"categories": {"news": False}}
    for method, body in (("GET", None), ("PUT", change)):
        other = api.call(method, body, authorizer=CLUB_8)
        assert other == api.call(method, body, user_id=4_711, authorizer=CLUB_8)
        assert other[0] == 404
    assert api.records() == []
    assert api.directory.user_settings([USER]) == {}


def test_scopes_are_required(api: PreferencesApi) -> None:
    reader = {"principalId": "k", "club_ids": "7", "scopes": "users:read"}
    assert api.call("GET", authorizer=reader)[0] == 200
    assert api.call("PUT", {"channels": {"push": False}}, authorizer=reader)[0] == 403
    assert api.call("GET", authorizer=reader | {"scopes": "read send"})[0] == 403
    assert api.records() == []


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ("", [""]),
        ("[]", [""]),
        ("{}", ["channels", "categories", "quiet_hours"]),
        ({"chanels": {}}, ["chanels"]),
        ({"channels": {"fax": False, "push": 1}}, ["channels.fax", "channels.push"]),
        ({"channels": []}, ["channels"]),
        (
            {"categories": {"nws": False, "one_time_password": False}},
            ["categories.nws", "categories.one_time_password"],
        ),
        (
            {"categories": {"news": "off", "newsletter": {"push": None}}},
            ["categories.news", "categories.newsletter.push"],
        ),
        ({"quiet_hours": {}}, ["quiet_hours.start", "quiet_hours.end"]),
        ({"quiet_hours": False}, ["quiet_hours"]),
        ({"quiet_hours": {"start": "7:00", "end": "24:00"}}, ["quiet_hours.start", "quiet_hours.end"]),
        ({"quiet_hours": {"start": "22:00", "end": "07:00", "zone": "UTC"}}, ["quiet_hours.zone"]),
        ({"quiet_hours": {"start": "22:00", "end": "22:00"}}, ["quiet_hours.end"]),
    ],
)
def test_invalid_change_names_each_field(api: PreferencesApi, body: Any, fields: list[str]) -> None:
    status, problem = api.call("PUT", body)
    assert status == 400
    assert [each["field"] for each in problem["errors"]] == fields
    assert api.records() == []


def test_invalid_user_or_parameter_is_refused(api: PreferencesApi) -> None:
    assert api.call("GET", user_id="x")[0] == 400
    assert (
        api.respond("GET", "/v1/users/42/preferences", multiValueQueryStringParameters={"a": ["1"]})["statusCode"]
        == 400
    )


def test_concurrent_changes_are_both_kept(api: PreferencesApi, monkeypatch: pytest.MonkeyPatch) -> None:
    store, written = api.use_case.changes, iter([True])
    write = store.write

    def overtaken(changes: Any, *, after: Any) -> bool:
        if next(written, False):
            api.use_case.change(USER, {7}, [Wish("news", None, False)], source="api")
        return write(changes, after=after)

    monkeypatch.setattr(store, "write", overtaken)
    status, body = api.put(categories={"newsletter": False})
    assert status == 200
    assert body["categories"] == {"news": False, "newsletter": False}
    assert [each.version for each in api.records()[-1].changes] == [NOW, NOW + 1]


@pytest.mark.kills(guard="preferences.applied")
def test_change_that_look_ups_do_not_see_is_no_success(api: PreferencesApi) -> None:
    seen = api.use_case
    api.use_case = replace(seen, changes=InMemoryPreferenceChanges())
    status, _ = api.put(channels={"push": False})
    assert status == 503
    api.use_case = seen
    status, _ = api.put(channels={"push": False})
    assert status == 200


@pytest.mark.guarantee("own_documents.published_before_the_answer")
@pytest.mark.kills(guard="preferences.published")
def test_change_is_published_before_the_response(api: PreferencesApi) -> None:
    api.publisher.failing = Retry("Kafka is down")
    assert api.put(categories={"news": False})[0] == 503
    api.publisher.failing = None
    assert api.put(categories={"news": False})[0] == 200
    assert api.publisher.published == [("preference_changes", str(USER))]


def test_change_that_was_not_produced_is_produced_by_the_sweep(api: PreferencesApi) -> None:
    api.producer.fail = lambda _topic, _value: Retry("down")
    assert api.put(categories={"news": False})[0] == 503
    assert not _effective(api.call("GET")[1])["news", "push"], "the opt-out applies"
    api.producer.fail = lambda _topic, _value: None
    assert _sweep(api) == 0, "the request may still run"
    api.clock.advance(61)
    assert _sweep(api) == 1
    assert [each.version for each in api.records()] == [NOW]
    assert _sweep(api) == 0


@pytest.mark.kills(guard="preferences.unproducible_changes")
@pytest.mark.guarantee("preferences.unreadable_changes_are_skipped")
def test_one_users_fault_stops_no_other_users_changes(api: PreferencesApi, capsys: pytest.CaptureFixture[str]) -> None:
    """One user's changes cannot be read, another's not encoded, a third's record is refused for ever."""
    documents = api.directory.preference_changes
    for user_id in range(1, 7):
        changes = PreferenceChanges(user_id=user_id, club_id=7)
        documents[user_id] = changes.after([Wish("news", None, False)], None, NOW - 61_000, source="api").document
    documents[2] = {**documents[2], "changes": "unreadable"}
    documents[3] = {**documents[3], "club_id": 2**63}
    api.producer.fail = lambda _, value: (
        DeadLetter("too_large", "refused") if api.codec.decode("PreferenceChanged", value)["user_id"] == 4 else None
    )
    assert _sweep(api) == 3
    assert [each.user_id for each in api.records()] == [1, 5, 6]
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    found = [(each["store"], each["key"]["id"]) for each in lines if each.get("message") == UNREADABLE]
    assert found == [("preference_changes", id_) for id_ in ("2", "3", "4")]
    assert lines[-1]["UnreadableItems"] == 3
    assert _sweep(api) == 0, "the others are produced once"


def test_sweep_without_time_leaves_the_rest(api: PreferencesApi) -> None:
    api.directory.preference_changes[USER] = (
        PreferenceChanges(user_id=USER, club_id=7).after([Wish("news", None, False)], None, NOW - 61_000).document
    )
    assert _sweep(api, remaining_s=19) == 0
    assert _sweep(api) == 1


def _sweep(api: PreferencesApi, *, remaining_s: float = 29) -> int:
    found: int = module.handler({"source": "aws.events"}, Context(api.clock, remaining_s))["produced"]
    return found


def test_changes_are_kept_by_a_moved_user(api: PreferencesApi) -> None:
    api.put(categories={"news": False})
    api.directory.put(User(user_id=USER, club_id=8))
    assert api.call("GET", authorizer=CLUB_8)[1]["categories"] == {"news": False}
    api.call("PUT", {"channels": {"push": False}}, authorizer=CLUB_8)
    assert api.records()[-1].club_id == 8


def test_failing_dependencies_are_reported(api: PreferencesApi) -> None:
    api.directory.failing = Retry("the directory is not ready")
    assert api.call("GET")[0] == 503
    assert api.put(channels={"push": False})[0] == 503
    assert api.records() == []
