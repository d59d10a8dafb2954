"""A send with send_at_local: each recipient waits until the clocks of the user's own time zone show it."""

from datetime import UTC, datetime
from typing import Any

import pytest

from masscomm.domain.sends import SendControl, SendKey
from masscomm.domain.users import User, UserSettings
from masscomm.kafka import topics
from tests.support.harness.chain import NOW, SEND_ID, ends, results_of, send
from tests.support.harness.preference_checker import Checker

HOUR_MS = 3_600_000
# The tests' time NOW is 2023-11-14T22:13:20 in UTC. It is 09:00 on the 15th first in Tokyo, then in Berlin, and last in
# New York.
LOCAL = "2023-11-15T09:00"
TOKYO, BERLIN, NEW_YORK = (round(datetime(2023, 11, 15, hour, tzinfo=UTC).timestamp() * 1000) for hour in (0, 8, 14))
SCHEDULED = ("scheduled", None)


@pytest.fixture
def checker() -> Checker:
    checker = Checker()
    for user_id, zone in ((4, "Europe/Berlin"), (5, "Asia/Tokyo"), (6, "America/New_York"), (7, "Asia/Tokyo")):
        checker.put_users([user_id], time_zone=zone)
    return checker


def built(checker: Checker) -> list[list[int]]:
    return [build.user_ids for build in checker.builds()]


def test_each_time_zone_is_released_at_its_own_time(checker: Checker) -> None:
    assert checker.check(send([4, 5, 6, 7], send_at_local=LOCAL)) == []
    assert set(results_of(checker.outcomes()).values()) == {SCHEDULED}
    assert checker.due_times() == [TOKYO, BERLIN, NEW_YORK]
    for at, users in ((TOKYO, [5, 7]), (BERLIN, [4]), (NEW_YORK, [6])):
        checker.forget()
        checker.release_at(at - 1)
        assert built(checker) == []
        checker.release_at(at)
        assert built(checker) == [users]
    assert not checker.delay_store.items


def test_zones_are_notified_at_once_after_their_time(checker: Checker) -> None:
    checker.clock.advance((BERLIN - NOW) / 1000)
    checker.check(send([4, 5, 6], send_at_local=LOCAL))
    assert built(checker) == [[4, 5]]
    assert checker.due_times() == [NEW_YORK]


def test_before_the_first_zone_all_recipients_wait_together(checker: Checker) -> None:
    local = "2023-11-17T09:00"
    first = round(datetime(2023, 11, 16, 19, tzinfo=UTC).timestamp() * 1000)
    checker.check(send([4, 5, 6], send_at_local=local))
    assert checker.due_times() == [first]
    assert not checker.directory.calls
    checker.forget()
    # An opt-out during the wait counts, and the zone at the time of the first release.
    checker.directory.put(UserSettings(user_id=6, channels={"push": False}))
    checker.directory.put(User(user_id=5, club_id=7, time_zone="Europe/Berlin"))
    checker.release_at(first)
    assert checker.due_times() == [BERLIN + 48 * HOUR_MS]
    checker.release_at(BERLIN + 48 * HOUR_MS)
    assert built(checker) == [[4, 5]]


@pytest.mark.parametrize("users", [[4], [4, 1], [4, 5, 1]])
@pytest.mark.parametrize("again_at", [NOW, BERLIN, NEW_YORK])
def test_redelivery_at_any_time_doubles_no_recipient(checker: Checker, users: list[int], again_at: int) -> None:
    record = checker.encoded(send(users, send_at_local=LOCAL), topics.SEND_MONOLITH)
    assert checker.run(checker.use_case, record) == []
    for at in sorted({again_at, TOKYO, BERLIN, BERLIN + HOUR_MS}):
        checker.release_at(max(at, checker.clock.now_ms()))
        if at == again_at:
            assert checker.run(checker.use_case, record) == []
    checker.release_at(NEW_YORK + HOUR_MS)
    assert not checker.delay_store.items
    builds = {build.record_id: build.user_ids for build in checker.builds()}
    assert sorted(user for found in builds.values() for user in found) == sorted(users)
    assert ends(checker.outcomes()) == {}


@pytest.mark.parametrize("users", [[4], [4, 5]])
def test_opt_out_while_waiting_has_an_outcome_with_another_id(checker: Checker, users: list[int]) -> None:
    checker.check(send(users, send_at_local=LOCAL))
    checker.directory.put(UserSettings(user_id=4, channels={"push": False}))
    checker.release_at(BERLIN)
    assert ends(checker.outcomes()) == {(0, "push"): {"suppressed": 1}}


def test_quiet_hours_follow_the_local_time(checker: Checker) -> None:
    checker.directory.put(UserSettings(user_id=4, quiet_hours={"start": "08:00", "end": "10:00"}))
    checker.check(send([4, 1], send_at_local=LOCAL))
    checker.release_at(BERLIN)
    assert checker.due_times() == [BERLIN + HOUR_MS, BERLIN + HOUR_MS]
    checker.release_at(BERLIN + HOUR_MS)
    assert sorted(user for users in built(checker) for user in users) == [1, 4]


@pytest.mark.parametrize("values", [{"type": "security_alert"}, {}])
def test_mandatory_and_critical_sends_wait_too(checker: Checker, values: dict[str, Any]) -> None:
    topic = topics.SEND_MONOLITH if values else "send.monolith.critical"
    checker.check(send([4, 5], send_at_local=LOCAL, **values), topic=topic)
    assert checker.due_times() == [TOKYO, BERLIN]


def test_recipient_with_a_time_after_the_expiry_expires(checker: Checker) -> None:
    checker.check(send([4, 6], send_at_local=LOCAL, expires_at=NEW_YORK))
    assert results_of(checker.outcomes()) == {(4, "push"): SCHEDULED, (6, "push"): ("expired", "expired")}
    assert checker.due_times() == [BERLIN]


def test_cancelled_send_does_not_wait(checker: Checker) -> None:
    checker.register.control(SendControl(send=SendKey(7, SEND_ID), cancelled_at_ms=NOW))
    checker.check(send([4, 5], send_at_local=LOCAL))
    assert set(results_of(checker.outcomes()).values()) == {("cancelled", "cancelled")}
    assert not checker.delay_store.items


@pytest.mark.parametrize("before", [True, False])
def test_moved_send_has_one_time_for_all_zones(checker: Checker, before: bool) -> None:
    moved_to = NEW_YORK + HOUR_MS
    key = SendKey(7, SEND_ID)
    control = SendControl(send=key, send_at_ms=moved_to, revision=1)
    if before:
        checker.register.control(control)
    checker.check(send([4, 5, 6], send_at_local=LOCAL))
    checker.register.control(control)
    for at in (TOKYO, BERLIN, NEW_YORK):
        checker.release_at(at)
        assert built(checker) == []
    checker.release_at(moved_to)
    assert sorted(user for users in built(checker) for user in users) == [4, 5, 6]


@pytest.mark.parametrize(
    "values",
    [
        {"send_at_local": "09:00"},
        {"send_at_local": "2023-11-15T09:00Z"},
        {"send_at_local": LOCAL, "send_at": NOW + 1},
        {"send_at_local": "2025-11-15T09:00"},
    ],
)
def test_invalid_local_time_is_dead_lettered(checker: Checker, values: dict[str, Any]) -> None:
    checker.check(send([1, 2], **values))
    assert len(checker.dead_letters()) == 1
    assert set(results_of(checker.outcomes()).values()) == {("failed", "dead_letter")}
