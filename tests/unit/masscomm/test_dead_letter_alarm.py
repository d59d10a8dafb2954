"""Many dead letters at once raise an alarm and stop nothing."""

from typing import Any

from masscomm.chain.batch import BatchDriver
from masscomm.clock import FixedClock
from masscomm.errors import Retry
from masscomm.kafka import topics
from masscomm.kafka.dead_letter_alarm import DeadLetterAlarm
from masscomm.observability import metrics
from tests.support.harness.chain import NOW, Chain, Context, entry, event, failed_offsets, send
from tests.support.harness.relay import Relay


def _counted(alarm: DeadLetterAlarm, reasons: list[str]) -> tuple[Any, Any]:
    """Count the dead letters of one invocation. Returns the metric of bursts, and the logged reasons."""
    metrics.taken()
    alarm.count(reasons)
    found, notes = metrics.taken()
    return found.get("DeadLetterBursts"), notes.get("dead_letter_reasons")


def test_alarm_counts_by_reason_and_rings_above_its_limit() -> None:
    clock = FixedClock()
    alarm = DeadLetterAlarm(limit=3, clock=clock)
    assert _counted(alarm, ["undecodable", "undecodable", "invalid"]) == (0, {"undecodable": 2, "invalid": 1})
    clock.advance(59)
    assert _counted(alarm, ["invalid"]) == (1, {"invalid": 1})
    clock.advance(60)
    assert _counted(alarm, ["invalid"]) == (0, {"invalid": 1})
    assert _counted(alarm, []) == (None, None)


def test_burst_raises_the_alarm_and_stops_no_good_record() -> None:
    chain = Chain()
    driver = BatchDriver(
        function="under_test",
        codec=chain.codec,
        producer=chain.producer,
        alarm=DeadLetterAlarm(limit=5, clock=chain.clock),
    )
    bad = [entry(b"bad", offset=offset) for offset in range(50)]
    good = [chain.encoded(send([offset]), topics.SEND_MONOLITH, offset=offset) for offset in range(50, 60)]
    metrics.taken()
    assert failed_offsets(driver.run(event(*bad, *good), Context(chain.clock), Relay())) == []
    assert len(chain.values(topics.SEND_API)) == 10
    found, notes = metrics.taken()
    assert (found["DeadLetters"], found["DeadLetterBursts"]) == (50, 1)
    assert notes["dead_letter_reasons"] == {"undecodable": 50}


def test_redelivered_dead_letter_is_counted_once_produced() -> None:
    chain = Chain()
    chain.producer.fail = lambda topic, _value: Retry("down") if topic == topics.DEAD_LETTER else None
    alarm = DeadLetterAlarm(clock=FixedClock(NOW))
    driver = BatchDriver(function="under_test", codec=chain.codec, producer=chain.producer, alarm=alarm)
    metrics.taken()
    assert failed_offsets(driver.run(event(entry(b"bad", offset=3)), Context(chain.clock), Relay())) == [3]
    found, _ = metrics.taken()
    assert (found["DeadLetters"], found["RecordsFailed"]) == (0, 1)
    assert "DeadLetterBursts" not in found
