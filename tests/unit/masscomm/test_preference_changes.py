"""A change through masscomm applies until the monolith's row has it; where their order is unknown, the opt-out wins."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masscomm.domain.preference_changes import PreferenceChanges, QuietHoursWish, Wish, after_wishes, with_changes
from masscomm.domain.preferences import decide_by_user_settings, needs_confirmation
from masscomm.domain.users import User, UserSettings

NOW = 1_700_000_000_000
OUT, IN = Wish("news", "email", False), Wish("news", "email", True)
NIGHT, NO_HOURS = QuietHoursWish("22:00", "07:00"), QuietHoursWish(None, None)
EVENING = {"start": "18:00", "end": "20:00"}
NONE = PreferenceChanges(user_id=1, club_id=7)


def _row(categories: Any = None, *, version: int = 30, applied: int = 0, channels: Any = None) -> UserSettings:
    return UserSettings(
        user_id=1, categories=categories or {}, channels=channels or {}, version=version, preference_version=applied
    )


def _wanted(
    changes: PreferenceChanges, row: UserSettings | None, *, type: str = "news", channel: str = "email"
) -> bool:
    settings = with_changes(row, changes.document, 1)
    return decide_by_user_settings(settings, type=type, channel=channel).status is None


def test_opt_out_applies_over_the_older_row() -> None:
    row = _row({"news": True})
    changes = NONE.after([OUT], row, NOW)
    assert not _wanted(changes, row)
    assert _wanted(changes, row, channel="push"), "the category's other channels keep their rule"


def test_settings_have_the_time_of_the_newest_change_in_them() -> None:
    row = _row({"news": True})._replace(changed_at=NOW - 60_000)
    changes = NONE.after([OUT], row, NOW)
    for settings, changed_at in ((row, NOW), (row._replace(preference_version=changes.version), NOW - 60_000)):
        found = with_changes(settings, changes.document, 1)
        assert found is not None
        assert found.changed_at == changed_at


def test_opt_out_applies_over_a_newer_row_without_it() -> None:
    """An update of the row for another reason may be committed before the monolith has consumed the change."""
    changes = NONE.after([OUT], _row({"news": True}), NOW)
    assert not _wanted(changes, _row({"news": True}, version=90))
    assert not _wanted(changes, _row({"news": True}, version=1)), "the row of a new snapshot"
    assert not _wanted(changes, None)


@pytest.mark.kills(guard="preferences.older_row")
def test_row_with_the_change_replaces_it() -> None:
    row = _row({"news": False})
    changes = NONE.after([IN], row, NOW).after([OUT], row, NOW)
    assert _wanted(changes, _row({"news": True}, version=90, applied=changes.version)), "the user chose again later"
    assert not _wanted(changes, _row({"news": True}, version=90, applied=changes.version - 1))


@pytest.mark.kills(guard="preferences.opt_in_to_another_row")
def test_opt_in_applies_to_its_row_only() -> None:
    row = _row({"news": False})
    changes = NONE.after([IN], row, NOW)
    assert _wanted(changes, row)
    of_another_database = row._replace(generation="g2")
    for other in (_row({"news": False}, version=90), _row({"news": False}, version=1), of_another_database):
        assert not _wanted(changes, other), "the row may have an opt-out that is newer than the change"


def _hours(changes: PreferenceChanges, row: UserSettings | None) -> Any:
    settings = with_changes(row, changes.document, 1)
    return settings.quiet_hours if settings is not None else None


def test_quiet_hours_apply_until_the_row_has_them() -> None:
    row = _row()._replace(quiet_hours=EVENING)
    changes = NONE.after([NIGHT], row, NOW)
    for older in (row, row._replace(version=90), None):
        assert _hours(changes, older) == {"start": "22:00", "end": "07:00"}
    assert _hours(changes, row._replace(preference_version=NOW)) == EVENING, "the user chose again in the monolith"


@pytest.mark.kills(guard="preferences.opt_in_to_another_row")
def test_removed_quiet_hours_apply_to_their_row_only() -> None:
    row = _row()._replace(quiet_hours=EVENING)
    changes = NONE.after([NO_HOURS], row, NOW)
    assert _hours(changes, row) is None
    assert _hours(changes, row._replace(version=90)) == EVENING, "the row may have quiet hours that are newer"


def test_newer_quiet_hours_replace_the_older_ones() -> None:
    row = _row()
    changes = NONE.after([NIGHT, OUT], row, NOW).after([NO_HOURS], row, NOW + 1)
    assert [change.wish for change in changes.changes] == [OUT, NO_HOURS]
    assert [change.wish for change in changes.after([IN], row, NOW + 2).changes] == [NO_HOURS, IN]
    assert _hours(changes, row) is None


def test_opt_in_of_a_user_without_a_row_applies() -> None:
    changes = NONE.after([IN], None, NOW)
    assert _wanted(changes, None)
    assert not _wanted(changes, _row({"news": False}))


@pytest.mark.kills(guard="preferences.unknown_version")
def test_version_that_no_change_had_is_ignored() -> None:
    changes = NONE.after([OUT], _row(), NOW)
    assert not _wanted(changes, _row(applied=changes.version + 1))


def test_versions_of_a_user_increase() -> None:
    first = NONE.after([OUT], _row(), NOW)
    assert first.version == NOW
    assert first.after([IN], _row(), NOW - 5_000).version == NOW + 1, "a clock that was put back"


def test_newer_change_replaces_the_older_one() -> None:
    row = _row()
    changes = NONE.after([OUT, Wish(None, "push", False)], row, NOW).after([IN], row, NOW + 1)
    assert [change.wish for change in changes.changes] == [Wish(None, "push", False), IN]
    whole = changes.after([Wish("news", None, False)], row, NOW + 2)
    assert [change.wish for change in whole.changes] == [Wish(None, "push", False), Wish("news", None, False)]


def test_applied_changes_are_dropped() -> None:
    first = NONE.after([OUT], _row(), NOW)
    other = Wish("newsletter", None, False)
    assert [each.wish for each in first.after([other], _row(applied=NOW), NOW + 1).changes] == [other]
    assert [each.wish for each in first.after([other], _row(), NOW + 1).changes] == [OUT, other]


@pytest.mark.kills(guard="preferences.malformed_change")
@pytest.mark.parametrize(
    "document",
    [
        {},
        {"user_id": 1, "club_id": 7, "version": "x", "produced_version": 0, "changes": []},
        NONE.after([IN], None, NOW).document | {"changes": [{"category": "news", "wanted": "yes"}]},
        NONE.after([IN], None, NOW).document | {"changes": 7},
        NONE.after([IN], None, NOW).document
        | {"changes": [{"quiet_hours": {"start": 22, "end": 7}, "version": 1, "settings_version": 0}]},
    ],
)
def test_unreadable_change_opts_out(document: dict[str, Any]) -> None:
    settings = with_changes(_row({"match_reminder": True}), document, 1)
    assert decide_by_user_settings(settings, type="news", channel="email").status is not None
    assert decide_by_user_settings(settings, type="security_alert", channel="email").status is None


@pytest.mark.kills(guard="preferences.changes_without_a_row")
def test_row_is_awaited_although_there_are_changes() -> None:
    settings = with_changes(None, NONE.after([IN], None, NOW).document, 1)
    ada = User(user_id=1, club_id=7)
    assert needs_confirmation(ada, settings, club_id=7, type="news", channels=["push"])
    assert not needs_confirmation(ada, _row(), club_id=7, type="news", channels=["push"])


def test_document_is_read_as_it_was_written() -> None:
    changes = NONE.after([OUT, IN, NIGHT], _row(), NOW, source="api", principal="key")
    assert PreferenceChanges.read(changes.document) == changes


@pytest.mark.parametrize("rules", [False, 0, "", [], True, "unreadable"])
def test_wish_does_not_replace_rules_that_are_not_objects(rules: Any) -> None:
    assert after_wishes(rules, {}, [Wish("news", "email", True)]) == (rules, {})
    assert after_wishes({}, rules, [Wish(None, "email", True)]) == ({}, rules)
    assert after_wishes(None, None, [Wish(None, "email", True)]) == ({"email": True}, {})


@pytest.mark.kills(guard="preferences.wish_replaces_other_spellings")
@pytest.mark.parametrize("rules", [{"News": False}, {"news": True, "NEWS": {"push": False}}, {"news": {"Push": False}}])
def test_wish_replaces_rules_under_other_spellings(rules: dict[str, Any]) -> None:
    row = _row(rules, channels={"Push": False, "email": True})
    for wish in (Wish("news", None, True), Wish("news", "push", True)):
        assert _wanted(NONE.after([wish], row, NOW), row, channel="push")
    assert _wanted(NONE.after([Wish(None, "push", True)], row, NOW), row, type="match_reminder", channel="push")
    assert not _wanted(NONE.after([Wish("news", "email", False)], row, NOW), row, channel="push"), "the rule for push"


def test_wish_does_not_replace_an_unknown_name() -> None:
    row = _row({"promotions": False})
    changes = NONE.after([IN], row, NOW)
    assert not _wanted(changes, row)


RULES = st.dictionaries(
    st.sampled_from(["news", "newsletter"]),
    st.booleans() | st.dictionaries(st.sampled_from(["push", "email"]), st.booleans()) | st.none() | st.just("no"),
)
WISHES = st.builds(
    Wish, st.sampled_from(["news", "newsletter"]), st.sampled_from([None, "push", "email"]), st.booleans()
)


@given(rules=RULES, several=st.lists(st.lists(WISHES, min_size=1, max_size=2), min_size=1, max_size=4))
def test_last_wish_about_a_category_decides(rules: dict[str, Any], several: list[list[Wish]]) -> None:
    row, changes = _row(rules), NONE
    for wishes in several:
        changes = changes.after(wishes[:1], row, NOW)
    last = several[-1][0]
    for channel in (last.channel,) if last.channel else ("push", "email"):
        assert _wanted(changes, row, type=str(last.category), channel=channel) is last.wanted


@given(rules=RULES, other=RULES, wishes=st.lists(WISHES, min_size=1, max_size=4), version=st.integers(1, 99))
def test_opt_out_survives_any_row_without_it(
    rules: dict[str, Any], other: dict[str, Any], wishes: list[Wish], version: int
) -> None:
    changes = NONE
    for wish in wishes:
        changes = changes.after([wish], _row(rules), NOW)
    kept = [(change.version, change.wish) for change in changes.changes if isinstance(change.wish, Wish)]
    for own_version, (category, channel, wanted) in kept:
        newer = [each for each_version, each in kept if each_version > own_version]
        if not wanted and not any(each.category == category for each in newer):
            assert not _wanted(changes, _row(other, version=version), type=str(category), channel=channel or "push")


WISHES = st.one_of(
    st.builds(Wish, st.sampled_from([None, "news", "offers"]), st.sampled_from([None, "email", "push"]), st.booleans()),
    st.sampled_from([NIGHT, NO_HOURS]),
)


@given(before=st.lists(WISHES, min_size=1, max_size=4), since=st.lists(WISHES, max_size=4))
def test_lost_changes_come_back_as_if_never_lost(
    before: list[Wish | QuietHoursWish], since: list[Wish | QuietHoursWish]
) -> None:
    lost, present, never_lost = NONE, NONE, NONE
    for number, wish in enumerate(before):
        lost, never_lost = (each.after([wish], None, NOW + number) for each in (lost, never_lost))
    for number, wish in enumerate(since, start=len(before)):
        present, never_lost = (each.after([wish], None, NOW + number) for each in (present, never_lost))
    merged = present.over(lost)
    assert merged == never_lost
    assert merged.over(lost) == merged


def test_lost_changes_are_produced_if_they_never_were() -> None:
    lost, present = (NONE.after([wish], None, NOW) for wish in (OUT, NIGHT))
    unproduced, produced = replace(present, produced_version=NOW), replace(lost, produced_version=NOW)
    assert not unproduced.over(lost).is_produced
    assert unproduced.over(produced).is_produced
