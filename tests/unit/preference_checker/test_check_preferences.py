"""Every requested recipient is passed on or has an outcome, once on each channel."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.preference_checker.output_lanes import OutputLanes
from functions.preference_checker.small_sends import BURST, SmallSends
from masscomm.decisions.parts import SPLIT_ABOVE
from masscomm.directory.in_memory import InMemoryDirectory
from masscomm.domain.ids import chunk_id, derived_id, send_id_of_record
from masscomm.domain.lanes import Lane
from masscomm.domain.limits import END_OF_TIME_MS, FAR_FUTURE_MS
from masscomm.domain.outcomes import RANGE_SIZE
from masscomm.domain.records import BuildRequested, NotificationOutcome, RecheckRequested, SendRequested
from masscomm.domain.sends import SMALL_SEND
from masscomm.domain.users import DirectoryPosition, User, UserSettings
from masscomm.errors import Retry
from masscomm.kafka import topics
from tests.support.harness.chain import NOW, SEND_ID, entry, results_of, send
from tests.support.harness.preference_checker import Checker
from tests.support.inputs.countable_sends import CASES, PRODUCED_MS
from tests.support.inputs.invalid_sends import INVALID_SENDS, UNCOUNTABLE_SENDS

FAILED = ("failed", "dead_letter")
# The critical lane checks a chunk of any length at once; a broadcast's long chunk is first forwarded as a recheck.
CRITICAL = topics.in_lane(topics.SEND_MONOLITH, Lane.CRITICAL)
BEHIND = DirectoryPosition(lsn=1, ts_ms=NOW - 1)


def _passed_on(builds: Sequence[BuildRequested]) -> list[tuple[int, str]]:
    return [(user_id, record.channel) for record in builds for user_id in record.user_ids]


def test_opted_out_user_is_suppressed_others_are_forwarded() -> None:
    checker = Checker()
    checker.directory.put(UserSettings(user_id=2, channels={"push": False}, version=5, changed_at=NOW - 7))
    assert checker.check(send([1, 2, 3], data={"headline": "Win"})) == []
    (build,) = checker.builds()
    assert (build.positions, build.user_ids, build.channel) == ([0, 2], [1, 3], "push")
    assert (build.data, build.send_id, build.timestamp) == ({"headline": "Win"}, SEND_ID, NOW)
    (outcome,) = checker.outcomes()
    assert results_of([outcome]) == {(2, "push"): ("suppressed", "opted_out")}
    assert (outcome.step, outcome.positions) == ("preference", [1])
    (result,) = outcome.results
    assert (result.rule, result.settings_version, result.settings_changed_at) == ("channel:push", 5, NOW - 7)


def test_a_record_is_keyed_by_its_id() -> None:
    checker = Checker()
    checker.directory.put(UserSettings(user_id=2, channels={"push": False}))
    checker.check(send([1, 2]))
    keys = {topic: key for topic, key, _, _ in checker.producer.produced}
    assert keys["build.small"] == checker.builds()[0].record_id.encode()
    assert keys[topics.OUTCOME] == checker.outcomes()[0].record_id.encode()


@pytest.mark.guarantee("chain.redelivery_derives_the_same_ids")
def test_small_sends_do_not_wait_for_broadcasts_in_their_batch() -> None:
    checker = Checker()
    checker.put_users(range(1, SMALL_SEND + 2))
    sends = [send(list(range(1, SMALL_SEND + 2))), send([1, 2]), send([3])]
    assert checker.check(*(replace(each, send_id=f"send-{n}") for n, each in enumerate(sends))) == []
    assert [build.send_id for build in checker.builds()] == ["send-1", "send-2", "send-0"]


def test_redelivered_record_derives_the_same_records() -> None:
    checker = Checker()
    checker.directory.put(UserSettings(user_id=2, channels={"push": False}))
    checker.check(send([1, 2]))
    first = checker.produced()
    checker.forget()
    checker.check(send([1, 2]))
    assert checker.produced() == first


def test_send_without_id_gets_one_from_its_source_position() -> None:
    """A replay keeps the id, because its headers have the original position."""
    checker = Checker()
    checker.check(send([1], send_id=None), partition=3, offset=41)
    first = checker.builds()
    assert first[0].send_id == send_id_of_record("send.monolith", 3, 41, NOW)
    checker.forget()
    original = [("topic", b"send.monolith"), ("partition", b"3"), ("offset", b"41"), ("timestamp", str(NOW).encode())]
    headers = [(f"masscomm.source.{name}", value) for name, value in original]
    checker.check(send([1], send_id=None), partition=0, offset=900, timestamp=NOW + 77, headers=headers)
    assert checker.builds() == first


def test_ranges_have_fixed_positions_for_any_decisions() -> None:
    everybody = range(1, 1201)
    ids: list[list[str]] = []
    for opted_out in (range(0), range(1, 700)):
        checker = Checker()
        checker.put_users(everybody)
        for user_id in opted_out:
            checker.directory.put(UserSettings(user_id=user_id, channels={"push": False}))
        checker.check(send(everybody), topic=CRITICAL)
        ranges = [(build.range_start, build.range_end) for build in checker.builds()]
        assert ranges == ([(0, 500), (500, 1000), (1000, 1200)] if not opted_out else [(500, 1000), (1000, 1200)])
        ids.append([build.record_id for build in checker.builds()])
    assert ids[1] == ids[0][1:]
    assert ids[0][1] == derived_id(chunk_id(SEND_ID, 0), "build", "push", 500, 1000)


def test_ranges_have_fixed_positions_with_repeated_users() -> None:
    everybody = list(range(1, 1501))
    for position in (499, 500, 999, 1000, 1499):
        everybody[position] = 1
    checker = Checker()
    checker.put_users(range(1, 1501))
    checker.check(send(everybody), topic=CRITICAL)
    edges = [(build.range_start, build.range_end) for build in checker.builds()]
    assert edges == [(0, 500), (500, 1000), (1000, 1500)]


USERS = st.integers(1, 12)
WISHES = st.sampled_from([None, {}, {"push": False}, {"email": False}, {"push": False, "email": False}])


@given(
    to_users=st.lists(USERS, max_size=30),
    channels=st.lists(st.sampled_from(["push", "email", "pigeon"]), max_size=4),
    known=st.sets(USERS),
    foreign=st.sets(USERS),
    wishes=st.lists(WISHES, min_size=12, max_size=12),
    expires_at=st.none() | st.sampled_from([NOW, NOW + 1]),
    send_at=st.none() | st.sampled_from([NOW, NOW + 1]),
    type_=st.sampled_from(["news", "security_alert", "no name"]),
)
def test_each_recipient_and_channel_has_exactly_one_fate(
    to_users: list[int],
    channels: list[str],
    known: set[int],
    foreign: set[int],
    wishes: list[dict[str, bool] | None],
    expires_at: int | None,
    send_at: int | None,
    type_: str,
) -> None:
    checker = Checker()
    checker.directory.remove(*(User(user_id=user_id, club_id=7) for user_id in range(1, 4)))
    for user_id in known:
        checker.directory.put(User(user_id=user_id, club_id=8 if user_id in foreign else 7))
    for user_id, wish in enumerate(wishes, start=1):
        if wish is not None:
            checker.directory.put(UserSettings(user_id=user_id, channels=wish))
    record = send(to_users, channels=channels, expires_at=expires_at, send_at=send_at, type=type_)
    assert checker.check(record) == []
    outcomes, builds = checker.outcomes(), checker.builds()
    resolved = list(dict.fromkeys(channels)) or (["push", "email"] if type_ == "security_alert" else ["push"])
    everybody = [*results_of(outcomes), *_passed_on(builds)]
    assert sorted(everybody) == sorted((user_id, channel) for user_id in set(to_users) for channel in resolved)
    parts: list[NotificationOutcome | BuildRequested] = [*outcomes, *builds]
    for part in parts:
        assert part.positions == sorted(part.positions)
        assert all(part.range_start <= position < part.range_end for position in part.positions)
        assert [to_users.index(user_id) for user_id in part.user_ids] == part.positions
    assert all(known - foreign >= set(build.user_ids) for build in builds)


def test_repeated_user_keeps_only_the_first_position() -> None:
    checker = Checker()
    checker.check(send([2, 1, 2, 2, 3, 1]))
    (build,) = checker.builds()
    assert (build.positions, build.user_ids, build.range_end) == ([0, 1, 4], [2, 1, 3], 6)


def test_send_without_recipients_produces_nothing() -> None:
    checker = Checker()
    assert checker.check(send([])) == []
    assert checker.producer.produced == []
    assert not checker.directory.calls


def test_unknown_user_waits_until_the_directory_caught_up() -> None:
    checker = Checker()
    checker.directory.caught_up = BEHIND
    assert checker.check(send([1, 99], chunk_count=2), send([1, 2], chunk_index=1, chunk_count=2)) == []
    assert sorted(_passed_on(checker.builds())) == [(1, "push"), (1, "push"), (2, "push")]
    assert checker.outcomes() == []
    checker.forget()
    checker.directory.caught_up = DirectoryPosition(lsn=2, ts_ms=NOW)
    checker.clock.advance(60)
    assert _released(checker) == []
    assert results_of(checker.outcomes()) == {(99, "push"): ("suppressed", "unknown_user")}
    assert checker.builds() == []


@pytest.mark.guarantee("tenants.outcomes_hide_other_tenants")
@pytest.mark.kills(guard="tenancy.other_tenants_user")
def test_other_clubs_user_has_the_unknown_users_outcome() -> None:
    """Neither the reason nor the delay of the outcome reveals that another club has the user."""
    found = []
    for club_id in (None, 8):
        checker = Checker()
        if club_id is not None:
            checker.put_users([99], club_id=club_id)
        checker.directory.caught_up = BEHIND
        assert checker.check(send([1, 99])) == []
        behind = checker.produced()
        checker.forget()
        checker.directory.caught_up = DirectoryPosition(lsn=2, ts_ms=NOW)
        checker.clock.advance(60)
        assert _released(checker) == []
        found.append((behind, checker.produced()))
    assert found[0] == found[1]
    assert results_of(checker.outcomes()) == {(99, "push"): ("suppressed", "unknown_user")}


def test_user_created_just_before_the_send_is_notified() -> None:
    checker = Checker()

    class Late(InMemoryDirectory):
        """A directory in which the user's row arrives while the checker confirms the directory position."""

        def confirm(self, ts_ms: int) -> DirectoryPosition:
            self.put(User(user_id=99, club_id=7))
            return super().confirm(ts_ms)

    use_case = checker.environment(Late())
    assert checker.run(use_case, checker.encoded(send([99]), topics.SEND_MONOLITH)) == []
    assert _passed_on(checker.builds()) == [(99, "push")]


