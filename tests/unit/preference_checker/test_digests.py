"""Digests: notifications of a category are collected, and go out as one message that is a send of its own."""

import json
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from functions.preference_checker import check_preferences
from masscomm.decisions import digests as rules
from masscomm.domain.digest_members import OpenDigest
from masscomm.domain.digests import MAX_CONTENTS_BYTES, contents_in
from masscomm.domain.lanes import Lane
from masscomm.domain.records import NotificationOutcome, SendRequested
from masscomm.domain.sends import SendControl, SendKey
from masscomm.domain.users import DirectoryPosition, User, UserSettings
from masscomm.errors import Retry
from masscomm.kafka import topics
from masscomm.stores.categories.in_memory import InMemoryCategories
from masscomm.stores.categories.known import known_categories
from masscomm.stores.digests.in_memory import InMemoryDigests
from masscomm.stores.sends.port import change
from tests.support.categories import put_version
from tests.support.contracts.directory import follow
from tests.support.fakes.crashes import Fuse, KilledError
from tests.support.harness.chain import NOW, results_of, send
from tests.support.harness.preference_checker import Checker
from tests.support.inputs.optional_tables import mapped

MINUTE = 60_000
HOUR = 60 * MINUTE
# NOW is at 22:13:20 UTC; an hour later, in whole minutes.
DUE = -(-(NOW + HOUR) // MINUTE) * MINUTE
HOURLY = {"template": "comments_digest", "window": "1h"}
SENDS = [f"{number:08}-0000-4000-8000-000000000000" for number in range(8)]
COLLECTED, DIGESTED, CANCELLED, EXPIRED = (
    ("collected", None),
    ("digested", None),
    ("cancelled", "cancelled"),
    ("expired", "expired"),
)


@pytest.fixture
def checker(stored_categories: InMemoryCategories) -> Checker:
    """A checker, and the category comments whose notifications are collected for an hour."""
    put_digest(stored_categories, HOURLY)
    return Checker()


def put_digest(store: InMemoryCategories, digest: Mapping[str, Any] | None, **fields: Any) -> None:
    entry = {"channels": ["push"], **({} if digest is None else {"digest": digest})} | fields
    put_version(store, "comments", entry, NOW - HOUR)
    known_categories().read()


def check(checker: Checker, number: int, users: Sequence[int] = (1,), **values: Any) -> list[int]:
    topic = values.pop("topic", topics.SEND_MONOLITH)
    record = send(
        users, **({"send_id": SENDS[number], "type": "comments", "timestamp": checker.clock.now_ms()} | values)
    )
    return checker.check(record, topic=topic, timestamp=checker.clock.now_ms())


def messages(checker: Checker) -> list[SendRequested]:
    """Return the distinct messages of digests that were produced."""
    found = checker._decoded(SendRequested, topics.SEND_API)
    return list({(each.send_id, each.collected): each for each in found}.values())


def deliver(checker: Checker) -> list[int]:
    """Let the checker consume the messages of digests."""
    found = messages(checker)
    checker.forget()
    return checker.check(*found, topic=topics.SEND_API, timestamp=checker.clock.now_ms())


def result(outcomes: Sequence[NotificationOutcome], number: int) -> dict[tuple[int, str], tuple[str, str | None]]:
    """Return the last results of a send by user and channel."""
    found: dict[tuple[int, str], tuple[str, str | None]] = {}
    for outcome in outcomes:
        if outcome.send_id == SENDS[number]:
            found |= results_of([outcome])
    return found


def contents(message: SendRequested) -> dict[str, Any]:
    assert message.collected is not None
    return contents_in(message.collected)


def control(checker: Checker, number: int, **values: Any) -> None:
    key = SendKey(7, SENDS[number])
    stored = checker.register.find(SENDS[number])
    assert stored is not None
    change(checker.register, stored, lambda each: replace(each, control=SendControl(send=key, revision=1, **values)))


def released_by_send(checker: Checker) -> dict[str, dict[str, Any]]:
    """Release the records at the end of the window; return the event entry of each send."""
    checker.clock.advance((DUE - checker.clock.now_ms()) / 1000)
    return {
        checker.codec.decode("RecheckRequested", b64decode(each["value"]))["send_id"]: each
        for each in checker.released()
    }


def test_notifications_in_a_window_are_one_message(checker: Checker) -> None:
    for number in range(3):
        checker.clock.advance(60)
        assert check(checker, number, data={"author": f"A{number}"}) == []
    assert checker.builds() == []
    assert [result(checker.outcomes(), number) for number in range(3)] == [{(1, "push"): COLLECTED}] * 3
    checker.forget()
    assert checker.release_at(DUE + 60_000) == []
    [message] = messages(checker)
    assert (message.to_users, message.channels, message.template) == ([1], ["push"], "comments_digest")
    assert contents(message) == {
        "count": 3,
        "first": {"author": "A0"},
        "list": [{"author": "A0"}, {"author": "A1"}, {"author": "A2"}],
    }
    assert [result(checker.outcomes(), number) for number in range(3)] == [{(1, "push"): DIGESTED}] * 3
    assert {each.rule for outcome in checker.outcomes() for each in outcome.results} == {f"digest {message.send_id}"}
    assert deliver(checker) == []
    [build] = checker.builds()
    assert (build.send_id, build.collected) == (message.send_id, message.collected)


@pytest.mark.kills(guard="digests.followed_object")
@pytest.mark.parametrize(
    ("objects", "is_of", "is_sent"),
    [
        (["team:42", "team:42"], "team:42", False),
        (["team:42", "team:43"], None, True),
        (["team:42", None], None, True),
    ],
)
def test_digest_about_one_object_ends_by_unfollowing(
    checker: Checker, objects: list[str | None], is_of: str | None, is_sent: bool
) -> None:
    with mapped("memberships"):
        rows = checker.directory.rows
        rows |= {("memberships", id_): row for id_, row in (follow(1), follow(1, name="43"))}
        for number, each in enumerate(objects):
            assert check(checker, number, follows=each) == []
        checker.release_at(DUE)
        [message] = messages(checker)
        assert message.follows == is_of
        del rows["memberships", follow(1)[0]]
        assert deliver(checker) == []
        assert bool(checker.builds()) is is_sent
        assert is_sent or results_of(checker.outcomes()) == {(1, "push"): ("suppressed", "not_following")}


@pytest.mark.kills(guard="digests.single_recipient")
def test_a_member_alone_is_a_digest_of_one(checker: Checker) -> None:
    check(checker, 0)
    [part] = checker.delayed_parts()
    assert (checker.due_times(), part.why) == ([DUE], "digest")
    checker.release_at(DUE)
    [message] = messages(checker)
    assert contents(message)["count"] == 1
    assert (checker.due_times(), result(checker.outcomes(), 0)) == ([], {(1, "push"): DIGESTED})


def test_each_user_and_channel_has_a_digest(checker: Checker) -> None:
    check(checker, 0, [1, 2], channels=["push", "email"])
    check(checker, 1, [1], channels=["push"])
    checker.release_at(DUE)
    counts = {(message.to_users[0], message.channels[0]): contents(message)["count"] for message in messages(checker)}
    assert counts == {(1, "push"): 2, (1, "email"): 1, (2, "push"): 1, (2, "email"): 1}


def test_the_value_of_the_key_separates_digests(checker: Checker, stored_categories: InMemoryCategories) -> None:
    put_digest(stored_categories, HOURLY | {"key": "post"})
    for number, post in enumerate(["a", "b", "a"]):
        check(checker, number, data={"post": post})
    checker.release_at(DUE)
    assert sorted(contents(message)["count"] for message in messages(checker)) == [1, 2]


def test_the_next_notification_opens_another_digest(checker: Checker) -> None:
    check(checker, 0)
    checker.release_at(DUE)
    check(checker, 1)
    checker.release_at(DUE + HOUR)
    assert len({message.send_id for message in messages(checker)}) == 2


@pytest.mark.kills(guard="digests.expires_before")
def test_a_notification_that_expires_before_goes_out_alone(checker: Checker) -> None:
    check(checker, 0)
    check(checker, 1, expires_at=DUE)
    check(checker, 2, expires_at=DUE + 1)
    assert [build.send_id for build in checker.builds()] == [SENDS[1]]
    assert result(checker.outcomes(), 2) == {(1, "push"): COLLECTED}


def test_a_digest_closes_at_the_local_time(checker: Checker, stored_categories: InMemoryCategories) -> None:
    put_digest(stored_categories, {"template": "daily", "at": "08:00"})
    checker.put_users([1], time_zone="Asia/Tokyo")
    checker.put_users([2], time_zone="Europe/Berlin")
    check(checker, 0, [1, 2, 3])
    # 08:00 in Tokyo, in Berlin, and in UTC for the user without a zone.
    assert checker.due_times() == [
        round(datetime(2023, 11, day, hour, tzinfo=UTC).timestamp() * 1000)
        for day, hour in ((14, 23), (15, 7), (15, 8))
    ]


@pytest.mark.kills(guard="digests.quiet_hours")
def test_a_digest_that_is_due_in_quiet_hours_closes_later(checker: Checker) -> None:
    night = {"start": "22:00", "end": "07:00"}
    checker.directory.put(User(user_id=1, club_id=7, time_zone="UTC"), UserSettings(user_id=1, quiet_hours=night))
    check(checker, 0)
    check(checker, 1)
    morning = round(datetime(2023, 11, 15, 7, tzinfo=UTC).timestamp() * 1000)
    assert checker.due_times() == [morning, morning]
    checker.release_at(morning)
    assert [contents(message)["count"] for message in messages(checker)] == [2]
    deliver(checker)
    assert len(checker.builds()) == 1


def test_the_message_follows_settings_of_its_time(checker: Checker) -> None:
    check(checker, 0)
    checker.directory.put(
        User(user_id=1, club_id=7), UserSettings(user_id=1, categories={"comments": False}, version=2)
    )
    checker.release_at(DUE)
    assert result(checker.outcomes(), 0) == {(1, "push"): DIGESTED}
    deliver(checker)
    assert checker.builds() == []
    assert [set(results_of([outcome]).values()) for outcome in checker.outcomes()] == [{("suppressed", "opted_out")}]


def test_suppressed_notifications_are_not_collected(checker: Checker) -> None:
    checker.directory.put(User(user_id=1, club_id=7), UserSettings(user_id=1, categories={"comments": False}))
    check(checker, 0)
    assert (result(checker.outcomes(), 0), checker.due_times()) == ({(1, "push"): ("suppressed", "opted_out")}, [])


@pytest.mark.parametrize("count", [1, 2])
def test_cancelled_members_are_left_out(checker: Checker, count: int) -> None:
    for number in range(3):
        check(checker, number, range(1, count + 1), data={"n": str(number)})
    control(checker, 1, cancelled_at_ms=NOW)
    checker.release_at(DUE)
    assert [contents(message)["list"] for message in messages(checker)] == [[{"n": "0"}, {"n": "2"}]] * count
    ends = [set(result(checker.outcomes(), number).values()) for number in range(3)]
    assert ends == [{DIGESTED}, {CANCELLED}, {DIGESTED}]


@pytest.mark.kills(guard="digests.closing_record")
def test_a_cancelled_member_that_closes_produces_the_message(checker: Checker) -> None:
    check(checker, 0)
    check(checker, 1)
    control(checker, 0, cancelled_at_ms=NOW)
    # The other record comes later.
    assert checker.run(checker.use_case, released_by_send(checker)[SENDS[0]]) == []
    assert [contents(message)["count"] for message in messages(checker)] == [1]


def test_a_digest_of_cancelled_members_has_no_message(checker: Checker) -> None:
    for number in range(2):
        check(checker, number)
        control(checker, number, cancelled_at_ms=NOW)
    checker.release_at(DUE)
    assert messages(checker) == []
    assert [result(checker.outcomes(), number) for number in range(2)] == [{(1, "push"): CANCELLED}] * 2


@pytest.mark.kills(guard="digests.closed_stays")
@pytest.mark.parametrize("values", [{"cancelled_at_ms": NOW}, {"paused_at_ms": NOW}])
def test_a_control_after_the_closing_changes_no_member(checker: Checker, values: dict[str, int]) -> None:
    check(checker, 0)
    check(checker, 1)
    checker.clock.advance((DUE - NOW) / 1000)
    one, other = checker.released()
    assert checker.run(checker.use_case, one) == []
    for number in range(2):
        control(checker, number, **values)
    assert checker.run(checker.use_case, other) == []
    assert [result(checker.outcomes(), number) for number in range(2)] == [{(1, "push"): DIGESTED}] * 2


@pytest.mark.kills(guard="digests.paused_sender")
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_paused_members_join_the_next_digest(checker: Checker, order: tuple[int, int]) -> None:
    check(checker, 0, data={"n": "0"})
    check(checker, 1, data={"n": "1"})
    control(checker, 1, paused_at_ms=NOW)
    released = released_by_send(checker)
    assert [checker.run(checker.use_case, released[SENDS[number]]) for number in order] == [[], []]
    assert [contents(message)["list"] for message in messages(checker)] == [[{"n": "0"}]]
    checker.forget()
    control(checker, 1, resumed_at_ms=DUE)
    # The scheduler releases the records of a resumed send.
    for place, item in list(checker.delay_store.items.items()):
        checker.delay_store.items[place] = replace(item, due_ms=DUE)
    checker.release_at(DUE + MINUTE)
    assert (messages(checker), result(checker.outcomes(), 1)) == ([], {(1, "push"): COLLECTED})
    checker.release_at(DUE + 2 * HOUR)
    assert [contents(message)["list"] for message in messages(checker)] == [[{"n": "1"}]]
    assert result(checker.outcomes(), 1) == {(1, "push"): DIGESTED}


def test_expired_members_are_left_out(checker: Checker) -> None:
    check(checker, 0, expires_at=DUE + 1)
    check(checker, 1)
    checker.release_at(DUE + MINUTE)
    assert [contents(message)["count"] for message in messages(checker)] == [1]
    assert result(checker.outcomes(), 0) == {(1, "push"): EXPIRED}


def test_a_full_digest_closes_at_once(checker: Checker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "MAX_MEMBERS", 2)
    for number in range(5):
        check(checker, number)
    checker.release_at(NOW + MINUTE)
    assert sorted(contents(message)["count"] for message in messages(checker)) == [2, 2]
    checker.release_at(DUE)
    assert sorted(contents(message)["count"] for message in messages(checker)) == [1, 2, 2]
    assert [result(checker.outcomes(), number) for number in range(5)] == [{(1, "push"): DIGESTED}] * 5


@pytest.mark.kills(guard="digests.joined_once")
def test_a_member_without_a_recorded_decision_finds_its_digest(checker: Checker) -> None:
    """Its record was killed before the decision was recorded, and comes again after the digest is closed."""
    checker.log.failing = {"put_if_absent": Retry("killed")}
    assert check(checker, 0, timestamp=NOW) == [0]
    checker.log.failing = None
    check(checker, 1)
    checker.release_at(DUE)
    assert [contents(message)["count"] for message in messages(checker)] == [2]
    assert check(checker, 0, timestamp=NOW) == []
    checker.release_at(DUE + 2 * HOUR)
    assert (len(messages(checker)), result(checker.outcomes(), 0)) == (1, {(1, "push"): DIGESTED})


@pytest.mark.parametrize("users", [(1,), (1, 2)])
def test_a_redelivery_after_the_closing_finds_its_digest(checker: Checker, users: Sequence[int]) -> None:
    check(checker, 0, users, timestamp=NOW)
    checker.release_at(DUE)
    check(checker, 0, users, timestamp=NOW)
    checker.release_at(DUE + 2 * HOUR)
    assert len(messages(checker)) == len(users)
    assert set(result(checker.outcomes(), 0).values()) == {DIGESTED}


@pytest.mark.kills(guard="digests.critical")
def test_critical_sends_are_not_collected(checker: Checker) -> None:
    check(checker, 0, topic=topics.in_lane(topics.SEND_MONOLITH, Lane.CRITICAL))
    assert len(checker.builds()) == 1


@pytest.mark.kills(guard="digests.message")
def test_the_message_of_a_digest_is_not_collected(checker: Checker) -> None:
    check(checker, 0, collected=json.dumps({"count": 1, "list": [{}]}))
    assert len(checker.builds()) == 1


@pytest.mark.kills(guard="digests.silent_push")
def test_silent_pushes_are_not_collected(checker: Checker) -> None:
    check(checker, 0, channels=["push", "email"], push='{"silent":true}')
    assert [build.channel for build in checker.builds()] == ["push"]
    assert result(checker.outcomes(), 0) == {(1, "email"): COLLECTED}


@pytest.mark.kills(guard="digests.cancelled")
def test_a_cancelled_send_is_not_collected(checker: Checker) -> None:
    """A single recipient goes on to delivery, which ends the notification."""
    check(checker, 0, [2], chunk_count=2)
    control(checker, 0, cancelled_at_ms=NOW)
    check(checker, 0, [1], chunk_count=2, chunk_index=1)
    assert [build.user_ids for build in checker.builds()] == [[1]]


def test_a_send_has_a_digest_of_its_own(checker: Checker) -> None:
    check(checker, 0, type="news", digest=json.dumps({"template": "news_digest", "window": "5m"}))
    checker.release_at(NOW + 6 * MINUTE)
    assert [message.template for message in messages(checker)] == ["news_digest"]


def test_a_mandatory_category_has_no_digest(checker: Checker, stored_categories: InMemoryCategories) -> None:
    own = json.dumps({"template": "t", "window": "5m"})
    check(checker, 0, type="security_alert", channels=["push"], digest=own)
    [letter] = checker.dead_letters()
    assert "mandatory" in letter["masscomm.error"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("digest", "{"),
        ("digest", "[]"),
        ("digest", '{"window": "1h"}'),
        ("digest", '{"template": "t", "window": "0m"}'),
        ("digest", '{"template": "t", "window": "8d"}'),
        ("digest", '{"template": "t", "at": "24:00"}'),
        ("digest", '{"template": "t", "at": "08:00", "window": "1h"}'),
        ("digest", '{"template": "t", "window": "1h", "list": 101}'),
        ("digest", '{"template": "t", "window": "1h", "key": ""}'),
        ("digest", '{"template": "t", "window": "1h", "more": 1}'),
        ("collected", "{}"),
        ("collected", '{"count": 1, "list": [{"a": 1}]}'),
    ],
)
def test_an_invalid_digest_is_dead_lettered(checker: Checker, field: str, value: str) -> None:
    check(checker, 0, [1], **{field: value})
    [letter] = checker.dead_letters()
    assert letter["masscomm.reason"] == "invalid"
    assert set(result(checker.outcomes(), 0).values()) == {("failed", "dead_letter")}


