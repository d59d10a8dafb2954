"""Whatever changes between two deliveries of a record, and wherever a function is killed: everybody ends once.

The chain in memory, from a send to the provider. Each function's batch is delivered several times: all but the last
time it is killed with any subset of its records acknowledged, and before the next time settings, users, templates and
the clock change. What the metrics would count of it is counted here: outcomes by id, statuses by rank.
"""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functions.builder import build_messages
from functions.preference_checker import check_preferences
from functions.preference_checker.small_sends import SmallSends
from masscomm.chain import chunks
from masscomm.domain.lanes import BROADCASTS, Lane
from masscomm.domain.records import NotificationOutcome
from masscomm.domain.statuses import TERMINAL, Status, merge
from masscomm.domain.users import Settings
from masscomm.errors import Retry
from masscomm.kafka import topics
from tests.support.harness.chain import NOW, send
from tests.support.harness.whole_chain import CHANNELS, USERS, AnyQueue, World


def _counted(outcomes: Sequence[NotificationOutcome]) -> list[NotificationOutcome]:
    """As the metrics do: the first of each id."""
    return list({outcome.record_id: outcome for outcome in reversed(outcomes)}.values())


def _said(outcome: NotificationOutcome) -> list[tuple[int, str, str | None]]:
    results = [outcome.results[place] for place in outcome.result_index]
    return [(p, r.status, r.reason) for p, r in zip(outcome.positions, results, strict=True)]


def _statuses(outcomes: Sequence[NotificationOutcome]) -> dict[tuple[int, str], Status]:
    found: dict[tuple[int, str], Status] = {}
    for outcome in outcomes:
        for position, status, _ in _said(outcome):
            key = (position, outcome.channel)
            found[key] = merge(found.get(key, Status.ACCEPTED), Status(status))
    return found


