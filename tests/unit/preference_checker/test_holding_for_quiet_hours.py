"""Allowed recipients in quiet hours are held once, and checked again when their quiet hours end."""

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest

from masscomm.decisions.plan import MAX_HELD
from masscomm.domain.delays import DELAY_REASON_HEADER
from masscomm.domain.lanes import Lane
from masscomm.domain.quiet_hours import MAX_ENDS
from masscomm.domain.users import DirectoryPosition, User, UserSettings
from masscomm.errors import Retry
from masscomm.kafka import topics
from masscomm.observability import metrics
from masscomm.observability.metric_names import SETTINGS_MALFORMED, TIME_ZONES_UNKNOWN
from masscomm.stores.delayed_records.port import SHARDS
from tests.support.fakes.crashes import Fuse, FusedDelayStore, KilledError
from tests.support.harness.chain import NOW, results_of, send
from tests.support.harness.preference_checker import Checker

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
# The tests' time NOW is 22:13:20 in London, 23:13:20 in Berlin, 17:13:20 in New York, 03:43:20 in Calcutta.
DEFAULT_QUIET_HOURS = {"start": "22:00", "end": "07:00"}
BERLIN_7, LONDON_7 = (round(datetime(2023, 11, 15, hour, tzinfo=UTC).timestamp() * 1000) for hour in (6, 7))
RULE = "quiet_hours 22:00-07:00 Europe/Berlin until 2023-11-15T06:00:00Z"
HELD = ("held", None)
EXPIRED = ("expired", "expired")


class QuietHoursChecker(Checker):
    """A checker whose users 1 to 3 have no quiet hours."""

    def put_quiet_hours(self, *user_ids: int, zone: str = "Europe/Berlin", **user_settings: Any) -> None:
        """Add users with quiet hours, by default at night."""
        usual: dict[str, Any] = {"quiet_hours": DEFAULT_QUIET_HOURS, "version": 4}
        for user_id in user_ids:
            self.directory.put(
                User(user_id=user_id, club_id=7, time_zone=zone), UserSettings(user_id=user_id, **usual | user_settings)
            )

    def outcome_counts(self) -> Counter[tuple[int, str]]:
        """Count the ends of each (user, channel): build records by id, and a last result other than held."""
        builds = {(record.record_id, user, record.channel) for record in self.builds() for user in record.user_ids}
        ended = Counter((user, channel) for _, user, channel in builds)
        ended.update(who for who, said in self.last_results().items() if said != HELD)
        return ended

    def last_results(self) -> dict[tuple[int, str], tuple[str, str | None]]:
        """Return the last result of each (user, channel); repeated outcome ids are ignored, as in the metrics."""
        found: dict[tuple[int, str], tuple[str, str | None]] = {}
        for outcome in {each.record_id: each for each in reversed(self.outcomes())}.values():
            for who, said in results_of([outcome]).items():
                assert HELD in (said, found.get(who, HELD))
                if found.get(who, HELD) == HELD:
                    found[who] = said
        return found


def test_chunk_is_divided_into_forwarded_suppressed_and_held() -> None:
    checker = QuietHoursChecker()
    checker.directory.put(UserSettings(user_id=2, channels={"push": False}))
    checker.put_quiet_hours(4, 5)
    checker.put_quiet_hours(6, zone="Europe/London")
    checker.put_quiet_hours(7, zone="America/New_York")  # 17:13 in New York is outside of quiet hours
    assert checker.check(send([1, 4, 2, 6, 5, 7], data={"headline": "Win"})) == []
    assert [build.user_ids for build in checker.builds()] == [[1, 7]]
    opted_out = ("suppressed", "opted_out")
    assert results_of(checker.outcomes()) == {
        (2, "push"): opted_out, (4, "push"): HELD, (5, "push"): HELD, (6, "push"): HELD,
    }  # fmt: skip
    (outcome,) = checker.outcomes()
    (result,) = {each.rule: each for each in outcome.results if each.status == "held" and each.count == 2}.values()
    assert (result.layer, result.rule, result.settings_version) == ("user", RULE, 4)
    assert checker.due_times() == [BERLIN_7, LONDON_7]
    berlin, london = checker.delayed_parts()
    assert (berlin.positions, berlin.user_ids, berlin.why, berlin.held) == ([1, 4], [4, 5], "quiet_hours", 1)
    assert (berlin.range_start, berlin.range_end, berlin.data) == (0, 6, {"headline": "Win"})
    assert (london.positions, london.user_ids) == ([3], [6])
    assert len({berlin.record_id, london.record_id, berlin.parent_id}) == 3
    assert berlin.parent_id == london.parent_id == outcome.parent_id


