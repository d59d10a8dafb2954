"""The routes of schedules refuse what could not be executed, before anything is stored."""

from typing import Any

import pytest

from masscomm.domain.limits import CHUNK_SIZE
from masscomm.domain.schedules import MAX_SCHEDULES
from masscomm.http.scopes import Scope, scopes_text
from tests.support.harness.recurring import (
    BODY,
    CLUB,
    DAY_MS,
    FIRST_LOCAL,
    FIRST_MS,
    MINUTE_MS,
    NAME,
    Recurring,
    owner,
)

SEND = BODY["send"]
IN_AN_HOUR = {"channel": "email", "if": "not_sent", "after": "1h"}


@pytest.fixture
def recurring(monkeypatch: pytest.MonkeyPatch) -> Recurring:
    return Recurring(monkeypatch)


def test_saved_schedule_shows_its_next_ten_times(recurring: Recurring) -> None:
    saved = recurring.put()
    assert saved == recurring.show()
    assert (saved["state"], saved["owner"], saved["history"]) == ("active", owner().key_id, [])
    assert saved["next_times"][0] == {"local_time": FIRST_LOCAL, "at": "2023-11-15T08:00:00Z"}
    assert len(saved["next_times"]) == 10
    status, listed, _ = recurring.call(
        None,
        method="GET",
        path="/v1/schedules",
        query={"club_id": str(CLUB)},
        authorizer=owner().context | {"principalId": "k"},
    )
    assert (status, [row["name"] for row in listed["rows"]]) == (200, [NAME])


@pytest.mark.kills(guard="schedules.rule_without_times")
@pytest.mark.kills(guard="schedules.unknown_zone")
@pytest.mark.kills(guard="tenancy.club_of_a_schedule")
@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"rule": "FREQ=MINUTELY;INTERVAL=14"}, "rule"),
        ({"rule": "FREQ=DAILY;BYHOUR=0,23;BYMINUTE=0,50"}, "rule"),
        ({"rule": "FREQ=DAILY;INTERVAL=0"}, "rule"),
        ({"rule": "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"}, "rule"),
        ({"rule": "FREQ=DAILY;UNTIL=20231101"}, "rule"),
        ({"rule": "FREQ=SECONDLY"}, "rule"),
        ({"rule": "every day"}, "rule"),
        ({"rule": "FREQ=DAILY;BYHOUR=24"}, "rule"),
        ({"rule": "FREQ=DAILY;UNTIL=20240101;COUNT=2"}, "rule"),
        ({"time_zone": "Europe/Nowhere"}, "time_zone"),
        ({"starts_at_local": "2023-02-30T09:00"}, "starts_at_local"),
        ({"starts_at_local": "2023-02-20T09:00:30"}, "starts_at_local"),
        ({"starts_at_local": "2030-01-01T09:00"}, "starts_at_local"),
        ({"expires_after_minutes": 0}, "expires_after_minutes"),
        ({"expires_after_minutes": 1.5}, "expires_after_minutes"),
        ({"catch_up": "all"}, "catch_up"),
        ({"send": SEND | {"send_at": "2024-01-01T00:00:00Z"}}, "send.send_at"),
        ({"send": SEND | {"send_id": "8a6e0804-2bd0-4672-b79d-d97027f9071a"}}, "send.send_id"),
        ({"send": SEND | {"type": "unheard"}}, "send.type"),
        ({"send": SEND | {"club_id": 8}}, "send.club_id"),
        ({"send": SEND | {"spread_over": "1h"}, "expires_after_minutes": 74}, "send.spread_over"),
        ({"send": SEND | {"channels": ["push", IN_AN_HOUR]}, "expires_after_minutes": 74}, "send.channels"),
        ({"send": SEND | {"channels": [IN_AN_HOUR]}}, "send.channels[0]"),
        ({"send": SEND | {"to_users": []}}, "send.to_users"),
        ({"send": SEND | {"to_users": list(range(1, CHUNK_SIZE + 2))}}, "send.to_users"),
        ({"send": {"type": "news", "club_id": CLUB, "audience": {"saved": "unheard"}}}, "send.audience.saved"),
        ({"send": {"type": "news", "club_id": CLUB, "audience": {}}}, "send.audience.where"),
    ],
)
def test_unusable_schedule_is_refused_and_not_stored(recurring: Recurring, fields: dict[str, Any], field: str) -> None:
    status, problem, _ = recurring.ask("PUT", body=BODY | fields)
    assert (status, [error["field"] for error in problem["errors"]]) == (400, [field])
    assert (list(recurring.schedules.of_club(CLUB)), recurring.waiting()) == ([], [])


@pytest.mark.kills(guard="tenancy.schedules")
def test_schedule_of_another_club_is_refused(recurring: Recurring) -> None:
    recurring.put()
    for method, path in (("GET", ""), ("PUT", ""), ("DELETE", ""), ("POST", "/pause"), ("POST", "/resume")):
        body = BODY if method == "PUT" else None
        status, _, _ = recurring.ask(method, path, body, key=owner(clubs="8"))
        assert status == 403, (method, path)
    assert recurring.show()["state"] == "active"


