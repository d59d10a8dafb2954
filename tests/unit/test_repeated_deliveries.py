"""Each notification ends once, although data changes between deliveries of a record and functions are killed.

The chain in memory, from a send to the provider. Each function's batch is delivered several times: all but the last
time it is killed with any subset of its records acknowledged, and before the next time settings, users, templates and
the clock change. The test counts outcomes as the metrics do: by id, with statuses merged by rank.
"""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functions.preference_checker.output_lanes import OutputLanes
from functions.preference_checker.small_sends import SmallSends
from masscomm.chain.cap_counter import CapCounter
from masscomm.domain import categories
from masscomm.domain.cap_places import since_ms
from masscomm.domain.digests import Digest
from masscomm.domain.frequency_caps import Cap
from masscomm.domain.lanes import BROADCASTS, Lane
from masscomm.domain.records import NotificationOutcome, SendRequested
from masscomm.domain.statuses import TERMINAL, Status, merge
from masscomm.domain.users import UserSettings
from masscomm.errors import Retry
from masscomm.kafka import topics
from masscomm.stores.frequency_caps.port import Change, PlacesKey, StoredPlaces
from tests.support.harness.chain import NOW, SEND_ID, send
from tests.support.harness.whole_chain import CHANNELS, USERS, RandomQueue, WholeChain, choose_split, reduce_sizes


def _counted(outcomes: Sequence[NotificationOutcome]) -> list[NotificationOutcome]:
    """Ignore repeated ids: the first outcome of an id counts, as in the metrics."""
    return list({outcome.record_id: outcome for outcome in reversed(outcomes)}.values())


def _results(outcome: NotificationOutcome) -> list[tuple[int, str, str | None]]:
    results = [outcome.results[place] for place in outcome.result_index]
    return [(p, r.status, r.reason) for p, r in zip(outcome.positions, results, strict=True)]


def _statuses(outcomes: Sequence[NotificationOutcome]) -> dict[tuple[int, str], Status]:
    found: dict[tuple[int, str], Status] = {}
    for outcome in outcomes:
        for position, status, _ in _results(outcome):
            key = (position, outcome.channel)
            found[key] = merge(found.get(key, Status.ACCEPTED), Status(status))
    return found


def _published(chain: WholeChain) -> Counter[tuple[int, str]]:
    pushed = Counter((int(push.endpoint_arn.removeprefix("arn-")) - 1, "push") for push in chain.push.published)
    return pushed + Counter(
        (USERS.index(int(sent.recipient.split("@")[0])), "email")
        for sent in chain.email.sent
        if sent.recipient != "other@example.com"
    )


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    reduce_sizes(monkeypatch)


def assert_each_notification_ends_once(seed: int, *, growing: bool) -> WholeChain:
    rng = random.Random(seed)  # noqa: S311 - nothing secret
    chain = WholeChain(rng, growing=growing)
    fill_places(chain)
    with pytest.MonkeyPatch.context() as patch:
        choose_split(patch, rng)
        chain.send(NOW + 5_000_000 if rng.random() < 0.3 else None)
    outcomes = chain.outcomes()
    counted = _counted(outcomes)
    notifications = {(position, channel) for position in range(len(USERS)) for channel in CHANNELS}

    # No notification is in flight or lost.
    statuses = _statuses(counted)
    assert statuses.keys() == notifications
    assert set(statuses.values()) <= TERMINAL
    # Exactly the published notifications are sent.
    published = _published(chain)
    assert {who for who, status in statuses.items() if status is Status.SENT} == published.keys()
    assert all(set(push.message) & set("XYZ") for push in chain.push.published)
    # A repeated outcome id has the same recipients; only the reason for a single recipient may differ.
    first = {outcome.record_id: outcome for outcome in counted}
    assert all(outcome.positions == first[outcome.record_id].positions for outcome in outcomes)
    assert all(
        _results(outcome) == _results(first[outcome.record_id]) for outcome in outcomes if len(outcome.positions) > 1
    )
    # The first decision is final: no recipient has both a final outcome and a build record. A single HELD recipient is
    # excepted, because the decision log has no entry for it.
    alone = {position for record in chain.rechecks() if len(record.positions) == 1 for position in record.positions}
    passed_on = {(p, record.channel) for record in chain.builds() for p in record.positions if p not in alone}
    with_outcome = [
        (p, each.channel)
        for each in counted
        if each.step == "preference"
        for p, status, _ in _results(each)
        if status != Status.HELD and p not in alone
    ]
    assert len(with_outcome) == len(set(with_outcome))
    assert passed_on.isdisjoint(with_outcome)
    assert len({(r.record_id, *r.positions) for r in chain.builds()}) == len({r.record_id for r in chain.builds()})
    if not growing:
        assert set(published.values()) <= {1}
    return chain


