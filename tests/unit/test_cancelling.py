"""A cancelled send: nothing is published after the cancellation, and each notification ends once.

The chain in memory, from a send to the provider, as in test_repeated_deliveries.
"""

import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from masscomm.domain.records import RecheckRequested, Taken
from masscomm.domain.sends import SendControl, SendKey
from masscomm.domain.statuses import Reason, Status, merge
from masscomm.domain.users import UserSettings
from masscomm.errors import Retry, Stop
from masscomm.kafka import topics
from tests.support.harness.builder import Builder
from tests.support.harness.chain import NOW, SEND_ID, build, delivery, ends, recheck, results_of, send
from tests.support.harness.delivery import Delivery
from tests.support.harness.preference_checker import Checker
from tests.support.harness.whole_chain import CHANNELS, USERS, WholeChain, choose_split, reduce_sizes

KEY = SendKey(7, SEND_ID)
CANCELLED = SendControl(send=KEY, cancelled_at_ms=NOW, published_before=0)
ENDED = ("cancelled", "cancelled")
HOUR = 3_600_000


@pytest.mark.guarantee("cancelling.each_notification_ends_once", "cancelling.redelivery_publishes_nothing")
@pytest.mark.kills(guard="cancellations.single_recipient")
@settings(max_examples=40)
@given(st.integers(0, 2**32))
def test_a_send_cancelled_at_any_moment_ends_once(seed: int) -> None:
    """Between deliveries that are killed, users, settings and templates change, too."""
    rng = random.Random(seed)  # noqa: S311 - nothing secret
    chain = WholeChain(rng, growing=False, cancelling=True)
    with pytest.MonkeyPatch.context() as patch:
        reduce_sizes(patch)
        choose_split(patch, rng)
        chain.send(None, rng.choice([None, NOW + HOUR]))
    counted = ends(chain.outcomes())
    assert counted.keys() == {(position, channel) for position in range(len(USERS)) for channel in CHANNELS}
    if chain.published_before is not None:
        assert chain.published == chain.published_before
    # A record's single recipient may be suppressed as well, if settings change between two deliveries.
    assert all(statuses["cancelled"] <= 1 and statuses["sent"] <= 1 for statuses in counted.values())
    assert not any(statuses["cancelled"] and statuses["sent"] for statuses in counted.values())
    merged = Counter(_merged(statuses) for statuses in counted.values())
    assert merged.total() == len(USERS) * len(CHANNELS)
    assert merged[Status.SENT] == chain.published


def _merged(statuses: Counter[str]) -> Status:
    found = Status.ACCEPTED
    for status in statuses:
        found = merge(found, Status(status))
    return found


def test_chunks_that_arrive_after_the_cancellation_end() -> None:
    """A request may be cancelled while its chunks are still arriving."""
    chain = WholeChain(random.Random(0), growing=False)  # noqa: S311
    chain.directory.put(*(UserSettings(user_id=user_id) for user_id in USERS))
    chain.cancel()
    for index in (0, 1):
        asked = chain.encoded(send(USERS, chunk_index=index, chunk_count=2), topics.SEND_MONOLITH)
        chain.run(chain.checker, asked)
        chain.run(chain.checker, *chain.consume(topics.RECHECK))
    assert (chain.builds(), chain.published) == ([], 0)
    found = [result for outcome in chain.outcomes() for result in outcome.results]
    assert {(result.status, result.reason) for result in found} == {ENDED}
    assert sum(result.count for result in found) == 2 * len(USERS)


# --- preference_checker -----------------------------------------------------------------------------------------------


@pytest.fixture
def checker() -> Checker:
    made = Checker()
    made.register.control(CANCELLED)
    return made


def test_one_read_serves_all_records_of_a_batch(checker: Checker) -> None:
    chunks = [send([1, 2], chunk_index=index, chunk_count=9) for index in range(9)]
    checker.check(*chunks, send([1, 2], send_id="other"))
    assert checker.register.reads == [{KEY}]
    assert {each.send_id for each in checker.builds()} == {"other"}


def test_a_scheduled_send_does_not_wait_for_its_time(checker: Checker) -> None:
    assert checker.check(send([1, 2], send_at=NOW + HOUR)) == []
    assert checker.delay_store.items == {}
    assert results_of(checker.outcomes()) == {(user_id, "push"): ENDED for user_id in (1, 2)}


def test_a_scheduled_part_is_cancelled_when_it_is_released(checker: Checker) -> None:
    checker.register.sends.clear()
    assert checker.check(send([1, 2], send_at=NOW + HOUR)) == []
    checker.register.control(CANCELLED)
    checker.forget()
    checker.clock.advance(3_600)
    (item,) = checker.delay_store.items.values()
    part = checker.codec.decode("RecheckRequested", item.value)
    for _ in range(2):
        assert checker.check(RecheckRequested.from_avro(part), topic=topics.RECHECK) == []
    first, second = checker.outcomes()
    assert first.record_id == second.record_id
    assert results_of([first]) == {(user_id, "push"): ENDED for user_id in (1, 2)}


def test_recorded_decisions_count_after_the_cancellation(checker: Checker) -> None:
    """The first delivery allowed both users: the second produces the same build record, and delivery cancels it."""
    checker.register.sends.clear()
    checker.check(send([1, 2]))
    first = checker.builds()
    checker.register.control(CANCELLED)
    checker.check(send([1, 2]))
    assert checker.builds() == first * 2
    assert checker.outcomes() == []


