"""A large audience is expanded in shares: between them, other tenants' records of its partition have their turn."""

from typing import Any

import pytest

from functions.audience_expander import expand_audience
from functions.audience_expander.share import CHUNKS
from masscomm.domain.sends import SendKey
from masscomm.domain.time_limits import EXPANSION_HANDED_ON_S
from masscomm.domain.users import User
from masscomm.errors import Retry
from masscomm.kafka import topics
from tests.support.fakes.crashes import Fuse, KilledError
from tests.support.harness.audience_expander import Expander

OTHER = SendKey(8, "11111111-2222-4333-8444-555555555555")


def test_an_audience_is_expanded_in_shares_of_chunks() -> None:
    """Six chunks are recorded and produced, two in each share."""
    expander = Expander(share_chunks=2)
    expander.send_audience()
    expander.consume_all()
    assert [request.share for request in expander.requests()] == [0, 1, 2, 3, 4, 5]
    assert [send.to_users for send in expander.sends()] == [[1, 2], [3, 4], [5, 6], [7, 8], [9, 10], [11]]
    assert [(send.chunk_index, send.chunk_count) for send in expander.sends()] == [(index, 6) for index in range(6)]


@pytest.mark.kills(guard="audiences.share_of_recording")
def test_recorded_chunks_are_bounded_by_a_share() -> None:
    expander = Expander(share_chunks=2)
    expander.send_audience()
    expander.consume()
    assert (len(expander.register.recorded), len(expander.requests())) == (2, 2)


@pytest.mark.kills(guard="audiences.share_of_producing")
def test_produced_chunks_are_bounded_by_a_share() -> None:
    expander = Expander(share_chunks=8)
    expander.send_audience()
    expander.consume()
    assert (len(expander.register.recorded), len(expander.sends()), len(expander.requests())) == (6, 2, 2)


