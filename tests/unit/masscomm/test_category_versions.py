"""A category changes by versions, of which each send has the one of its timestamp."""

from dataclasses import replace
from typing import Any

import pytest

from masscomm.clock import FixedClock
from masscomm.domain import category_versions
from masscomm.domain.categories import (
    CategoriesError,
    announced_channels,
    caps_of,
    categories,
    category,
    digest_of,
    is_critical,
    is_listed,
    is_retired,
    optional_categories,
    passes_opt_outs_of,
    resolve_channels,
)
from masscomm.domain.category_versions import TooManyVersions, VersionTooLarge, fields_of, next_versions, version_of
from masscomm.domain.lanes import Lane
from masscomm.domain.preferences import decide_by_user_settings
from masscomm.domain.setting_names import setting_names
from masscomm.domain.time_limits import CATEGORIES_CACHED_S, CATEGORY_BEGINS_AFTER_S
from masscomm.errors import Retry
from masscomm.stores.categories.in_memory import InMemoryCategories
from masscomm.stores.categories.known import KnownCategories, known_categories
from tests.support.categories import NOW_MS, put_version

BEGINS_MS = round(CATEGORY_BEGINS_AFTER_S * 1000)
DAY_MS = 86_400_000


def put(store: InMemoryCategories, name: str, now_ms: int = NOW_MS, **fields: Any) -> int:
    from_ms = put_version(store, name, {"channels": ["push"], **fields}, now_ms)
    known_categories().read()
    return from_ms


@pytest.mark.guarantee("categories.version_of_the_timestamp")
def test_send_has_the_version_of_its_timestamp(stored_categories: InMemoryCategories) -> None:
    first = put(stored_categories, "newsletter", channels=["push"], opt_in=["push"])
    assert first == NOW_MS + BEGINS_MS
    second = put(stored_categories, "newsletter", first, channels=["email", "push"], mandatory=True)
    found = [resolve_channels("newsletter", [], 1, at_ms) for at_ms in (0, first - 1, first, second - 1, second)]
    assert found == [["email"], ["email"], ["push"], ["push"], ["email", "push"]]
    assert [category("newsletter", at_ms=at_ms).mandatory for at_ms in (first, second)] == [False, True]
    decisions = [
        decide_by_user_settings(None, club_id=1, type="newsletter", channel="push", at_ms=at_ms).status
        for at_ms in (first - 1, first, second)
    ]
    assert [status is None for status in decisions] == [True, False, True]
    assert passes_opt_outs_of("newsletter", "news", second)
    assert not passes_opt_outs_of("newsletter", "news", first)


def test_new_category_begins_a_minute_later(stored_categories: InMemoryCategories) -> None:
    from_ms = put(stored_categories, "offers", channels=["email"], tenants={"7": {"channels": ["push", "email"]}})
    assert is_listed("offers")
    assert "offers" in categories()
    assert "offers" in optional_categories("email")
    assert "offers" in setting_names().categories
    assert resolve_channels("offers", [], 7, from_ms - 1) == ["push"], "those of an unlisted category"
    # A send over REST names them until then.
    assert announced_channels("offers", 7, from_ms - 1) == ["push", "email"]
    assert announced_channels("offers", 7, from_ms) == []
    assert resolve_channels("Offers", [], 7, from_ms) == ["push", "email"]
    assert resolve_channels("offers", [], 8, from_ms) == ["email"]
    assert announced_channels("news", 7, 0) == announced_channels("unknown", 7, 0) == []


def test_retired_category_keeps_its_rules(stored_categories: InMemoryCategories) -> None:
    from_ms = put(stored_categories, "security_alert", channels=["email"], mandatory=True, retired=True)
    assert is_retired("security_alert")
    assert not is_retired("news")
    assert not is_retired("unknown")
    assert category("security_alert", at_ms=from_ms).mandatory


