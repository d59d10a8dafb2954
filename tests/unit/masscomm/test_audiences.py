"""Conditions about users: which users match, and which conditions are refused, with the path of each error."""

import re
from datetime import UTC, timedelta, timezone
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from masscomm.domain.audiences import MAX_CONDITIONS, MAX_DEPTH, MAX_EXCEPTIONS, MAX_VALUES, Audience, read_audience
from masscomm.domain.setting_names import names_for
from masscomm.domain.users import User, UserSettings

ATTRIBUTES = {"plan", "points", "joined", "beta", "tags"}
NAMES = names_for({}, ["a.b", "In App"])
USER = User(
    user_id=1,
    club_id=7,
    locale="de-AT",
    time_zone="Europe/Vienna",
    email="ada@club.example",
    attributes={"plan": "pro", "points": 7, "joined": "2026-03-01T12:00:00+01:00", "beta": True, "tags": ["a"]},
)
SETTINGS = UserSettings(
    user_id=1, channels={"push": False}, categories={"news": True, "a.b": False}, quiet_hours={"start": "22:00"}
)


def read(where: Any, **more: Any) -> Audience:
    audience, errors = read_audience({"where": where, **more}, attributes=ATTRIBUTES, settings=NAMES)
    assert errors == []
    return audience


def refused(value: Any) -> dict[str, str]:
    return dict(read_audience(value, attributes=ATTRIBUTES)[1])


@pytest.mark.parametrize(
    ("condition", "matches"),
    [
        ({"field": "locale", "is": "de-AT"}, True),
        ({"field": "locale", "is": "de"}, False),
        ({"field": "time_zone", "in": ["UTC", "Europe/Vienna"]}, True),
        ({"field": "attributes.plan", "in": ["team", "pro"]}, True),
        ({"field": "attributes.plan", "in": ["team"]}, False),
        ({"field": "attributes.points", "is": 7.0}, True),
        ({"field": "attributes.points", "is": "7"}, False),
        ({"field": "attributes.beta", "is": True}, True),
        ({"field": "attributes.beta", "is": 1}, False),
        ({"field": "attributes.tags", "is": "a"}, False),
        ({"field": "attributes.points", "before": 8}, True),
        ({"field": "attributes.points", "before": 10**400}, True),
        ({"field": "attributes.points", "before": 7}, False),
        ({"field": "attributes.points", "after": 6.5}, True),
        ({"field": "attributes.points", "after": "2026-01-01"}, False),
        ({"field": "attributes.joined", "after": "2026-03-01"}, True),
        ({"field": "attributes.joined", "before": "2026-03-01T11:00:00Z"}, False),
        ({"field": "attributes.joined", "before": "2026-03-01T11:00:01Z"}, True),
        ({"field": "attributes.plan", "before": "2026-03-01"}, False),
        ({"field": "attributes.beta", "after": 0}, False),
        ({"field": "email", "exists": True}, True),
        ({"field": "phone", "exists": True}, False),
        ({"field": "phone", "exists": False}, True),
        ({"field": "settings.channels.push", "is": False}, True),
        ({"field": "settings.channels.email", "exists": False}, True),
        ({"field": "settings.categories.a.b", "is": False}, True),
        ({"field": "settings.channels.Push", "is": False}, True),
        ({"field": "settings.quiet_hours", "exists": True}, True),
        ({"all": [{"field": "locale", "is": "de-AT"}, {"field": "attributes.plan", "is": "free"}]}, False),
        ({"any": [{"field": "locale", "is": "en"}, {"field": "attributes.plan", "is": "pro"}]}, True),
        ({"not": {"field": "attributes.plan", "is": "pro"}}, False),
        ({"not": {"field": "phone", "exists": True}}, True),
    ],
)
def test_condition_matches(condition: Any, *, matches: bool) -> None:
    assert read(condition).has(USER, SETTINGS) is matches


@pytest.mark.kills(guard="audiences.spelling_of_a_setting")
def test_setting_is_found_in_any_spelling() -> None:
    settings = UserSettings(user_id=1, channels={" PUSH": False}, categories={"News": True, "news": False})
    for name in ("settings.channels.push", "settings.categories.news"):
        assert read({"field": name, "is": False}).has(USER, settings)


@pytest.mark.parametrize("operator", [{"is": "x"}, {"in": ["x"]}, {"before": 1}, {"after": 1}, {"exists": True}])
@pytest.mark.parametrize("field", ["attributes.plan", "settings.channels.push", "settings.categories.news"])
def test_absent_value_matches_no_operator(field: str, operator: dict[str, Any]) -> None:
    nothing = User(user_id=2, club_id=7)
    assert not read({"field": field, **operator}).has(nothing, None)
    assert read({"not": {"field": field, **operator}}).has(nothing, None)