@pytest.mark.guarantee("digests.exact")
@settings(max_examples=6)
@given(st.integers(0, 2**32))
def test_each_collected_recipient_ends_once(seed: int) -> None:
    """Each digested notification is in a message of its user and channel, which ends once as any other send."""
    rng = random.Random(seed)  # noqa: S311 - nothing secret
    table, digest = categories.category_table(), Digest(template="news", window=rng.choice(["1m", "1h"]))
    collecting = replace(
        table, categories={**table.categories, "news": replace(table.categories["news"], digest=digest)}
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(categories, "category_table", lambda: collecting)
        chain = WholeChain(rng, growing=False)
        choose_split(patched, rng)
        chain.send(NOW + 5_000_000 if rng.random() < 0.3 else None)
    counted = _counted(chain.outcomes())
    own = [outcome for outcome in counted if outcome.send_id == SEND_ID]
    statuses = _statuses(own)
    assert statuses.keys() == {(position, channel) for position in range(len(USERS)) for channel in CHANNELS}
    assert set(statuses.values()) <= TERMINAL
    # One that went out alone may have another reason after a redelivery, as in any other send.
    ends = Counter((p, each.channel) for each in own for p, status, _ in _results(each) if status in TERMINAL)
    digested = {(p, each.channel) for each in own for p, status, _ in _results(each) if status == Status.DIGESTED}
    assert {ends[who] for who in digested} <= {1}

    sent = [
        SendRequested.from_avro(chain.codec.decode("SendRequested", value)) for value in chain.values(topics.SEND_API)
    ]
    found = {message.send_id: (message.to_users, message.channels) for message in sent}
    named = {
        (USERS[p], each.channel): (each.results[place].rule or "").removeprefix("digest ")
        for each in own
        for p, place in zip(each.positions, each.result_index, strict=True)
        if each.results[place].status == Status.DIGESTED
    }
    assert {message: ([user], [channel]) for (user, channel), message in named.items()} == found
    by_message = {message: [each for each in counted if each.send_id == message] for message in found}
    assert all(len(_statuses(each)) == 1 and set(_statuses(each).values()) <= TERMINAL for each in by_message.values())
    assert set(_published(chain).values()) <= {1}


CAPS = (Cap(limit=2, window="24h"), Cap(limit=1, window="day", by_channel=True))


def fill_places(chain: WholeChain) -> None:
    """Fill some places of CAPS by other sends; they count only if the category has these caps."""
    for user_id in USERS:
        for cap, channel in ((CAPS[0], "push"), (CAPS[1], "push"), (CAPS[1], "email")):
            taken = {f"other{number}#{channel}": NOW for number in range(chain.rng.choice([0, 0, 1, 2]))}
            key = PlacesKey(7, user_id, cap.key("news", channel))
            assert chain.frequency_caps.write([[Change(key, StoredPlaces(), taken, 1)]], NOW) == [True]


@pytest.mark.guarantee("frequency_caps.exact")
@pytest.mark.kills(guard="frequency_caps.built_once")
@settings(max_examples=8)
@given(st.integers(0, 2**32))
def test_each_recipient_under_caps_ends_once(seed: int) -> None:
    """Published notifications have a place of each cap, the others none, and no cap is exceeded."""
    table = categories.category_table()
    capped = replace(table, categories={**table.categories, "news": replace(table.categories["news"], caps=CAPS)})
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(categories, "category_table", lambda: capped)
        chain = assert_each_notification_ends_once(seed, growing=seed % 2 == 0)
        counter = CapCounter(store=chain.frequency_caps, clock=chain.clock)
        for outcome in chain.outcomes():
            counter.give_back(outcome)
    published = {(USERS[position], channel) for position, channel in _published(chain)}
    for cap in CAPS:
        for channel in CHANNELS:
            keys = {PlacesKey(7, user_id, cap.key("news", channel)): user_id for user_id in USERS}
            for key, places in chain.frequency_caps.read(keys).items():
                own = {entry for entry in places.taken if entry.startswith(SEND_ID)}
                owned = CHANNELS if not cap.by_channel else [channel]
                assert own == {f"{SEND_ID}#{each}" for each in owned if (keys[key], each) in published}
                others = {entry for entry in places.taken if entry not in own}
                if own:
                    began_ms = since_ms(cap, min(places.taken[entry] for entry in own), None)
                    assert sum(places.taken[entry] >= began_ms for entry in others) < cap.limit


@pytest.mark.guarantee("decision_log.first_write_wins", "quiet_hours.held_recipients_continue_once")
@settings(max_examples=25)
@given(st.integers(0, 2**32))
def test_each_recipient_ends_once_and_is_sent_once(seed: int) -> None:
    assert_each_notification_ends_once(seed, growing=False)


@settings(max_examples=15)
@given(st.integers(0, 2**32))
def test_each_recipient_ends_once_though_messages_grow(seed: int) -> None:
    assert_each_notification_ends_once(seed, growing=True)


def test_kill_between_outcome_and_build_record_ends_each_once() -> None:
    """One of two acknowledgements arrives before the kill; two users change their settings before the redelivery."""
    chain = WholeChain(random.Random(0), growing=False)  # noqa: S311
    chain.directory.put(UserSettings(user_id=1, channels={"push": False}))
    place = chain.encoded(send([1, 2]), topics.SEND_MONOLITH)
    chain.producer.fail = lambda topic, _: None if topic == topics.OUTCOME else Retry("killed")
    assert chain.run(chain.checker, place) == [0]
    chain.producer.fail = lambda *_: None
    chain.directory.put(UserSettings(user_id=1), UserSettings(user_id=2, channels={"push": False}))
    assert chain.run(chain.checker, place) == []
    (build,) = chain.builds()
    assert build.user_ids == [2]
    assert {tuple(outcome.user_ids) for outcome in chain.outcomes()} == {(1,)}


@pytest.mark.guarantee("tenants.changed_lane_delivers_once")
def test_record_redelivered_in_another_lane_is_sent_once() -> None:
    """The acknowledgement of the first check is lost; at the second check the tenant's budget is used up."""
    chain = WholeChain(random.Random(0), growing=False)  # noqa: S311
    chain.directory.put(*(UserSettings(user_id=user_id) for user_id in (1, 2, 3)))
    asked = chain.encoded(send([1, 2, 3]), topics.SEND_MONOLITH)
    for burst in (3, 0):
        checker = replace(chain.checker, lanes=OutputLanes(small_sends=SmallSends(burst=burst)))
        assert chain.run(checker, asked) == []
    lanes = [topics.lane_of(record["topic"]) for record in chain.consume(topics.BUILD)]
    assert (lanes[0], lanes[1] in BROADCASTS) == (Lane.SMALL, True)
    assert len({record.record_id for record in chain.builds()}) == 1
    assert chain.run(chain.builder, *chain.consume(topics.BUILD)) == []
    assert [topics.lane_of(record["topic"]) for record in chain.consume(topics.DELIVERY)] == lanes
    assert chain.run(chain.use_case, *chain.consume(topics.DELIVERY)) == []
    assert sorted(push.endpoint_arn for push in chain.push.published) == ["arn-1", "arn-2", "arn-3"]
    assert len({record.record_id for record in chain.outcomes()}) == 1


@pytest.mark.guarantee("tenants.changed_queue_delivers_once")
def test_chunk_redelivered_in_another_queue_is_sent_once() -> None:
    """The acknowledgement of the first check is lost; at the second check another tenant has the queue."""
    chain = WholeChain(random.Random(0), growing=False)  # noqa: S311
    users = list(USERS)
    chain.directory.put(*(UserSettings(user_id=user_id) for user_id in users))
    asked = chain.encoded(send(users, chunk_count=2), topics.SEND_MONOLITH)
    for queue in (Lane.BULK_2, Lane.BULK_4):
        checker = replace(chain.checker, lanes=OutputLanes(queues=RandomQueue(chain.rng, queue)))
        assert chain.run(checker, asked) == []
    assert [record["topic"] for record in chain.consume(topics.RECHECK)] == ["recheck.bulk2", "recheck.bulk4"]
    assert chain.run(chain.checker, *chain.consume(topics.RECHECK)) == []
    assert chain.run(chain.builder, *chain.consume(topics.BUILD)) == []
    deliveries = chain.consume(topics.DELIVERY)
    assert {record["topic"] for record in deliveries} == {"delivery.bulk2", "delivery.bulk4"}
    assert len({record.record_id for record in chain.deliveries()}) == len(deliveries) / 2
    assert chain.run(chain.use_case, *deliveries) == []
    assert sorted(push.endpoint_arn for push in chain.push.published) == sorted(f"arn-{user_id}" for user_id in users)
    assert len({record.record_id for record in chain.outcomes()}) == len(deliveries) / 2
