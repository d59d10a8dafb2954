"""The audit log over HTTP: one tenant at a time, the latest entries first."""

from typing import Any

import pytest

from functions.operations_handler.routes.audit import AuditRoute
from masscomm.clock import FixedClock
from masscomm.domain.audit import Action, audit_entry
from masscomm.http.problem import Problem
from masscomm.http.tenant import ALL_CLUBS, Clubs
from masscomm.stores.audit_log.in_memory import InMemoryAuditLog

NOON_MS = 1_795_262_400_000  # 2026-11-21T12:00:00Z
ONE, TWO = Clubs(frozenset({7})), Clubs(frozenset({7, 8}))


@pytest.fixture
def route() -> AuditRoute:
    """Entries 0 to 4 of club 7 in consecutive minutes, one of club 8 and one of every club."""
    audit_log = InMemoryAuditLog()
    for number in range(5):
        record(audit_log, 7, str(number), NOON_MS + number * 60_000)
    record(audit_log, 8, "other", NOON_MS)
    record(audit_log, None, "every", NOON_MS)
    return AuditRoute(audit_log, FixedClock())


def record(audit_log: InMemoryAuditLog, club_id: int | None, subject: str, at_ms: int) -> None:
    audit_log.record(
        audit_entry(
            Action.KEY_CREATED, club_id=club_id, at_ms=at_ms, principal="operator:ada", subject=subject, detail="d"
        )
    )


def subjects(route: AuditRoute, clubs: Clubs = ONE, **parameters: Any) -> list[str]:
    body = route.answer({name: [str(value)] for name, value in parameters.items()}, clubs)
    return [row["subject"] for row in body["rows"]]


def test_entries_have_principal_action_and_result(route: AuditRoute) -> None:
    body = route.answer({"limit": ["1"]}, ONE)
    assert body["rows"] == [
        {
            "at": "2026-11-21T12:04:00Z",
            "club_id": 7,
            "principal": "operator:ada",
            "action": "key.created",
            "subject": "4",
            "result": "ok",
            "detail": "d",
        }
    ]
    assert body["truncated"]


def test_a_caller_reads_the_entries_of_its_club(route: AuditRoute) -> None:
    assert subjects(route) == ["4", "3", "2", "1", "0"]
    assert subjects(route, TWO, club_id=8) == ["other"]
    assert subjects(route, ALL_CLUBS, club_id=8) == ["other"]


def test_only_an_operator_reads_entries_of_every_club(route: AuditRoute) -> None:
    assert subjects(route, ALL_CLUBS) == ["every"]
    with pytest.raises(Problem, match="club_id") as raised:
        subjects(route, TWO)
    assert raised.value.status == 400


def test_entries_are_filtered_by_time(route: AuditRoute) -> None:
    assert subjects(route, start="2026-11-21T12:01:00Z", end="2026-11-21T12:03:00Z") == ["2", "1"]


def test_pages_continue_by_cursor(route: AuditRoute) -> None:
    found, cursor = list[str](), None
    for _ in range(3):
        parameters = {"limit": ["2"]} | ({} if cursor is None else {"cursor": [cursor]})
        body = route.answer(parameters, ONE)
        found += [row["subject"] for row in body["rows"]]
        cursor = body["next_cursor"]
    assert (found, cursor) == (["4", "3", "2", "1", "0"], None)


def test_the_cursor_of_another_club_is_refused(route: AuditRoute) -> None:
    cursor = route.answer({"limit": ["2"], "club_id": ["7"]}, TWO)["next_cursor"]
    with pytest.raises(Problem, match="cursor"):
        subjects(route, TWO, club_id=8, cursor=cursor)


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({"club_id": "x"}, "club_id"),
        ({"start": "yesterday"}, "start"),
        ({"start": "2026-11-21T12:00:00Z", "end": "2026-11-21T12:00:00Z"}, "end"),
        ({"limit": 0}, "limit"),
        ({"cursor": "x"}, "cursor"),
        ({"principal": "k1"}, "principal"),
    ],
)
def test_wrong_parameters_are_named(route: AuditRoute, parameters: dict[str, Any], field: str) -> None:
    with pytest.raises(Problem) as raised:
        subjects(route, **parameters)
    assert (raised.value.status, [error.field for error in raised.value.errors]) == (400, [field])
