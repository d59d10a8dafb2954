"""The expansion of audiences, with directory, store and Kafka in memory."""

from itertools import batched
from typing import Any

import pytest

from functions.audience_expander import expand_audience
from masscomm.domain.audiences import read_audience
from masscomm.domain.ids import chunk_id
from masscomm.domain.sends import Send, SendKey
from masscomm.domain.simulator import AUDIENCE, RECIPIENTS, is_simulated
from masscomm.domain.users import DirectoryPosition, User, UserSettings
from masscomm.errors import Retry
from masscomm.kafka import topics
from masscomm.stores.sends.port import ExpandedChunk
from tests.support.fakes.crashes import Fuse, KilledError
from tests.support.harness.audience_expander import EVERYBODY, KEY, Expander
from tests.support.harness.chain import NOW, SEND_ID


@pytest.fixture
def expander() -> Expander:
    return Expander()


def test_users_of_the_audience_become_chunks_of_the_send(expander: Expander) -> None:
    assert expander.expand(data={"title": "Servus", "body": "Ü"}, channels=["push", "email"], send_at=NOW + 9) == []
    assert [send.to_users for send in expander.sends()] == [[1, 3], [5, 7], [9, 11]]
    assert [(send.chunk_index, send.chunk_count) for send in expander.sends()] == [(0, 3), (1, 3), (2, 3)]
    (other,) = {(send.send_id, send.timestamp, send.data["body"], send.send_at) for send in expander.sends()}
    assert other == (SEND_ID, NOW, "Ü", NOW + 9)
    keys = [key for topic, key, _, _ in expander.producer.produced if topic == topics.SEND_API]
    assert keys == [chunk_id(SEND_ID, index).encode() for index in range(3)]
    ended = expander.ended()
    assert (ended.users, ended.requested, ended.error) == (6, 12, None)


@pytest.mark.kills(guard="stored.known_fields")
@pytest.mark.guarantee("upgrade.items_of_a_later_version")
def test_a_send_of_a_later_version_is_expanded(expander: Expander) -> None:
    assert expander.expand(of_later={"colour": "red"}, reference="r") == []
    assert [(send.to_users, send.reference) for send in expander.sends()] == [
        (user_ids, "r") for user_ids in ([1, 3], [5, 7], [9, 11])
    ]


def test_all_users_without_exceptions_are_expanded(expander: Expander) -> None:
    expander.expand(EVERYBODY | {"except_users": [2, 500]}, chunk_size=100)
    assert [send.to_users for send in expander.sends()] == [[1, *range(3, 12)]]


def test_conditions_read_settings(expander: Expander) -> None:
    expander.directory.put(UserSettings(user_id=4, categories={"news": True}))
    expander.expand({"where": {"field": "settings.categories.news", "is": True}})
    assert [send.to_users for send in expander.sends()] == [[4]]


def test_audience_without_users_produces_nothing(expander: Expander) -> None:
    assert expander.expand({"where": {"field": "locale", "is": "fr"}}) == []
    assert expander.producer.produced == []
    ended = expander.ended()
    assert (ended.chunks, ended.users, ended.requested) == (0, 0, 0)


@pytest.mark.kills(guard="limits.audience")
def test_audience_above_the_limit_of_its_key_is_refused(expander: Expander) -> None:
    """The send is refused as a whole, before its first chunk."""
    assert expander.expand(recipients_a_day=5) == []
    ended = expander.ended()
    assert (ended.chunks, ended.users, ended.requested) == (0, 6, 0)
    assert ended.error == "the key may use 5 recipients each UTC day, 5 remain; the audience has 6"
    assert (expander.sends(), expander.usage.used) == ([], {})
    assert expander.expand(recipients_a_day=6) == []
    assert expander.sends() == []  # The end of an expansion is recorded once.


def test_audience_is_counted_once_in_the_use_of_its_key(expander: Expander, monkeypatch: pytest.MonkeyPatch) -> None:
    """Although the expansion is interrupted after its users are counted."""
    with monkeypatch.context() as patched:
        patched.setattr(expander.register, "end_expansion", lambda *_, **__: (_ for _ in ()).throw(Retry("down")))
        assert expander.expand(recipients_a_day=6) == [0]
    assert (expander.sends(), sum(expander.usage.used.values())) == ([], 6)
    assert expander.expand(recipients_a_day=6) == []
    assert (len(expander.sends()), sum(expander.usage.used.values())) == (3, 6)