@pytest.mark.kills(guard="audiences.time_of_a_share")
def test_an_audience_is_expanded_in_shares_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each share has time for one page, and the audience has few users."""
    expander = Expander(users=20)
    members_of_club = expander.directory.members_of_club

    def slow(*arguments: Any, after: int) -> Any:
        for page in members_of_club(*arguments, after=after):
            expander.clock.advance(11)
            yield page

    monkeypatch.setattr(expander.directory, "members_of_club", slow)
    expander.directory.put(User(user_id=17, club_id=7, locale="fr"), User(user_id=3, club_id=7, locale="fr"))
    expander.send_audience({"where": {"field": "locale", "is": "fr"}})
    for share in range(7):
        assert expander.sends() == []
        expander.consume()
        assert len(expander.requests()) == share + 2
    expander.consume_all()
    assert [(send.to_users, send.chunk_index, send.chunk_count) for send in expander.sends()] == [
        ([3], 0, 2),
        ([17], 1, 2),
    ]


@pytest.mark.guarantee("audiences.small_one_waits_for_one_share")
def test_a_small_audience_waits_for_one_share_of_a_large_one() -> None:
    """Both are in one partition. The large one has a hundred shares and belongs to another tenant."""
    expander = Expander(users=100, share_chunks=2)
    expander.send_audience(chunk_size=1)
    expander.send_audience(key=OTHER)
    expander.consume()
    expander.consume()
    assert [(send.club_id, send.to_users) for send in expander.sends()] == [(8, [500])]
    expander.consume_all()
    assert [request.share for request in expander.requests() if request.club_id == 7] == list(range(100))
    assert [send.to_users for send in expander.sends()[1:]] == [[user_id] for user_id in range(1, 101)]


@pytest.mark.kills(guard="audiences.handed_on")
def test_a_record_that_was_handed_on_is_not_expanded_again() -> None:
    """Its offset was not committed, or it was handed on twice."""
    expander = Expander(share_chunks=8)
    expander.send_audience()
    expander.consume()
    before = list(expander.producer.produced)
    expander.consumed -= 1
    expander.consume()
    assert expander.producer.produced == before


@pytest.mark.kills(guard="audiences.acknowledged_progress")
@pytest.mark.parametrize("topic", [topics.SEND_API, topics.AUDIENCE])
def test_records_without_acknowledgement_are_produced_again(topic: str) -> None:
    expander = Expander(share_chunks=8)
    expander.send_audience()
    expander.producer.fail = lambda name, _: Retry("not acknowledged") if name == topic else None
    expander.consume()
    assert (expander.consumed, expander.register.advanced) == (0, {})
    expander.producer.fail = lambda _name, _value: None
    expander.consume_all()
    assert sorted(user for users in expander.users_by_chunk().values() for user in users) == list(range(1, 12))


@pytest.mark.kills(guard="audiences.age_of_the_last_share")
def test_an_old_send_is_not_handed_on() -> None:
    """It stays in its record, which ends before the recorded chunks do."""
    expander = Expander(share_chunks=2)
    expander.send_audience()
    expander.clock.advance(EXPANSION_HANDED_ON_S + 1)
    for _ in range(5):
        expander.consume()
        assert expander.consumed == 0
    expander.consume_all()
    assert len(expander.requests()) == 1
    assert [send.to_users for send in expander.sends()] == [[1, 2], [3, 4], [5, 6], [7, 8], [9, 10], [11]]


def test_an_audience_that_became_invalid_is_not_read_again() -> None:
    """Its users were found before an attribute was removed."""
    expander = Expander(share_chunks=8)
    expander.send_audience()
    expander.consume()
    expander.send_audience({"where": {"field": "attributes.removed", "is": 1}}, share=1)
    expander.consumed += 1
    expander.consume_all()
    assert (expander.dead_letters(), len(expander.sends())) == ([], 6)


@pytest.mark.parametrize("share", [-1, 1_000_000])
def test_a_share_that_no_record_has_is_dead_lettered(share: int) -> None:
    expander = Expander()
    expander.send_audience(share=share)
    expander.consume_all()
    assert [letter["masscomm.reason"] for letter in expander.dead_letters()] == ["invalid"]
    assert expander.sends() == []


USERS, SHARE, FLUSH = 9, 4, 2
# Each step is the moment before or after a write. Nine chunks are recorded and produced, in five shares.
STEPS = 66


def consume_until_killed(expander: Expander, at: int) -> bool:
    """Consume the partition, and return whether the process was killed at its nth step. Records that it had not
    flushed are lost.
    """
    fuse = Fuse(at)

    with pytest.MonkeyPatch.context() as patched:
        for holder, name in (
            (expander.register, "record"),
            (expander.register, "end_expansion"),
            (expander.register, "advance"),
            (expander.producer, "flush"),
        ):
            patched.setattr(holder, name, fuse.around(getattr(holder, name)))
        try:
            expander.consume_all()
        except KilledError:
            expander.producer.lose()
            return True
    return False


@pytest.mark.guarantee("audiences.crash_between_shares")
@pytest.mark.parametrize("at", range(1, STEPS + 1))
def test_a_crash_misses_no_user_and_repeats_one_flush(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Users join and leave meanwhile. Each chunk has one content, and each user is in one chunk."""
    monkeypatch.setattr(expand_audience, "_CHUNKS_A_FLUSH", FLUSH)
    expander = Expander(USERS, SHARE)
    expander.send_audience(chunk_size=1)
    assert consume_until_killed(expander, at)
    expander.directory.put(User(user_id=USERS + 1, club_id=7))
    expander.directory.remove(User(user_id=1, club_id=7))
    expander.consume_all()
    users = [user for some in expander.users_by_chunk().values() for user in some]
    assert len(users) == len(set(users)) == expander.ended().users
    assert set(range(2, USERS + 1)) <= set(users) <= set(range(1, USERS + 2))
    assert {send.chunk_count for send in expander.sends()} == {len(users)}
    assert len(expander.sends()) - len(users) <= FLUSH


def test_a_process_without_a_crash_takes_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expand_audience, "_CHUNKS_A_FLUSH", FLUSH)
    expander = Expander(USERS, SHARE)
    expander.send_audience(chunk_size=1)
    assert not consume_until_killed(expander, STEPS + 1)
    assert len(expander.sends()) == USERS
    assert len(expander.requests()) == 5


def test_shares_add_little_to_the_calls_of_an_audience() -> None:
    """Each chunk is written and read once; with its 5,000 users, it costs more than the other calls, too."""

    def calls(share_chunks: int) -> int:
        expander = Expander(users=600, share_chunks=share_chunks)
        expander.send_audience(chunk_size=1)
        expander.consume_all()
        return expander.register.calls

    assert calls(CHUNKS) <= 1.05 * calls(10_000)
