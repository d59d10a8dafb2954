"""The categories' file is validated, and a category that needs an opt-in is sent to users with a rule for it."""

from typing import Any

import pytest

from masscomm.chain.chunks import chunk_of
from masscomm.domain import categories, setting_names
from masscomm.domain.categories import CategoriesError, read_categories, resolve_channels
from masscomm.domain.preferences import decide_by_user_settings
from masscomm.domain.records import SendRequested
from masscomm.domain.statuses import Reason
from masscomm.domain.users import UserSettings
from masscomm.kafka.event import KafkaRecord
from schemas import read_text

NOW = 1_700_000_000_000
DEFAULT = {"channels": ["push"], "mandatory": False}
CAP = {"limit": 1, "window": "day"}
DIGEST = {"template": "t", "window": "1h"}
DOCUMENT: dict[str, Any] = {
    "default": DEFAULT,
    "categories": {
        "offers": {"opt_in": ["email"]},
        "code": {"mandatory": True},
        "news": {},
        "urgent": {"critical": True},
    },
    "tenants": {
        7: {
            "offers": {"opt_in": False, "channels": ["email", "push"]},
            "news": {"opt_in": True},
            "default": {"opt_in": True},
            "code": {"channels": ["email"]},
        },
        8: {"default": {"channels": ["push", "email", "push"]}},
    },
}


@pytest.fixture
def _categories(monkeypatch: pytest.MonkeyPatch) -> None:
    found = read_categories(DOCUMENT)
    for module in (categories, setting_names):
        monkeypatch.setattr(module, "category_table", lambda: found)


def _reason(settings: UserSettings | None, type: str, channel: str, club_id: int = 1) -> Reason | None:
    decision = decide_by_user_settings(settings, club_id=club_id, type=type, channel=channel)
    assert (decision.status is None) == (decision.reason is None)
    return decision.reason


def _settings(**values: Any) -> UserSettings:
    return UserSettings(user_id=1, version=3, **values)


def test_title_is_in_the_language_or_made_from_the_name() -> None:
    entry = {"titles": {"en": "News of the club", "de": "Neues"}}
    found = read_categories({"default": {"channels": ["push"]}, "categories": {"news": entry}})
    news, default = found.categories["news"], found.categories["default"]
    assert [news.title("news", language) for language in ("de", "fr")] == ["Neues", "News of the club"]
    assert default.title("match_reminder", "en") == "Match reminder"
    assert default.description("en") == ""
    for titles in ("Neues", {"de": ""}, {"de": 1}, {True: "x"}):
        with pytest.raises(CategoriesError):
            read_categories({"default": {"channels": ["push"]}, "categories": {"news": {"titles": titles}}})


@pytest.mark.usefixtures("_categories")
@pytest.mark.kills(guard="preferences.opt_in_without_tenants")
def test_only_a_rule_for_the_category_is_an_opt_in() -> None:
    for settings in (None, _settings(), _settings(channels={"email": True}), _settings(categories={"news": True})):
        assert _reason(settings, "offers", "email") is Reason.NOT_OPTED_IN
        assert _reason(settings, "offers", "push") is None
    for rule in (True, {"email": True}):
        assert _reason(_settings(categories={"offers": rule}), "offers", "email") is None
    assert _reason(_settings(categories={"offers": False}), "offers", "email") is Reason.OPTED_OUT
    assert _reason(_settings(channels={"email": False}), "offers", "email") is Reason.OPTED_OUT


@pytest.mark.usefixtures("_categories")
def test_opt_in_differs_by_tenant() -> None:
    assert _reason(None, "offers", "email", club_id=7) is None
    assert _reason(None, "news", "push", club_id=7) is Reason.NOT_OPTED_IN
    assert _reason(None, "news", "push", club_id=8) is None
    assert _reason(None, "not listed", "push", club_id=7) is Reason.NOT_OPTED_IN
    assert _reason(None, "code", "push", club_id=7) is None


