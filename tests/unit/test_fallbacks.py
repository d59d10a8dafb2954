"""A fallback waits for the notification on the channel before it, and ends once."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from masscomm.domain.provider_errors import Rejected, Transient
from masscomm.domain.users import User, UserSettings
from masscomm.errors import Retry
from masscomm.kafka import topics
from tests.support.harness.chain import NOW, entry, send
from tests.support.harness.fallbacks import KEY, TOPICS, FallbackChain

SENT, NOT_NEEDED = ("sent", None), ("suppressed", "not_needed")


@pytest.fixture
def chain() -> FallbackChain:
    return FallbackChain()


def test_sent_notification_needs_no_fallback(chain: FallbackChain) -> None:
    chain.request([1, 2])
    assert chain.of_user() == {"push": SENT, "email": ("scheduled", None)}
    assert {each.layer for outcome in chain.outcomes() for each in outcome.results} >= {"fallback"}
    chain.after(minutes=9)
    assert chain.of_user()["email"] == ("scheduled", None)
    chain.after(minutes=1)
    assert chain.of_user() == {"push": SENT, "email": NOT_NEEDED}
    assert (chain.mailed(), chain.times_ended(), chain.delay_store.items) == ([], {1}, {})


@pytest.mark.parametrize("users", [[1], [1, 2, 3]])
def test_failed_notification_lets_its_fallback_go_at_once(chain: FallbackChain, users: list[int]) -> None:
    chain.push.fail = lambda arn: Rejected("no") if arn == "arn-1" else None
    chain.request(users)
    assert chain.of_user() == {"push": ("failed", "provider_rejected"), "email": SENT}
    chain.after(minutes=10)
    assert (chain.mailed(), chain.times_ended()) == (["user1@example.com"], {1})
    assert {chain.of_user(user)["email"] for user in users[1:]} <= {NOT_NEEDED}


@pytest.mark.kills(guard="fallbacks.single_recipient")
def test_redelivered_send_begins_no_second_wait(chain: FallbackChain) -> None:
    chain.request([1])
    chain.clock.advance(120)
    chain.request([1])
    assert len(chain.delay_store.items) == 1


def test_suppressed_notification_lets_its_fallback_go_at_once(chain: FallbackChain) -> None:
    """The decision about the earlier channel is made by preference_checker itself."""
    chain.directory.put(UserSettings(user_id=1, channels={"push": False}))
    chain.request([1])
    assert chain.of_user() == {"push": ("suppressed", "opted_out"), "email": SENT}
    assert chain.delay_store.items == {}


@pytest.mark.kills(guard="fallbacks.own_record")
def test_fallbacks_that_go_and_that_wait_have_own_records(chain: FallbackChain) -> None:
    """Outcome records with one id count once: those of two kinds of recipients must differ."""
    chain.directory.put(UserSettings(user_id=1, categories={"news": False}))
    chain.request([1, 2])
    chain.after(minutes=11)
    assert chain.of_user(1)["email"] == ("suppressed", "opted_out")
    assert chain.of_user(2)["email"] == NOT_NEEDED
    contents = {(each.record_id, tuple(each.user_ids)) for each in chain.outcomes()}
    assert len({record_id for record_id, _ in contents}) == len(contents)


def test_preferences_are_checked_again_before_a_fallback(chain: FallbackChain) -> None:
    chain.push.fail = lambda _: Transient("throttled", throttled=True)
    chain.request([1, 2])
    chain.directory.put(UserSettings(user_id=1, channels={"email": False}))
    chain.after(minutes=10)
    assert chain.of_user()["email"] == ("suppressed", "opted_out")
    assert chain.of_user(2)["email"] == SENT


@pytest.mark.kills(guard="fallbacks.replaced")
@pytest.mark.kills(guard="fallbacks.stored_before_produced")
def test_waiting_notification_is_replaced(chain: FallbackChain) -> None:
    chain.push.fail = lambda _: Transient("throttled", throttled=True)
    chain.request([1, 2])
    chain.after(minutes=10)
    assert chain.mailed() == ["user1@example.com", "user2@example.com"]
    chain.push.fail = lambda _: None
    chain.after(minutes=60)
    assert chain.push.published == []
    assert chain.of_user() == {"push": ("cancelled", "replaced"), "email": SENT}
    assert chain.times_ended() == {1}


def test_fallback_after_a_published_message_is_not_needed(chain: FallbackChain) -> None:
    """The provider accepts the message in the last minute."""
    chain.push.fail = lambda _: Transient("throttled", throttled=True)
    chain.request([1])
    chain.push.fail = lambda _: None
    chain.after(minutes=9)
    assert chain.of_user()["push"] == SENT
    chain.after(minutes=1)
    assert chain.of_user() == {"push": SENT, "email": NOT_NEEDED}
    assert chain.mailed() == []


@pytest.mark.guarantee("fallbacks.consumer_behind")
@pytest.mark.kills(guard="fallbacks.absent_outcome")
def test_fallback_waits_until_the_outcomes_are_consumed(chain: FallbackChain) -> None:
    chain.stopped = {topics.OUTCOME}
    chain.request([1, 2])
    chain.outcome_progress.passed_ms = NOW
    for _ in range(3):
        chain.after(minutes=10)
    assert chain.of_user()["email"] == ("scheduled", None)
    chain.stopped, chain.outcome_progress.passed_ms = set(), None
    chain.settle()
    chain.after(minutes=1)
    assert (chain.of_user()["email"], chain.mailed()) == (NOT_NEEDED, [])


def test_unknown_outcomes_end_a_fallback_as_expired(chain: FallbackChain) -> None:
    chain.stopped = {topics.OUTCOME}
    chain.outcome_progress.passed_ms = NOW
    chain.request([1])
    for _ in range(2):
        chain.after(minutes=4 * 1_440)
    assert (chain.of_user()["email"], chain.mailed()) == (("expired", "expired"), [])


def test_cancelled_send_has_no_fallback(chain: FallbackChain) -> None:
    chain.stopped = {topics.DELIVERY}
    chain.request([1, 2])
    chain.control(cancelled_at_ms=NOW)
    chain.stopped = set()
    chain.settle()
    chain.after(minutes=10)
    cancelled = ("cancelled", "cancelled")
    assert chain.of_user() == {"push": cancelled, "email": cancelled}
    assert (chain.mailed(), chain.times_ended()) == ([], {1})


def test_fallback_of_a_paused_send_waits(chain: FallbackChain) -> None:
    chain.stopped = {topics.DELIVERY}
    chain.request([1, 2])
    chain.control(paused_at_ms=NOW)
    chain.stopped = set()
    chain.after(minutes=10)
    assert chain.of_user()["email"] == ("scheduled", None)
    chain.control(paused_at_ms=None, resumed_at_ms=chain.clock.now_ms())
    chain.after(minutes=1)
    ends = chain.of_user()
    assert ends in ({"push": SENT, "email": NOT_NEEDED}, {"push": ("cancelled", "replaced"), "email": SENT})
    assert (len(chain.push.published) + len(chain.mailed()), chain.times_ended()) == (2, {1})


def test_fallback_waits_with_a_held_notification(chain: FallbackChain) -> None:
    """The ten minutes begin when the earlier notification is let through."""
    night = {"start": "22:00", "end": "07:00"}  # NOW is at 22:13 UTC.
    for user in (1, 2):
        chain.directory.put(UserSettings(user_id=user, quiet_hours=night))
        chain.put_user(user, time_zone="UTC")
    chain.request([1, 2])
    assert chain.of_user() == {"push": ("held", None), "email": ("scheduled", None)}
    assert len(chain.delay_store.items) == 1
    chain.after(minutes=9 * 60)
    assert chain.of_user() == {"push": SENT, "email": ("scheduled", None)}
    chain.after(minutes=10)
    assert (chain.of_user()["email"], chain.times_ended()) == (NOT_NEEDED, {1})


def test_each_fallback_waits_for_the_one_before_it(chain: FallbackChain) -> None:
    text = '[{"channel":"email","if":"not_sent","after":"10m"},{"channel":"sms","if":"not_sent","after":"1h"}]'
    chain.put_user(1, phone="+4917012345678")
    chain.put_user(2, phone="+4917012345679")
    chain.push.fail = lambda _: Transient("throttled", throttled=True)
    chain.directory.put(UserSettings(user_id=2, channels={"email": False}))
    chain.request([1, 2], ("push", "email", "sms"), fallbacks=text)
    assert {result for (_, channel), result in chain.results().items() if channel == "sms"} == {("scheduled", None)}
    chain.after(minutes=10)
    assert chain.of_user()["sms"] == ("scheduled", None)
    assert chain.of_user(2)["email"] == ("suppressed", "opted_out")
    assert chain.of_user(2)["sms"][0] != "scheduled"
    chain.after(minutes=60)
    assert chain.of_user()["email"] == SENT
    assert chain.of_user()["sms"] == NOT_NEEDED
    assert chain.times_ended() == {1}


@pytest.mark.parametrize("topic", [topics.RECHECK, topics.OUTCOME, topics.BUILD, topics.DELIVERY])
def test_redelivery_repeats_no_fallback(chain: FallbackChain, topic: str) -> None:
    chain.push.fail = lambda arn: Rejected("no") if arn == "arn-1" else None
    chain.request([1, 2, 3])
    chain.again(topic)
    chain.after(minutes=10)
    chain.again(topic)
    assert chain.mailed() == ["user1@example.com"]
    assert chain.times_ended() == {1}


def test_late_failure_finds_the_decision(chain: FallbackChain) -> None:
    """The outcome of a failure is consumed after the fallback has gone because of the time."""
    chain.push.fail = lambda _: Transient("throttled", throttled=True)
    chain.request([1, 2])
    chain.after(minutes=10)
    assert chain.mailed() == ["user1@example.com", "user2@example.com"]
    chain.push.fail = lambda _: Rejected("no")
    chain.after(minutes=60)
    assert (len(chain.mailed()), chain.times_ended()) == (2, {1})


@pytest.mark.parametrize("store", ["register", "delay_store"])
def test_failing_store_holds_the_outcome(chain: FallbackChain, store: str) -> None:
    chain.push.fail = lambda _: Rejected("no")
    chain.stopped = {topics.OUTCOME}
    chain.request([1, 2])
    getattr(chain, store).failing = Retry("no answer")
    values = [
        chain.encoded(outcome, topics.OUTCOME, offset=offset)
        for offset, outcome in enumerate(chain.outcomes())
        if outcome.channel == "push"
    ]
    assert chain.run(chain.receipts, *values) == list(range(len(chain.outcomes())))[-len(values) :]
    getattr(chain, store).failing = None
    chain.stopped = set()
    chain.settle()
    assert len(chain.mailed()) == 2


def test_killed_consumer_of_outcomes_loses_no_fallback(chain: FallbackChain) -> None:
    """It is killed after it has stored that the fallback goes; the waiting record repeats this."""
    chain.push.fail = lambda _: Rejected("no")
    chain.stopped = {topics.OUTCOME}
    chain.request([1, 2])
    values = [chain.encoded(each, topics.OUTCOME) for each in chain.outcomes() if each.channel == "push"]
    chain.producer.fail = lambda *_: Retry("killed")
    assert chain.run(chain.receipts, *values) != []
    chain.producer.fail = lambda *_: None
    chain.after(minutes=10)
    assert (len(chain.mailed()), chain.times_ended()) == (2, {1})


def test_killed_decision_is_repeated_by_the_next_delivery(chain: FallbackChain) -> None:
    """preference_checker is killed after it has stored the decision, before it produces anything."""
    chain.push.fail = lambda arn: Transient("throttled", throttled=True) if arn == "arn-1" else None
    chain.request([1, 2])
    (waiting,) = [each for each in chain.delay_store.items.values() if each.delay_reason == "fallback"]
    chain.clock.advance(600)
    chain.producer.fail = lambda *_: Retry("killed")
    assert chain.run(chain.checker, entry(waiting.value, topic=waiting.topic)) == [0]
    chain.producer.fail = lambda *_: None
    assert chain.mailed() == []
    chain.after(minutes=1)
    assert (chain.mailed(), chain.of_user(2)["email"]) == (["user1@example.com"], NOT_NEEDED)
    chain.after(minutes=60)
    assert chain.times_ended() == {1}


@pytest.mark.parametrize("seed", range(8))
def test_one_of_both_is_sent_under_any_faults(seed: int) -> None:
    """Pushes fail, recover or stay busy, records are delivered again, and the consumer of outcomes is behind."""
    rng = random.Random(seed)  # noqa: S311
    chain, users = FallbackChain(), list(range(1, 7))
    for user in users:
        chain.put_device(user, user)
    modes = {f"arn-{user}": rng.choice(["sent", "rejected", "busy"]) for user in users}
    errors = {"sent": None, "rejected": Rejected("no"), "busy": Transient("throttled", throttled=True)}
    chain.push.fail = lambda arn: errors[modes[arn]]
    chain.request(users)
    for _ in range(14):
        if rng.random() < 0.3:
            is_behind = not chain.stopped
            chain.stopped = {topics.OUTCOME} if is_behind else set()
            chain.outcome_progress.passed_ms = chain.clock.now_ms() if is_behind else None
        if rng.random() < 0.2:
            modes[f"arn-{rng.choice(users)}"] = rng.choice(["sent", "busy"])
        if rng.random() < 0.3:
            chain.again(rng.choice(TOPICS))
        chain.after(minutes=1)
    chain.stopped, chain.outcome_progress.passed_ms = set(), None
    modes.update(dict.fromkeys(modes, "sent"))
    while chain.delay_store.items:
        chain.after(minutes=30)
    assert (chain.times_ended(), len(chain.results())) == ({1}, 2 * len(users))
    for user in users:
        ends = chain.of_user(user)
        assert (ends["push"] == SENT) == (ends["email"] == NOT_NEEDED)
        assert (ends["push"] != SENT) == (ends["email"] == SENT)
    assert len(chain.push.published) + len(chain.mailed()) == len(users)


# Without settings, no country gets SMS.
WENT = ("failed", "country_not_allowed")
UNDELIVERED = '[{"channel":"sms","if":"not_delivered","after":"1h"}]'


def receipt(chain: FallbackChain, status: str) -> None:
    """Process a receipt of the e-mail to the first user."""
    known = next(each for each in chain.outcomes() if each.step == "delivery" and each.channel == "email")
    result = [replace(known.results[0], status=status, reason=None, count=1)]
    found = replace(
        known,
        record_id=f"receipt-{status}",
        step="receipt",
        results=result,
        result_index=[0],
        provider_message_ids=[],
        positions=known.positions[:1],
        user_ids=known.user_ids[:1],
    )
    assert chain.run(chain.receipts, chain.encoded(found, topics.OUTCOME)) == []
    chain.settle()


@pytest.mark.parametrize(("status", "sms"), [("delivered", NOT_NEEDED), ("bounced", WENT), (None, WENT)])
def test_undelivered_email_has_a_fallback(
    chain: FallbackChain, monkeypatch: pytest.MonkeyPatch, status: str | None, sms: tuple[str, str | None]
) -> None:
    monkeypatch.setenv("COMPLETE_RECEIPTS", "email")
    chain.put_user(1, phone="+4917012345678")
    chain.request([1], ("email", "sms"), fallbacks=UNDELIVERED)
    assert chain.of_user() == {"email": SENT, "sms": ("scheduled", None)}
    if status is not None:
        receipt(chain, status)
    assert chain.of_user()["sms"] == (WENT if status == "bounced" else ("scheduled", None))
    chain.after(minutes=60)
    assert chain.of_user()["sms"] == sms


def test_receipt_carries_the_record_that_waits(chain: FallbackChain) -> None:
    """The outcome record of a receipt is made from the stored message."""
    chain.request([1])
    (sent,) = [each for each in chain.outcomes() if each.step == "delivery"]
    (name,) = sent.provider_message_ids[0]
    assert sent.fallback is not None
    assert chain.messages.find([name])[name].fallback == sent.fallback


REFUSED: list[Callable[[], dict[str, object]]] = [
    lambda: {"fallbacks": "[]"},
    lambda: {"fallbacks": "{"},
    lambda: {"fallbacks": '[{"channel":"push","if":"not_sent","after":"10m"}]'},
    lambda: {"fallbacks": '[{"channel":"sms","if":"not_sent","after":"10m"}]'},
    lambda: {"fallbacks": '[{"channel":"email","if":"unread","after":"10m"}]'},
    lambda: {"fallbacks": '[{"channel":"email","if":"not_sent","after":"8d"}]'},
    lambda: {"fallbacks": '[{"channel":"email","if":"not_sent"}]'},
    lambda: {"channels": ["push", "email", "push"]},
    lambda: {"channels": []},
    lambda: {"fallbacks": '[{"channel":"email","if":"not_delivered","after":"10m"}]'},
    lambda: {"digest": '{"template":"t","window":"1h"}'},
    lambda: {"push": '{"silent":true}'},
    lambda: {"expires_at": NOW + 600_000},
]


@pytest.mark.kills(guard="fallbacks.invalid_record")
@pytest.mark.parametrize("values", REFUSED)
def test_invalid_fallbacks_of_a_record_are_refused(
    chain: FallbackChain, values: Callable[[], dict[str, object]]
) -> None:
    chain.request([1], **values())  # type: ignore[arg-type]
    assert [each["masscomm.reason"] for each in chain.dead_letters()] == ["invalid"]
    assert chain.register.fallback(KEY, "x").revision == 0
    assert (chain.push.published, chain.mailed()) == ([], [])


def test_user_without_device_gets_the_fallback(chain: FallbackChain) -> None:
    chain.directory.put(User(user_id=4, club_id=7, email="user4@example.com"), UserSettings(user_id=4))
    chain.process(send([4], channels=["push", "email"], fallbacks='[{"channel":"email","if":"not_sent","after":"1d"}]'))
    assert chain.of_user(4) == {"push": ("suppressed", "no_device"), "email": SENT}