@pytest.mark.parametrize(
    ("scopes", "send"),
    [
        ([Scope.SEND], SEND),
        ([Scope.SEND, Scope.SEND_CONTENT], SEND | {"priority": "critical"}),
        ([Scope.SEND], {"type": "news", "club_id": CLUB, "audience": {"all_users": True, "except_users": [1]}}),
    ],
    ids=["own_words", "critical", "named_users"],
)
def test_schedule_needs_the_scopes_of_its_send(recurring: Recurring, scopes: list[Scope], send: Any) -> None:
    status, _, _ = recurring.ask("PUT", body=BODY | {"send": send}, key=owner(scopes=scopes_text(scopes)))
    assert (status, recurring.waiting()) == (403, [])


def test_caller_without_users_read_sees_no_users(recurring: Recurring) -> None:
    recurring.put()
    status, shown, _ = recurring.ask("GET", key=owner(scopes=scopes_text([Scope.READ])))
    assert (status, shown["send"]) == (200, {"type": "news", "club_id": CLUB})
    recurring.put(send={"type": "news", "club_id": CLUB, "audience": {"all_users": True, "except_users": [1]}})
    shown = recurring.ask("GET", key=owner(scopes=scopes_text([Scope.READ])))[1]
    assert shown["send"]["audience"] == {"all_users": True}


@pytest.mark.kills(guard="schedules.stored_before_its_record")
def test_first_record_is_released_after_the_request(recurring: Recurring) -> None:
    recurring.until(FIRST_MS - 1_000)
    recurring.put()
    assert [record.due_ms for record in recurring.waiting()] == [FIRST_MS - 1_000 + MINUTE_MS]


def test_paused_schedule_makes_no_send_until_it_is_resumed(recurring: Recurring) -> None:
    recurring.put()
    status, paused, _ = recurring.ask("POST", "/pause")
    assert (status, paused["state"], paused["next_times"]) == (200, "paused", [])
    assert paused["paused"] == {"reason": "requested", "since": "2023-11-14T22:13:20Z"}
    assert recurring.ask("POST", "/pause")[1] == paused
    recurring.until(FIRST_MS + 2 * MINUTE_MS)
    recurring.release()
    other = owner("fedcba9876543210")
    recurring.api_keys.put(other)
    status, resumed, _ = recurring.ask("POST", "/resume", key=other)
    assert (status, resumed["state"], resumed["owner"]) == (200, "active", other.key_id)
    assert recurring.ask("POST", "/resume")[1] == resumed
    assert [record.due_ms for record in recurring.waiting()] == [FIRST_MS + DAY_MS]
    recurring.until(FIRST_MS + DAY_MS)
    recurring.release()
    assert recurring.history() == [("2023-11-16T09:00", "sent", None)]


def test_resume_needs_the_scopes_of_the_send(recurring: Recurring) -> None:
    recurring.put()
    recurring.ask("POST", "/pause")
    assert recurring.ask("POST", "/resume", key=owner(scopes=scopes_text([Scope.SEND])))[0] == 403
    assert recurring.show()["state"] == "paused"


def test_changed_schedule_that_is_paused_stays_paused(recurring: Recurring) -> None:
    recurring.put()
    recurring.ask("POST", "/pause")
    changed = recurring.put(rule="FREQ=DAILY;BYHOUR=11;BYMINUTE=0")
    assert (changed["state"], changed["rule"]) == ("paused", "FREQ=DAILY;BYHOUR=11;BYMINUTE=0")


def test_changed_schedule_keeps_its_history(recurring: Recurring) -> None:
    recurring.put()
    recurring.until(FIRST_MS)
    recurring.release()
    recurring.put(rule="FREQ=DAILY;BYHOUR=11;BYMINUTE=0")
    assert recurring.history() == [(FIRST_LOCAL, "sent", None)]


def test_concurrent_change_is_a_conflict(recurring: Recurring, monkeypatch: pytest.MonkeyPatch) -> None:
    recurring.put()
    monkeypatch.setattr(type(recurring.schedules), "put", lambda *_: False)
    assert recurring.ask("POST", "/pause")[0] == 409


def test_unknown_schedule_is_a_404(recurring: Recurring) -> None:
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/pause"), ("POST", "/resume")):
        assert recurring.ask(method, path)[0] == 404, (method, path)


def test_further_schedule_of_a_full_club_is_refused(recurring: Recurring) -> None:
    for number in range(MAX_SCHEDULES):
        assert recurring.ask("PUT", body=BODY, name=f"s{number}")[0] == 200
    assert recurring.ask("PUT", body=BODY)[0] == 409
    assert recurring.ask("PUT", body=BODY, name="s0")[0] == 200


def test_request_of_a_test_key_is_refused(recurring: Recurring) -> None:
    assert recurring.ask("PUT", body=BODY, key=owner(mode="test"))[0] == 403


def test_changes_are_in_the_audit_log(recurring: Recurring) -> None:
    recurring.put()
    for method, path in (("POST", "/pause"), ("POST", "/resume"), ("DELETE", "")):
        recurring.ask(method, path)
    actions = [entry.action for entry in recurring.audit_log.entries]
    assert actions == [f"schedule.{action}" for action in ("saved", "paused", "resumed", "deleted")]
