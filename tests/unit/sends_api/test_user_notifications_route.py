import base64
import json
from datetime import UTC, datetime, timedelta

import pytest

from functions.sends_api.routes.user_notifications import UserNotificationsBody, UserNotificationsRoute
from masscomm.clock import FixedClock
from masscomm.http.problem import Problem
from masscomm.http.tenant import ALL_CLUBS, Clubs
from masscomm.stores.metrics.in_memory import InMemoryMetricsStore
from masscomm.stores.metrics.port import LogKey, LogRow

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def a_row(minute: int, send_id: str, club_id: int = 1, channel: str = "push", status: str = "sent") -> LogRow:
    return LogRow(LogKey(NOON + timedelta(minutes=minute), send_id, channel), club_id, "news", status, "")


RECIPIENTS = [
    (7, a_row(0, "a")),
    (7, a_row(1, "b", club_id=2)),
    (7, a_row(1, "b", club_id=2, channel="email")),
    (7, a_row(2, "c")),
    (8, a_row(3, "d")),
]


def use_case(*, log: bool = True) -> UserNotificationsRoute:
    store = InMemoryMetricsStore(recipients=RECIPIENTS if log else None, watermark=NOON + timedelta(minutes=5))
    return UserNotificationsRoute(store, FixedClock(), timedelta(seconds=5))


def found(body: UserNotificationsBody) -> list[tuple[str, str]]:
    return [(row["send_id"], row["channel"]) for row in body["rows"]]


def made_up(at: int | str, *texts: object) -> str:
    """Make a cursor with the right query and a row that no response contained."""
    cursor = use_case().answer("7", {"limit": ["1"]}, ALL_CLUBS)["next_cursor"] or ""
    query = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))[0]
    return base64.urlsafe_b64encode(json.dumps([query, at, *texts]).encode()).decode()


def test_disabled_recipient_log_is_404() -> None:
    with pytest.raises(Problem, match="off") as raised:
        use_case(log=False).answer("7", {}, ALL_CLUBS)
    assert raised.value.status == 404


def test_user_sees_only_its_own_notifications_latest_first() -> None:
    body = use_case().answer("7", {}, ALL_CLUBS)
    assert found(body) == [("c", "push"), ("b", "push"), ("b", "email"), ("a", "push")]
    assert body["rows"][-1] == {
        "at": "2026-11-21T12:00:00Z",
        "send_id": "a",
        "channel": "push",
        "club_id": 1,
        "type": "news",
        "status": "sent",
        "reason": None,
    }
    assert (body["watermark"], body["complete"]) == ("2026-11-21T12:05:00Z", False)
    assert found(use_case().answer("9", {}, ALL_CLUBS)) == []


def test_notifications_are_filtered_by_club_channel_and_time() -> None:
    assert found(use_case().answer("7", {"channel": ["push"], "club_id": ["2"]}, ALL_CLUBS)) == [("b", "push")]
    body = use_case().answer("7", {"start": ["2026-11-21T12:01:00Z"], "end": ["2026-11-21T12:02:00Z"]}, ALL_CLUBS)
    assert (found(body), body["complete"]) == ([("b", "push"), ("b", "email")], True)


def test_tenant_sees_only_its_own_notifications() -> None:
    assert found(use_case().answer("7", {}, Clubs(frozenset({1})))) == [("c", "push"), ("a", "push")]
    with pytest.raises(Problem) as raised:
        use_case().answer("7", {"club_id": ["2"]}, Clubs(frozenset({1})))
    assert raised.value.status == 403


def test_pages_equal_the_answer_and_bind_their_cursor() -> None:
    paged, parameters = [], {"limit": ["1"]}
    while True:
        body = use_case().answer("7", parameters, ALL_CLUBS)
        paged += found(body)
        if body["next_cursor"] is None:
            break
        parameters = {"limit": ["1"], "cursor": [body["next_cursor"]]}
    assert paged == found(use_case().answer("7", {}, ALL_CLUBS))
    for user_id, others in (("8", {}), ("7", {"channel": ["push"]})):
        with pytest.raises(Problem) as raised:
            use_case().answer(user_id, parameters | others, ALL_CLUBS)
        assert [error.field for error in raised.value.errors] == ["cursor"]


@pytest.mark.parametrize(
    ("user_id", "parameters", "field"),
    [
        ("me", {}, "user_id"),
        ("7", {"limit": ["1001"]}, "limit"),
        ("7", {"cursor": ["W10"]}, "cursor"),
        ("7", {"cursor": [made_up(10**30, "a", "push")]}, "cursor"),
        ("7", {"cursor": [made_up(0, "a\0", "push")]}, "cursor"),
        ("7", {"cursor": [made_up(0, "\ud800", "push")]}, "cursor"),
        ("7", {"cursor": [made_up(0, "a")]}, "cursor"),
        ("7", {"cursor": [made_up(0, "a", "push", "push")]}, "cursor"),
        ("7", {"cursor": [made_up(0, "a", 1)]}, "cursor"),
        ("7", {"cursor": [made_up("0", "a", "push")]}, "cursor"),
        ("7", {"start": ["2026-11-21T12:00:00Z"], "end": ["2026-11-21T12:00:00Z"]}, "end"),
        ("7", {"status": ["sent"]}, "status"),
    ],
)
def test_invalid_user_parameter_is_named(user_id: str, parameters: dict[str, list[str]], field: str) -> None:
    with pytest.raises(Problem) as raised:
        use_case().answer(user_id, parameters, ALL_CLUBS)
    assert (raised.value.status, [error.field for error in raised.value.errors]) == (400, [field])
