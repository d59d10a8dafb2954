"""Outcomes name the time at which their messages were due: latencies are counted from it."""

import json
from dataclasses import replace

import pytest

from masscomm.domain.delays import RESUMED_AT_HEADER
from masscomm.domain.records import DeliveryRequested, NotificationOutcome
from masscomm.domain.users import Template, UserSettings
from masscomm.kafka import topics
from tests.support.harness.chain import NOW, delivery, entry, recheck
from tests.support.harness.delivery import Delivery
from tests.support.harness.receipts import Receipts
from tests.support.harness.whole_chain import ThreeSteps
from tests.support.inputs import receipt_events

HOUR_MS = 3_600_000


def dues(outcomes: list[NotificationOutcome], status: str) -> set[int | None]:
    return {each.due_at for each in outcomes if any(result.status == status for result in each.results)}


@pytest.fixture
def chain() -> ThreeSteps:
    chain = ThreeSteps()
    chain.put_user(1)
    chain.put_device(1, 1)
    chain.directory.put(
        Template(template_id=1, club_id=None, type="news", channel="push", locale="en", title="Hello", body="Hello")
    )
    return chain


@pytest.mark.parametrize("waited_until", [None, NOW - HOUR_MS, NOW + 5])
def test_held_messages_are_due_at_the_end_of_the_wait(chain: ThreeSteps, waited_until: int | None) -> None:
    """By send_at, quiet hours, a pace or the window of a digest; each of them sets the time in the recheck record."""
    request = recheck([1], timestamp=NOW - 5, waited_until=waited_until, channels=["push"])
    assert chain.run(chain.checker, chain.encoded(request, topics.RECHECK)) == []
    assert chain.run(chain.builder, *chain.entries(topics.BUILD)) == []
    assert chain.run(chain.use_case, *chain.entries(topics.DELIVERY)) == []
    assert dues(chain.outcomes(), "sent") == {max(NOW - 5, waited_until or 0)}


@pytest.mark.kills(guard="latencies.resumed")
@pytest.mark.parametrize("kind", ["recheck", "delivery"])
def test_messages_of_a_pause_are_due_at_its_end(chain: ThreeSteps, kind: str) -> None:
    header = [(RESUMED_AT_HEADER, str(NOW - 3).encode())]
    if kind == "recheck":
        request = recheck([1], timestamp=NOW - HOUR_MS, channels=["push"])
        value = chain.codec.encode(topics.RECHECK, "RecheckRequested", request.to_avro())
        assert chain.run(chain.checker, entry(value, topic=topics.RECHECK, headers=header)) == []
        assert chain.run(chain.builder, *chain.entries(topics.BUILD)) == []
        deliveries = chain.entries(topics.DELIVERY)
    else:
        record = delivery([1], timestamp=NOW - HOUR_MS, built_at=NOW - HOUR_MS)
        value = chain.codec.encode(topics.DELIVERY, "DeliveryRequested", record.to_avro())
        deliveries = [entry(value, topic=topics.DELIVERY, headers=header)]
    assert chain.run(chain.use_case, *deliveries) == []
    assert dues(chain.outcomes(), "sent") == {NOW - 3}


@pytest.mark.kills(guard="latencies.late_quiet_hours")
def test_message_held_at_its_delivery_is_due_after_quiet_hours() -> None:
    chain = Delivery()
    chain.put_user(1, time_zone="UTC")
    chain.put_device(1, 1)
    # NOW is 22:13:20.
    chain.directory.put(UserSettings(user_id=1, quiet_hours={"start": "22:00", "end": "23:00"}, version=4))
    late = delivery([1], timestamp=NOW - HOUR_MS, built_at=NOW - HOUR_MS)
    assert chain.deliver(late) == []
    assert dues(chain.outcomes(), "held") == {NOW - HOUR_MS}
    end_ms = NOW - NOW % HOUR_MS + HOUR_MS
    chain.clock.advance((end_ms + 60_000 - NOW) / 1000)
    assert chain.release() == []
    assert dues(chain.outcomes(), "sent") == {end_ms}


@pytest.mark.parametrize("due_at", [NOW - 700, None])
def test_receipt_has_the_due_time_of_its_message(due_at: int | None) -> None:
    """A message of an earlier version has none."""
    receipts = Receipts()
    receipts.sent_messages(["m"], due_at=due_at)
    assert receipts.receive(receipt_events.of_sns(json.dumps(receipt_events.DELIVERED))) == []
    assert dues(receipts.outcomes(), "delivered") == {due_at}


def test_an_earlier_delivery_record_is_due_at_its_request(chain: ThreeSteps) -> None:
    record = replace(delivery([1], timestamp=NOW - 9), waited_until=None)
    assert DeliveryRequested.from_avro(record.to_avro()).due_ms == NOW - 9