@pytest.mark.kills(guard="time_zones.unknown_is_counted")
def test_unknown_time_zones_are_counted_with_an_example() -> None:
    """Also of a user whom the quiet hours of UTC do not hold. Without quiet hours, the zone decides nothing."""
    checker = QuietHoursChecker()
    checker.put_quiet_hours(4, zone="Europe/Belrin")
    checker.put_quiet_hours(5, zone="ada@example.org", quiet_hours={"start": "01:00", "end": "02:00"})
    checker.put_quiet_hours(6, zone="")
    checker.put_quiet_hours(7, zone="europe/BERLIN ")
    checker.put_quiet_hours(8, zone="Europe/Belrin", quiet_hours=None)
    metrics.taken()
    assert checker.check(send([8, 5, 4, 6, 7])) == []
    counted, notes = metrics.taken()
    assert counted[TIME_ZONES_UNKNOWN.name] == 2
    assert notes["unknown_time_zone"] == {"user_id": 5, "time_zone": "[address]"}
    assert checker.check(send([8], send_at_local="2023-11-15T09:00", send_id="later")) == []
    counted, notes = metrics.taken()
    assert (counted[TIME_ZONES_UNKNOWN.name], notes["unknown_time_zone"]["user_id"]) == (1, 8)


def test_malformed_settings_are_counted_with_an_example() -> None:
    checker = QuietHoursChecker()
    checker.put_quiet_hours(4, quiet_hours={"from": "22:00", "to": "07:00"})
    checker.directory.put(UserSettings(user_id=2, channels={"a.b@example.org": False}))
    checker.directory.put(UserSettings(user_id=3, channels={"push": False}))
    metrics.taken()
    assert checker.check(send([3, 2, 4])) == []
    counted, notes = metrics.taken()
    assert counted[SETTINGS_MALFORMED.name] == 2
    assert notes["malformed_settings"] == {"user_id": 2, "rule": "channels malformed: [address]"}
    assert {result.rule for outcome in checker.outcomes() for result in outcome.results} == {
        "channel:push",
        "channels malformed: [address]",
        "quiet_hours 21:00-09:00 (malformed: from) Europe/Berlin until 2023-11-15T08:00:00Z",
    }


def test_held_recipients_continue_in_their_lane() -> None:
    checker = QuietHoursChecker()
    checker.put_quiet_hours(4, 5)
    checker.check(send([4, 5]))
    checker.forget()
    assert checker.release_at(BERLIN_7 - 1) == []
    assert checker.producer.produced == []
    assert checker.release_at(BERLIN_7) == []
    ((topic, _, _, headers),) = checker.producer.produced[:1]
    assert (topic, (DELAY_REASON_HEADER, b"quiet_hours") in headers) == ("recheck.small", True)
    (build,) = checker.builds(Lane.SMALL)
    assert (build.user_ids, build.since_ms) == ([4, 5], BERLIN_7)
    assert checker.outcomes() == []
    assert not checker.delay_store.items