def test_audience_waits_for_the_count_of_its_key(expander: Expander) -> None:
    expander.usage.failing = Retry("down")
    assert expander.expand(recipients_a_day=6) == [0]
    assert (expander.sends(), expander.register.sends[SEND_ID].expansion) == ([], None)


def test_audience_of_a_test_key_is_the_simulator_recipients(expander: Expander) -> None:
    assert expander.expand(dict(AUDIENCE), chunk_size=10) == []
    assert [send.to_users for send in expander.sends()] == [
        list(some) for some in batched(sorted(RECIPIENTS), 10, strict=False)
    ]
    assert all(map(is_simulated, RECIPIENTS))


@pytest.mark.guarantee("audiences.requested_is_known_first")
def test_requested_is_recorded_before_the_first_chunk(expander: Expander, monkeypatch: pytest.MonkeyPatch) -> None:
    produce, seen = expander.producer.produce, []

    def produced(*arguments: Any) -> None:
        seen.append(expander.ended().requested)
        produce(*arguments)

    monkeypatch.setattr(expander.producer, "produce", produced)
    expander.expand()
    assert seen == [6, 6, 6]


# Six chunks are recorded, the end, and six chunks are produced; the process may end before and after each.
STEPS = 26


def expand_until_killed(expander: Expander, at: int) -> bool:
    """Expand the audience, and return whether the process was killed at its nth step."""
    fuse = Fuse(at)
    calls = ((expander.register, "record"), (expander.register, "end_expansion"), (expander.producer, "produce"))
    with pytest.MonkeyPatch.context() as patched:
        for holder, name in calls:
            patched.setattr(holder, name, fuse.around(getattr(holder, name)))
        try:
            expander.expand(EVERYBODY, chunk_size=2)
        except KilledError:
            return True
    return False


@pytest.mark.guarantee("audiences.crash_notifies_nobody_twice")
@pytest.mark.parametrize("change", ["none", "join", "leave"])
@pytest.mark.parametrize("at", range(1, STEPS + 1))
def test_a_repetition_after_a_crash_produces_the_same_chunks(at: int, change: str) -> None:
    """While users join or leave, each chunk has one content, and each user is in one chunk."""
    expander = Expander()
    assert expand_until_killed(expander, at)
    before = expander.users_by_chunk()
    if change == "join":
        for user_id in (12, 13):
            expander.directory.put(User(user_id=user_id, club_id=7))
    elif change == "leave":
        expander.directory.remove(User(user_id=1, club_id=7), User(user_id=11, club_id=7))
    assert expander.expand(EVERYBODY, chunk_size=2) == []
    after = expander.users_by_chunk()
    assert before.items() <= after.items()
    users = [user_id for some in after.values() for user_id in some]
    assert len(users) == len(set(users)) == expander.ended().users
    assert set(range(2, 11)) <= set(users) <= set(range(1, 14))
    assert {send.chunk_count for send in expander.sends()} == {len(after)}


def test_a_process_that_is_not_killed_takes_every_step() -> None:
    assert not expand_until_killed(Expander(), STEPS + 1)


@pytest.mark.kills(guard="audiences.confirmed_directory")
def test_directory_that_is_behind_is_a_retry(expander: Expander) -> None:
    expander.directory.caught_up = DirectoryPosition(lsn=1, ts_ms=NOW - 1)
    assert expander.expand() == [0]
    assert (expander.register.recorded, expander.producer.produced) == ({}, [])


@pytest.mark.kills(guard="audiences.concurrent_expansion")
def test_of_two_concurrent_expansions_one_continues(expander: Expander) -> None:
    """The other one reads the directory at another time."""
    other = ExpandedChunk(user_ids=[1, 2], up_to=2, users_before=0)
    record = expander.register.record

    def late(send: Send, index: int, chunk: ExpandedChunk) -> ExpandedChunk:
        record(send, 0, other)
        return record(send, index, chunk)

    expander.register.record = late  # type: ignore[method-assign]
    assert expander.expand() == [0]
    assert expander.producer.produced == []
    expander.register.record = record  # type: ignore[method-assign]
    assert expander.expand() == []
    assert [send.to_users for send in expander.sends()] == [[1, 2], [3, 5], [7, 9], [11]]


