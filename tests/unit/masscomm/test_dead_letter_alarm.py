"""A burst of dead letters is heard of, and stops nothing."""

import json

import pytest

from masscomm import topics
from masscomm.batch import BatchDriver
from masscomm.clock import FixedClock
from masscomm.dead_letter_alarm import DeadLetterAlarm
from masscomm.errors import Retry
from tests.chain import NOW, Chain, Context, entry, event, failed_offsets, send
from tests.unit.masscomm.test_batch import Relay


def _lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [line for line in found if "_aws" in line]


def _figures(line: dict[str, object]) -> tuple[object, object, object]:
    return line["DeadLetters"], line["DeadLetterBursts"], line["reasons"]


def test_a_line_an_invocation_counts_by_reason_and_tells_of_more_than_the_limit_in_a_minute(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock = FixedClock()
    alarm = DeadLetterAlarm(function="builder", limit=3, clock=clock)
    alarm.tell(["undecodable", "undecodable", "invalid"])
    clock.advance(59)
    alarm.tell(["invalid"])
    clock.advance(60)
    alarm.tell(["invalid"])
    alarm.tell([])
    assert [_figures(line) for line in _lines(capsys)] == [
        ([3.0], [0.0], {"undecodable": 2, "invalid": 1}),
        ([1.0], [1.0], {"invalid": 1}),
        ([1.0], [0.0], {"invalid": 1}),
    ]


def test_a_burst_raises_the_alarm_and_the_good_records_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    chain = Chain()
    driver = BatchDriver(
        function="under_test",
        codec=chain.codec,
        producer=chain.producer,
        alarm=DeadLetterAlarm(function="under_test", limit=5, clock=chain.clock),
    )
    bad = [entry(b"bad", offset=offset) for offset in range(50)]
    good = [chain.encoded(send([offset]), topics.SEND_MONOLITH, offset=offset) for offset in range(50, 60)]
    assert failed_offsets(driver.run(event(*bad, *good), Context(chain.clock), Relay())) == []
    assert len(chain.values(topics.SEND_API)) == 10
    (line,) = _lines(capsys)
    assert _figures(line) == ([50.0], [1.0], {"undecodable": 50})


def test_a_dead_letter_that_comes_again_is_counted_when_it_is_put_aside(capsys: pytest.CaptureFixture[str]) -> None:
    chain = Chain()
    chain.producer.fail = lambda topic, _value: Retry("down") if topic == topics.DEAD_LETTER else None
    alarm = DeadLetterAlarm(function="under_test", clock=FixedClock(NOW))
    driver = BatchDriver(function="under_test", codec=chain.codec, producer=chain.producer, alarm=alarm)
    assert failed_offsets(driver.run(event(entry(b"bad", offset=3)), Context(chain.clock), Relay())) == [3]
    assert _lines(capsys) == []