def test_held_users_are_decided_by_their_later_settings() -> None:
    checker = QuietHoursChecker()
    checker.put_quiet_hours(4, 5, 6, 7)
    checker.check(send([4, 5, 6, 7]))
    checker.put_quiet_hours(5, channels={"push": False})
    checker.put_quiet_hours(6, quiet_hours={"start": "22:00", "end": "08:00"})
    checker.directory.remove(User(user_id=7, club_id=7))
    checker.forget()
    checker.release_at(BERLIN_7)
    assert [build.user_ids for build in checker.builds()] == [[4]]
    assert results_of(checker.outcomes()) == {
        (5, "push"): ("suppressed", "opted_out"), (6, "push"): HELD, (7, "push"): ("suppressed", "unknown_user"),
    }  # fmt: skip
    checker.forget()
    checker.release_at(BERLIN_7 + HOUR_MS)
    assert [build.user_ids for build in checker.builds()] == [[6]]


@pytest.mark.guarantee("quiet_hours.mandatory_and_critical_pass")
@pytest.mark.parametrize("values", [{"type": "one_time_password"}, {"type": "security_alert"}])
def test_mandatory_or_critical_send_ignores_quiet_hours(values: Mapping[str, Any]) -> None:
    checker = QuietHoursChecker()
    checker.put_quiet_hours(4, 5)
    checker.check(send([4, 5], **values))
    assert all(build.user_ids == [4, 5] for build in checker.builds())
    assert checker.outcomes() == []
    assert not checker.delay_store.items


def test_critical_send_ignores_quiet_hours_of_its_recipient() -> None:
    checker = QuietHoursChecker()
    checker.put_quiet_hours(4, 5)
    checker.check(send([4, 5]), topic="send.monolith.critical")
    assert [build.user_ids for build in checker.builds(Lane.CRITICAL)] == [[4, 5]]
    assert not checker.delay_store.items


def test_held_user_waits_only_for_the_allowed_channels() -> None:
    checker = QuietHoursChecker()
    checker.put_quiet_hours(4)
    checker.put_quiet_hours(5, channels={"push": False})
    checker.check(send([4, 5, 1], channels=["push", "email"]))
    assert results_of(checker.outcomes()) == {
        (4, "push"): HELD, (4, "email"): HELD, (5, "push"): ("suppressed", "opted_out"), (5, "email"): HELD,
    }  # fmt: skip
    assert {(*part.user_ids, *part.channels) for part in checker.delayed_parts()} == {
        (4, "push", "email"),
        (5, "email"),
    }
    # User 5 allows pushes again, but the first decision (suppressed) is final.
    checker.put_quiet_hours(5)
    checker.forget()
    checker.release_at(BERLIN_7)
    assert sorted((build.channel, build.user_ids) for build in checker.builds()) == [
        ("email", [4]), ("email", [5]), ("push", [4]),
    ]  # fmt: skip


def test_other_clubs_user_is_suppressed_without_being_held() -> None:
    checker = QuietHoursChecker()
    checker.put_quiet_hours(4)
    checker.check(send([4, 1], club_id=8))
    assert set(results_of(checker.outcomes()).values()) == {("suppressed", "unknown_user")}


@pytest.mark.parametrize("users", [[4], [4, 5]])
def test_opt_out_while_held_has_an_outcome_with_another_id(users: list[int]) -> None:
    checker = QuietHoursChecker()
    checker.put_quiet_hours(*users)
    checker.check(send(users))
    checker.put_quiet_hours(4, channels={"push": False})
    checker.release_at(BERLIN_7)
    assert checker.last_results()[4, "push"] == ("suppressed", "opted_out")
    assert checker.outcome_counts() == {(user, "push"): 1 for user in users}


@pytest.mark.parametrize("users", [[4], [4, 5]])
@pytest.mark.parametrize(("expires_at", "said"), [(BERLIN_7, EXPIRED), (BERLIN_7 + 1, HELD)])
def test_send_that_would_expire_while_held_expires_at_once(
    users: list[int], expires_at: int, said: tuple[str, str | None]
) -> None:
    checker = QuietHoursChecker()
    checker.put_quiet_hours(*users)
    checker.check(send(users, expires_at=expires_at))
    assert set(results_of(checker.outcomes()).values()) == {said}
    assert checker.outcomes()[0].results[0].rule == RULE
    assert bool(checker.delay_store.items) == (said == HELD)


