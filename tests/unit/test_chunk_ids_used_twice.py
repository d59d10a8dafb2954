"""If a chunk index is used for several users, the first user is notified and the others fail, each with an outcome."""

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from masscomm.domain.ids import ERASED_USER
from masscomm.domain.outcomes import DEAD_LETTERED
from masscomm.domain.records import SendRequested
from masscomm.domain.users import UserSettings
from masscomm.errors import Retry
from masscomm.kafka import topics
from tests.support.harness.chain import NOW, delivery, results_of, send
from tests.support.harness.delivery import Delivery
from tests.support.harness.whole_chain import WholeChain

SENT = ("sent", None)
FAILED = (DEAD_LETTERED.status, DEAD_LETTERED.reason)


@pytest.mark.kills(guard="delivery_ledger.other_recipients")
@pytest.mark.parametrize("together", [True, False])
def test_other_users_under_a_recorded_id_are_dead_letters(together: bool) -> None:
    chain = Delivery()
    records = [delivery([user_id]) for user_id in (1, 2, 3)]
    for batch in [records] if together else [[record] for record in records]:
        assert chain.deliver(*batch) == []
    assert chain.published_arns() == ["arn-1"]
    assert [letter["masscomm.reason"] for letter in chain.dead_letters()] == ["invalid"] * 2
    outcomes = chain.outcomes()
    assert results_of(outcomes) == {(1, "push"): SENT, (2, "push"): FAILED, (3, "push"): FAILED}
    assert len({outcome.record_id for outcome in outcomes}) == 3


def test_a_redelivered_dead_letter_has_the_same_outcome_id() -> None:
    chain = Delivery()
    for user_id in (1, 2, 2, 1):
        assert chain.deliver(delivery([user_id])) == []
    by_id = {outcome.record_id: outcome.user_ids for outcome in chain.outcomes()}
    assert sorted(by_id.values()) == [[1], [2]]
    assert chain.published_arns() == ["arn-1"]


def test_recorded_users_among_others_have_one_outcome() -> None:
    chain = Delivery()
    assert chain.deliver(delivery([1, 2])) == []
    chain.forget()
    assert chain.deliver(delivery([1, 3])) == []
    assert results_of(chain.outcomes()) == {(3, "push"): FAILED}


def test_erased_user_does_not_count_as_another() -> None:
    """An erased user's id is replaced in the ledger; a redelivery does not take the replacement for another user."""
    chain = Delivery()
    chain.producer.fail = lambda topic, _: Retry("lost") if topic == topics.OUTCOME else None
    assert chain.deliver(delivery([1, 2])) == [0]
    chain.producer.fail = lambda *_: None
    slices = chain.table.slices[delivery([1]).record_id]
    for position, (recorded_ms, entries) in slices.items():
        slices[position] = (recorded_ms, [entries[0]._replace(user_id=ERASED_USER), *entries[1:]])
    assert chain.deliver(delivery([1, 2])) == []
    assert chain.dead_letters() == []
    assert set(results_of(chain.outcomes()).values()) == {SENT}
    assert chain.published_arns() == ["arn-1", "arn-2"]


def test_refused_record_releases_its_lease() -> None:
    chain = Delivery()
    chain.producer.fail = lambda topic, _: Retry("lost") if topic == topics.OUTCOME else None
    assert chain.deliver(delivery([1])) == [0]
    chain.producer.fail = lambda *_: None
    assert chain.deliver(delivery([2])) == []
    other = chain.environment(type(chain.ledger)(clock=chain.clock, owner="another", table=chain.table))
    before = chain.clock.now_ms()
    assert chain.deliver(delivery([1]), environment=other) == []
    assert chain.clock.now_ms() == before


@pytest.mark.guarantee("dead_letter.reused_chunk_index")
def test_each_user_of_a_chunk_id_ends_once_through_the_chain() -> None:
    chain = WholeChain(random.Random(0), growing=False)  # noqa: S311
    chain.directory.put(*(UserSettings(user_id=user_id) for user_id in (1, 2, 3)))
    sends = [chain.encoded(send([user_id]), topics.SEND_MONOLITH, offset=user_id) for user_id in (1, 2, 3)]
    assert chain.run(chain.checker, *sends) == []
    assert chain.run(chain.builder, *chain.consume(topics.BUILD)) == []
    assert chain.run(chain.use_case, *chain.consume(topics.DELIVERY)) == []
    assert results_of(chain.outcomes()) == {(1, "push"): SENT, (2, "push"): FAILED, (3, "push"): FAILED}
    assert len({outcome.record_id for outcome in chain.outcomes()}) == 3


def test_chunks_of_other_users_have_their_own_outcomes() -> None:
    chain = WholeChain(random.Random(0), growing=False)  # noqa: S311
    chain.directory.put(*(UserSettings(user_id=user_id) for user_id in range(1, 7)))
    sends = [chain.encoded(send([n, n + 1]), topics.SEND_MONOLITH, offset=n) for n in (1, 3, 5)]
    assert chain.run(chain.checker, *sends) == []
    failed = {user_id: outcome.record_id for outcome in chain.outcomes() for user_id in outcome.user_ids}
    assert failed.keys() == {3, 4, 5, 6}
    assert failed[3] == failed[4] != failed[5] == failed[6]


def _chain() -> WholeChain:
    chain = WholeChain(random.Random(0), growing=False)  # noqa: S311
    chain.directory.put(*(UserSettings(user_id=user_id) for user_id in (1, 2, 3, 4)))
    return chain