@pytest.mark.usefixtures("_categories")
@pytest.mark.parametrize(
    ("type", "club_id", "channels"),
    [
        ("offers", 7, ["email", "push"]),
        ("offers", 1, ["push"]),
        ("code", 7, ["email"]),
        ("news", 7, ["push"]),
        ("not listed", 7, ["push"]),
        ("not listed", 8, ["push", "email"]),
        ("news", 8, ["push"]),
    ],
)
def test_channels_differ_by_tenant(type: str, club_id: int, channels: list[str]) -> None:
    assert resolve_channels(type, [], club_id, None) == channels
    send = SendRequested(type=type, club_id=club_id, timestamp=NOW, to_users=[1], send_id="s")
    chunk = chunk_of(send, KafkaRecord(topic="send.monolith", partition=0, offset=0, timestamp_ms=NOW))
    assert chunk.channels == channels
    assert resolve_channels(type, ["email"], club_id, None) == ["email"]
    assert categories.category("code", club_id).mandatory


@pytest.mark.usefixtures("_categories")
@pytest.mark.kills(guard="categories.spelling")
def test_category_is_found_in_any_spelling() -> None:
    assert categories.category(" Code").mandatory
    assert resolve_channels("OFFERS", [], 7, None) == ["email", "push"]
    assert _reason(None, "Offers", "email") is Reason.NOT_OPTED_IN
    assert _reason(_settings(categories={"offers": True}), "Offers", "email") is None
    assert _reason(None, "News", "push", club_id=7) is Reason.NOT_OPTED_IN
    assert resolve_channels("Default", [], 8, None) == ["push", "email"]
    assert categories.passes_opt_outs_of("CODE", "News")
    assert not categories.passes_opt_outs_of("code", "not listed")


def test_shipped_file_is_valid() -> None:
    import yaml

    assert read_categories(yaml.safe_load(read_text("categories.yaml"))).categories.keys() > {"default", "newsletter"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"default": None}, "default must be a mapping"),
        ({"categories": []}, ""),
        ({"categories": ["news"]}, "categories must be a mapping"),
        ({"categories": {"news": {}, "N ews": {}}}, "N ews and news are spellings of one category"),
        ({"categorys": {}}, "categories.yaml has categorys"),
        ({"categories": {"news": {"chanels": ["push"]}}}, "news has chanels"),
        ({"categories": {"news": {"channels": ["fax"]}}}, "news.channels: fax is none of push, email, sms"),
        ({"categories": {"news": {"channels": "push"}}}, "must be a list"),
        ({"categories": {"news": {"channels": []}}}, "must not be empty"),
        ({"categories": {"news": {"mandatory": "no"}}}, "news.mandatory"),
        ({"categories": {"news": {"shorten": "no"}}}, "news.shorten"),
        ({"categories": {"news": {"critical": "no"}}}, "news.critical"),
        ({"categories": {"news": {"critical": True, "caps": [CAP]}}}, "news is critical, so it cannot have caps"),
        (
            {"categories": {"news": {"critical": True, "digest": DIGEST}}},
            "news is critical, so it cannot have a digest",
        ),
        ({"categories": {"news": {"descriptions": "Neues"}}}, "news.descriptions"),
        ({"tenants": {7: {"urgent": {"caps": [CAP]}}}}, "tenants.7.urgent is critical"),
        ({"categories": {"news": {"mandatory": True, "opt_in": True}}}, "news is mandatory"),
        ({"tenants": {"7": {}}}, "tenants.7: a club's id is a whole number"),
        ({"tenants": {7: {"unknown": {"opt_in": True}}}}, "tenants.7 has unknown"),
        ({"tenants": {7: {"news": {"mandatory": True}}}}, "tenants.7.news has mandatory"),
        ({"tenants": {7: {"code": {"opt_in": True}}}}, "tenants.7.code is mandatory"),
        ({"tenants": {7: {"news": {"channels": []}}}}, "tenants.7.news.channels must not be empty"),
        ({"tenants": {7: {"news": {"channels": ["fax"]}}}}, "tenants.7.news.channels: fax"),
    ],
)
def test_invalid_entry_is_named(changes: dict[str, Any], message: str) -> None:
    if not message:
        assert read_categories(DOCUMENT | {"tenants": {}} | changes).categories.keys() == {"default"}
        return
    with pytest.raises(CategoriesError, match=message):
        read_categories(DOCUMENT | changes)


def test_file_without_a_default_is_refused() -> None:
    with pytest.raises(CategoriesError, match="default"):
        read_categories({"categories": {}})