@pytest.mark.parametrize("store", ["directory", "register"])
def test_store_that_is_down_is_a_retry(expander: Expander, store: str) -> None:
    getattr(expander, store).failing = Retry("down")
    assert expander.expand() == [0]
    assert expander.producer.produced == []


@pytest.mark.parametrize(
    "audience", [{}, [], {"where": {"field": "attributes.removed", "is": 1}}, {"where": {"field": "locale"}}]
)
def test_audience_that_cannot_be_read_is_dead_lettered(expander: Expander, audience: Any) -> None:
    """An attribute may be removed from schemas/source.yaml after the request."""
    assert expander.expand(audience) == []
    assert [letter["masscomm.reason"] for letter in expander.dead_letters()] == ["invalid"]
    assert "audience" in (expander.ended().error or "")
    assert expander.sends() == []


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"audience": {"where": {"field": "locale", "is": "xx"}}}, None),
        ({"recipients_a_day": 1}, "the key may use 1 recipients"),
        ({"audience": {"x": 1}}, "audience"),
    ],
)
def test_a_send_without_chunks_stays_listed(values: dict[str, Any], error: str | None) -> None:
    """No audience has these users, the key may not use so many recipients, or the audience is invalid."""
    expander = Expander()
    for _ in range(2):
        assert expander.expand(**values) == []
    (listed,) = expander.register.listed(7, start_ms=NOW, before_ms=NOW + 1)
    assert (listed.key, expander.ended().requested, expander.sends()) == (KEY, 0, [])
    assert (error or "") in (expander.ended().error or "")


DAY_S = 86_400


def test_scheduled_audience_is_kept_until_it_is_due(expander: Expander) -> None:
    """A repetition of its request nine days later finds no users that joined meanwhile."""
    for _ in range(2):
        assert expander.expand(EVERYBODY, send_at=NOW + 30 * DAY_S * 1000) == []
        expander.directory.put(User(user_id=12, club_id=7))
        expander.clock.advance(9 * DAY_S)
    assert [send.to_users for send in expander.sends()] == [[1, 2], [3, 4], [5, 6], [7, 8], [9, 10], [11]]


@pytest.mark.kills(guard="audiences.replayed_letter")
def test_replay_of_a_failed_audience_expands_it(expander: Expander, monkeypatch: pytest.MonkeyPatch) -> None:
    """An attribute was removed from the schema by mistake."""
    with monkeypatch.context() as patched:
        patched.setattr(expand_audience, "read_audience", lambda _: read_audience({"removed": 1}))
        assert expander.expand() == []
    assert ("audience" in (expander.ended().error or ""), expander.ended().can_begin_again) == (True, True)
    assert list(expander.register.changed) == [KEY]
    assert expander.expand() == []
    assert (expander.ended().error, expander.ended().users, len(expander.sends())) == (None, 6, 3)


@pytest.mark.kills(guard="audiences.failure_of_another_send")
@pytest.mark.kills(guard="audiences.registered_send")
@pytest.mark.parametrize(
    "values", [{"type": "other"}, {"key": SendKey(8, SEND_ID)}, {"key": SendKey(8, SEND_ID), "chunk_size": 0}]
)
def test_record_of_another_send_is_dead_lettered_alone(expander: Expander, values: dict[str, Any]) -> None:
    """Another content, another tenant, and another tenant's malformed record under the id of a send."""
    expander.directory.failing = Retry("down")
    assert expander.expand() == [0]
    expander.directory.failing = None
    ours = expander.register.sends[SEND_ID]
    assert expander.expand(**values) == []
    assert [letter["masscomm.reason"] for letter in expander.dead_letters()] == ["invalid"]
    assert (expander.register.sends, expander.register.recorded) == ({SEND_ID: ours}, {})
    assert expander.expand() == []
    assert len(expander.sends()) == 3