def test_a_single_recipient_is_not_held(checker: Checker) -> None:
    """A cancelled send's recipient is not held until the morning, but passed on to delivery, which cancels it."""
    checker.directory.put(UserSettings(user_id=1, quiet_hours={"start": "00:00", "end": "23:59"}))
    checker.check(send([1]))
    assert checker.delay_store.items == {}
    assert [each.user_ids for each in checker.builds()] == [[1]]


def test_an_expired_request_stays_expired(checker: Checker) -> None:
    checker.check(recheck([1, 2], expires_at=NOW), topic=topics.RECHECK)
    assert set(results_of(checker.outcomes()).values()) == {("expired", "expired")}


@pytest.mark.guarantee("cancelling.store_down_publishes_nothing")
@pytest.mark.parametrize("error", [Retry("DynamoDB does not answer"), Stop("no table")])
def test_records_are_redelivered_while_the_store_is_down(error: Exception) -> None:
    """While the store is down it is unknown whether the send is cancelled, so the records are redelivered."""
    checker, builder, deliverer = Checker(), Builder(), Delivery()
    for chain in (checker, builder, deliverer):
        chain.register.failing = error
    assert checker.check(send([1, 2])) == [0]
    assert builder.build(build([1, 2])) == [0]
    assert deliverer.deliver(delivery([1, 2])) == [0]
    assert checker.produced() == builder.produced() == deliverer.produced() == []
    assert deliverer.push.published == []
    deliverer.register.failing = None
    assert deliverer.deliver(delivery([1, 2])) == []
    assert len(deliverer.push.published) == 2


# --- builder ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def builder() -> Builder:
    made = Builder()
    made.put_template("News", "Hello")
    return made


def test_a_build_record_of_a_cancelled_send_is_not_rendered(builder: Builder) -> None:
    builder.register.control(CANCELLED)
    assert builder.build(build([1, 2])) == []
    assert builder.deliveries() == []
    assert results_of(builder.outcomes()) == {(user_id, "push"): ENDED for user_id in (1, 2)}


def test_messages_written_before_the_cancellation_are_withdrawn(builder: Builder) -> None:
    """The builder leaves the outcome to delivery, which may have published the message of the first attempt."""
    builder.build(build([1, 2]))
    (first,) = builder.deliveries()
    builder.forget()
    builder.register.control(CANCELLED)
    builder.build(build([1, 2]))
    (second,) = builder.deliveries()
    assert (second.record_id, second.positions) == (first.record_id, first.positions)
    assert {(each.position, each.status, each.reason) for each in second.withdrawn} == {
        (0, "cancelled", "cancelled"),
        (1, "cancelled", "cancelled"),
    }
    assert builder.outcomes() == []


def test_a_single_recipients_message_is_left_to_delivery(builder: Builder) -> None:
    builder.register.control(CANCELLED)
    builder.build(build([1]))
    assert [each.user_ids for each in builder.deliveries()] == [[1]]


# --- delivery ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def deliverer() -> Delivery:
    return Delivery()


@pytest.mark.guarantee("cancelling.nothing_is_published_afterwards")
def test_a_delivery_record_of_a_cancelled_send_is_not_published(deliverer: Delivery) -> None:
    deliverer.register.control(CANCELLED)
    other = replace(delivery([3]), record_id="other", send_id="other")
    assert deliverer.deliver(delivery([1, 2]), other) == []
    assert deliverer.published_arns() == ["arn-3"]
    assert results_of(deliverer.outcomes()) == {
        (1, "push"): ENDED,
        (2, "push"): ENDED,
        (3, "push"): ("sent", None),
    }
    assert len(deliverer.register.reads) == 1


def test_published_notifications_stay_sent(deliverer: Delivery) -> None:
    """The first delivery was killed before its outcome; the recorded results are emitted, the others are cancelled."""
    environment = deliverer.environment(deliverer.ledger, unrecorded=1)
    deliverer.producer.fail = lambda *_: Retry("killed")
    assert deliverer.deliver(delivery([1, 2]), environment=environment) == [0]
    deliverer.producer.fail = lambda *_: None
    deliverer.forget()
    deliverer.register.control(CANCELLED)
    assert deliverer.deliver(delivery([1, 2])) == []
    assert deliverer.published_arns() == ["arn-1", "arn-2"]
    assert results_of(deliverer.outcomes()) == {(1, "push"): ("sent", None), (2, "push"): ("sent", None)}


def test_a_partly_published_notification_stays_sent(deliverer: Delivery) -> None:
    """The provider accepted the message for one of the first user's two devices before the record was delayed."""
    deliverer.put_device(11, 1)
    deliverer.put_user(2)
    deliverer.register.control(CANCELLED)
    delayed = delivery([1, 2], waits=1, taken=[Taken(position=0, target="11", message_id="m")])
    assert deliverer.deliver(delayed) == []
    assert deliverer.push.published == []
    assert results_of(deliverer.outcomes()) == {(1, "push"): ("sent", None), (2, "push"): ENDED}


def test_reason_of_a_cancelled_notification_is_in_the_vocabulary() -> None:
    assert Reason("cancelled") is Reason.CANCELLED
