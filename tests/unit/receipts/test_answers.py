"""STOP and START by SMS: suppressions of the owning tenants at once, and preferences of the users with the number."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from masscomm.domain.preference_changes import API, SMS, PreferenceChanges, Wish
from masscomm.domain.sms_answers import Word, word_in
from masscomm.domain.statuses import Reason
from masscomm.domain.suppressions import DAY_MS, NEVER_MS, Suppression, id_of, suppressed
from masscomm.domain.users import User, UserSettings
from masscomm.errors import Retry
from masscomm.kafka import topics
from tests.support.harness.chain import NOW, entry
from tests.support.harness.receipts import Receipts
from tests.support.inputs import receipt_events
from tests.support.inputs.receipt_events import NUMBER, of_answer
from tests.support.sms import ANSWERED_AT, CLUB, LIMITS, SENDER, SETTINGS, sms_settings

ADA = User(user_id=101, club_id=CLUB, phone="0151 23456789")
# Another club with the same sender.
OTHER_CLUB = 8
OUT, IN = Wish(None, "sms", False), Wish(None, "sms", True)


@pytest.fixture(autouse=True)
def settings() -> Iterator[None]:
    with sms_settings():
        yield


@pytest.fixture
def receipts() -> Receipts:
    made = Receipts()
    made.directory.put(ADA)
    return made


def shared() -> Any:
    """Return settings with which two clubs have one sender."""
    tenants = SETTINGS["tenants"]
    return sms_settings(SETTINGS | {"tenants": {**tenants, OTHER_CLUB: tenants[CLUB]}})


def answers(receipts: Receipts, text: str, at_ms: int = NOW, **values: Any) -> None:
    """Receive an answer to an SMS, and no earlier one again."""
    before = len(receipts.values(topics.RECEIPT))
    receipts.ingest(of_answer(text, at_ms=at_ms, **values))
    new = [entry(value, topic=topics.RECEIPT) for value in receipts.values(topics.RECEIPT)[before:]]
    assert not new or receipts.run(receipts.process, *new) == []


def stopped(receipts: Receipts, club_id: int = CLUB, *, at_ms: int = NOW) -> bool:
    """Return whether the club sends nothing to the number."""
    return NUMBER in suppressed(club_id, [NUMBER], receipts.messages.suppressions, at_ms)


def wishes(receipts: Receipts, user_id: int = ADA.user_id) -> list[Wish]:
    document = receipts.directory.preference_changes.get(user_id)
    return [] if document is None else [each.wish for each in PreferenceChanges.read(document).changes]  # type: ignore[misc]


@pytest.mark.parametrize("text", ["STOP", " stop\n", "Stop.", "Arret", "OPT-OUT", "unsubscribe", "td"])
def test_stop_suppresses_the_number_for_good(receipts: Receipts, text: str) -> None:
    answers(receipts, text)
    (document,) = receipts.messages.suppressions.values()
    assert (document["reason"], document["at"], document["expires_at"]) == (Reason.OPTED_OUT, NOW, NEVER_MS)
    assert stopped(receipts, at_ms=NOW + 10_000 * DAY_MS)
    assert ("suppressions", id_of(CLUB, NUMBER)) in receipts.publisher.published


def test_stop_opts_users_with_the_number_out_of_sms(receipts: Receipts) -> None:
    receipts.directory.put(
        User(user_id=102, club_id=CLUB, phone="+49 (151) 234-56789"),
        User(user_id=103, club_id=CLUB, phone="0151 99999999"),
        User(user_id=104, club_id=OTHER_CLUB, phone=NUMBER),
    )
    answers(receipts, "STOP")
    assert [wishes(receipts, each) for each in (101, 102, 103, 104)] == [[OUT], [OUT], [], []]
    assert receipts.directory.preference_changes[101]["source"] == SMS
    assert len(receipts.values(topics.PREFERENCE_CHANGE)) == 2


@pytest.mark.kills(guard="sms.other_answers")
@pytest.mark.parametrize("text", ["", "Thanks", "don't stop", "HELP"])
def test_other_answers_are_not_kept(receipts: Receipts, text: str) -> None:
    answers(receipts, text)
    assert receipts.values(topics.RECEIPT) == []
    assert receipts.messages.suppressions == {}


def test_text_that_begins_with_stop_stops_by_its_keyword() -> None:
    assert word_in("Stop this, please", "STOP") is Word.STOP
    assert word_in("Stop this, please") is None


def test_text_of_an_answer_is_not_produced(receipts: Receipts) -> None:
    answers(receipts, "STOP", messageKeyword="SECRET")
    (value,) = receipts.values(topics.RECEIPT)
    assert b"messageBody" not in value
    assert b"SECRET" not in value


def test_malformed_answer_is_neither_kept_nor_logged(receipts: Receipts, caplog: pytest.LogCaptureFixture) -> None:
    event = of_answer("STOP")
    message = json.loads(event["Records"][0]["Sns"]["Message"])
    del message["destinationNumber"]
    event["Records"][0]["Sns"]["Message"] = json.dumps(message)
    assert receipts.receive(event) == []
    assert receipts.values(topics.RECEIPT) == []
    assert NUMBER not in caplog.text


def test_numbers_are_not_logged(receipts: Receipts, caplog: pytest.LogCaptureFixture) -> None:
    answers(receipts, "STOP", destinationNumber="+4915700000000")
    assert receipts.messages.suppressions == {}
    assert "no tenant" in caplog.text
    assert NUMBER not in caplog.text


@pytest.mark.kills(guard="sms.stop_of_owner")
def test_stop_concerns_the_tenant_of_the_number_only(receipts: Receipts) -> None:
    own = {"region": "DE", "senders": {"default": SENDER | {"numbers": ["+4915700000000"]}}, **LIMITS}
    receipts.directory.put(User(user_id=104, club_id=OTHER_CLUB, phone=NUMBER))
    with sms_settings(SETTINGS | {"tenants": {**SETTINGS["tenants"], OTHER_CLUB: own}}):
        answers(receipts, "STOP")
    assert (stopped(receipts), stopped(receipts, OTHER_CLUB)) == (True, False)
    assert wishes(receipts, 104) == []


def test_shared_number_stops_for_each_tenant(receipts: Receipts) -> None:
    with shared():
        answers(receipts, "STOP")
    assert (stopped(receipts), stopped(receipts, OTHER_CLUB)) == (True, True)


def test_known_message_decides_about_a_shared_number(receipts: Receipts) -> None:
    receipts.sent_messages(["m"], channel="sms")
    with shared():
        answers(receipts, "STOP", previousPublishedMessageId="m")
    assert (stopped(receipts), stopped(receipts, OTHER_CLUB)) == (True, False)


def test_tenants_with_the_default_sender_are_those_of_users(receipts: Receipts) -> None:
    receipts.directory.put(User(user_id=104, club_id=OTHER_CLUB, phone=NUMBER))
    default = SETTINGS["tenants"][CLUB]
    with sms_settings({"default": default, "prices": SETTINGS["prices"]}):
        answers(receipts, "STOP")
    assert [each for each in (CLUB, OTHER_CLUB, 9) if stopped(receipts, each)] == [CLUB, OTHER_CLUB]


def test_start_lifts_stop_and_its_preference(receipts: Receipts) -> None:
    answers(receipts, "STOP")
    answers(receipts, "start", NOW + 1)
    assert not stopped(receipts)
    assert wishes(receipts) == [IN]


@pytest.mark.kills(guard="sms.start_lifts_stop")
@pytest.mark.parametrize("words", [("START",), ("STOP", "START"), ("STOP", "START", "STOP", "START")])
def test_start_leaves_the_suppression_of_a_complaint(receipts: Receipts, words: tuple[str, ...]) -> None:
    complaint = Suppression(club_id=CLUB, address=NUMBER, reason=Reason.COMPLAINED, at_ms=NOW, expires_ms=NOW + 5_000)
    receipts.messages.suppress([complaint])
    for place, word in enumerate(words):
        answers(receipts, word, NOW + place)
    assert stopped(receipts, at_ms=NOW + 4_999)
    assert not stopped(receipts, at_ms=NOW + 5_000)


def test_dead_number_after_stop_stays_suppressed(receipts: Receipts) -> None:
    answers(receipts, "STOP")
    bounce = Suppression(
        club_id=CLUB, address=NUMBER, reason=Reason.BOUNCED_PERMANENT, at_ms=NOW, expires_ms=NOW + 5_000
    )
    receipts.messages.suppress([bounce])
    answers(receipts, "START", NOW + 1)
    assert stopped(receipts, at_ms=NOW + 4_999)


@pytest.mark.kills(guard="sms.start_reverts_stop")
def test_start_leaves_the_opt_out_of_the_user(receipts: Receipts) -> None:
    changes = PreferenceChanges(user_id=ADA.user_id, club_id=CLUB).after([OUT], None, NOW - 1, source=API)
    receipts.directory.preference_changes[ADA.user_id] = changes.document
    answers(receipts, "STOP")
    answers(receipts, "START", NOW + 1)
    assert wishes(receipts) == [OUT]
    assert not stopped(receipts)


def test_older_stop_after_start_has_no_effect(receipts: Receipts) -> None:
    answers(receipts, "START", NOW)
    answers(receipts, "STOP", NOW - 1)
    assert not stopped(receipts)
    assert wishes(receipts) == []


def test_stop_and_start_of_one_moment_stop(receipts: Receipts) -> None:
    answers(receipts, "START", NOW)
    answers(receipts, "STOP", NOW)
    answers(receipts, "START", NOW)
    assert stopped(receipts)


def test_redelivered_stop_changes_nothing(receipts: Receipts) -> None:
    receipts.ingest(of_answer("STOP"))
    receipts.ingest(of_answer("STOP"))
    assert len(set(receipts.values(topics.RECEIPT))) == 1
    receipts.reprocess()
    stored = dict(receipts.messages.suppressions), dict(receipts.directory.preference_changes)
    receipts.clock.advance(60)
    receipts.reprocess()
    assert (receipts.messages.suppressions, receipts.directory.preference_changes) == stored


def test_redelivered_stop_leaves_a_later_opt_in(receipts: Receipts) -> None:
    answers(receipts, "STOP")
    known = PreferenceChanges.read(receipts.directory.preference_changes[ADA.user_id])
    receipts.directory.preference_changes[ADA.user_id] = known.after([IN], None, NOW + 1, source=API).document
    assert receipts.reprocess() == []
    assert wishes(receipts) == [IN]


def test_opted_out_user_has_no_further_change(receipts: Receipts) -> None:
    receipts.directory.put(UserSettings(user_id=ADA.user_id, channels={"SMS": False}))
    answers(receipts, "STOP")
    assert wishes(receipts) == []


@pytest.mark.kills(guard="sms.answers_published")
def test_suppression_does_not_wait_for_the_directory(receipts: Receipts) -> None:
    receipts.directory.failing = Retry("not ready")
    assert receipts.receive(of_answer("STOP")) != []
    assert stopped(receipts)
    assert receipts.publisher.published == [("suppressions", id_of(CLUB, NUMBER))]
    receipts.directory.failing = None
    assert receipts.reprocess() == []
    assert wishes(receipts) == [OUT]


def test_row_without_the_searched_field_is_found_by_message(receipts: Receipts) -> None:
    receipts.sent_messages(["m"], channel="sms")
    receipts.directory.users_by_phone_ends = lambda ends: []  # type: ignore[method-assign]  # noqa: ARG005
    answers(receipts, "STOP", previousPublishedMessageId="m")
    assert wishes(receipts) == [OUT]


def test_time_of_an_answer_is_that_of_sns() -> None:
    event = of_answer("STOP", at_ms=NOW)
    assert datetime.fromisoformat(event["Records"][0]["Sns"]["Timestamp"]) == datetime.fromtimestamp(NOW / 1000, UTC)
    assert json.loads(event["Records"][0]["Sns"]["Message"])["destinationNumber"] == ANSWERED_AT
    assert receipt_events.NUMBER == NUMBER
