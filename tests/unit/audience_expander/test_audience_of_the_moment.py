"""The users of a scheduled send are sought when it is due."""

from dataclasses import replace

import pytest

from masscomm.domain.delays import DELAY_REASON_HEADER, PAUSED, SEND_AT
from masscomm.domain.send_states import SendState, send_state
from masscomm.domain.sends import controlled
from masscomm.domain.users import User
from masscomm.errors import Retry
from masscomm.kafka import topics
from masscomm.stores.delayed_records.port import DelayedRecord, key_of
from tests.support.harness.audience_expander import EVERYBODY, KEY, Expander
from tests.support.harness.chain import NOW, entry

HOUR_S = 3_600
DAY_S = 24 * HOUR_S
DUE = NOW + 60 * DAY_S * 1000


@pytest.fixture
def expander() -> Expander:
    """A send that waits for its time, which is further ahead than a timestamp may lie behind."""
    expander = Expander(users=3)
    expander.expand(EVERYBODY, expand_at=DUE, send_at=DUE)
    return expander


def waiting(expander: Expander) -> DelayedRecord:
    (record,) = expander.delayed.items.values()
    assert (record.topic, record.send) == (topics.AUDIENCE, KEY)
    return record


def release(expander: Expander) -> list[int]:
    """Release the record, as the scheduler does at its time or after a change of the send."""
    record = waiting(expander)
    expander.delayed.items.clear()
    headers = [(DELAY_REASON_HEADER, record.delay_reason.encode())]
    now_ms = expander.clock.now_ms()
    released = entry(record.value, topic=topics.AUDIENCE, offset=1, timestamp=now_ms, headers=headers)
    return expander.run(expander.use_case, released)


def change(expander: Expander, **changes: int | None) -> None:
    before = expander.register.sends[KEY.send_id]
    assert expander.register.change(controlled(before, **changes), before)


def state(expander: Expander) -> SendState:
    return send_state(expander.register.sends[KEY.send_id], None, expander.clock.now_ms())


@pytest.mark.guarantee("audiences.of_the_moment")
@pytest.mark.kills(guard="audiences.of_the_moment")
def test_users_are_those_of_the_time_of_the_send(expander: Expander) -> None:
    assert expander.sends() == []
    assert (waiting(expander).due_ms, waiting(expander).delay_reason) == (DUE, SEND_AT)
    assert state(expander) is SendState.SCHEDULED
    assert expander.register.sends[KEY.send_id].expansion is None
    expander.clock.advance((DUE - NOW) / 1000)
    expander.directory.put(User(user_id=4, club_id=7))
    assert release(expander) == []
    assert sorted(user_id for send in expander.sends() for user_id in send.to_users) == [1, 2, 3, 4]
    assert {send.timestamp for send in expander.sends()} == {DUE}, "it is counted when it is due"
    assert (expander.ended().users, expander.delayed.items) == (4, {})


def test_directory_has_passed_the_time_of_the_send(expander: Expander, monkeypatch: pytest.MonkeyPatch) -> None:
    confirmed: list[int] = []
    monkeypatch.setattr(expander.directory, "confirm", confirmed.append)
    expander.clock.advance((DUE - NOW) / 1000 + 30)
    assert release(expander) == []
    assert confirmed == [DUE]


def test_redelivered_record_waits_once(expander: Expander) -> None:
    assert expander.expand(EVERYBODY, expand_at=DUE, send_at=DUE) == []
    assert waiting(expander).due_ms == DUE


@pytest.mark.parametrize("moved_s", [-HOUR_S, HOUR_S])
def test_moved_send_is_expanded_at_its_new_time(expander: Expander, moved_s: int) -> None:
    moved_to_ms = DUE + moved_s * 1000
    change(expander, send_at_ms=moved_to_ms)
    assert release(expander) == []
    assert (waiting(expander).due_ms, expander.sends()) == (moved_to_ms, [])
    expander.clock.advance((moved_to_ms - NOW) / 1000)
    assert release(expander) == []
    assert {send.timestamp for send in expander.sends()} == {moved_to_ms}


@pytest.mark.kills(guard="audiences.released_early")
def test_record_released_early_waits_in_another_copy(expander: Expander) -> None:
    """The scheduler, whose clock is ahead, deletes the copy that it has released."""
    before = waiting(expander)
    expander.clock.advance((DUE - NOW) / 1000 - 1)
    assert release(expander) == []
    after = waiting(expander)
    assert (after.id, after.due_ms) == (before.id, expander.clock.now_ms() + 60_000)
    assert key_of(after) != key_of(before)


@pytest.mark.kills(guard="audiences.cancelled_before_its_time")
def test_send_cancelled_before_its_time_has_no_users(expander: Expander) -> None:
    change(expander, cancelled_at_ms=NOW)
    assert release(expander) == []
    ended = expander.ended()
    assert (ended.users, ended.requested, ended.error, expander.sends()) == (0, 0, None, [])
    assert state(expander) is SendState.CANCELLED


@pytest.mark.kills(guard="audiences.paused_until_expanded")
def test_paused_send_is_expanded_when_it_is_resumed(expander: Expander) -> None:
    expander.clock.advance((DUE - NOW) / 1000)
    change(expander, paused_at_ms=expander.clock.now_ms())
    assert release(expander) == []
    assert (waiting(expander).delay_reason, expander.sends()) == (PAUSED, [])
    expander.directory.put(User(user_id=4, club_id=7))
    change(expander, paused_at_ms=None, resumed_at_ms=expander.clock.now_ms())
    assert release(expander) == []
    assert expander.ended().users == 4


def test_begun_expansion_is_neither_paused_nor_emptied(expander: Expander, monkeypatch: pytest.MonkeyPatch) -> None:
    expander.clock.advance((DUE - NOW) / 1000)
    record = waiting(expander)
    monkeypatch.setattr(expander, "use_case", replace(expander.use_case, share_chunks=1))
    assert release(expander) == []
    (following,) = expander.requests()
    assert (following.share, following.expand_at) == (1, DUE)
    change(expander, cancelled_at_ms=expander.clock.now_ms())
    expander.consume_all()
    assert expander.ended().users == 3
    assert expander.run(expander.use_case, entry(record.value, topic=topics.AUDIENCE)) == []
    assert expander.delayed.items == {}


def test_record_of_an_earlier_version_is_expanded_at_once() -> None:
    """Also a scheduled one: its field does not exist there."""
    expander = Expander(users=3)
    assert expander.expand(EVERYBODY, send_at=DUE) == []
    assert expander.ended().users == 3


def test_failed_store_holds_the_record(expander: Expander) -> None:
    expander.delayed.failing = Retry("down")
    assert expander.expand(EVERYBODY, expand_at=DUE, send_at=DUE) == [0]