def test_contents_have_room_for_the_first_members(checker: Checker) -> None:
    for number in range(3):
        check(checker, number, data={"text": "x" * (MAX_CONTENTS_BYTES // 3)})
    check(checker, 3, data={"text": "x" * MAX_CONTENTS_BYTES})
    assert [build.send_id for build in checker.builds()] == [SENDS[3]]
    checker.release_at(DUE)
    [message] = messages(checker)
    assert (contents(message)["count"], len(contents(message)["list"])) == (3, 2)


def damage(checker: Checker) -> None:
    [key] = checker.digests.heads
    checker.digests.heads[key] = OpenDigest(is_damaged=True)


@pytest.mark.kills(guard="digests.damaged")
def test_a_digest_that_cannot_be_read_collects_nothing(checker: Checker) -> None:
    check(checker, 0)
    damage(checker)
    check(checker, 1)
    check(checker, 2, [2])
    assert [build.send_id for build in checker.builds()] == [SENDS[1]]


def test_a_member_of_a_digest_that_cannot_be_read_goes_alone(checker: Checker) -> None:
    check(checker, 0)
    damage(checker)
    checker.release_at(DUE)
    assert ([build.send_id for build in checker.builds()], checker.due_times()) == ([SENDS[0]], [])


@pytest.mark.kills(guard="digests.unconfirmed")
def test_a_notification_without_a_digest_waits_for_its_user(checker: Checker) -> None:
    check(checker, 0)
    damage(checker)
    checker.directory.remove(User(user_id=1, club_id=7), UserSettings(user_id=1))
    checker.directory.caught_up = DirectoryPosition(lsn=1, ts_ms=NOW - HOUR)
    checker.release_at(DUE)
    assert (checker.builds(), [part.why for part in checker.delayed_parts()]) == ([], ["directory"])


@pytest.mark.guarantee("digests.store_down")
@pytest.mark.parametrize("method", ["read", "members", "closed", "write"])
def test_a_store_that_is_down_holds_the_record(checker: Checker, method: str) -> None:
    check(checker, 0)
    checker.forget()
    checker.digests.failing = {method: Retry("down")}
    checker.clock.advance((DUE - NOW) / 1000)
    released = checker.released()
    checker.forget()
    assert checker.run(checker.use_case, *released) == [100]
    assert (checker.outcomes(), messages(checker), checker.builds()) == ([], [], [])
    checker.digests.failing = None
    assert checker.run(checker.use_case, *released) == []
    assert len(messages(checker)) == 1


class Fused(InMemoryDigests, setup=("request",)):
    """Digests whose calls can be killed."""

    fuse: Fuse | None = None

    def request(self, method: str) -> None:
        super().request(method)
        if self.fuse is not None:
            self.fuse.step()


@pytest.mark.kills(guard="digests.recorded")
@pytest.mark.parametrize("users", [(1,), (1, 2)])
def test_a_notification_that_went_out_alone_joins_no_digest(
    checker: Checker, stored_categories: InMemoryCategories, users: Sequence[int]
) -> None:
    check(checker, 0, users, timestamp=NOW, expires_at=DUE)
    put_digest(stored_categories, HOURLY | {"window": "5m"})
    check(checker, 0, users, timestamp=NOW, expires_at=DUE)
    assert (checker.due_times(), checker.digests.heads) == ([], {})
    assert len({build.record_id for build in checker.builds()}) == 1


@pytest.mark.kills(guard="digests.out_of_time")
def test_recipients_without_time_are_collected_later(checker: Checker, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(check_preferences, "CAPS_COUNTED_S", 0)
        check(checker, 0, [1, 2])
    [rest] = checker.rechecks()
    assert (checker.due_times(), rest.user_ids) == ([], [1, 2])
    checker.check(rest, topic=topics.RECHECK)
    checker.release_at(DUE)
    assert set(result(checker.outcomes(), 0).values()) == {DIGESTED}


@pytest.mark.kills(guard="digests.messages_of_decided")
def test_a_decided_record_produces_messages_without_time(checker: Checker, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was killed after its decisions were recorded, before it produced anything."""
    check(checker, 0, [1, 2])
    checker.clock.advance((DUE - NOW) / 1000)
    released = checker.released()
    checker.run(checker.use_case, *released)
    checker.forget()
    monkeypatch.setattr(check_preferences, "CAPS_COUNTED_S", 0)
    assert checker.run(checker.use_case, *released) == []
    assert len(messages(checker)) == 2
    assert set(result(checker.outcomes(), 0).values()) == {DIGESTED}


@pytest.mark.kills(guard="digests.unreadable_control")
def test_a_send_that_cannot_be_read_stops_no_other(checker: Checker) -> None:
    check(checker, 0)
    check(checker, 1)
    control(checker, 1, fault="damaged")
    checker.clock.advance((DUE - NOW) / 1000)
    released = checker.released()
    assert len(checker.run(checker.use_case, *released)) == 1
    assert [contents(message)["count"] for message in messages(checker)] == [1]
    assert result(checker.outcomes(), 0) == {(1, "push"): DIGESTED}


@pytest.mark.guarantee("digests.exact")
@pytest.mark.kills(guard="digests.sender")
def test_a_kill_at_any_call_ends_each_member_once(stored_categories: InMemoryCategories) -> None:
    """The record comes again after it was killed at each of its calls, one after the other."""
    put_digest(stored_categories, HOURLY)
    for calls in range(1, 12):
        checker = Checker()
        store = checker.digests = Fused()
        checker.use_case = checker.environment(checker.directory)
        for step in ("request", "release"):
            checker.clock.advance(0 if step == "request" else (DUE - NOW) / 1000)
            if step == "request":
                entries = [checker.encoded(send([1, 2], send_id=SENDS[0], type="comments"), topics.SEND_MONOLITH)]
            else:
                entries = checker.released()
            store.fuse = Fuse(calls)
            try:
                checker.run(checker.use_case, *entries)
            except KilledError:
                store.fuse = None
                assert checker.run(checker.use_case, *entries) == []
            store.fuse = None
        assert sorted(contents(message)["count"] for message in messages(checker)) == [1, 1]
        assert set(result(checker.outcomes(), 0).values()) == {DIGESTED}
