"""Simulator recipients have the results of their ids; nothing is written or published for them."""

import pytest

from masscomm.domain.channels import CHANNELS
from masscomm.domain.simulator import FIRST_ID, LAST_ID, RESULTS, is_simulated, simulate
from masscomm.domain.statuses import TERMINAL
from masscomm.domain.users import DirectoryPosition, User, UserSettings
from tests.support.harness.chain import NOW, results_of, send
from tests.support.harness.preference_checker import Checker

BEHIND = DirectoryPosition(lsn=1, ts_ms=NOW - 1)
DELIVERED, OPTED_OUT, ABSENT, BOUNCED, UNUSED = (FIRST_ID + number for number in (1, 10, 12, 30, 999))


@pytest.mark.guarantee("simulator.each_id_has_its_result")
@pytest.mark.kills(guard="simulator.never_published")
def test_each_simulator_recipient_has_its_result() -> None:
    """Also if the directory has a user with that id."""
    checker = Checker()
    users = [FIRST_ID + number for number in RESULTS]
    checker.put_users(users)
    assert checker.check(send([*users, 1], channels=["push"])) == []
    (build,) = checker.builds()
    assert build.user_ids == [1]
    found = results_of(checker.outcomes())
    assert found.keys() == {(user_id, "push") for user_id in users}
    assert found[DELIVERED, "push"][0] == "delivered"
    assert found[OPTED_OUT, "push"] == ("suppressed", "opted_out")
    assert found[BOUNCED, "push"] == ("bounced", "bounced_permanent")


def test_an_unused_simulator_id_is_an_unknown_user() -> None:
    checker = Checker()
    checker.directory.put(User(user_id=UNUSED, club_id=7), UserSettings(user_id=UNUSED))
    checker.check(send([UNUSED, UNUSED - 1]))
    assert set(results_of(checker.outcomes()).values()) == {("suppressed", "unknown_user")}
    assert checker.builds() == []


def test_simulator_recipients_do_not_wait_for_the_directory() -> None:
    checker = Checker()
    checker.directory.caught_up = BEHIND
    checker.check(send([DELIVERED, OPTED_OUT], timestamp=NOW))
    assert len(results_of(checker.outcomes())) == 2
    assert checker.delay_store.items == {}


def test_a_redelivered_send_has_the_same_results() -> None:
    checker = Checker()
    checker.check(send([DELIVERED, BOUNCED]))
    first = checker.produced()
    checker.forget()
    checker.check(send([DELIVERED, BOUNCED]))
    assert checker.produced() == first


@pytest.mark.kills(guard="simulator.reserved_ids")
def test_only_the_reserved_ids_are_simulated() -> None:
    assert [is_simulated(id_) for id_ in (FIRST_ID - 1, FIRST_ID, LAST_ID, LAST_ID + 1, 1)] == [
        False,
        True,
        True,
        False,
        False,
    ]
    assert LAST_ID < 2**53, "JavaScript's numbers must represent the ids exactly"


@pytest.mark.parametrize("channel", CHANNELS)
def test_every_result_is_final(channel: str) -> None:
    assert {simulate(FIRST_ID + number, channel).status for number in range(1_000)} <= TERMINAL


def test_an_absent_target_has_the_reason_of_its_channel() -> None:
    reasons = {channel: simulate(ABSENT, channel).reason for channel in ("push", "email")}
    assert reasons == {"push": "no_device", "email": "no_address"}


def test_an_unknown_channel_fails_as_for_any_user() -> None:
    checker = Checker()
    checker.check(send([DELIVERED], channels=["fax"]))
    assert set(results_of(checker.outcomes()).values()) == {("failed", "unknown_channel")}
