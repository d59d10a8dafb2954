"""Schedules make one send for each occurrence, with the permissions of their owner."""

import json
from dataclasses import replace
from typing import Any

import pytest

from functions.audience_expander import recurring_sends
from functions.send_handler.send_request import RecurringSend
from masscomm.domain.ids import recurring_send_id
from masscomm.domain.saved_audiences import SavedAudience
from masscomm.http.scopes import Scope, scopes_text
from masscomm.kafka import topics
from masscomm.stores.categories.in_memory import InMemoryCategories
from masscomm.stores.categories.known import known_categories
from tests.support.categories import put_version
from tests.support.harness.recurring import BODY, CLUB, DAY_MS, FIRST_LOCAL, FIRST_MS, MINUTE_MS, Recurring, owner
from tests.support.killer import Killed, Killer

EVERYBODY = {"type": "news", "club_id": CLUB, "audience": {"all_users": True}}
SENT = (FIRST_LOCAL, "sent", None)


@pytest.fixture
def recurring(monkeypatch: pytest.MonkeyPatch) -> Recurring:
    return Recurring(monkeypatch)


def schedule_id(recurring: Recurring) -> str:
    found = recurring.schedules.find(CLUB, "weekly")
    assert found is not None
    return found.id


@pytest.mark.guarantee("schedules.occurrence")
@pytest.mark.kills(guard="schedules.next_record")
def test_occurrence_makes_a_send_and_waits_for_the_next(recurring: Recurring) -> None:
    recurring.put(expires_after_minutes=90)
    assert recurring.sends() == []
    recurring.until(FIRST_MS)
    recurring.release()
    (send,) = recurring.sends()
    assert (send.to_users, send.data, send.principal) == ([1, 2], BODY["send"]["data"], owner().key_id)
    assert send.send_id == recurring_send_id(schedule_id(recurring), FIRST_LOCAL)
    assert (send.timestamp, send.expires_at) == (FIRST_MS, FIRST_MS + 90 * MINUTE_MS)
    assert recurring.register.find(str(send.send_id)) is not None
    assert recurring.history() == [SENT]
    assert [record.due_ms for record in recurring.waiting()] == [FIRST_MS + DAY_MS]
    recurring.until(FIRST_MS + DAY_MS)
    recurring.release()
    assert [each.send_id for each in recurring.sends()][1] != send.send_id


def test_occurrence_has_each_field_of_its_send(recurring: Recurring) -> None:
    """A further field of a send needs a value here, and a place in the record."""
    fields: dict[str, Any] = {
        "type": "news",
        "club_id": CLUB,
        "channels": ["push"],
        "template": "news_digest",
        "data": {"headline": "Goal"},
        "recipient_data": {"2": {"seat": "A1"}},
        "locale": "de",
        "priority": "bulk",
        "collapse_key": "news",
        "reference": "r",
        "push": {"badge": 3},
        "digest": {"template": "news_digest", "window": "1h"},
        "per_minute": 9,
    }
    assert RecurringSend.model_fields.keys() == fields.keys() | {"to_users", "audience", "spread_over"}
    recurring.put(send={**fields, "to_users": [1, 2]})
    recurring.until(FIRST_MS)
    recurring.release()
    (send,) = recurring.sends()
    assert send.recipient_data == {"1": {"seat": "A1"}}
    assert (send.push, json.loads(send.digest or "")) == ('{"badge":3}', {**fields["digest"], "list": 10})
    copied = fields.keys() - {"recipient_data", "push", "digest"}
    assert {name: getattr(send, name) for name in copied} == {name: fields[name] for name in copied}


IN_AN_HOUR = {"channel": "email", "if": "not_sent", "after": "1h"}


def test_occurrence_has_the_fallbacks_of_its_send(recurring: Recurring) -> None:
    recurring.put(send=BODY["send"] | {"channels": [{"channel": "push"}, IN_AN_HOUR]})
    recurring.until(FIRST_MS)
    recurring.release()
    (send,) = recurring.sends()
    assert send.channels == ["push", "email"]
    assert json.loads(send.fallbacks or "") == [IN_AN_HOUR]


