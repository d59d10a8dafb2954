"""The routes of saved audiences."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from functions.operations_handler.routes.audiences import AudiencesRoute
from masscomm.clock import FixedClock
from masscomm.domain.audit import Action
from masscomm.domain.saved_audiences import MAX_SAVED_AUDIENCES
from masscomm.http.problem import Problem
from masscomm.http.tenant import Clubs
from masscomm.stores.saved_audiences.in_memory import InMemorySavedAudiences

GERMANS = {"where": {"field": "locale", "is": "de"}}
SEVEN, SEVEN_AND_EIGHT = Clubs(frozenset({7})), Clubs(frozenset({7, 8}))
CLUB = {"club_id": ["7"]}
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


def put(route: AudiencesRoute, audit: Any, name: str = "germans", audience: Any = GERMANS, **fields: Any) -> Any:
    return route.put(name, CLUB, json.dumps({"audience": audience, **fields}), SEVEN_AND_EIGHT, audit)


def test_audience_is_saved_changed_and_deleted(route: AudiencesRoute, audit: Any) -> None:
    body = put(route, audit)
    assert body == {"name": "germans", "changed_at": AT, "audience": GERMANS}
    assert route.show("germans", CLUB, SEVEN) == body
    assert put(route, audit, audience={"all_users": True})["audience"] == {"all_users": True}
    assert route.of_club(CLUB, SEVEN) == {"rows": [{"name": "germans", "changed_at": AT}]}
    assert route.delete("germans", CLUB, SEVEN, audit) == {"name": "germans", "status": "deleted"}
    assert route.of_club(CLUB, SEVEN) == {"rows": []}
    assert audit.entries == [
        (Action.AUDIENCE_SAVED, "germans", [7], "created"),
        (Action.AUDIENCE_SAVED, "germans", [7], "changed"),
        (Action.AUDIENCE_DELETED, "germans", [7], ""),
    ]


@pytest.mark.kills(guard="tenancy.saved_audiences")
def test_audiences_of_other_clubs_are_refused(route: AudiencesRoute, audit: Any) -> None:
    put(route, audit)
    eight = {"club_id": ["8"]}
    content = json.dumps({"audience": GERMANS})
    requests: list[tuple[int, Callable[[], object]]] = [
        (403, lambda: route.of_club(eight, SEVEN)),
        (403, lambda: route.show("germans", eight, SEVEN)),
        (403, lambda: route.put("germans", eight, content, SEVEN, audit)),
        (403, lambda: route.delete("germans", eight, SEVEN, audit)),
        (404, lambda: route.show("germans", eight, SEVEN_AND_EIGHT)),
        (404, lambda: route.delete("germans", eight, SEVEN_AND_EIGHT, audit)),
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
