"""The routes of categories: how a category differs for the caller's clubs, and a change of one."""

import json
from typing import Any

import pytest

from functions.operations_handler.routes import categories as module
from functions.operations_handler.routes.categories import CategoriesRoute
from masscomm.clock import FixedClock
from masscomm.domain.audit import Action
from masscomm.domain.categories import read_categories
from masscomm.domain.time_limits import CATEGORY_BEGINS_AFTER_S
from masscomm.errors import Retry
from masscomm.http.conditions import Conditions
from masscomm.http.problem import Problem
from masscomm.http.tenant import ALL_CLUBS, Clubs
from masscomm.stores.categories.in_memory import InMemoryCategories
from masscomm.stores.categories.port import ChangedMeanwhile

FILE = read_categories(
    {
        "default": {"channels": ["push"], "mandatory": False},
        "categories": {"offers": {"opt_in": ["email"]}},
        "tenants": {
            7: {"offers": {"channels": ["push", "email"]}},
            8: {"offers": {"opt_in": False, "caps": [{"limit": 2, "window": "24h"}]}},
        },
    }
)
SEVEN = {"club_id": 7, "channels": ["push", "email"], "opt_in": ["email"], "caps": None, "digest": None}
CAP = {"limit": 2, "window": "24h", "by_channel": False, "group": None}
EIGHT = {"club_id": 8, "channels": ["push"], "opt_in": [], "caps": [CAP], "digest": None}
OFFERS = {
    "channels": ["push"],
    "mandatory": False,
    "critical": False,
    "opt_in": ["email"],
    "caps": None,
    "digest": None,
    "shorten": False,
    "titles": {},
    "descriptions": {},
    "retired": False,
}
NEWS: dict[str, Any] = {
    "channels": ["push", "email"],
    "mandatory": False,
    "critical": False,
    "opt_in": ["email"],
    "caps": None,
    "digest": {"template": "news_digest", "window": "1h", "list": 10},
    "shorten": True,
    "titles": {"de": "Neues"},
    "descriptions": {"de": "Was im Verein geschieht"},
    "retired": False,
    "clubs": [SEVEN, EIGHT],
}
MANDATORY: dict[str, Any] = {"mandatory": True, "opt_in": [], "digest": None}
NONE = Conditions()
AT = "2023-11-14T22:14:20Z"


class _Audit:
    def __init__(self) -> None:
        self.entries: list[tuple[Action, str, str]] = []

    def __call__(self, action: Action, *, subject: str, clubs: list[int], detail: str, **_: Any) -> None:
        assert clubs == []
        self.entries.append((action, subject, detail))


@pytest.fixture
def audit() -> _Audit:
    return _Audit()


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


@pytest.fixture
def route(monkeypatch: pytest.MonkeyPatch, stored_categories: InMemoryCategories, clock: FixedClock) -> CategoriesRoute:
    monkeypatch.setattr(module, "seed", lambda: FILE)
    return CategoriesRoute(store=stored_categories, clock=clock)


def put(route: CategoriesRoute, audit: Any, name: str = "news", *, conditions: Conditions = NONE, **fields: Any) -> Any:
    return route.put(name, json.dumps(fields), ALL_CLUBS, audit, conditions)


def test_club_may_have_another_digest(route: CategoriesRoute, audit: _Audit) -> None:
    digest, daily = NEWS["digest"], {"template": "daily", "at": "08:00", "list": 10}
    clubs = [{"club_id": 7, "digest": None}, {"club_id": 8, "digest": daily}, {"club_id": 9}]
    [version] = put(route, audit, channels=["push"], digest=digest, clubs=clubs)["versions"]
    assert [each["digest"] for each in version["clubs"]] == [None, daily, digest]


@pytest.mark.kills(guard="tenancy.categories")
def test_club_may_have_other_caps(route: CategoriesRoute, audit: _Audit) -> None:
    clubs = [{"club_id": 7, "caps": []}, {"club_id": 8}]
    body = put(route, audit, channels=["push"], caps=[CAP], clubs=clubs)
    [version] = body["versions"]
    assert (version["caps"], [each["caps"] for each in version["clubs"]]) == ([CAP], [[], [CAP]])


def test_other_clubs_are_not_shown(route: CategoriesRoute, audit: _Audit) -> None:
    offers = {"type": "offers", "valid_from": None, **OFFERS}
    assert route.every({}, Clubs(frozenset({7})))["rows"][1] == offers | {"clubs": [SEVEN]}
    assert route.every({}, Clubs(frozenset({9})))["rows"][1] == offers | {"clubs": []}
    default, found = route.every({}, ALL_CLUBS)["rows"]
    assert (default["type"], default["clubs"], found["clubs"]) == ("default", [], [SEVEN, EIGHT])
    put(route, audit, **NEWS)
    (version,) = route.show("news", {}, Clubs(frozenset({8})))["versions"]
    assert version["clubs"] == [EIGHT]