def test_default_category_has_versions(stored_categories: InMemoryCategories) -> None:
    """Its caps apply to the other categories, its channels to unlisted ones."""
    cap, own = {"limit": 3, "window": "day"}, {"limit": 1, "window": "day"}
    put(stored_categories, "offers", NOW_MS - BEGINS_MS)
    put(stored_categories, "free", NOW_MS - BEGINS_MS, caps=[])
    from_ms = put(stored_categories, "default", channels=["email"], caps=[cap], tenants={"7": {"caps": [own]}})
    found = [
        [each.limit for each in caps_of(name, club_id, at_ms)]
        for name in ("offers", "news", "unheard", "free", "security_alert")
        for club_id, at_ms in ((7, from_ms), (8, from_ms), (7, from_ms - 1))
    ]
    assert found == [[1], [3], []] * 3 + [[], [], []] * 2
    assert [resolve_channels("unheard", [], 7, at_ms) for at_ms in (from_ms - 1, from_ms)] == [["push"], ["email"]]
    assert resolve_channels("news", [], 7, from_ms) == ["push"]
    assert not is_listed("default")
    assert "default" not in categories()


def test_digest_differs_by_tenant(stored_categories: InMemoryCategories) -> None:
    hourly, daily = {"template": "hourly", "window": "1h"}, {"template": "daily", "at": "08:00"}
    tenants = {"7": {"digest": None}, "8": {"digest": daily}, "9": {"channels": ["email"]}}
    from_ms = put(stored_categories, "offers", digest=hourly, tenants=tenants)
    found = [digest_of("offers", club_id, from_ms, Lane.SMALL, None) for club_id in (7, 8, 9, 10)]
    assert [each and each.template for each in found] == [None, "daily", "hourly", "hourly"]
    (version,) = stored_categories.every()["offers"]
    assert version_of(fields_of(version), "offers") == version
    # Version 0.1.0 knows these keys of a tenant.
    assert {key for own in fields_of(version)["tenants"].values() for key in own} <= {"channels", "opt_in", "caps"}


def test_change_without_effect_makes_no_version(stored_categories: InMemoryCategories) -> None:
    fields = {"channels": ["push"], "titles": {"de": "Angebote"}, "tenants": {"7": {"opt_in": ["push"]}}}
    put_version(stored_categories, "offers", fields)
    (version,) = stored_categories.every()["offers"]
    assert next_versions([version], fields, name="offers", now_ms=NOW_MS + DAY_MS) == [version]
    assert len(next_versions([version], {"channels": ["email"]}, name="offers", now_ms=NOW_MS)) == 2


def test_shortening_begins_with_its_version(stored_categories: InMemoryCategories) -> None:
    from_ms = put(stored_categories, "offers", channels=["push"], shorten=True)
    assert [category("offers", at_ms=at_ms).shorten for at_ms in (from_ms - 1, from_ms)] == [False, True]
    (version,) = stored_categories.every()["offers"]
    assert version_of(fields_of(version), "offers") == version
    assert "shorten" not in fields_of(replace(version, category=replace(version.category, shorten=False)))


def test_critical_category_begins_with_its_version(stored_categories: InMemoryCategories) -> None:
    fields: dict[str, Any] = {"critical": True, "descriptions": {"de": "Alarme", "en": "Alarms"}}
    from_ms = put(stored_categories, "newsletter", **fields)
    assert [is_critical("newsletter", at_ms) for at_ms in (from_ms - 1, from_ms)] == [False, True]
    # A send over REST names the lane until then.
    assert put(stored_categories, "alarms", **fields) == from_ms
    assert [is_critical("alarms", at_ms) for at_ms in (from_ms - 1, from_ms)] == [True, True]
    assert [category("alarms", at_ms=at_ms).critical for at_ms in (from_ms - 1, from_ms)] == [False, True]
    assert [category("alarms").description(language) for language in ("de", "fr")] == ["Alarme", "Alarms"]
    (version,) = stored_categories.every()["alarms"]
    assert version_of(fields_of(version), "alarms") == version


def test_version_after_a_step_of_the_clock_begins_last(stored_categories: InMemoryCategories) -> None:
    first = put_version(stored_categories, "offers", {"channels": ["push"]})
    assert put_version(stored_categories, "offers", {"channels": ["email"]}, NOW_MS - DAY_MS) == first + 1