def test_missing_settings_count_only_once_directory_caught_up() -> None:
    checker = Checker()
    checker.directory.remove(UserSettings(user_id=2))
    checker.directory.caught_up = BEHIND
    assert checker.check(send([1, 2])) == []
    assert _passed_on(checker.builds()) == [(1, "push")]
    assert checker.outcomes() == []

    class Late(InMemoryDirectory):
        """A directory in which the opt-out arrives while the checker confirms the directory position."""

        def confirm(self, ts_ms: int) -> DirectoryPosition:
            self.put(UserSettings(user_id=99, channels={"push": False}))
            return super().confirm(ts_ms)

    directory = Late()
    directory.put(User(user_id=99, club_id=7))
    use_case = checker.environment(directory)
    assert checker.run(use_case, checker.encoded(send([99], send_id="s"), topics.SEND_MONOLITH)) == []
    assert results_of(checker.outcomes()) == {(99, "push"): ("suppressed", "opted_out")}


def test_future_timestamp_does_not_wait_for_the_directory() -> None:
    checker = Checker()
    checker.directory.caught_up = DirectoryPosition(lsn=1, ts_ms=NOW)
    assert checker.check(send([99], timestamp=NOW + FAR_FUTURE_MS)) == []
    assert results_of(checker.outcomes()) == {(99, "push"): ("suppressed", "unknown_user")}