@pytest.mark.kills(guard="audiences.number_in_a_text")
def test_numbers_of_a_numeric_column_are_compared() -> None:
    """Change data capture has them as texts. A condition that never matched one would match every user under `not`."""
    for text, after in (("12.50", True), ("9.99", False), ("-40", False), ("1e3", False), ("gold", False)):
        user = USER._replace(attributes={"points": text})
        assert read({"field": "attributes.points", "after": 10}).has(user, None) is after
        assert read({"field": "attributes.points", "is": 12.5}).has(user, None) is after
        assert not read({"field": "attributes.points", "after": "2026-01-01"}).has(user, None)
    assert read({"field": "attributes.points", "before": 10}).has(USER._replace(attributes={"points": "9.99"}), None)


_NUMBERS = st.one_of(
    st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False), st.sampled_from([7, 12.5, 0.1])
)
_SPELLED = st.decimals(allow_nan=False, allow_infinity=False, places=3).map("{:f}".format)
_MOMENTS = st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=1)), None])) | st.dates()
_VALUES = (
    st.tuples(_NUMBERS, _NUMBERS | _NUMBERS.map(str) | _SPELLED | st.sampled_from(["12.50", "007", "0.10"])),
    st.tuples(_MOMENTS.map(str), _MOMENTS.map(str)),
    st.sampled_from(["2026-03-01", "2026-03-01T00:00Z", "2026-03-01 01:00:00+01:00"]).flatmap(
        lambda text: st.tuples(st.just("2026-03-01"), st.just(text))
    ),
)


@pytest.mark.guarantee("audiences.one_equality")
@given(st.one_of(*_VALUES))
@example((9007199254740993, "9007199254740992"))
@example((0.1, "0.10"))
def test_value_neither_before_nor_after_is_equal(values: tuple[Any, Any]) -> None:
    wanted, found = values
    user = USER._replace(attributes={"points": found})
    operators = [{"exists": True}, {"is": wanted}, {"in": [wanted]}, {"before": wanted}, {"after": wanted}]
    present, equal, listed, before, after = (
        read({"field": "attributes.points", **operator}).has(user, None) for operator in operators
    )
    comparable = not isinstance(found, str) or isinstance(wanted, str) or re.fullmatch(r"-?\d+(\.\d{1,40})?", found)
    assert present
    assert equal == listed
    assert (before, equal, after).count(True) == bool(comparable)


@pytest.mark.kills(guard="audiences.names_of_a_locale")
@pytest.mark.kills(guard="audiences.names_of_a_zone")
@pytest.mark.parametrize(
    ("field", "value", "wanted", "matches"),
    [
        ("locale", "de_AT", "de-AT", True),
        ("locale", "iw", "he", True),
        ("locale", "zh-TW", "zh-Hant-TW", True),
        ("locale", "de-AT", "de", False),
        ("locale", "zh-TW", "zh", False),
        ("time_zone", "europe/vienna ", "Europe/Vienna", True),
        ("time_zone", "Europe/Berlin", "Europe/Vienna", False),
        ("time_zone", "W. Europe Standard Time", "Europe/Berlin", True),
        ("time_zone", "India Standard Time", "Asia/Kolkata", True),
        ("time_zone", "+11:00", "GMT+11", True),
        ("time_zone", "+11:00", "Etc/GMT-11", True),
        ("time_zone", "+11:00", "Etc/GMT+11", False),
        ("time_zone", "UTC", "Etc/Zulu", True),
        ("time_zone", "Mars/Base", "mars / base", True),
        ("time_zone", "Mars/Base", "UTC", False),
        # Only the columns of the user have names of one meaning.
        ("attributes.plan", "iw", "he", False),
    ],
)
def test_names_of_one_locale_or_zone_are_equal(field: str, value: str, wanted: str, *, matches: bool) -> None:
    values: dict[str, Any] = {"attributes": {"plan": value}} if field == "attributes.plan" else {field: value}
    user = USER._replace(**values)
    for operator in ({"is": wanted}, {"in": ["xx", wanted]}):
        assert read({"field": field, **operator}).has(user, None) is matches


@pytest.mark.kills(guard="audiences.unknown_setting")
def test_unknown_setting_is_refused_with_the_known_names() -> None:
    for name in ("settings.categories.In app", "settings.channels.INAPP", "settings.categories.News"):
        assert read({"field": name, "is": False})
    assert refused({"where": {"not": {"field": "settings.channels.mobile", "is": False}}}) == {
        "where.not.field": "is no name in the channels of user settings, which are email, push, sms"
    }


def test_malformed_settings_match_no_operator() -> None:
    """Settings are a customer's JSON."""
    malformed: Any = UserSettings(user_id=1, channels="none", categories=[1])  # type: ignore[arg-type]
    for field in ("settings.channels.push", "settings.categories.news"):
        assert read({"field": field, "exists": False}).has(USER, malformed)


@pytest.mark.kills(guard="audiences.exceptions")
def test_exceptions_are_left_out() -> None:
    audience = read({"field": "locale", "is": "de-AT"}, except_users=[1, 5])
    assert not audience.has(USER, SETTINGS)
    assert audience.has(USER._replace(user_id=2), SETTINGS)