@pytest.mark.kills(guard="categories.needed_versions")
def test_versions_of_waiting_sends_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A send may wait for a year, and its timestamp may be 40 days old."""
    monkeypatch.setattr(category_versions, "MAX_VERSIONS_BYTES", 1_000)
    versions: list[Any] = []
    changes = (({"channels": ["push"] if day % 2 else ["email"]}, NOW_MS + day * DAY_MS) for day in range(100))

    def make_all() -> None:
        for fields, now_ms in changes:
            versions[:] = next_versions(versions, fields, name="offers", now_ms=now_ms)

    with pytest.raises(TooManyVersions):
        make_all()
    later_ms = NOW_MS + 500 * DAY_MS
    kept = next_versions(versions, {"channels": ["push", "email"]}, name="offers", now_ms=later_ms)
    assert len(kept) == 2, "the last one of before is valid until the new one"
    with pytest.raises(VersionTooLarge):
        next_versions([], {"channels": ["push"], "titles": {"de": "x" * 6_000}}, name="offers", now_ms=NOW_MS)


def test_stored_form_is_read_as_it_was_written(stored_categories: InMemoryCategories) -> None:
    put_version(
        stored_categories,
        "offers",
        {
            "channels": ["email", "push"],
            "opt_in": True,
            "titles": {"de": "Für dich"},
            "tenants": {"-7": {"channels": ["push"]}, "9": {}},
        },
    )
    (version,) = stored_categories.every()["offers"]
    assert fields_of(version) == {
        "from_ms": NOW_MS + BEGINS_MS,
        "retired": False,
        "mandatory": False,
        "channels": ["email", "push"],
        "opt_in": ["email", "push", "sms"],
        "titles": {"de": "Für dich"},
        "tenants": {
            "-7": {"channels": ["push"], "opt_in": ["email", "push", "sms"]},
            "9": {"channels": ["email", "push"], "opt_in": ["email", "push", "sms"]},
        },
    }


@pytest.mark.parametrize(
    "fields",
    [
        {"channels": []},
        {"channels": ["letter"]},
        {"channels": ["push"], "mandatory": True, "opt_in": ["push"]},
        {"channels": ["push"], "mandatory": True, "tenants": {"7": {"opt_in": True}}},
        {"channels": ["push"], "tenants": {"7": {"mandatory": True}}},
        {"channels": ["push"], "tenants": {"07": {}}},
    ],
)
def test_impossible_version_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(CategoriesError):
        next_versions([], fields, name="offers", now_ms=NOW_MS)


def test_two_spellings_of_a_name_are_refused(stored_categories: InMemoryCategories) -> None:
    put_version(stored_categories, "News", {"channels": ["push"]})
    with pytest.raises(CategoriesError, match="spellings"):
        known_categories().read()


class TestKnownCategories:
    @pytest.fixture
    def clock(self) -> FixedClock:
        return FixedClock()

    @pytest.fixture
    def known(self, stored_categories: InMemoryCategories, clock: FixedClock) -> KnownCategories:
        found = KnownCategories(store=stored_categories, clock=clock)
        found.refresh()
        return found

    def test_versions_are_read_again_in_time(
        self, known: KnownCategories, clock: FixedClock, stored_categories: InMemoryCategories
    ) -> None:
        put_version(stored_categories, "news", {"channels": ["email"]})
        calls = stored_categories.calls
        assert not known.refresh()
        assert stored_categories.calls == calls
        clock.advance(CATEGORIES_CACHED_S)
        assert known.refresh()
        assert resolve_channels("news", [], 1, NOW_MS + BEGINS_MS) == ["email"]
        clock.advance(CATEGORIES_CACHED_S)
        assert not known.refresh(), "nothing has changed"

    @pytest.mark.kills(guard="categories.new_category")
    def test_unlisted_name_is_looked_up_at_once(
        self, known: KnownCategories, stored_categories: InMemoryCategories
    ) -> None:
        put_version(stored_categories, "offers", {"channels": ["email"]})
        assert not known.refresh("news", None, 7)
        assert known.refresh("news", "offers")
        assert is_listed("offers")

    def test_stale_versions_are_not_used(
        self, known: KnownCategories, clock: FixedClock, stored_categories: InMemoryCategories
    ) -> None:
        clock.advance(CATEGORIES_CACHED_S)
        stored_categories.failing = Retry("down")
        for _ in range(2):
            with pytest.raises(Retry):
                known.refresh()