@pytest.mark.parametrize("error", [Retry("OpenSearch is down"), ZeroDivisionError()])
def test_failed_look_up_redelivers_all_and_produces_nothing(error: Exception) -> None:
    checker = Checker()
    checker.directory.failing = error
    assert checker.check(send([1]), send([99])) == [0, 1]
    assert checker.producer.produced == []


def test_unready_directory_redelivers_all_and_produces_nothing() -> None:
    checker = Checker()
    checker.directory.ready = False
    assert checker.check(send([1]), send([99])) == [0, 1]
    assert checker.producer.produced == []


@pytest.mark.guarantee("cdc_behind.mandatory_waits_for_users_only")
@pytest.mark.kills(guard="preferences.mandatory_without_settings")
def test_a_mandatory_message_waits_for_no_settings() -> None:
    """Settings cannot change the decision: the checker waits only for the user's row."""
    checker = Checker()
    checker.directory.put(User(user_id=50, club_id=7))
    checker.directory.caught_up = BEHIND
    assert checker.check(send([50], type="security_alert")) == []
    assert sorted(_passed_on(checker.builds())) == [(50, "email"), (50, "push")]
    assert not checker.delay_store.items
    assert checker.check(send([50, 51], type="security_alert", send_id="other")) == []
    (item,) = checker.delay_store.items.values()
    assert item.delay_reason == "directory"
    assert checker.codec.decode("RecheckRequested", item.value)["user_ids"] == [51]


