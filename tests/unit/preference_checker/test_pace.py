"""The pace of a send: the preference checker releases at most its number of recipients a minute, and delays the others.
The first decision is recorded and stays.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from masscomm.domain.delays import PACE_HEADER
from masscomm.domain.lanes import Lane
from masscomm.domain.pace import MINUTE_MS, PaceBook
from masscomm.domain.sends import Send, SendControl, SendKey
from masscomm.domain.users import User, UserSettings
from masscomm.errors import Retry
from masscomm.kafka import topics
from masscomm.stores.categories.in_memory import InMemoryCategories
from masscomm.stores.categories.known import known_categories
from masscomm.stores.sends.in_memory import InMemorySends
from tests.support.categories import put_version
from tests.support.fakes.crashes import Fuse, KilledError
from tests.support.harness.chain import NOW, SEND_ID, ends, results_of, send
from tests.support.harness.preference_checker import Checker

KEY = SendKey(7, SEND_ID)
MINUTE = NOW // MINUTE_MS
USERS = list(range(1, 26))


@pytest.fixture
def checker() -> Checker:
    found = Checker()
    found.put_users(USERS)
    return found


def check(checker: Checker, users: Sequence[int] = USERS, **values: Any) -> list[int]:
    """Process a send whose time is that of the first minute."""
    return checker.check(send(users, send_id=SEND_ID, **{"timestamp": MINUTE * MINUTE_MS} | values))


def let_through(checker: Checker) -> list[int]:
    """Return the users of distinct build records."""
    builds = {build.record_id: build for build in checker.builds()}.values()
    return sorted(user for build in builds for user in build.user_ids)


def at_minutes(checker: Checker, *minutes: int) -> list[int]:
    """Release the due records at each of these minutes; return how many users were let through in each."""
    found = []
    for minute in minutes:
        before = len(let_through(checker))
        assert checker.release_at((MINUTE + minute) * MINUTE_MS) == []
        found.append(len(let_through(checker)) - before)
    return found


def statuses(checker: Checker) -> Counter[str]:
    outcomes = {each.record_id: each for each in checker.outcomes()}.values()
    return Counter(status for outcome in outcomes for status, _ in results_of([outcome]).values())


def test_minute_releases_as_many_as_the_pace_permits(checker: Checker) -> None:
    assert check(checker, per_minute=10) == []
    assert len(let_through(checker)) == 10
    assert checker.due_times() == [(MINUTE + 1) * MINUTE_MS, (MINUTE + 2) * MINUTE_MS]
    assert {part.why for part in checker.delayed_parts()} == {"pace"}
    assert at_minutes(checker, 1, 2) == [10, 5]
    assert let_through(checker) == USERS
    assert statuses(checker) == {"scheduled": 15}
    rules = {result.rule for outcome in checker.outcomes() for result in outcome.results}
    assert "at most 10 recipients a minute, until 2023-11-14T22:14:00Z" in rules


def test_spread_send_releases_by_position(checker: Checker) -> None:
    """This is the second of two records: its share is the second half."""
    assert check(checker, USERS[:20], spread_over_ms=20 * MINUTE_MS, chunk_index=1, chunk_count=2) == []
    assert let_through(checker) == []
    assert checker.due_times() == [(MINUTE + minute) * MINUTE_MS for minute in range(10, 20)]
    assert at_minutes(checker, *range(10, 20)) == [2] * 10
    assert let_through(checker) == USERS[:20]


def test_late_records_of_a_spread_follow_its_end(checker: Checker) -> None:
    assert check(checker, USERS[:20], spread_over_ms=10 * MINUTE_MS) == []
    assert at_minutes(checker, 30, 31, 32) == [2, 2, 2]
    assert sum(at_minutes(checker, *range(33, 42))) == 12


def test_recipient_counts_once_for_all_channels(checker: Checker) -> None:
    assert check(checker, per_minute=10, channels=["push", "email"]) == []
    builds = [(build.channel, len(build.user_ids)) for build in checker.builds()]
    assert sorted(builds) == [("email", 10), ("push", 10)]
    assert len(checker.delayed_parts()) == 2


@pytest.mark.kills(guard="pace.recorded")
@pytest.mark.parametrize("users", [[1], USERS])
def test_redelivery_takes_no_further_place(checker: Checker, users: Sequence[int]) -> None:
    assert check(checker, users, per_minute=10) == []
    before, book = let_through(checker), checker.register.pace(KEY)
    checker.clock.advance(3_600)
    assert check(checker, users, per_minute=10) == []
    assert (let_through(checker), checker.register.pace(KEY)) == (before, book)


@pytest.mark.kills(guard="pace.delay_reason")
def test_single_recipient_waits_under_an_id_of_its_own(checker: Checker) -> None:
    """A redelivery after its minute finds the recorded wait, and produces no second build record."""
    checker.register.set_pace(Send(key=KEY), PaceBook(minute=MINUTE, released=1, limit=1), PaceBook())
    for _ in range(2):
        assert check(checker, [1], per_minute=1) == []
    assert [part.why for part in checker.delayed_parts()] == ["pace"]
    assert let_through(checker) == []
    assert at_minutes(checker, 1) == [1]
    assert check(checker, [1], per_minute=1) == []
    assert len({build.record_id for build in checker.builds()}) == 1


@pytest.mark.kills(guard="pace.single_recipient")
def test_held_channel_of_a_single_recipient_repeats_no_wait(checker: Checker) -> None:
    """A silent push waits for its minute while the e-mail is held: each has one part, however often it is decided."""
    night = {"start": "22:00", "end": "07:00"}  # NOW is at 22:13 UTC.
    checker.directory.put(User(user_id=1, club_id=7, time_zone="UTC"), UserSettings(user_id=1, quiet_hours=night))
    checker.register.set_pace(Send(key=KEY), PaceBook(minute=MINUTE, released=1, limit=1), PaceBook())
    for _ in range(2):
        assert check(checker, [1], per_minute=1, channels=["push", "email"], push='{"silent":true}') == []
        checker.clock.advance(30)
    parts = {part.record_id: (part.why, part.channels) for part in checker.delayed_parts()}
    assert sorted(parts.values()) == [("pace", ["push"]), ("quiet_hours", ["email"])]


def test_paused_recipients_are_released_at_the_pace_later(checker: Checker) -> None:
    assert check(checker, per_minute=10) == []
    checker.register.control(SendControl(send=KEY, paused_at_ms=NOW, revision=1))
    assert at_minutes(checker, 60) == [0]
    checker.register.control(SendControl(send=KEY, resumed_at_ms=NOW, revision=2))
    for item in list(checker.delay_store.items.values()):
        assert item.delay_reason == "paused"
    records = [checker.encoded(part, topics.RECHECK, offset=n) for n, part in enumerate(checker.delayed_parts())]
    checker.delay_store.items.clear()
    assert checker.run(checker.use_case, *records) == []
    assert len(let_through(checker)) == 20
    assert at_minutes(checker, 61) == [5]


def test_quiet_hours_precede_the_pace(checker: Checker) -> None:
    night = {"start": "22:00", "end": "07:00"}  # NOW is at 22:13 UTC.
    for user_id in USERS:
        checker.directory.put(
            User(user_id=user_id, club_id=7, time_zone="UTC"), UserSettings(user_id=user_id, quiet_hours=night)
        )
    assert check(checker, per_minute=10) == []
    assert (let_through(checker), checker.register.pace(KEY)) == ([], PaceBook())
    morning = 8 * 60 + 47
    assert at_minutes(checker, morning, morning + 1, morning + 2) == [10, 10, 5]


def test_recipients_that_would_be_too_late_expire(checker: Checker) -> None:
    assert check(checker, per_minute=10, expires_at=(MINUTE + 1) * MINUTE_MS + 1) == []
    assert len(let_through(checker)) == 10
    assert statuses(checker) == {"scheduled": 10, "expired": 5}
    rules = [result.rule for each in checker.outcomes() for result in each.results if result.status == "expired"]
    assert rules == ["at most 10 recipients a minute: no minute is left before the end"]


@pytest.mark.kills(guard="pace.cancelled")
def test_cancelled_single_recipient_takes_no_place(checker: Checker) -> None:
    checker.register.control(SendControl(send=KEY, cancelled_at_ms=NOW))
    assert check(checker, [1], per_minute=1) == []
    assert (let_through(checker), checker.register.pace(KEY)) == ([1], PaceBook())


class Contended(InMemorySends):
    """A register in which another record always changes the pace first."""

    is_contended = True

    def set_pace(self, send: Send, book: PaceBook, before: PaceBook) -> bool:
        if self.is_contended:
            super().set_pace(send, before, before)
        return super().set_pace(send, book, before)


def test_contended_recipients_get_a_record_of_their_own(checker: Checker) -> None:
    checker.register = register = Contended(checker.clock)
    checker.use_case = checker.environment(checker.directory)
    assert check(checker, per_minute=10) == []
    assert (let_through(checker), checker.delayed_parts()) == ([], [])
    [passed] = checker.rechecks()
    assert passed.user_ids == USERS
    register.is_contended = False
    assert checker.check(passed, topic=topics.RECHECK) == []
    assert len(let_through(checker)) == 10


def test_pass_plans_a_bounded_number_of_minutes(checker: Checker) -> None:
    users = list(range(1, 151))
    checker.put_users(users)
    assert check(checker, users, per_minute=1) == []
    for number, rest in ((0, 89), (1, 29)):
        assert len(checker.rechecks()[number].user_ids) == rest
        assert checker.check(checker.rechecks()[number], topic=topics.RECHECK) == []
    assert len(checker.rechecks()) == 2
    assert len(set(checker.due_times())) == 149


class Fused(InMemorySends):
    """A register in which the process may be killed after a change of the pace."""

    fuse = Fuse()

    def set_pace(self, send: Send, book: PaceBook, before: PaceBook) -> bool:
        is_written = super().set_pace(send, book, before)
        self.fuse.step()
        return is_written


@pytest.mark.guarantee("pace.minute")
def test_kill_after_places_were_taken_loses_no_recipient(checker: Checker) -> None:
    checker.register = Fused(checker.clock)
    checker.use_case = checker.environment(checker.directory)
    checker.register.fuse.left = 1
    with pytest.raises(KilledError):
        check(checker, per_minute=10)
    checker.register.fuse.left = 99
    assert check(checker, per_minute=10) == []
    assert let_through(checker) == []
    # The killed pass has planned the minutes 1 and 2.
    assert sum(at_minutes(checker, 1, 2, 3, 4, 5)) == len(USERS)
    assert let_through(checker) == USERS
    assert set(ends(checker.outcomes()).values()) <= {()}


def test_pace_and_cap_read_the_decision_log_once(
    checker: Checker, stored_categories: InMemoryCategories, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_version(stored_categories, "news", {"channels": ["push"], "caps": [{"limit": 1, "window": "24h"}]}, NOW - 10**7)
    known_categories().read()
    find, read = checker.log.find, list[str]()

    def counted(record_id: str) -> bytes | None:
        read.append(record_id)
        return find(record_id)

    monkeypatch.setattr(checker.log, "find", counted)
    for _ in range(2):
        assert check(checker, USERS[:20], type="news", per_minute=10) == []
    assert len(read) == 2


def test_caps_apply_when_the_minute_has_come(checker: Checker, stored_categories: InMemoryCategories) -> None:
    put_version(stored_categories, "news", {"channels": ["push"], "caps": [{"limit": 1, "window": "24h"}]}, NOW - 10**7)
    known_categories().read()
    assert check(checker, USERS[:20], type="news", per_minute=10) == []
    other = "00000001-0000-4000-8000-000000000000"
    assert checker.check(send(USERS[:20], send_id=other, type="news", timestamp=NOW)) == []
    assert at_minutes(checker, 1) == [0]
    # The ten that waited for their minute had no place of the cap until then.
    assert len(let_through(checker)) == 20
    assert statuses(checker) == {"scheduled": 10, "suppressed": 20}


def test_digest_collects_when_the_minute_has_come(checker: Checker) -> None:
    digest = '{"template":"t","window":"1h"}'
    assert check(checker, USERS[:20], per_minute=10, digest=digest) == []
    assert statuses(checker) == {"collected": 10, "scheduled": 10}
    assert at_minutes(checker, 1) == [0]
    assert statuses(checker) == {"collected": 20, "scheduled": 10}


def test_changed_pace_applies_to_waiting_recipients(checker: Checker) -> None:
    assert check(checker, per_minute=2) == []
    checker.register.control(SendControl(send=KEY, per_minute=12, pace_revision=1, revision=1))
    records = [checker.encoded(part, topics.RECHECK, offset=n) for n, part in enumerate(checker.delayed_parts())]
    checker.delay_store.items.clear()
    assert checker.run(checker.use_case, *records) == []
    assert len(let_through(checker)) == 12
    assert at_minutes(checker, 1, 2) == [12, 1]


@pytest.mark.kills(guard="pace.recorded_wait")
def test_wait_that_was_recorded_before_a_change_has_no_revision(checker: Checker) -> None:
    """A redelivery after a change of the pace stores it again: the scheduler must release it."""

    def revisions() -> set[bytes | None]:
        return {dict(item.headers).get(PACE_HEADER) for item in checker.delay_store.items.values()}

    checker.register.control(SendControl(send=KEY, per_minute=2, pace_revision=1, revision=1))
    assert check(checker, per_minute=10) == []
    assert revisions() == {b"1"}
    checker.delay_store.items.clear()
    checker.register.control(SendControl(send=KEY, per_minute=20, pace_revision=2, revision=2))
    assert check(checker, per_minute=10) == []
    assert revisions() == {None}


@pytest.mark.guarantee("pace.store_down")
def test_nothing_is_released_while_the_register_is_down(checker: Checker) -> None:
    checker.register.failing = Retry("no answer")
    assert check(checker, per_minute=10) == [0]
    checker.register.failing = None
    assert check(checker, per_minute=10) == []
    assert len(let_through(checker)) == 10


@pytest.mark.kills(guard="pace.invalid_record")
@pytest.mark.parametrize(
    ("values", "topic"),
    [
        ({"per_minute": 0}, topics.SEND_MONOLITH),
        ({"per_minute": 1, "spread_over_ms": MINUTE_MS}, topics.SEND_MONOLITH),
        ({"spread_over_ms": 61_000}, topics.SEND_MONOLITH),
        ({"spread_over_ms": 2 * MINUTE_MS, "expires_at": NOW + 60_000}, topics.SEND_MONOLITH),
        ({"per_minute": 1, "to_users": list(range(1, 10_082))}, topics.SEND_MONOLITH),
        ({"per_minute": 1}, topics.in_lane(topics.SEND_MONOLITH, Lane.CRITICAL)),
    ],
)
def test_invalid_pace_is_dead_lettered(checker: Checker, values: dict[str, Any], topic: str) -> None:
    users = values.get("to_users", USERS)
    pace = {name: value for name, value in values.items() if name != "to_users"}
    assert checker.check(send(users, send_id=SEND_ID, timestamp=NOW, **pace), topic=topic) == []
    assert len(checker.dead_letters()) == 1
    assert let_through(checker) == []


@pytest.mark.parametrize("values", [{"per_minute": 0}, {"pace_from": 2**62}, {"pace_from": NOW // 1000}])
def test_invalid_pace_of_a_recheck_record_is_dead_lettered(checker: Checker, values: dict[str, Any]) -> None:
    assert check(checker, per_minute=10) == []
    [part, _] = checker.delayed_parts()
    assert checker.check(replace(part, **values), topic=topics.RECHECK) == []
    assert len(checker.dead_letters()) == 1