def test_all_users_match_but_the_excepted_ones() -> None:
    audience, errors = read_audience({"all_users": True, "except_users": [2]})
    assert errors == []
    assert [audience.has(USER._replace(user_id=n), None) for n in (1, 2)] == [True, False]
    assert not audience.reads_settings


def test_settings_are_looked_up_only_for_their_conditions() -> None:
    assert not read({"field": "locale", "is": "de"}).reads_settings
    assert read(
        {"any": [{"field": "locale", "is": "de"}, {"field": "settings.quiet_hours", "exists": True}]}
    ).reads_settings


@pytest.mark.parametrize(
    "value", [{}, {"except_users": [1]}, {"where": {"field": "locale", "is": "de"}, "all_users": True}]
)
def test_audience_needs_a_condition_or_all_users(value: Any) -> None:
    """An empty audience is not a request for every user."""
    assert refused(value) == {
        "where": "an audience needs one of where, follows, all_users or saved, or both where and follows"
    }


@pytest.mark.parametrize(
    ("where", "path"),
    [
        (7, "where"),
        ([], "where"),
        ({}, "where"),
        ({"field": "locale"}, "where"),
        ({"field": "locale", "is": "de", "in": ["de"]}, "where"),
        ({"is": "de"}, "where.field"),
        ({"field": "club_id", "is": 8}, "where.field"),
        ({"field": "deleted", "is": True}, "where.field"),
        ({"field": "attributes.unknown", "is": 1}, "where.field"),
        ({"field": "settings.club_id", "is": 1}, "where.field"),
        ({"field": "settings.channels.", "exists": True}, "where.field"),
        ({"field": "settings.channels.mobile", "is": False}, "where.field"),
        ({"field": "settings.categories.news.push", "is": False}, "where.field"),
        ({"field": "settings.categories.default", "is": False}, "where.field"),
        ({"field": "email", "is": "ada@club.example"}, "where.field"),
        ({"field": "phone", "in": ["+41"]}, "where.field"),
        ({"field": {"a": 1}, "is": 1}, "where.field"),
        ({"field": "locale", "like": "d*"}, "where.like"),
        ({"field": "locale", "is": None}, "where.is"),
        ({"field": "locale", "is": ["de"]}, "where.is"),
        ({"field": "locale", "is": "x" * 256}, "where.is"),
        ({"field": "locale", "in": []}, "where.in"),
        ({"field": "locale", "in": "de"}, "where.in"),
        ({"field": "locale", "in": ["de", {}]}, "where.in[1]"),
        ({"field": "locale", "in": ["de"] * (MAX_VALUES + 1)}, "where.in"),
        ({"field": "attributes.joined", "before": "yesterday"}, "where.before"),
        ({"field": "attributes.joined", "before": "2026-02-30"}, "where.before"),
        ({"field": "attributes.joined", "after": True}, "where.after"),
        ({"field": "attributes.points", "is": 1e400}, "where.is"),
        ({"field": "attributes.points", "in": [1, -1e400]}, "where.in[1]"),
        ({"field": "attributes.points", "before": 1e400}, "where.before"),
        ({"field": "email", "exists": "yes"}, "where.exists"),
        ({"all": []}, "where.all"),
        ({"any": {"field": "locale", "is": "de"}}, "where.any"),
        ({"all": [{"field": "locale", "is": "de"}], "field": "locale"}, "where"),
        ({"not": [{"field": "locale", "is": "de"}]}, "where.not"),
        ({"all": [{"field": "locale", "is": "de"}, {"any": [{"field": "x", "is": 1}]}]}, "where.all[1].any[0].field"),
    ],
)
def test_invalid_condition_is_refused_with_its_path(where: Any, path: str) -> None:
    assert path in refused({"where": where})


@pytest.mark.parametrize("value", [None, [], "all", 1])
def test_audience_that_is_not_an_object_is_refused(value: Any) -> None:
    assert refused(value) == {"": "must be an object"}


@pytest.mark.parametrize("exceptions", ["1", [0], [True], [1, "2"], [2**63], list(range(1, MAX_EXCEPTIONS + 2))])
def test_invalid_exceptions_are_refused(exceptions: Any) -> None:
    (path,) = refused({"all_users": True, "except_users": exceptions})
    assert path.startswith("except_users")


def test_unknown_member_is_refused() -> None:
    assert refused({"all_users": True, "tenant": 8}).keys() == {"tenant"}


def test_depth_and_number_of_conditions_are_bounded() -> None:
    leaf = {"field": "locale", "is": "de"}
    nested: dict[str, Any] = leaf
    for _ in range(MAX_DEPTH - 1):
        nested = {"not": nested}
    assert refused({"where": nested}) == {}
    assert "deeper" in next(iter(refused({"where": {"not": nested}}).values()))
    assert refused({"where": {"all": [leaf] * (MAX_CONDITIONS - 1)}}) == {}
    assert refused({"where": {"all": [leaf] * MAX_CONDITIONS}}) == {
        "where": f"has more than {MAX_CONDITIONS} conditions"
    }


def test_errors_are_bounded() -> None:
    assert len(read_audience({"where": {"all": [{"field": "x"}] * 40}})[1]) == 20