def test_mandatory_message_is_forwarded_before_the_wait() -> None:
    checker = Checker()
    checker.directory.put(User(user_id=50, club_id=7))
    checker.directory.caught_up = BEHIND
    passed_on: list[int] = []

    def confirm(ts_ms: int) -> DirectoryPosition:
        passed_on.append(len(checker.producer._waiting))
        raise Retry(f"behind {ts_ms}")

    with patch.object(checker.directory, "confirm", confirm):
        assert checker.check(send([50], type="news"), send([50], type="security_alert", send_id="other")) == []
    assert passed_on == [2]
    assert sorted(_passed_on(checker.builds())) == [(50, "email"), (50, "push")]


def test_an_unknown_channel_waits_for_no_row() -> None:
    checker = Checker()
    checker.directory.caught_up = BEHIND
    assert checker.check(send([50], channels=["fax"])) == []
    assert not checker.delay_store.items
    assert len(results_of(checker.outcomes())) == 1


def test_other_clubs_user_gets_not_even_mandatory_messages() -> None:
    checker = Checker()
    checker.put_users([2], club_id=8)
    checker.check(send([1, 2], type="one_time_password"))
    assert _passed_on(checker.builds()) == [(1, "push")]
    assert results_of(checker.outcomes()) == {(2, "push"): ("suppressed", "unknown_user")}


def test_mandatory_message_is_forwarded_despite_opt_out() -> None:
    checker = Checker()
    checker.directory.put(UserSettings(user_id=2, channels={"push": False, "email": False}))
    checker.check(send([2], type="security_alert"))
    assert _passed_on(checker.builds()) == [(2, "push"), (2, "email")]


def test_malformed_settings_of_one_delay_no_other() -> None:
    checker = Checker()
    checker.directory.put(UserSettings(user_id=2, channels="push"))  # type: ignore[arg-type]
    assert checker.check(send([1, 2, 3])) == []
    assert _passed_on(checker.builds()) == [(1, "push"), (3, "push")]
    assert results_of(checker.outcomes()) == {(2, "push"): ("suppressed", "opted_out")}


@pytest.mark.guarantee("decision_log.one_write_a_record")
def test_first_decisions_cost_one_write_a_record_of_several() -> None:
    checker = Checker()
    everybody = range(1, 2_001)
    checker.put_users(everybody)
    chunks = [send(everybody), send([1, 2], chunk_index=1), send([3], chunk_index=2)]
    both = ["push", "email"]
    assert checker.check(*(replace(chunk, channels=both, chunk_count=3) for chunk in chunks), topic=CRITICAL) == []
    assert checker.log.calls == 2


@pytest.mark.guarantee("dynamodb_down.nothing_is_decided")
def test_nothing_is_forwarded_while_the_decision_log_is_down() -> None:
    checker = Checker()
    checker.log.failing = Retry("DynamoDB is down")
    assert checker.check(send([1, 2]), send([3], send_id="other")) == [0]
    assert _passed_on(checker.builds()) == [(3, "push")]


def test_expired_send_needs_no_look_up() -> None:
    checker = Checker()
    checker.directory.failing = Retry("down")
    assert checker.check(send([1, 99], expires_at=NOW)) == []
    assert set(results_of(checker.outcomes()).values()) == {("expired", "expired")}
    assert checker.builds() == []


@pytest.mark.kills(guard="sends.mandatory_template")
@pytest.mark.parametrize(("values", "reason"), INVALID_SENDS)
def test_bad_send_is_dead_lettered_and_its_recipients_fail(values: dict[str, Any], reason: str) -> None:
    checker = Checker()
    assert checker.check(send([1, 2, 1], **values), send([3])) == []
    assert [headers["masscomm.reason"] for headers in checker.dead_letters()] == [reason]
    assert results_of(checker.outcomes()) == {(1, "push"): FAILED, (2, "push"): FAILED}
    assert _passed_on(checker.builds()) == [(3, "push")]


