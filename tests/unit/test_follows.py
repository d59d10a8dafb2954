"""Sends to the followers of an object: each recipient must follow it until the message is published."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from masscomm.directory.in_memory import InMemoryDirectory
from masscomm.domain.audiences import read_audience
from masscomm.domain.users import DirectoryPosition, User, UserSettings
from masscomm.kafka import topics
from masscomm.texts import Text
from tests.support.contracts.directory import follow
from tests.support.harness.audience_expander import Expander
from tests.support.harness.chain import NOW, delivery, results_of, send
from tests.support.harness.delivery import Delivery
from tests.support.harness.preference_checker import Checker
from tests.support.inputs.optional_tables import mapped

TEAM = "team:42"
NOT_FOLLOWING = ("suppressed", "not_following")


@pytest.fixture(autouse=True)
def _mapped() -> Iterator[None]:
    with mapped("memberships"):
        yield


def put(directory: InMemoryDirectory, *user_ids: int, **columns: Any) -> None:
    directory.rows |= {("memberships", id_): row for id_, row in (follow(each, **columns) for each in user_ids)}


def behind(directory: InMemoryDirectory) -> None:
    """Let the directory be complete up to a time before the sends."""
    directory.caught_up = DirectoryPosition(lsn=1, ts_ms=NOW - 60_000)


def test_recipients_that_do_not_follow_are_suppressed() -> None:
    checker = Checker()
    put(checker.directory, 1)
    put(checker.directory, 2, name="43")
    assert checker.check(send([1, 2], follows=TEAM)) == []
    assert results_of(checker.outcomes()) == {(2, "push"): NOT_FOLLOWING}
    (result,) = checker.outcomes()[0].results
    assert (result.layer, result.rule) == ("directory", "follows:team:42")
    (build,) = checker.builds()
    assert (build.user_ids, build.follows) == ([1], TEAM)


@pytest.mark.kills(guard="follows.muted")
def test_muted_object_is_an_opt_out() -> None:
    """As any opt-out, a mandatory category ignores it."""
    for category, is_sent in (("match_reminder", False), ("security_alert", True)):
        checker = Checker()
        put(checker.directory, 1, muted=True)
        assert checker.check(send([1], type=category, follows=TEAM)) == []
        assert bool(checker.builds()) is is_sent
        if not is_sent:
            assert results_of(checker.outcomes()) == {(1, "push"): ("suppressed", "opted_out")}
            assert checker.outcomes()[0].results[0].rule == "follows:team:42"


@pytest.mark.kills(guard="tenancy.membership")
def test_follow_in_another_club_does_not_count() -> None:
    checker = Checker()
    put(checker.directory, 1, club_id=8)
    put(checker.directory, 2, club_id=None)
    assert checker.check(send([1, 2], follows=TEAM)) == []
    assert results_of(checker.outcomes()) == {(1, "push"): NOT_FOLLOWING}


@pytest.mark.kills(guard="follows.unconfirmed")
def test_missing_follow_waits_for_the_directory() -> None:
    checker = Checker()
    checker.directory.put(UserSettings(user_id=1), UserSettings(user_id=2))
    put(checker.directory, 1)
    behind(checker.directory)
    assert checker.check(send([1, 2], follows=TEAM)) == []
    assert [build.user_ids for build in checker.builds()] == [[1]]
    (part,) = checker.delayed_parts()
    assert (part.user_ids, part.follows) == ([2], TEAM)


@pytest.mark.guarantee("follows.until_publishing")
@pytest.mark.kills(guard="follows.before_publishing")
def test_unfollowing_counts_until_publishing() -> None:
    chain = Delivery()
    chain.directory.confirm(NOW)
    put(chain.directory, 1)
    put(chain.directory, 3, muted=True)
    assert chain.deliver(delivery([1, 2, 3], follows=TEAM)) == []
    assert results_of(chain.outcomes()) == {
        (1, "push"): ("sent", None),
        (2, "push"): NOT_FOLLOWING,
        (3, "push"): ("suppressed", "opted_out"),
    }


@pytest.mark.kills(guard="follows.held_before_publishing")
def test_missing_follow_is_held_before_publishing() -> None:
    chain = Delivery()
    put(chain.directory, 1)
    behind(chain.directory)
    chain.deliver(delivery([1, 2], follows=TEAM))
    assert (2, "push") not in {key for key, (status, _) in results_of(chain.outcomes()).items() if status != "sending"}
    assert len(chain.published_arns()) == 1


def test_send_without_follows_reads_no_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Any] = []
    checker = Checker()
    look_up = checker.directory.users_and_layers

    def spied(user_ids: Any, club_ids: Any, related: Any) -> Any:
        read.append(dict(related))
        return look_up(user_ids, club_ids, related)

    monkeypatch.setattr(checker.directory, "users_and_layers", spied)
    checker.check(send([1, 2]))
    assert read == [{}]


@pytest.mark.kills(guard="follows.invalid_record")
@pytest.mark.parametrize("follows", ["", "team", "team:", ":42", "a team:42", "team:4 2", "team:" + "x" * 129])
def test_malformed_object_is_dead_lettered(follows: str) -> None:
    checker = Checker()
    put(checker.directory, 1)
    checker.check(send([1], follows=follows))
    assert [letter["masscomm.reason"] for letter in checker.dead_letters()] == ["invalid"]
    assert checker.builds() == []


@pytest.mark.kills(guard="follows.unmapped")
def test_follows_need_the_table() -> None:
    with mapped():
        checker = Checker()
        checker.check(send([1], follows=TEAM))
        assert [letter["masscomm.reason"] for letter in checker.dead_letters()] == ["invalid"]
        _, (error,) = read_audience({"follows": TEAM})
        assert (error.path, error.message.code) == ("follows", Text.FOLLOWS_UNMAPPED.code)


@pytest.mark.parametrize(
    ("audience", "path"),
    [
        ({"follows": "team"}, "follows"),
        ({"follows": 42}, "follows"),
        ({"follows": TEAM, "all_users": True}, "where"),
        ({"follows": None}, "follows"),
    ],
)
def test_malformed_audience_of_followers_is_refused(audience: Any, path: str) -> None:
    _, errors = read_audience(audience)
    assert [error.path for error in errors] == [path]


@pytest.mark.kills(guard="follows.carried")
def test_chunks_of_followers_carry_the_object() -> None:
    expander = Expander()
    put(expander.directory, 2, 3, 5, 8, 500)
    audience = {"follows": TEAM, "where": {"field": "locale", "is": "de"}, "except_users": [5]}
    assert expander.expand(audience) == []
    assert [(each.to_users, each.follows) for each in expander.sends()] == [([3], TEAM)]
    assert (expander.ended().users, expander.ended().requested) == (1, 1)


def test_expansion_reads_followers_alone() -> None:
    """Its cost follows the followers, and not the tenant."""
    expander = Expander(users=1_000)
    put(expander.directory, *range(100, 110))
    assert expander.expand({"follows": TEAM}) == []
    calls = expander.directory.calls
    # Four pages of three followers.
    assert (calls["followers"], calls["users"], calls["users_of_club"]) == (5, 4, 0)
    assert sum(len(each.to_users) for each in expander.sends()) == 10


def test_expansion_in_shares_has_each_follower_once() -> None:
    expander = Expander(share_chunks=1)
    put(expander.directory, *range(1, 9))
    expander.send_audience({"follows": TEAM})
    expander.consume()
    # A later follower before the last recorded one is not found; one after it is.
    put(expander.directory, 9)
    del expander.directory.rows["memberships", "1:team:42"]
    expander.consume_all()
    users = [user_id for each in expander.sends() for user_id in each.to_users]
    assert users == list(range(1, 10))


def test_identity_of_a_chunk_has_the_object() -> None:
    """Two records of one chunk with other objects are not the same chunk."""
    checker = Checker()
    put(checker.directory, 1)
    put(checker.directory, 1, name="43")
    assert checker.check(send([1], follows=TEAM)) == []
    checker.check(send([1], follows="team:43"), topic=topics.SEND_MONOLITH, offset=1)
    assert len({build.follows for build in checker.builds()}) == 1


def test_object_is_in_the_json_of_an_audience() -> None:
    audience, errors = read_audience(json.loads('{"follows": "team:42"}'))
    assert not errors
    assert (audience.follows, audience.has(User(user_id=1, club_id=7), None)) == (TEAM, True)