@pytest.mark.kills(guard="pace.late_occurrence")
@pytest.mark.parametrize(("fields", "minutes"), [({"spread_over": "1h"}, 75), ({"channels": ["push", IN_AN_HOUR]}, 76)])
def test_occurrence_too_late_to_end_is_skipped(recurring: Recurring, fields: dict[str, Any], minutes: int) -> None:
    recurring.put(send=BODY["send"] | fields, expires_after_minutes=minutes, catch_up="last")
    recurring.until(FIRST_MS)
    recurring.release()
    assert len(recurring.sends()) == 1
    recurring.until(FIRST_MS + DAY_MS + 16 * MINUTE_MS)
    recurring.release()
    assert recurring.history() == [SENT, ("2023-11-16T09:00", "skipped", "late")]


def test_occurrence_of_an_audience_finds_its_users(recurring: Recurring) -> None:
    recurring.put(send=EVERYBODY)
    recurring.until(FIRST_MS)
    recurring.release()
    recurring.expand()
    assert sorted(user_id for send in recurring.sends() for user_id in send.to_users) == [1, 2, 3, 4, 5]


def test_occurrence_copies_the_definition_of_its_time(recurring: Recurring) -> None:
    saved = SavedAudience(club_id=CLUB, name="some", definition={"all_users": True}, changed_at_ms=0)
    recurring.saved_audiences.put(saved)
    recurring.put(send=EVERYBODY | {"audience": {"saved": "some", "except_users": [3]}})
    german = {"where": {"field": "locale", "is": "de"}}
    recurring.saved_audiences.put(replace(saved, definition=german))
    recurring.until(FIRST_MS)
    recurring.release()
    assert [json.loads(each.audience) for each in recurring.audiences()] == [german | {"except_users": [3]}]