@pytest.mark.guarantee("dead_letter.other_content")
@pytest.mark.kills(guard="decisions.other_content")
@pytest.mark.parametrize(
    "changes", [{"template": "other"}, {"data": {"headline": "other"}}, {"locale": "de"}, {"type": "offer"}]
)
def test_other_content_for_the_same_users_is_a_dead_letter(changes: dict[str, Any]) -> None:
    """Each user has one outcome, which belongs to the content that was recorded first."""
    chain = _chain()
    sends = [chain.encoded(each, topics.SEND_MONOLITH) for each in (send([1, 2]), replace(send([1, 2]), **changes))]
    for offset in (0, 1, 1, 0):
        assert chain.run(chain.checker, sends[offset]) == []
    assert [letter["masscomm.reason"] for letter in chain.dead_letters()] == ["invalid"] * 2
    assert chain.run(chain.builder, *chain.consume(topics.BUILD)) == []
    assert chain.run(chain.use_case, *chain.consume(topics.DELIVERY)) == []
    assert {record.type for record in chain.deliveries()} == {send([1, 2]).type}
    assert {user for record in chain.outcomes() for user in record.user_ids} == {1, 2}
    assert len({record.record_id for record in chain.outcomes()}) == 1
    assert sorted(chain.published_arns()) == ["arn-1", "arn-2"]


def test_a_chunk_repeated_at_another_time_is_no_dead_letter() -> None:
    """A producer that repeats a chunk after a lost acknowledgement may set its times to new values."""
    chain = _chain()
    first = replace(send([1, 2]), expires_at=NOW + 60_000)
    again = replace(first, timestamp=first.timestamp + 1, expires_at=NOW + 61_000)
    sends = [chain.encoded(each, topics.SEND_MONOLITH) for each in (first, again)]
    assert chain.run(chain.checker, *sends) == []
    assert chain.dead_letters() == []
    assert len({record.record_id for record in chain.builds()}) == 1


def _checked(chain: WholeChain, *sends: SendRequested, topic: str = topics.SEND_MONOLITH) -> None:
    """Process each send in a batch of its own."""
    for each in sends:
        assert chain.run(chain.checker, chain.encoded(each, topic)) == []


@pytest.mark.guarantee("send_ids.kafka_and_rest_are_one_send")
@pytest.mark.kills(guard="sends.same_send")
@pytest.mark.parametrize(
    "other",
    [
        {"type": "offer"},
        {"channels": ["email"]},
        {"send_at": NOW + 60_000},
        {"send_at_local": "2030-01-01T09:00"},
        {"reference": "r"},
        {"club_id": 8},
    ],
)
def test_another_chunk_with_other_content_is_a_dead_letter(other: dict[str, Any]) -> None:
    """Chunks with different indices have different ids; the send has the content of the chunk that came first."""
    chain = _chain()
    first = send([1], chunk_count=3)
    refused = replace(first, chunk_index=1, to_users=[2], **other)
    _checked(chain, first, refused, refused, replace(first, chunk_index=2, to_users=[3, 4]))
    assert [letter["masscomm.reason"] for letter in chain.dead_letters()] == ["invalid"] * 2
    outcomes = {outcome.record_id: outcome for outcome in chain.outcomes() if outcome.user_ids == [2]}
    assert results_of(outcomes.values()) == {(2, (refused.channels or ["push"])[0]): FAILED}
    assert {(outcome.chunk_index, outcome.club_id) for outcome in outcomes.values()} == {(1, refused.club_id)}
    assert [record.user_ids for record in chain.builds()] == [[1], [3, 4]]


def test_another_content_of_a_decided_chunk_has_no_outcome() -> None:
    """Its users have the outcomes of the first content; users of another chunk under its id have outcomes of their
    own.
    """
    chain = _chain()
    first = send([1, 2], chunk_count=2)
    _checked(chain, first, replace(first, type="offer"))
    assert (len(chain.dead_letters()), chain.outcomes()) == (1, [])
    _checked(chain, replace(first, type="offer", to_users=[3, 4]))
    assert results_of(chain.outcomes()) == {(3, "push"): FAILED, (4, "push"): FAILED}


@pytest.mark.parametrize("users", [[1, 2], range(1, 201)])
def test_other_channels_or_times_of_a_chunk_are_refused(users: Iterable[int]) -> None:
    chain = _chain()
    first = send(users)
    _checked(chain, first, first, replace(first, timestamp=NOW + 1, expires_at=NOW + 9_000))
    assert chain.dead_letters() == []
    _checked(chain, *(replace(first, **other) for other in ({"channels": ["email"]}, {"send_at": NOW + 60_000})))
    assert len(chain.dead_letters()) == 2


def test_a_chunk_by_kafka_under_the_id_of_rest_is_refused() -> None:
    """A send over REST has the chunks of its requests only."""
    chain = _chain()
    by_rest = send([1, 2])
    _checked(chain, by_rest, topic=topics.SEND_API)
    _checked(chain, replace(by_rest, chunk_index=1, chunk_count=2, to_users=[3]))
    assert len(chain.dead_letters()) == 1
    assert results_of(chain.outcomes()) == {(3, "push"): FAILED}


def test_a_replayed_dead_letter_keeps_its_send() -> None:
    """A chunk that was dead-lettered for another reason is accepted when it is produced again."""
    chain = _chain()
    chunks = [send([user], chunk_index=user - 1, chunk_count=3) for user in (1, 2, 3)]
    _checked(chain, *chunks, *chunks)
    assert chain.dead_letters() == []
    assert len({record.record_id for record in chain.builds()}) == 3