def _published(world: World) -> Counter[tuple[int, str]]:
    pushed = Counter((int(push.endpoint_arn.removeprefix("arn-")) - 1, "push") for push in world.push.published)
    return pushed + Counter(
        (USERS.index(int(sent.recipient.split("@")[0])), "email")
        for sent in world.email.sent
        if sent.recipient != "other@example.com"
    )


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges, parts and records so small that a dozen recipients have several of each."""
    monkeypatch.setattr(check_preferences, "RANGE_SIZE", 3)
    monkeypatch.setattr(chunks, "PART_SIZE", 6)
    monkeypatch.setattr(build_messages, "MAX_CONTENT_BYTES", 190)
    monkeypatch.setattr(build_messages, "_MAX_GROWN_BYTES", 400)


def everybody_ends_once(seed: int, *, growing: bool) -> None:
    throw = random.Random(seed)  # noqa: S311 - nothing secret
    world = World(throw, growing=growing)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(check_preferences, "SPLIT_ABOVE", throw.choice([8, len(USERS)]))
        world.send(NOW + 5_000_000 if throw.random() < 0.3 else None)
    outcomes = world.outcomes()
    counted = _counted(outcomes)
    everybody = {(position, channel) for position in range(len(USERS)) for channel in CHANNELS}

    # Nothing is in flight, and nobody is lost.
    statuses = _statuses(counted)
    assert statuses.keys() == everybody
    assert set(statuses.values()) <= TERMINAL
    # Whoever was published to is sent, and nobody else.
    published = _published(world)
    assert {who for who, status in statuses.items() if status is Status.SENT} == published.keys()
    assert all(set(push.message) & set("XYZ") for push in world.push.published)
    # An id that is refused tells of nobody anew. (Why somebody alone goes no further may be told in two ways.)
    first = {outcome.record_id: outcome for outcome in counted}
    assert all(outcome.positions == first[outcome.record_id].positions for outcome in outcomes)
    assert all(_said(outcome) == _said(first[outcome.record_id]) for outcome in outcomes if len(outcome.positions) > 1)
    # What the preference checker said first it says always: nobody is told of and passed on. (Of whoever was held and
    # is alone in a record since, nothing is recorded; the rank settles it, as above.)
    alone = {position for record in world.rechecks() if len(record.positions) == 1 for position in record.positions}
    passed_on = {(p, record.channel) for record in world.builds() for p in record.positions if p not in alone}
    with_outcome = [
        (p, each.channel)
        for each in counted
        if each.step == "preference"
        for p, status, _ in _said(each)
        if status != Status.HELD and p not in alone
    ]
    assert len(with_outcome) == len(set(with_outcome))
    assert passed_on.isdisjoint(with_outcome)
    assert len({(r.record_id, *r.positions) for r in world.builds()}) == len({r.record_id for r in world.builds()})
    if not growing:
        assert set(published.values()) <= {1}


@pytest.mark.guarantee("decision_log.first_write_wins", "quiet_hours.held_recipients_continue_once")
@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_each_recipient_ends_once_and_is_sent_once(seed: int) -> None:
    everybody_ends_once(seed, growing=False)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32))
def test_each_recipient_ends_once_though_messages_grow(seed: int) -> None:
    everybody_ends_once(seed, growing=True)


def test_kill_between_outcome_and_build_record_ends_each_once() -> None:
    """The smallest case: of two acknowledgements one came, and two users changed their minds meanwhile."""
    world = World(random.Random(0), growing=False)  # noqa: S311
    world.directory.put(Settings(user_id=1, channels={"push": False}))
    place = world.encoded(send([1, 2]), topics.SEND_MONOLITH)
    world.producer.fail = lambda topic, _: None if topic == topics.OUTCOME else Retry("killed")
    assert world.run(world.checker, place) == [0]
    world.producer.fail = lambda *_: None
    world.directory.put(Settings(user_id=1), Settings(user_id=2, channels={"push": False}))
    assert world.run(world.checker, place) == []
    (build,) = world.builds()
    assert build.user_ids == [2]
    assert {tuple(outcome.user_ids) for outcome in world.outcomes()} == {(1,)}


@pytest.mark.guarantee("tenants.changed_lane_delivers_once")
def test_record_redelivered_in_another_lane_is_sent_once() -> None:
    """The answer of the first check is lost; the tenant's budget is used up at the second."""
    world = World(random.Random(0), growing=False)  # noqa: S311
    world.directory.put(*(Settings(user_id=user_id) for user_id in (1, 2, 3)))
    asked = world.encoded(send([1, 2, 3]), topics.SEND_MONOLITH)
    for burst in (3, 0):
        checker = replace(world.checker, small_sends=SmallSends(burst=burst))
        assert world.run(checker, asked) == []
    lanes = [topics.lane_of(record["topic"]) for record in world.take(topics.BUILD)]
    assert (lanes[0], lanes[1] in BROADCASTS) == (Lane.SMALL, True)
    assert len({record.record_id for record in world.builds()}) == 1
    assert world.run(world.builder, *world.take(topics.BUILD)) == []
    assert [topics.lane_of(record["topic"]) for record in world.take(topics.DELIVERY)] == lanes
    assert world.run(world.use_case, *world.take(topics.DELIVERY)) == []
    assert sorted(push.endpoint_arn for push in world.push.published) == ["arn-1", "arn-2", "arn-3"]
    assert len({record.record_id for record in world.outcomes()}) == 1


@pytest.mark.guarantee("tenants.changed_queue_delivers_once")
def test_chunk_redelivered_in_another_queue_is_sent_once() -> None:
    """The answer of the first check is lost, and the tenant's queue is another's by the second."""
    world = World(random.Random(0), growing=False)  # noqa: S311
    users = list(USERS)
    world.directory.put(*(Settings(user_id=user_id) for user_id in users))
    asked = world.encoded(send(users, chunk_count=2), topics.SEND_MONOLITH)
    for queue in (Lane.BULK_2, Lane.BULK_4):
        checker = replace(world.checker, queues=AnyQueue(world.throw, queue))
        assert world.run(checker, asked) == []
    assert [record["topic"] for record in world.take(topics.RECHECK)] == ["recheck.bulk2", "recheck.bulk4"]
    assert world.run(world.checker, *world.take(topics.RECHECK)) == []
    assert world.run(world.builder, *world.take(topics.BUILD)) == []
    deliveries = world.take(topics.DELIVERY)
    assert {record["topic"] for record in deliveries} == {"delivery.bulk2", "delivery.bulk4"}
    assert len({record.record_id for record in world.deliveries()}) == len(deliveries) / 2
    assert world.run(world.use_case, *deliveries) == []
    assert sorted(push.endpoint_arn for push in world.push.published) == sorted(f"arn-{user_id}" for user_id in users)
    assert len({record.record_id for record in world.outcomes()}) == len(deliveries) / 2
