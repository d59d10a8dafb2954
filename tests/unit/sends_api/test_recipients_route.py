"""The recipients of a send, and the statuses of one notification."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functions.sends_api.routes.notification import NotificationRoute
from functions.sends_api.routes.recipients import RecipientsRoute
from functions.sends_api.routes.words import REASON_WORDS, STATUS_WORDS, decided_by, in_words
from masscomm.clock import FixedClock
from masscomm.domain.ids import notification_id
from masscomm.domain.sends import Send, SendKey, Source
from masscomm.domain.statuses import Reason, Status
from masscomm.http.problem import Problem
from masscomm.http.tenant import Clubs
from masscomm.stores.metrics.in_memory import InMemoryMetricsStore
from masscomm.stores.metrics.port import LogKey, LogRow, SendTotals
from masscomm.stores.sends.in_memory import InMemorySends

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
OWN, OTHER = Clubs(frozenset({7})), Clubs(frozenset({8}))


def row(user_id: int, status: str, reason: str = "", *, minutes: int = 0, club_id: int = 7) -> tuple[int, LogRow]:
    return user_id, LogRow(LogKey(NOON + timedelta(minutes=minutes), "s", "push"), club_id, "news", status, reason)


OPTED_OUT = {
    "layer": "user",
    "rule": "category:news channel:email",
    "settings_version": 7,
    "settings_changed_at": 1_777_803_720_000,
}
LOG = [
    row(1, "held"),
    row(1, "sent", minutes=480),
    row(1, "sent", minutes=481),
    row(1, "delivered", minutes=482),
    row(2, "suppressed", "opted_out"),
    row(3, "suppressed", "unknown_user"),
    row(4, "sent", club_id=8),
]


def store(log: list[tuple[int, LogRow]] | None) -> InMemoryMetricsStore:
    send = SendTotals(
        send_id="s", club_id=7, type="news", requested_at=NOON, chunk_count=1, chunks=1, channels={}, watermark=NOON
    )
    return InMemoryMetricsStore(sends={"s": send}, watermark=NOON, recipients=log)


CONTROLS = InMemorySends()


def recipients(clubs: Clubs = OWN, *, send_id: str = "s", **parameters: Any) -> Any:
    return RecipientsRoute(store(LOG), CONTROLS, FixedClock()).answer(send_id, parameters, clubs)


def notification(name: str, clubs: Clubs = OWN, **parameters: Any) -> Any:
    return NotificationRoute(store(LOG), CONTROLS, FixedClock()).answer(name, parameters, clubs)


def status_of(call: Any, *arguments: Any, **named: Any) -> int:
    with pytest.raises(Problem) as raised:
        call(*arguments, **named)
    return raised.value.status


def test_recipients_have_their_status_and_its_reason_in_words() -> None:
    body = recipients()
    assert [(each["user_id"], each["status"], each["reason"]) for each in body["rows"]] == [
        (1, "delivered", None),
        (2, "suppressed", "opted_out"),
        (3, "suppressed", "unknown_user"),
    ]
    assert body["rows"][1]["decision"] == "The user has opted out of this category or channel."
    assert body["rows"][0]["links"] == {"self": "/v1/notifications/s.1.push"}
    assert (body["truncated"], body["next_cursor"]) == (False, None)


def test_decision_names_the_setting_its_version_and_date() -> None:
    user_id, opted_out = row(2, "suppressed", "opted_out")
    log = [(user_id, replace(opted_out, decision=OPTED_OUT))]
    listed = RecipientsRoute(store(log), CONTROLS, FixedClock()).answer("s", {}, OWN)["rows"][0]
    shown = NotificationRoute(store(log), CONTROLS, FixedClock()).answer("s.2.push", {}, OWN)
    for body in (listed, shown, shown["timeline"][0]):
        assert body["decision"] == "The user has opted out of news by e-mail (settings of 3 May 2026)."
        assert body["decided_by"] == {
            "layer": "user",
            "rule": "category:news channel:email",
            "category": "news",
            "channel": "email",
            "settings_version": 7,
            "changed_at": "2026-05-03T10:22:00Z",
        }


@pytest.mark.parametrize(
    ("status", "reason", "decision", "sentence"),
    [
        ("suppressed", "opted_out", {"rule": "category:news"}, "The user has opted out of news."),
        ("suppressed", "opted_out", {"rule": "channel:push"}, "The user has opted out of every push message."),
        ("suppressed", "opted_out", {"rule": "channels malformed"}, REASON_WORDS[Reason.OPTED_OUT]),
        (
            "suppressed",
            "opted_out",
            {"layer": "tenant", "rule": "category:news channel:push"},
            "The tenant's rules exclude news by push message.",
        ),
        (
            "suppressed",
            "opted_out",
            {"layer": "global", "rule": "channels malformed: x"},
            "The rules for every tenant exclude this category or channel.",
        ),
        ("failed", "provider_rejected", {"rule": "channel"}, REASON_WORDS[Reason.PROVIDER_REJECTED]),
        (
            "held",
            None,
            {"rule": "quiet_hours", "settings_version": 4},
            "The notification waits for the end of the user's quiet hours.",
        ),
    ],
)
def test_decision_is_in_words(status: str, reason: str | None, decision: dict[str, Any], sentence: str) -> None:
    assert in_words(status, reason, decided_by(decision)) == sentence


def test_pages_continue_after_the_last_row() -> None:
    first = recipients(limit=["2"])
    assert (len(first["rows"]), first["truncated"]) == (2, True)
    rest = recipients(limit=["2"], cursor=[first["next_cursor"]])
    assert [each["user_id"] for each in rest["rows"]] == [3]
    assert status_of(recipients, status=["sent"], cursor=[first["next_cursor"]]) == 400


def test_recipients_are_filtered() -> None:
    assert [each["user_id"] for each in recipients(status=["suppressed"])["rows"]] == [2, 3]
    assert [each["user_id"] for each in recipients(reason=["opted_out", "no_device"])["rows"]] == [2]
    assert recipients(channel=["email"])["rows"] == []
    assert status_of(recipients, status=["lost"]) == 400
    assert status_of(recipients, cursor=["no cursor"]) == 400
    assert status_of(recipients, user_id=["1"]) == 400


def test_recipients_of_other_tenants_are_not_found() -> None:
    assert status_of(recipients, OTHER) == status_of(recipients, send_id="unknown") == 404
    assert status_of(notification, "s.1.push", OTHER) == status_of(notification, "s.9.push") == 404
    assert status_of(notification, "s.4.push") == 404


def test_a_notification_has_its_statuses_in_order() -> None:
    body = notification("s.1.push")
    assert [(step["at"], step["status"]) for step in body["timeline"]] == [
        ("2026-11-21T12:00:00Z", "held"),
        ("2026-11-21T20:00:00Z", "sent"),
        ("2026-11-21T20:02:00Z", "delivered"),
    ]
    assert (body["status"], body["decision"]) == ("delivered", "The provider reports that the message arrived.")
    assert body["notification_id"] == notification_id("s", 1, "push")
    assert notification("s.3.push")["timeline"][0]["reason"] == "unknown_user"


def test_notification_shows_the_chain_of_its_fallbacks() -> None:
    """E-mail waits for the push, and SMS for the e-mail."""
    register = InMemorySends(FixedClock())
    text = '[{"channel":"email","if":"not_sent","after":"10m"},{"channel":"sms","if":"not_delivered","after":"2h"}]'
    channels = ("push", "email", "sms")
    register.put(Send(key=SendKey(7, "s"), source=Source.REST, requested_at_ms=1, channels=channels, fallbacks=text))
    route = NotificationRoute(store(LOG), register, FixedClock())
    chain = route.answer("s.1.push", {}, OWN)["chain"]
    assert [(each["channel"], each["if"], each["after"]) for each in chain] == [
        ("push", None, None),
        ("email", "not_sent", "10m"),
        ("sms", "not_delivered", "2h"),
    ]
    assert chain[1]["links"] == {"self": "/v1/notifications/s.1.email"}
    assert notification("s.1.push")["chain"] == []


def test_an_accepted_send_has_no_recipients_yet() -> None:
    register = InMemorySends(FixedClock())
    register.put(
        Send(key=SendKey(7, "new"), source=Source.REST, requested_at_ms=1_699_999_999_000, users=1, channels=("push",))
    )
    route = RecipientsRoute(store([]), register, FixedClock())
    assert route.answer("new", {}, OWN)["rows"] == []
    assert status_of(route.answer, "new", {}, Clubs(frozenset({8}))) == 404


@pytest.mark.parametrize("name", ["s", "s.1", "s.x.push", "s.1.push.x", "s.1.", f"s.{2**63}.push", "s#1.1.push"])
def test_a_name_of_no_notification_is_404(name: str) -> None:
    assert status_of(notification, name) == 404


def test_without_a_log_there_are_no_recipients() -> None:
    off = store(None)
    assert status_of(RecipientsRoute(off, CONTROLS, FixedClock()).answer, "s", {}, OWN) == 404
    assert status_of(NotificationRoute(off, CONTROLS, FixedClock()).answer, "s.1.push", {}, OWN) == 404


def test_every_status_and_reason_has_words() -> None:
    assert (set(STATUS_WORDS), set(REASON_WORDS)) == (set(Status), set(Reason))
    assert in_words("a new word", "") == "The status is a new word."
    assert in_words("failed", "another") == "The reason is another."