def test_changed_category_has_all_its_versions(route: CategoriesRoute, audit: _Audit, clock: FixedClock) -> None:
    body = put(route, audit, **NEWS)
    assert body == {"type": "news", "versions": [NEWS | {"valid_from": AT}], "etag": body["etag"]}
    assert audit.entries == [(Action.CATEGORY_STORED, "news", f"valid from {AT}")]
    assert put(route, audit, **NEWS) == body, "the same again makes no version"
    assert len(audit.entries) == 1
    clock.advance(CATEGORY_BEGINS_AFTER_S)
    changed = put(route, audit, "offers", channels=["email"])
    assert [each["valid_from"] for each in changed["versions"]] == ["2023-11-14T22:15:20Z", None]
    assert route.show("offers", {}, ALL_CLUBS) == changed
    rows = {row["type"]: row for row in route.every({}, ALL_CLUBS)["rows"]}
    assert (rows["offers"]["channels"], rows["offers"]["opt_in"], rows["news"]["valid_from"]) == (["email"], [], AT)


def test_default_category_changes_by_versions(route: CategoriesRoute, audit: _Audit) -> None:
    before = route.show("default", {}, ALL_CLUBS)
    assert [each["valid_from"] for each in before["versions"]] == [None]
    clubs = [{"club_id": 7, "caps": [CAP]}]
    conditions = Conditions(if_match=before["etag"])
    body = put(route, audit, "default", channels=["push"], clubs=clubs, conditions=conditions)
    assert [each["valid_from"] for each in body["versions"]] == [AT, None]
    assert route.every({}, ALL_CLUBS)["rows"][0] == {"type": "default", **body["versions"][0]}
    with pytest.raises(Problem) as refused:
        put(route, audit, "default", channels=["email"], conditions=conditions)
    assert refused.value.status == 412


@pytest.mark.kills(guard="tenancy.changed_categories")
def test_tenant_changes_no_category(route: CategoriesRoute, audit: Any) -> None:
    with pytest.raises(Problem) as refused:
        route.put("news", json.dumps(NEWS), Clubs(frozenset({7})), audit, NONE)
    assert refused.value.status == 403
    assert route.every({}, ALL_CLUBS)["rows"][0]["type"] == "default"


@pytest.mark.parametrize(
    ("name", "changes", "field"),
    [
        ("news", {"channels": []}, "channels"),
        ("news", {"channels": ["letter"]}, "channels"),
        ("news", {"channels": [["push"]]}, "channels"),
        ("news", {"channels": None}, "channels"),
        ("news", {"mandatory": 1}, "mandatory"),
        ("news", {"mandatory": True}, "opt_in"),
        ("news", {"mandatory": True, "opt_in": []}, "opt_in"),
        ("news", {"opt_in": True}, "opt_in"),
        ("news", {"retired": "no"}, "retired"),
        ("news", {"titles": {"german": "Neues"}}, "titles"),
        ("news", {"titles": {"de": ""}}, "titles"),
        ("news", {"titles": ["de"]}, "titles"),
        ("news", {"descriptions": {"de": "x" * 301}}, "descriptions"),
        ("news", {"descriptions": "Neues"}, "descriptions"),
        ("news", {"titles": {f"{a}{b}": "x" * 100 for a in "abcdefgh" for b in "abcdefgh"}}, "titles"),
        ("news", {"clubs": {"7": {}}}, "clubs"),
        ("news", {"clubs": [SEVEN, SEVEN]}, "clubs[1].club_id"),
        ("news", {"clubs": [{"club_id": True}]}, "clubs[0].club_id"),
        ("news", {"clubs": [{"club_id": 2**63}]}, "clubs[0].club_id"),
        ("news", {"clubs": [{"club_id": 7, "mandatory": True}]}, "clubs[0].mandatory"),
        ("news", {"clubs": [{"club_id": 7, "channels": []}]}, "clubs[0].channels"),
        ("news", {"critical": 1}, "critical"),
        ("news", {"critical": True, "clubs": []}, "digest"),
        ("news", {"critical": True, "clubs": [], "digest": None, "caps": [CAP]}, "caps"),
        ("news", {"critical": True, "digest": None}, "caps"),
        ("news", {"caps": [CAP | {"limit": 0}]}, "caps"),
        ("news", {"caps": CAP}, "caps"),
        ("news", {"caps": [CAP, CAP | {"window": "1d"}]}, "caps"),
        ("news", {"clubs": [{"club_id": 7, "caps": [CAP | {"window": "31d"}]}]}, "clubs[0].caps"),
        ("news", {"mandatory": True, "opt_in": [], "clubs": [], "caps": [CAP], "digest": None}, "caps"),
        ("news", MANDATORY | {"clubs": [{"club_id": 7, "caps": [CAP]}]}, "caps"),
        ("news", {"digest": {"window": "1h"}}, "digest"),
        ("news", {"digest": {"template": "t"}}, "digest"),
        ("news", {"digest": {"template": "t", "window": "8d"}}, "digest"),
        ("news", {"digest": {"template": "t", "window": "1h", "at": "08:00"}}, "digest"),
        ("news", {"digest": []}, "digest"),
        ("news", {"mandatory": True, "opt_in": [], "clubs": []}, "digest"),
        ("news", {"clubs": [{"club_id": 7, "digest": {"template": "t"}}]}, "clubs[0].digest"),
        ("news", MANDATORY | {"clubs": [{"club_id": 7, "digest": NEWS["digest"]}]}, "digest"),
        ("OFFERS", {}, "category"),
        ("default", {"retired": True}, "retired"),
        ("Default", {}, "category"),
        ("a b", {}, "category"),
        ("", {}, "category"),
        ("x" * 129, {}, "category"),
    ],
)
def test_unusable_category_is_refused(
    route: CategoriesRoute, audit: _Audit, name: str, changes: dict[str, Any], field: str
) -> None:
    with pytest.raises(Problem) as refused:
        put(route, audit, name, **{**NEWS, **changes})
    assert refused.value.status == 400
    assert [each.field for each in refused.value.errors or ()] == [field]
    assert route.store.every() == {}