def test_send_that_expired_while_held_is_expired() -> None:
    checker = QuietHoursChecker()
    checker.put_quiet_hours(4, 5)
    checker.check(send([4, 5], expires_at=BERLIN_7 + 1))
    checker.release_at(BERLIN_7 + 2)
    assert checker.outcome_counts() == dict.fromkeys([(4, "push"), (5, "push")], 1)
    assert set(checker.last_results().values()) == {EXPIRED}


@pytest.mark.parametrize("users", [[4], [4, 5], [4, 1]])
def test_send_at_in_quiet_hours_is_delayed_twice(users: list[int]) -> None:
    checker = QuietHoursChecker()
    checker.put_quiet_hours(4, 5)
    at = NOW + HOUR_MS
    checker.check(send(users, send_at=at))
    checker.forget()
    checker.release_at(at)
    assert results_of(checker.outcomes())[4, "push"] == HELD
    assert checker.due_times() == [BERLIN_7]
    checker.release_at(BERLIN_7)
    assert sorted(user for build in checker.builds() for user in build.user_ids) == users[
        ::-1
    ] or checker.outcome_counts() == {(user, "push"): 1 for user in users}


@pytest.mark.parametrize("users", [[4], [4, 5], [4, 1, 5]])
@pytest.mark.parametrize("again_at", ["before", "at the end", "after"])
def test_redelivery_at_any_time_doubles_no_recipient(users: list[int], again_at: str) -> None:
    checker = QuietHoursChecker()
    checker.put_quiet_hours(4, 5)
    record = checker.encoded(send(users), topics.SEND_MONOLITH)
    assert checker.run(checker.use_case, record) == []
    if again_at == "before":
        checker.put_quiet_hours(4, quiet_hours=None)
        checker.run(checker.use_case, record)
        if len(users) > 1:
            assert checker.due_times() == [BERLIN_7]
    checker.release_at(BERLIN_7)
    if again_at != "before":
        checker.clock.advance(0 if again_at == "at the end" else 9 * 3600)
        assert checker.run(checker.use_case, record) == []
    while checker.delay_store.items:
        checker.release_at(max(checker.clock.now_ms(), *checker.due_times()))
    assert checker.outcome_counts() == {(user, "push"): 1 for user in users}
    assert checker.last_results().keys() <= {(4, "push"), (5, "push")}


@pytest.mark.parametrize("users", [[4], [4, 1]])
def test_held_recipients_are_stored_before_their_outcome(users: list[int]) -> None:
    checker = QuietHoursChecker()
    checker.put_quiet_hours(4)
    checker.delay_store.failing = Retry("DynamoDB is down")
    assert checker.check(send(users)) == [0]
    assert checker.producer.produced == []


@pytest.mark.parametrize("users", [[4], [4, 5]])
def test_almost_endless_quiet_hours_end_after_some_nights(users: list[int]) -> None:
    checker = QuietHoursChecker()
    checker.put_quiet_hours(*users, quiet_hours={"start": "00:01", "end": "00:00"})
    checker.check(send(users))
    nights = 0
    while checker.delay_store.items and nights < 10:
        nights += 1
        checker.release_at(checker.due_times()[0] + 2 * MINUTE_MS)
    assert nights == MAX_HELD
    assert checker.builds() == []
    assert checker.outcome_counts() == dict.fromkeys([(user, "push") for user in users], 1)
    assert set(checker.last_results().values()) == {EXPIRED}


