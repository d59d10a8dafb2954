"""Preferences: the narrower rule wins, and an unreadable value is an opt-out."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masscomm.domain import preferences
from masscomm.domain.preferences import decide
from masscomm.domain.setting_names import SettingNames, names_for
from masscomm.domain.source_tables import read_settings_names, source_tables
from masscomm.domain.statuses import Reason, Status
from masscomm.domain.users import User, UserSettings
from masscomm.errors import Stop

ADA = User(user_id=1, club_id=7)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["push", "news", "email"]), inner),
    max_leaves=6,
)


def _decide(categories: Any, channels: Any, type_: str = "news") -> tuple[Status | None, str | None]:
    user_settings = UserSettings(user_id=1, categories=categories, channels=channels, version=4)
    decision = decide(ADA, user_settings, club_id=7, type=type_, channel="push")
    return decision.status, decision.rule


@pytest.mark.parametrize(
    ("categories", "channels", "wanted", "rule"),
    [
        ({}, {}, True, None),
        ({}, {"push": True}, True, "channel:push"),
        ({}, {"push": False}, False, "channel:push"),
        ({}, {"email": False}, True, None),
        ({"news": True}, {"push": False}, True, "category:news"),
        ({"news": False}, {"push": True}, False, "category:news"),
        ({"news": {"push": True}}, {"push": False}, True, "category:news channel:push"),
        ({"news": {"push": False}}, {"push": True}, False, "category:news channel:push"),
        ({"news": {"email": False}}, {"push": False}, False, "channel:push"),
        ({"news": {"email": False}}, {}, True, None),
        ({"match_reminder": False}, {}, True, None),
        ({"news": None}, {"push": None}, True, None),
        ({"news": {"push": None}}, {}, True, None),
        ({"news": {"push": None}}, {"push": False}, False, "channel:push"),
        (None, None, True, None),
    ],
)
def test_the_narrower_rule_wins(categories: Any, channels: Any, wanted: bool, rule: str | None) -> None:
    assert _decide(categories, channels) == (None if wanted else Status.SUPPRESSED, rule)


@pytest.mark.parametrize("malformed", ["true", 1, 0, "", [], ["push"], {"nested": True}])
@pytest.mark.parametrize("where", ["category", "category and channel", "channel"])
def test_setting_other_than_true_is_an_opt_out(malformed: Any, where: str) -> None:
    categories: Mapping[str, Any] = {}
    channels: Mapping[str, Any] = {}
    match where:
        case "category":
            # A mapping sets its channels; any other value must be exactly true to allow.
            categories = {"news": malformed if not isinstance(malformed, dict) else [malformed]}
        case "category and channel":
            categories = {"news": {"push": malformed}}
        case _:
            channels = {"push": malformed}
    assert _decide(categories, channels)[0] is Status.SUPPRESSED


@pytest.mark.parametrize("malformed", ["{}", 1, True, [], ["news"]])
def test_settings_that_are_not_objects_opt_out_of_all(malformed: Any) -> None:
    assert _decide(malformed, {})[0] is Status.SUPPRESSED
    assert _decide({}, malformed)[0] is Status.SUPPRESSED
    assert _decide({"news": True}, malformed)[0] is Status.SUPPRESSED


@given(JSON, JSON)
def test_malformed_settings_raise_no_error(categories: Any, channels: Any) -> None:
    status, _ = _decide(categories, channels)
    assert status in (None, Status.SUPPRESSED)


@pytest.mark.parametrize(
    ("categories", "channels", "rule"),
    [
        ({}, {"Push": False}, "channel:push"),
        ({}, {" PUSH ": False}, "channel:push"),
        ({"News": False}, {}, "category:news"),
        ({"NE WS": {"Push": False}}, {}, "category:news channel:push"),
    ],
)
def test_names_are_compared_without_case_and_blanks(categories: Any, channels: Any, rule: str) -> None:
    assert _decide(categories, channels) == (Status.SUPPRESSED, rule)
    # The name may also differ in the send, which a producer of Kafka names.
    assert _decide(categories, channels, "News")[0] is Status.SUPPRESSED


@pytest.mark.guarantee("preferences.unknown_names_opt_out")
@pytest.mark.kills(guard="preferences.unknown_category")
@pytest.mark.kills(guard="preferences.unknown_channel")
@pytest.mark.parametrize(
    ("categories", "channels", "rule"),
    [
        ({"promotions": False}, {}, "categories malformed: promotions"),
        ({"promotions": True, "news": True}, {}, "categories malformed: promotions"),
        ({"news": True}, {"mobile": False}, "channels malformed: mobile"),
        ({}, {"enabled": False}, "channels malformed: enabled"),
        ({"push": False}, {}, "categories malformed: push"),
        ({}, {"news": False}, "channels malformed: news"),
        ({"default": False}, {}, "categories malformed: default"),
        ({}, {"": True}, "channels malformed: "),
        ({"x" * 90: 1}, {}, "categories malformed: " + "x" * 40),
    ],
)
def test_unknown_name_opts_out_of_all(categories: Any, channels: Any, rule: str) -> None:
    assert _decide(categories, channels) == (Status.SUPPRESSED, rule)
    assert _decide(categories, channels, "match_reminder")[0] is Status.SUPPRESSED
    assert _decide(categories, channels, "one_time_password") == (None, "mandatory")


@pytest.mark.guarantee("preferences.unknown_names_opt_out")
@pytest.mark.kills(guard="preferences.unknown_name_in_category")
@pytest.mark.parametrize(
    ("about", "unknown"),
    [
        ({"enabled": False}, "enabled"),
        ({"channels": {"push": False}}, "channels"),
        ({"push": True, "fax": True}, "fax"),
        ({"news": True}, "news"),
    ],
)
def test_unknown_name_in_a_category_opts_out_of_it(about: Any, unknown: str) -> None:
    assert _decide({"news": about}, {}) == (Status.SUPPRESSED, f"category:news malformed: {unknown}")
    assert _decide({"news": about}, {}, "match_reminder") == (None, None)


def test_known_opt_out_is_the_rule_despite_unknown_names() -> None:
    assert _decide({"promotions": True}, {"push": False}) == (Status.SUPPRESSED, "channel:push")
    assert _decide({"news": {"push": False, "fax": True}}, {}) == (Status.SUPPRESSED, "category:news channel:push")


def test_unknown_name_with_null_is_ignored() -> None:
    assert _decide({"promotions": None, "news": {"fax": None}}, {"mobile": None}) == (None, None)


@pytest.mark.kills(guard="preferences.two_spellings")
def test_two_spellings_allow_only_if_both_do() -> None:
    assert _decide({}, {"push": True, "Push": True}) == (None, "channel:push")
    for channels in ({"push": True, "Push": False}, {"Push": False, "push": True}, {"push": True, "PUSH": 1}):
        assert _decide({}, channels) == (Status.SUPPRESSED, "channel:push")
    assert _decide({"news": {"push": True}, "News": {"push": True}}, {})[0] is Status.SUPPRESSED


def _with_names(monkeypatch: pytest.MonkeyPatch, names: SettingNames) -> None:
    monkeypatch.setattr(preferences, "setting_names", lambda: names)


def test_listed_name_heals_settings_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """`settings_names` also lists categories that Kafka producers use without an entry in categories.yaml."""
    assert _decide({"Promotions": False}, {"fax": False})[0] is Status.SUPPRESSED
    _with_names(monkeypatch, names_for(source_tables(), ["promotions", "FAX"]))
    assert _decide({"Promotions": False}, {"fax": False}) == (None, None)
    assert _decide({"Promotions": False}, {}, "promotions") == (Status.SUPPRESSED, "category:promotions")
    assert _decide({"news": {"fax": False}}, {}) == (None, None)


def test_column_that_is_mapped_twice_has_both_kinds_of_names(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = source_tables()["user_settings"]
    both = dict.fromkeys(("channels", "categories"), settings.columns["channels"])
    _with_names(monkeypatch, names_for({"user_settings": replace(settings, columns=both)}, []))
    flat = {"push": True, "news": False}
    assert _decide(flat, flat) == (Status.SUPPRESSED, "category:news")
    assert _decide(flat, flat, "match_reminder") == (None, "channel:push")
    assert _decide({"news": {"news": False}}, {})[0] is Status.SUPPRESSED


@pytest.mark.parametrize("names", ["fax", {"fax": True}, [1]])
def test_settings_names_are_a_list_of_names(names: Any) -> None:
    with pytest.raises(Stop, match="settings_names"):
        read_settings_names({"settings_names": names})


def test_mandatory_category_overrides_an_opt_out() -> None:
    assert _decide({"one_time_password": False}, {"push": False}, "one_time_password") == (None, "mandatory")
    assert _decide([], [], "one_time_password") == (None, "mandatory")


def test_mandatory_category_suppresses_another_tenants_user() -> None:
    decision = decide(ADA, None, club_id=8, type="one_time_password", channel="push")
    assert (decision.status, decision.reason) == (Status.SUPPRESSED, Reason.UNKNOWN_USER)


def test_unknown_user_is_suppressed() -> None:
    decision = decide(None, UserSettings(user_id=1), club_id=7, type="one_time_password", channel="push")
    assert (decision.status, decision.reason) == (Status.SUPPRESSED, Reason.UNKNOWN_USER)


def test_user_without_settings_is_not_opted_out() -> None:
    decision = decide(ADA, None, club_id=7, type="news", channel="push")
    assert (decision.status, decision.layer, decision.settings_version) == (None, "default", None)


def test_unknown_channel_fails() -> None:
    decision = decide(ADA, None, club_id=7, type="news", channel="pigeon")
    assert (decision.status, decision.reason) == (Status.FAILED, Reason.UNKNOWN_CHANNEL)


def test_decision_has_the_version_of_its_settings() -> None:
    user_settings = UserSettings(user_id=1, channels={"push": False}, version=4)
    decision = decide(ADA, user_settings, club_id=7, type="news", channel="push")
    assert (decision.layer, decision.settings_version) == ("user", 4)