def test_unknown_category_is_not_found(route: CategoriesRoute) -> None:
    for name in ("news", "Default", ""):
        with pytest.raises(Problem) as refused:
            route.show(name, {}, ALL_CLUBS)
        assert refused.value.status == 404


def test_concurrent_changes_are_both_versions(
    route: CategoriesRoute, audit: _Audit, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = route.store.put
    others: list[dict[str, Any]] = [{"channels": ["email"]}]

    def overtaken(*args: Any, **kwargs: Any) -> None:
        if others:
            put(route, audit, **others.pop())
        stored(*args, **kwargs)

    monkeypatch.setattr(route.store, "put", overtaken)
    assert [each["channels"] for each in put(route, audit, **NEWS)["versions"]] == [["push", "email"], ["email"]]

    def always(*_: Any, **__: Any) -> None:
        raise ChangedMeanwhile

    monkeypatch.setattr(route.store, "put", always)
    with pytest.raises(Retry):
        put(route, audit, "offers", channels=["email"])


@pytest.mark.kills(guard="conditions.changed_resource")
def test_change_of_a_version_read_earlier_is_refused(route: CategoriesRoute, audit: _Audit) -> None:
    read = route.show("offers", {}, ALL_CLUBS)["etag"]
    first = put(route, audit, "offers", channels=["email"], conditions=Conditions(if_match=read))
    assert first["etag"] != read
    for condition in (read, f'{read}, "other"', f"W/{first['etag']}", ""):
        with pytest.raises(Problem) as refused:
            put(route, audit, "offers", channels=["push"], conditions=Conditions(if_match=condition))
        assert refused.value.status == 412
    assert route.show("offers", {}, ALL_CLUBS) == first
    again = put(route, audit, "offers", channels=["email"], conditions=Conditions(if_match=read))
    assert again == first, "a repetition whose answer was lost succeeds"
    put(route, audit, "offers", channels=["push"], conditions=Conditions(if_match=f'"other", {first["etag"]}'))
    put(route, audit, "offers", channels=["email"], conditions=Conditions(if_match="*"))
    with pytest.raises(Problem) as refused:
        put(route, audit, "news", channels=["email"], conditions=Conditions(if_match="*"))
    assert refused.value.status == 412


@pytest.mark.kills(guard="conditions.existing_resource")
def test_addition_of_an_existing_category_is_refused(route: CategoriesRoute, audit: _Audit) -> None:
    absent = Conditions(if_none_match="*")
    first = put(route, audit, "news", channels=["email"], conditions=absent)
    for name in ("news", "offers"):
        with pytest.raises(Problem) as refused:
            put(route, audit, name, channels=["push"], conditions=absent)
        assert refused.value.status == 412
    assert route.show("news", {}, ALL_CLUBS) == first
    assert put(route, audit, "news", channels=["email"], conditions=absent) == first


def test_second_of_two_conditional_changes_is_refused(
    route: CategoriesRoute, audit: _Audit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other change is stored after the condition has been checked: the conditional write sees it."""
    stored, read = route.store.put, Conditions(if_match=route.show("offers", {}, ALL_CLUBS)["etag"])
    others: list[dict[str, Any]] = [{"channels": ["email"]}]

    def overtaken(*args: Any, **kwargs: Any) -> None:
        if others:
            put(route, audit, "offers", **others.pop(), conditions=read)
        stored(*args, **kwargs)

    monkeypatch.setattr(route.store, "put", overtaken)
    with pytest.raises(Problem) as refused:
        put(route, audit, "offers", channels=["push", "email"], conditions=read)
    assert refused.value.status == 412
    assert route.show("offers", {}, ALL_CLUBS)["versions"][0]["channels"] == ["email"]