def test_oversized_send_is_dead_lettered_and_recipients_fail() -> None:
    checker = Checker()
    everybody = range(10**18, 10**18 + 120_000)
    assert checker.check(send(everybody)) == []
    assert [headers["masscomm.reason"] for headers in checker.dead_letters()] == ["too_large"]
    assert set(results_of(checker.outcomes())) == {(user_id, "push") for user_id in everybody}


@pytest.mark.guarantee("sends.counted_in_their_time")
@pytest.mark.kills(guard="sends.too_old")
@pytest.mark.parametrize("values", UNCOUNTABLE_SENDS)
def test_uncountable_send_is_dead_lettered_without_outcomes(values: dict[str, Any]) -> None:
    checker = Checker()
    assert checker.check(send([1, 2], **values), send([3])) == []
    assert [headers["masscomm.reason"] for headers in checker.dead_letters()] in (["invalid"], ["too_large"])
    assert checker.outcomes() == []
    assert _passed_on(checker.builds()) == [(3, "push")]


def test_refused_build_record_fails_recipients_under_a_new_id() -> None:
    checker = Checker()
    checker.directory.put(UserSettings(user_id=2, channels={"push": False}))
    checker.limit(400)
    assert checker.check(send([1, 2], data={"text": "x" * 400})) == []
    assert checker.builds() == []
    first, second = checker.outcomes()
    assert results_of([first]) == {(2, "push"): ("suppressed", "opted_out")}
    assert results_of([second]) == {(1, "push"): FAILED, (2, "push"): FAILED}
    assert first.record_id != second.record_id


def test_long_chunk_is_split_by_position_without_loss() -> None:
    checker = Checker()
    everybody = [*range(1, SPLIT_ABOVE + 2), 5]
    checker.put_users(range(1, SPLIT_ABOVE + 2))
    assert checker.check(send(everybody)) == []
    parts = checker.rechecks()
    assert [(part.range_start, part.range_end) for part in parts] == [(0, 5000), (5000, 10_000), (10_000, 10_002)]
    assert {part.why for part in parts} == {"split"}
    assert not checker.builds()
    assert not checker.outcomes()
    assert not checker.directory.calls
    checker.forget()
    assert checker.check(*parts, topic=topics.RECHECK) == []
    builds = checker.builds()
    assert _passed_on(builds) == [(user_id, "push") for user_id in range(1, SPLIT_ABOVE + 2)]
    assert len({build.record_id for build in builds}) == len(builds) == 21
    assert all(build.range_end - build.range_start <= 500 for build in builds)


def test_a_chunk_of_exactly_the_limit_is_not_split() -> None:
    checker = Checker()
    checker.put_users(range(1, SPLIT_ABOVE + 1))
    assert checker.check(send(range(1, SPLIT_ABOVE + 1)), topic=CRITICAL) == []
    assert checker.rechecks() == []
    assert len(_passed_on(checker.builds())) == SPLIT_ABOVE


@pytest.mark.parametrize("size", [RANGE_SIZE + 1, SPLIT_ABOVE])
def test_broadcast_chunk_is_forwarded_without_look_ups(size: int) -> None:
    checker = Checker()
    checker.put_users(range(1, size + 1))
    checker.directory.put(UserSettings(user_id=2, channels={"push": False}))
    asked = send(range(1, size + 1), expires_at=NOW + 60_000, data={"headline": "Win"})
    direct, record = Checker(), checker.check(asked)
    assert record == []
    (handed_on,) = checker.rechecks(Lane.BULK)
    assert [topic for topic, *_ in checker.producer.produced] == ["recheck"]
    assert (checker.log.calls, len(checker.directory.calls)) == (0, 0)
    checker.forget()
    assert checker.check(handed_on, topic="recheck") == []
    assert [topic for topic, *_ in checker.producer.produced if topics.base_of(topic) == topics.RECHECK] == []
    # The forwarded chunk has the same results as a chunk that is checked at once.
    direct.directory = checker.directory
    direct.use_case = direct.environment(direct.directory)
    assert direct.check(asked, topic=CRITICAL) == []
    assert checker.builds() == direct.builds()
    assert checker.outcomes() == direct.outcomes()
    assert len(_passed_on(checker.builds())) == size - 1


