"""The routes of saved audiences."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from functions.operations_handler.routes.audiences import AudiencesRoute
from masscomm.clock import FixedClock
from masscomm.domain.audit import Action
from masscomm.domain.saved_audiences import MAX_SAVED_AUDIENCES
from masscomm.errors import Retry
from masscomm.http.conditions import Conditions
from masscomm.http.problem import Problem
from masscomm.http.tenant import Clubs
from masscomm.stores.saved_audiences.in_memory import InMemorySavedAudiences

GERMANS = {"where": {"field": "locale", "is": "de"}}
SEVEN, SEVEN_AND_EIGHT = Clubs(frozenset({7})), Clubs(frozenset({7, 8}))
CLUB = {"club_id": ["7"]}
NONE = Conditions()
AT = "2023-11-14T22:13:20Z"


class _Audit:
    def __init__(self) -> None:
        self.entries: list[tuple[Action, str, list[int], str]] = []

    def __call__(self, action: Action, *, subject: str, clubs: list[int], detail: str = "") -> None:
        self.entries.append((action, subject, clubs, detail))


@pytest.fixture
def audit() -> Any:
    return _Audit()


@pytest.fixture
def route() -> AudiencesRoute:
    return AudiencesRoute(store=InMemorySavedAudiences(), clock=FixedClock())


def put(
    route: AudiencesRoute,
    audit: Any,
    name: str = "germans",
    audience: Any = GERMANS,
    conditions: Conditions = NONE,
    **fields: Any,
) -> Any:
    content = json.dumps({"audience": audience, **fields})
    return route.put(name, CLUB, content, SEVEN_AND_EIGHT, audit, conditions)


def test_audience_is_saved_changed_and_deleted(route: AudiencesRoute, audit: Any) -> None:
    body = put(route, audit)
    assert body == {"name": "germans", "changed_at": AT, "audience": GERMANS, "etag": body["etag"]}
    assert route.show("germans", CLUB, SEVEN) == body
    assert put(route, audit, audience={"all_users": True})["audience"] == {"all_users": True}
    assert route.of_club(CLUB, SEVEN) == {"rows": [{"name": "germans", "changed_at": AT}]}
    assert route.delete("germans", CLUB, SEVEN, audit, NONE) == {"name": "germans", "status": "deleted"}
    assert route.of_club(CLUB, SEVEN) == {"rows": []}
    assert audit.entries == [
        (Action.AUDIENCE_SAVED, "germans", [7], "created"),
        (Action.AUDIENCE_SAVED, "germans", [7], "changed"),
        (Action.AUDIENCE_DELETED, "germans", [7], ""),
    ]


def test_change_of_another_state_is_refused(route: AudiencesRoute, audit: Any) -> None:
    everybody = {"all_users": True}
    absent = Conditions(if_none_match="*")
    first = put(route, audit, conditions=absent)
    read = Conditions(if_match=first["etag"])
    assert put(route, audit, conditions=absent) == first, "a repetition whose answer was lost succeeds"
    second = put(route, audit, audience=everybody, conditions=read)
    assert second["etag"] != first["etag"]
    assert put(route, audit, audience=everybody, conditions=read) == second
    refusals: list[Callable[[], object]] = [
        lambda: put(route, audit, conditions=read),
        lambda: put(route, audit, conditions=absent),
        lambda: put(route, audit, "others", conditions=read),
        lambda: route.delete("germans", CLUB, SEVEN, audit, read),
    ]
    for request in refusals:
        with pytest.raises(Problem) as refused:
            request()
        assert refused.value.status == 412
    assert route.show("germans", CLUB, SEVEN) == second
    route.delete("germans", CLUB, SEVEN, audit, Conditions(if_match=second["etag"]))
    with pytest.raises(Problem) as refused:
        route.delete("germans", CLUB, SEVEN, audit, Conditions(if_match=second["etag"]))
    assert refused.value.status == 404
    assert len(audit.entries) == 3


def test_second_of_two_concurrent_changes_is_repeated(
    route: AudiencesRoute, audit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The condition of the repetition is checked against the first change."""
    first = put(route, audit)
    found = route.store.find(7, "germans")
    read = Conditions(if_match=first["etag"])
    put(route, audit, audience={"all_users": True}, conditions=read)
    with monkeypatch.context() as patched:
        patched.setattr(route.store, "find", lambda *_: found)
        with pytest.raises(Retry):
            put(route, audit, audience={"where": {"field": "locale", "is": "it"}}, conditions=read)
        with pytest.raises(Retry):
            route.delete("germans", CLUB, SEVEN, audit, read)
    assert route.show("germans", CLUB, SEVEN)["audience"] == {"all_users": True}


@pytest.mark.kills(guard="tenancy.saved_audiences")
def test_audiences_of_other_clubs_are_refused(route: AudiencesRoute, audit: Any) -> None:
    put(route, audit)
    eight = {"club_id": ["8"]}
    content = json.dumps({"audience": GERMANS})
    requests: list[tuple[int, Callable[[], object]]] = [
        (403, lambda: route.of_club(eight, SEVEN)),
        (403, lambda: route.show("germans", eight, SEVEN)),
        (403, lambda: route.put("germans", eight, content, SEVEN, audit, NONE)),
        (403, lambda: route.delete("germans", eight, SEVEN, audit, NONE)),
        (404, lambda: route.show("germans", eight, SEVEN_AND_EIGHT)),
        (404, lambda: route.delete("germans", eight, SEVEN_AND_EIGHT, audit, NONE)),
        (404, lambda: route.show("x" * 2_000, CLUB, SEVEN)),
    ]
    for status, request in requests:
        with pytest.raises(Problem) as refused:
            request()
        assert refused.value.status == status
    assert len(audit.entries) == 1


@pytest.mark.kills(guard="audiences.saved_users")
@pytest.mark.parametrize(
    ("name", "audience", "fields", "wrong"),
    [
        ("count", GERMANS, {}, "name"),
        ("a b", GERMANS, {}, "name"),
        ("germans", None, {}, "audience"),
        ("germans", {}, {}, "audience.where"),
        ("germans", {"saved": "others"}, {}, "audience.saved"),
        ("germans", GERMANS | {"except_users": [1]}, {}, "audience.except_users"),
        ("germans", {"where": {"field": "email", "is": "ada@example.org"}}, {}, "audience.where.field"),
        ("germans", GERMANS, {"club_id": 7}, "club_id"),
    ],
)
def test_unusable_audience_is_refused(
    route: AudiencesRoute, audit: Any, name: str, audience: Any, fields: dict[str, Any], wrong: str
) -> None:
    with pytest.raises(Problem) as refused:
        put(route, audit, name, audience, **fields)
    assert refused.value.status == 400
    assert wrong in [each.field for each in refused.value.errors or ()]
    assert route.of_club(CLUB, SEVEN) == {"rows": []}


def test_request_without_a_club_is_refused(route: AudiencesRoute) -> None:
    with pytest.raises(Problem) as refused:
        route.of_club({}, SEVEN)
    assert refused.value.status == 400


def test_audience_above_the_limit_is_refused(route: AudiencesRoute, audit: Any) -> None:
    for number in range(MAX_SAVED_AUDIENCES):
        put(route, audit, f"a{number}")
    put(route, audit, "a0")
    with pytest.raises(Problem) as refused:
        put(route, audit, "one.more")
    assert refused.value.status == 409