def test_user_delayed_for_the_directory_is_held_afterwards() -> None:
    checker = QuietHoursChecker()
    checker.put_quiet_hours(4)
    checker.directory.caught_up = DirectoryPosition(lsn=1, ts_ms=NOW - 1)
    checker.check(send([99, 4, 1]))
    assert sorted(part.why for part in checker.delayed_parts()) == ["directory", "quiet_hours"]
    checker.put_quiet_hours(99)
    checker.directory.caught_up = DirectoryPosition(lsn=2, ts_ms=NOW)
    checker.release_at(NOW + 2 * MINUTE_MS)
    assert checker.due_times() == [BERLIN_7, BERLIN_7]
    checker.release_at(BERLIN_7)
    assert checker.outcome_counts() == {(user, "push"): 1 for user in (99, 4, 1)}


def test_ends_of_quiet_hours_share_quarters_of_an_hour() -> None:
    checker = QuietHoursChecker()
    everybody = range(10, 10 + 1_000)
    for user_id in everybody:
        minute = 60 + (user_id * 7) % 1_200
        checker.put_quiet_hours(
            user_id, zone="UTC", quiet_hours={"start": "22:00", "end": f"{minute // 60:02}:{minute % 60:02}"}
        )
    checker.check(send(everybody))
    checker.check(*checker.rechecks(), topic="recheck")
    delayed_parts = checker.delayed_parts()
    assert len(delayed_parts) <= MAX_ENDS
    assert sorted(user for part in delayed_parts for user in part.user_ids) == list(everybody)
    checker.forget()
    checker.release_at(checker.due_times()[-1])
    assert sorted(user for build in checker.builds() for user in build.user_ids) == list(everybody)


def test_releases_of_one_morning_are_spread() -> None:
    checker = QuietHoursChecker()
    checker.put_quiet_hours(4, 5)
    chunks = 200
    checker.check(*(send([4, 5], chunk_index=index, chunk_count=chunks) for index in range(chunks)))
    buckets = Counter(bucket for bucket, _ in checker.delay_store.items)
    assert len(buckets) == SHARDS
    assert max(buckets.values()) < chunks // 4


@pytest.mark.guarantee("quiet_hours.crash_loses_no_recipient")
@pytest.mark.parametrize("kill_at", range(1, 12))
@pytest.mark.parametrize("users", [[4], [4, 6, 1, 2]])
@pytest.mark.parametrize("meanwhile", ["nothing", "the night ends", "they change"])
def test_kill_between_hold_and_outcome_ends_each_user_once(kill_at: int, users: list[int], meanwhile: str) -> None:
    checker = QuietHoursChecker()
    checker.directory.put(UserSettings(user_id=2, channels={"push": False}))
    checker.put_quiet_hours(4)
    checker.put_quiet_hours(6, zone="Europe/London")
    fuse = Fuse(kill_at)
    checker.delay_store = store = FusedDelayStore(fuse)
    checker.use_case = checker.environment(checker.directory)
    checker.producer.fail = fuse.step
    record = checker.encoded(send(users), topics.SEND_MONOLITH)
    with suppress(KilledError):  # a case with fewer steps than the kill's is not killed
        checker.run(checker.use_case, record)
    if meanwhile == "the night ends":
        checker.clock.advance((LONDON_7 - NOW) / 1000)
    elif meanwhile == "they change":
        checker.put_quiet_hours(4, quiet_hours=None)
        checker.put_quiet_hours(6, quiet_hours={"start": "22:00", "end": "08:00"})
        checker.directory.put(UserSettings(user_id=1, quiet_hours=DEFAULT_QUIET_HOURS))
    fuse.left = 0
    assert checker.run(checker.use_case, record) == []
    while store.items:
        checker.release_at(max(checker.clock.now_ms(), *checker.due_times()))
    assert checker.outcome_counts() == {(user, "push"): 1 for user in users}
    held = {who for each in checker.outcomes() for who, said in results_of([each]).items() if said == HELD}
    assert held <= {(4, "push"), (6, "push")} or meanwhile == "they change"