def test_broadcasting_tenants_have_separate_queues() -> None:
    checker = Checker()
    for club_id, users in ((7, range(1, 700)), (8, range(1_001, 1_700))):
        checker.put_users(users, club_id=club_id)
    few = [send([1, 2], chunk_count=2, send_id="a"), send([1_001], club_id=8, chunk_count=2, send_id="b")]
    many = [send(range(1, 700), send_id="c"), send(range(1_001, 1_700), club_id=8, send_id="d")]
    assert checker.check(*few, *many) == []
    found = [[record.send_id for record in checker.builds(lane)] for lane in (Lane.BULK, Lane.BULK_2)]
    assert found == [["a"], ["b"]]
    found = [[record.send_id for record in checker.rechecks(lane)] for lane in (Lane.BULK, Lane.BULK_2)]
    assert found == [["c"], ["d"]]


@pytest.mark.parametrize("why", ["send_at", "quiet_hours"])
def test_briefly_delayed_part_uses_its_tenants_current_queue(why: str) -> None:
    checker = Checker()
    checker.use_case.lanes.queues.of(99, checker.clock)  # another tenant leases the first queue
    assert checker.check(_recheck(why=why), topic="recheck.bulk4") == []
    assert len(checker.builds()) == len(checker.builds(Lane.BULK_2)) == 1


def test_redelivered_chunk_is_split_into_the_same_parts() -> None:
    produced = []
    for _ in range(2):
        checker = Checker()
        checker.check(send(range(SPLIT_ABOVE + 1)))
        produced.append(checker.produced())
    assert produced[0] == produced[1]


def _recheck(**values: Any) -> RecheckRequested:
    usual: dict[str, Any] = {"record_id": "r", "parent_id": "p", "why": "split", "send_id": SEND_ID, "chunk_index": 0}
    usual |= {"range_start": 500, "range_end": 503, "club_id": 7, "type": "news", "timestamp": NOW}
    return RecheckRequested(**usual | {"channels": ["push"], "positions": [500, 502], "user_ids": [1, 3]} | values)


@pytest.mark.parametrize(
    "values",
    [
        {"positions": [500]},
        {"positions": [502, 500]},
        {"positions": [500, 500]},
        {"positions": [499, 500]},
        {"positions": [500, 503]},
        {"positions": [-1, 500], "range_start": -1},
    ],
)
def test_inconsistent_recheck_record_is_dead_lettered(values: dict[str, Any]) -> None:
    checker = Checker()
    assert checker.check(_recheck(**values), _recheck(), topic=topics.RECHECK) == []
    assert [headers["masscomm.reason"] for headers in checker.dead_letters()] == ["invalid"]
    assert _passed_on(checker.builds()) == [(1, "push"), (3, "push")]


def test_critical_records_stay_in_the_critical_lane() -> None:
    checker = Checker()
    checker.put_users(range(1, SPLIT_ABOVE + 2))
    checker.check(send([1, 99_999]), send(range(1, SPLIT_ABOVE + 2), send_id="s"), topic=CRITICAL)
    assert {topic for topic, *_ in checker.producer.produced} == {"build.critical", "recheck.critical", "outcome"}
    part = checker.rechecks(Lane.CRITICAL)[0]
    checker.forget()
    assert checker.check(part, topic="recheck.critical") == []
    assert len(_passed_on(checker.builds(Lane.CRITICAL))) == 5000


@pytest.mark.parametrize(
    ("record", "lane"),
    [
        (send(range(1, SMALL_SEND + 1)), Lane.SMALL),
        (send(range(1, SMALL_SEND + 2)), Lane.BULK),
        (send([1], chunk_index=3, chunk_count=4), Lane.BULK),
    ],
    ids=["few", "many", "a chunk of many"],
)
def test_small_send_uses_the_small_lane(record: SendRequested, lane: Lane) -> None:
    checker = Checker()
    checker.put_users(range(1, SMALL_SEND + 2))
    assert checker.check(record) == []
    assert _passed_on(checker.builds(lane)) == [(user_id, "push") for user_id in record.to_users]
    assert checker.builds() == checker.builds(lane)