@pytest.mark.parametrize("send", [None, EVERYBODY], ids=["users", "audience"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.guarantee("schedules.occurrence")
def test_kill_after_any_call_leaves_one_send(
    recurring: Recurring, monkeypatch: pytest.MonkeyPatch, send: Any, after: bool
) -> None:
    ids, at = set[str](), 0
    while True:
        at += 1
        recurring = Recurring(monkeypatch)
        recurring.put(send=send)
        recurring.until(FIRST_MS)
        (record,) = recurring.waiting()
        killer = Killer(at, after=after)
        recurring.connect(killer)
        try:
            recurring.release()
            recurring.connect(None)
        except Killed:
            recurring.connect(None)
            recurring.clock.advance(60)
            recurring.process(record)
            recurring.delayed.items.pop(record.key or ("", ""), None)
        made = recurring.sends() if send is None else recurring.audiences()
        ids = {str(each.send_id) for each in made}
        assert ids == {recurring_send_id(schedule_id(recurring), FIRST_LOCAL)}, at
        assert len({each.timestamp for each in made}) == 1
        assert (recurring.history(), [each.due_ms for each in recurring.waiting()]) == ([SENT], [FIRST_MS + DAY_MS])
        if killer.calls < at:
            break
    assert at > 6


@pytest.mark.kills(guard="schedules.earlier_occurrence")
def test_redelivered_record_makes_no_further_send(recurring: Recurring) -> None:
    recurring.put()
    recurring.until(FIRST_MS)
    (record,) = recurring.waiting()
    recurring.release()
    recurring.until(FIRST_MS + DAY_MS)
    recurring.process(record)
    assert (len(recurring.sends()), recurring.history()) == (1, [SENT])
    assert [each.due_ms for each in recurring.waiting()] == [FIRST_MS + DAY_MS]


@pytest.mark.kills(guard="schedules.late_occurrence")
def test_late_occurrences_are_skipped_and_listed(recurring: Recurring) -> None:
    recurring.put()
    recurring.until(FIRST_MS + 2 * DAY_MS + 16 * MINUTE_MS)
    recurring.release()
    days = [f"2023-11-{day}T09:00" for day in (15, 16, 17)]
    assert recurring.history() == [(day, "skipped", "late") for day in days]
    assert recurring.sends() == []
    assert [each.due_ms for each in recurring.waiting()] == [FIRST_MS + 3 * DAY_MS]


def test_occurrence_of_fifteen_minutes_ago_is_made(recurring: Recurring) -> None:
    recurring.put()
    recurring.until(FIRST_MS + 15 * MINUTE_MS)
    recurring.release()
    assert recurring.history() == [SENT]


def test_newest_late_occurrence_is_made_for_catch_up(recurring: Recurring) -> None:
    recurring.put(catch_up="last")
    recurring.until(FIRST_MS + DAY_MS + 60 * MINUTE_MS)
    recurring.release()
    assert recurring.history() == [(FIRST_LOCAL, "skipped", "late"), ("2023-11-16T09:00", "sent", None)]
    assert len(recurring.sends()) == 1


def test_late_occurrence_that_has_expired_is_skipped(recurring: Recurring) -> None:
    recurring.put(catch_up="last", expires_after_minutes=30)
    recurring.until(FIRST_MS + 60 * MINUTE_MS)
    recurring.release()
    assert recurring.history() == [(FIRST_LOCAL, "skipped", "late")]


def refuse(recurring: Recurring, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    """Take from the owner what a send needs."""
    match case:
        case "revoked":
            recurring.api_keys.end(owner().digest, 0)
        case "club":
            recurring.api_keys.put(owner(clubs="8"))
        case "scope":
            recurring.api_keys.put(owner(scopes=scopes_text([Scope.READ])))
        case "test":
            recurring.api_keys.put(owner(mode="test"))
        case "category":
            monkeypatch.setattr(recurring_sends, "is_retired", lambda _: True)
        case "audience":
            recurring.saved_audiences.delete(CLUB, "some")


@pytest.mark.guarantee("schedules.rights")
@pytest.mark.kills(guard="schedules.rights_of_the_owner")
@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("revoked", "key_revoked"),
        ("club", "not_permitted"),
        ("scope", "not_permitted"),
        ("test", "not_permitted"),
        ("category", "category_retired"),
        ("audience", "audience_unknown"),
    ],
)
def test_owner_without_rights_pauses_the_schedule(
    recurring: Recurring, monkeypatch: pytest.MonkeyPatch, case: str, reason: str
) -> None:
    saved = SavedAudience(club_id=CLUB, name="some", definition={"all_users": True}, changed_at_ms=0)
    recurring.saved_audiences.put(saved)
    recurring.put(send=EVERYBODY | {"audience": {"saved": "some"}})
    refuse(recurring, monkeypatch, case)
    recurring.until(FIRST_MS)
    recurring.release()
    shown = recurring.show()
    assert (shown["state"], shown["paused"]["reason"], shown["next_times"]) == ("paused", reason, [])
    assert recurring.history() == [(FIRST_LOCAL, "skipped", reason)]
    assert (recurring.waiting(), recurring.values(topics.AUDIENCE)) == ([], [])


@pytest.mark.parametrize(
    ("send", "topic"),
    [(BODY["send"], "send.api.critical"), (BODY["send"] | {"per_minute": 5}, None), (EVERYBODY, None)],
    ids=["users", "pace", "audience"],
)
def test_category_that_has_become_critical_is_kept(
    recurring: Recurring, stored_categories: InMemoryCategories, send: dict[str, Any], topic: str | None
) -> None:
    """Sends that it refuses pause the schedule."""
    scopes = [Scope.SEND, Scope.SEND_CRITICAL, Scope.SEND_CONTENT]
    recurring.api_keys.put(owner(scopes=scopes_text(scopes)))
    recurring.put(send=send)
    put_version(stored_categories, "news", {"channels": ["push"], "critical": True}, FIRST_MS - DAY_MS)
    known_categories().read()
    recurring.until(FIRST_MS)
    recurring.release()
    produced = [each for each, *_ in recurring.producer.produced if topics.base_of(each) == topics.SEND_API]
    assert produced == ([] if topic is None else [topic])
    assert recurring.show()["state"] == ("paused" if topic is None else "active")


@pytest.mark.kills(guard="schedules.limit_of_the_owner")
def test_users_beyond_the_limit_skip_the_occurrence(recurring: Recurring) -> None:
    recurring.put()
    recurring.api_keys.put(owner(recipients_a_day=1))
    recurring.until(FIRST_MS)
    recurring.release()
    assert recurring.history() == [(FIRST_LOCAL, "skipped", "recipients_a_day")]
    assert (recurring.show()["state"], len(recurring.waiting())) == ("active", 1)


def test_limit_of_the_owner_is_passed_on_with_an_audience(recurring: Recurring) -> None:
    recurring.api_keys.put(owner(recipients_a_day=4, counted_under="maker"))
    recurring.put(send=EVERYBODY)
    recurring.until(FIRST_MS)
    recurring.release()
    (request,) = recurring.audiences()
    assert (request.key_id, request.recipients_a_day) == ("maker", 4)


@pytest.mark.kills(guard="schedules.earlier_revision")
@pytest.mark.parametrize("path", ["pause", "delete", "change"])
def test_record_of_an_earlier_revision_does_nothing(recurring: Recurring, path: str) -> None:
    recurring.put()
    (record,) = recurring.waiting()
    match path:
        case "pause":
            assert recurring.ask("POST", "/pause")[0] == 200
        case "delete":
            assert recurring.ask("DELETE")[0] == 200
        case "change":
            recurring.put(rule="FREQ=DAILY;BYHOUR=11;BYMINUTE=0")
    recurring.until(FIRST_MS)
    recurring.process(record)
    assert recurring.sends() == []


@pytest.mark.kills(guard="schedules.interrupted_occurrence")
def test_interrupted_occurrence_is_completed_after_a_change(recurring: Recurring) -> None:
    recurring.put()
    (record,) = recurring.waiting()
    recurring.until(FIRST_MS)
    recurring.register.failing = SystemExit()
    with pytest.raises(SystemExit):
        recurring.release()
    recurring.register.failing = None
    recurring.put(send=BODY["send"] | {"to_users": [5]})
    recurring.process(record)
    assert [send.to_users for send in recurring.sends()] == [[1, 2]]
    assert recurring.history() == [SENT]


@pytest.mark.kills(guard="schedules.acknowledged_send")
def test_unacknowledged_send_is_not_completed(recurring: Recurring) -> None:
    recurring.put()
    recurring.until(FIRST_MS)
    (record,) = recurring.waiting()
    recurring.limit(10)
    recurring.memory = recurring.producer
    recurring.connect(None)
    recurring.process(record)
    assert recurring.history() == [(FIRST_LOCAL, "started", None)]
    assert recurring.show()["next"]["local_time"] == FIRST_LOCAL


@pytest.mark.kills(guard="schedules.dead_letter")
def test_malformed_occurrence_fails_no_send(recurring: Recurring) -> None:
    recurring.put(send=EVERYBODY)
    (record,) = recurring.waiting()
    recurring.until(FIRST_MS)
    recurring.release()
    changed = recurring.codec.decode("AudienceRequested", record.value) | {"schedule": '{"name": 1}'}
    value = recurring.codec.encode(topics.AUDIENCE, "AudienceRequested", changed)
    recurring.process(replace(record, value=value))
    assert [letter["masscomm.reason"] for letter in recurring.dead_letters()] == ["invalid"]
    (send,) = recurring.register.sends.values()
    assert send.expansion is None


def test_rule_that_has_ended_leaves_no_record(recurring: Recurring) -> None:
    recurring.put(rule="FREQ=DAILY;BYHOUR=9;BYMINUTE=0;UNTIL=20231115")
    recurring.until(FIRST_MS)
    recurring.release()
    assert (recurring.show()["state"], recurring.waiting(), recurring.history()) == ("ended", [], [SENT])
