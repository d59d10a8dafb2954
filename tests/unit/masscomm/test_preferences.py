"""Preferences: the narrower rule wins, and an unreadable value is an opt-out."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masscomm.domain.preferences import decide
from masscomm.domain.statuses import Reason, Status
from masscomm.domain.users import User, UserSettings

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
def test_settings_that_are_no_object_opt_out_of_all(malformed: Any) -> None:
    assert _decide(malformed, {})[0] is Status.SUPPRESSED
    assert _decide({}, malformed)[0] is Status.SUPPRESSED
    assert _decide({"news": True}, malformed)[0] is Status.SUPPRESSED


@given(JSON, JSON)
def test_malformed_settings_raise_no_error(categories: Any, channels: Any) -> None:
    status, _ = _decide(categories, channels)
    assert status in (None, Status.SUPPRESSED)


def test_mandatory_category_overrides_an_opt_out() -> None:
    assert _decide({"one_time_password": False}, {"push": False}, "one_time_password") == (None, "mandatory")
    assert _decide([], [], "one_time_password") == (None, "mandatory")


def test_mandatory_category_suppresses_another_tenants_user() -> None:
    decision = decide(ADA, None, club_id=8, type="one_time_password", channel="push")
    assert (decision.status, decision.reason) == (Status.SUPPRESSED, Reason.UNKNOWN_USER)


def test_unknown_user_is_suppressed() -> None:
    decision = decide(None, UserSettings(user_id=1), club_id=7, type="one_time_password", channel="push")
    assert (decision.status, decision.reason) == (Status.SUPPRESSED, Reason.UNKNOWN_USER)


def test_no_settings_are_no_opt_out() -> None:
    decision = decide(ADA, None, club_id=7, type="news", channel="push")
    assert (decision.status, decision.layer, decision.settings_version) == (None, "default", None)


def test_unknown_channel_fails() -> None:
    decision = decide(ADA, None, club_id=7, type="news", channel="pigeon")
    assert (decision.status, decision.reason) == (Status.FAILED, Reason.UNKNOWN_CHANNEL)


def test_decision_has_the_version_of_its_settings() -> None:
    user_settings = UserSettings(user_id=1, channels={"push": False}, version=4)
    decision = decide(ADA, user_settings, club_id=7, type="news", channel="push")
    assert (decision.layer, decision.settings_version) == ("user", 4)