def test_small_sends_beyond_the_budget_go_to_bulk() -> None:
    checker = Checker()
    checker.directory.put(User(user_id=9, club_id=8), UserSettings(user_id=9))
    loud = [send([1, 2, 3], send_id=f"loud-{number}") for number in range(int(BURST) // 3 + 2)]
    assert checker.check(*loud, send([9], club_id=8, send_id="quiet")) == []
    assert [record.send_id for record in checker.builds(Lane.BULK)] == [record.send_id for record in loud[-2:]]
    assert checker.builds(Lane.SMALL)[-1].send_id == "quiet"
    checker.forget()
    checker.clock.advance(1)
    assert checker.check(send([1, 2, 3], send_id="later")) == []
    assert [record.send_id for record in checker.builds(Lane.SMALL)] == ["later"]


def test_derived_records_are_the_same_in_each_lane() -> None:
    checker = Checker()
    checker.directory.put(UserSettings(user_id=2, channels={"push": False}))
    checker.check(send([1, 2, 3]))
    small, outcomes = checker.builds(Lane.SMALL), checker.outcomes()
    checker.forget()
    lanes = OutputLanes(small_sends=SmallSends(per_s=0, burst=0))
    checker.run(replace(checker.use_case, lanes=lanes), checker.encoded(send([1, 2, 3]), topics.SEND_MONOLITH))
    assert checker.builds(Lane.BULK) == small
    assert checker.outcomes() == outcomes


@pytest.mark.parametrize("lane", Lane)
def test_delayed_part_continues_in_its_lane(lane: Lane) -> None:
    checker = Checker()
    part = _recheck()
    assert checker.check(part, topic=topics.in_lane(topics.RECHECK, lane)) == []
    assert len(checker.builds()) == len(checker.builds(lane)) > 0


@pytest.mark.parametrize("size", [1, 100, 1000])
@pytest.mark.parametrize("absent", [False, True])
def test_look_ups_do_not_grow_with_recipients(size: int, absent: bool) -> None:
    checker = Checker()
    everybody = range(1, 10 * size + 1)
    if not absent:
        checker.put_users(everybody)
    else:
        checker.directory.remove(*(User(user_id=user_id, club_id=7) for user_id in range(1, 4)))
    chunks = [
        send(everybody[place * size : (place + 1) * size], chunk_index=place, chunk_count=10) for place in range(10)
    ]
    assert checker.check(*chunks, topic=CRITICAL) == []
    assert checker.directory.calls["users_and_settings"] == (2 if absent else 1)
    assert checker.directory.calls["confirm"] == (1 if absent else 0)


@pytest.mark.parametrize("sizes", [[3000] * 10, [9999, 2], [1, 10_000, 1], [0, 1, 0]])
def test_a_batch_is_looked_up_in_bounded_groups(sizes: list[int]) -> None:
    checker = Checker()
    asked: list[int] = []

    class Counting(InMemoryDirectory):
        def users_and_settings(self, user_ids: Sequence[int]) -> tuple[dict[int, User], dict[int, UserSettings]]:
            asked.append(len(user_ids))
            return super().users_and_settings(user_ids)

    use_case = checker.environment(Counting())
    starts = [sum(sizes[:place]) for place in range(len(sizes))]
    entries = [
        checker.encoded(send(range(start, start + size)), CRITICAL, offset=place)
        for place, (start, size) in enumerate(zip(starts, sizes, strict=True))
    ]
    assert checker.run(use_case, *entries) == []
    assert max(asked) <= SPLIT_ABOVE
    assert sum(len(outcome.user_ids) for outcome in checker.outcomes()) == sum(sizes)


def _released(checker: Checker) -> list[int]:
    """Release the delayed records, as the scheduler does. Returns the offsets to be redelivered."""
    due = (item for item in checker.delay_store.items.values() if item.due_ms <= checker.clock.now_ms())
    entries = [entry(item.value, topic=item.topic, offset=900) for item in due]
    return checker.run(checker.use_case, *entries)


def test_scheduled_send_is_delayed_and_checked_when_due() -> None:
    checker = Checker()
    assert checker.check(send([1, 2, 2], send_at=NOW + 60_000)) == []
    assert results_of(checker.outcomes()) == {(1, "push"): ("scheduled", None), (2, "push"): ("scheduled", None)}
    assert checker.builds() == []
    (item,) = checker.delay_store.items.values()
    assert (item.due_ms, item.topic, item.delay_reason) == (NOW + 60_000, "recheck.small", "send_at")
    scheduled = checker.outcomes()[0].record_id
    checker.forget()
    checker.directory.put(UserSettings(user_id=2, channels={"push": False}))
    checker.clock.advance(60)
    assert _released(checker) == []
    assert _passed_on(checker.builds()) == [(1, "push")]
    assert results_of(checker.outcomes()) == {(2, "push"): ("suppressed", "opted_out")}
    assert checker.outcomes()[0].record_id != scheduled


@pytest.mark.parametrize("users", [2, 12_000])
def test_redelivery_of_a_due_send_derives_the_delayed_parts(users: int) -> None:
    checker = Checker()
    checker.put_users(range(1, users + 1))
    record = send(range(1, users + 1), send_at=NOW + 60_000)
    checker.check(record)
    assert len(checker.delay_store.items) == (1 if users == 2 else 3)
    checker.clock.advance(60)
    checker.forget()
    _released(checker)
    first = checker.builds()
    checker.forget()
    checker.check(record)
    again = [checker.encoded(part, topics.RECHECK) for part in checker.rechecks()]
    checker.run(checker.use_case, *again)
    assert {build.record_id for build in checker.builds()} == {build.record_id for build in first}
    assert len(first) == (1 if users == 2 else users // 500)


def test_failed_delay_redelivers_the_send_without_outcomes() -> None:
    checker = Checker()
    checker.delay_store.failing = Retry("DynamoDB is down")
    assert checker.check(send([1], send_at=NOW + 1), send([2], send_id="other")) == [0]
    assert checker.outcomes() == []
    assert _passed_on(checker.builds()) == [(2, "push")]


@pytest.mark.guarantee("sends.unit_of_a_time")
@pytest.mark.kills(guard="sends.unit_of_time")
@pytest.mark.parametrize("field", ["send_at", "expires_at"])
@pytest.mark.parametrize("unit", ["seconds", "microseconds"])
def test_time_of_another_unit_is_dead_lettered(field: str, unit: str) -> None:
    """Read in milliseconds, the seconds of next week have long passed: the send would be sent now, or expire."""
    checker = Checker()
    next_week = NOW + 7 * 86_400_000
    value = next_week // 1000 if unit == "seconds" else next_week * 1000
    assert checker.check(send([1, 2], **{field: value})) == []
    assert results_of(checker.outcomes()) == dict.fromkeys([(1, "push"), (2, "push")], ("failed", "dead_letter"))
    assert (checker.builds(), checker.delay_store.items) == ([], {})
    (letter,) = checker.dead_letters()
    assert field in letter["masscomm.error"]
    assert unit in letter["masscomm.error"]


def test_send_expiring_before_its_send_at_is_expired() -> None:
    checker = Checker()
    assert checker.check(send([1], send_at=NOW + 60_000, expires_at=NOW + 60_000)) == []
    assert results_of(checker.outcomes()) == {(1, "push"): ("expired", "expired")}
    assert not checker.delay_store.items


def test_send_released_after_its_expiry_is_expired() -> None:
    checker = Checker()
    checker.check(send([1], send_at=NOW + 60_000, expires_at=NOW + 120_000))
    checker.forget()
    checker.clock.advance(120)
    assert _released(checker) == []
    assert results_of(checker.outcomes()) == {(1, "push"): ("expired", "expired")}


@pytest.mark.parametrize(("changes", "counted"), CASES)
def test_exactly_the_counted_sends_have_outcomes(changes: dict[str, Any], counted: bool) -> None:
    """tests/unit/spark_metrics/test_transforms.py checks the metrics job with the same sends."""
    checker = Checker()
    values: dict[str, Any] = {"to_users": [1, 2], "timestamp": PRODUCED_MS} | changes
    asked = send(values.pop("to_users"), **values)
    assert checker.check(asked, timestamp=PRODUCED_MS) == []
    anybody = bool(checker.builds() or checker.outcomes())
    assert anybody == (counted and bool(asked.to_users))


@pytest.mark.parametrize(("at_ms", "counted"), [(END_OF_TIME_MS - 1, True), (END_OF_TIME_MS, False)])
def test_send_after_the_end_of_dates_produces_nothing(at_ms: int, counted: bool) -> None:
    checker = Checker()
    assert checker.check(send([1], timestamp=at_ms), timestamp=at_ms) == []
    assert bool(checker.builds() or checker.outcomes()) == counted
