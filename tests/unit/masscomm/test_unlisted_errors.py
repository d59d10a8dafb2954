"""A record with an error of its own that is in no table holds its partition for a limited time."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from functions.catalogue import read_catalogue
from local.devstack.config import ROOT
from masscomm.chain.batch import Batch, Item
from masscomm.chain.unlisted_errors import MOST_DEAD_LETTERED, UnlistedErrors
from masscomm.clock import FixedClock
from masscomm.domain.records import SendRequested
from masscomm.domain.time_limits import UNLISTED_FORGET_S, UNLISTED_RETRY_S
from masscomm.errors import Retry, Stop, Unlisted
from masscomm.kafka import topics
from tests.support.harness.chain import Chain, send
from tests.support.harness.relay import Relay, relay

BAD = 1
OWN_ERRORS = [Unlisted("418"), KeyError("enabled")]


class Endless:
    """A function whose attempts have no end."""

    def __init__(self, **work: Callable[..., None]) -> None:
        self.chain, self.clock = Chain(), FixedClock(0)
        self.chain.driver = replace(self.chain.driver, unlisted=UnlistedErrors(clock=self.clock))
        self.use_case = Relay(**work)  # type: ignore[arg-type]

    def run(self, *offsets: int) -> list[int]:
        """Process a batch. Return the offsets to be redelivered."""
        records = (self.chain.encoded(send([each]), topics.SEND_MONOLITH, offset=each) for each in offsets)
        return self.chain.run(self.use_case, *records)

    def reasons(self) -> list[tuple[str, str]]:
        letters = self.chain.dead_letters()
        return [(each["masscomm.reason"], each["masscomm.source.offset"]) for each in letters]


def failing(error: Exception, *offsets: int) -> Callable[..., None]:
    def work(batch: Batch[SendRequested], item: Item[SendRequested]) -> None:
        if item.record.offset in offsets:
            raise error
        relay(batch, item)

    return work


@pytest.mark.guarantee("unlisted_answer.holds_others_for_a_limited_time")
@pytest.mark.kills(guard="unlisted.retried_first")
@pytest.mark.parametrize("error", OWN_ERRORS)
def test_record_with_an_unlisted_error_is_dead_lettered(error: Exception) -> None:
    function = Endless(work=failing(error, BAD))
    assert function.run(0, BAD, 2) == [BAD]
    function.clock.sleep(UNLISTED_RETRY_S - 1)
    assert function.run(BAD, 3) == [BAD]
    assert function.reasons() == []
    function.clock.sleep(1)
    assert function.run(BAD, 4) == []
    assert function.reasons() == [("unlisted", str(BAD))]


@pytest.mark.parametrize("error", [Retry("down"), Stop("refused")])
def test_listed_error_is_retried_without_an_end(error: Exception) -> None:
    function = Endless(work=failing(error, BAD))
    for _ in range(5):
        assert BAD in function.run(0, BAD)
        function.clock.sleep(UNLISTED_RETRY_S)
    assert function.reasons() == []


@pytest.mark.guarantee("unlisted_answer.fault_of_one_record_in_a_batch")
@pytest.mark.kills(guard="unlisted.handled_alone")
def test_fault_that_one_record_causes_fails_no_other() -> None:
    """The fault is raised by the look-up of a whole batch."""
    function = Endless()

    class LooksUp(Relay):
        def handle(self, batch: Batch[SendRequested]) -> None:
            if any(item.record.offset == BAD for item in batch.items):
                raise KeyError("enabled")
            super().handle(batch)

    function.use_case = LooksUp()
    assert function.run(0, BAD, 2) == [BAD]
    function.clock.sleep(UNLISTED_RETRY_S)
    assert function.run(BAD, 3) == []
    assert function.reasons() == [("unlisted", str(BAD))]


@pytest.mark.parametrize("error", [KeyError("x"), Retry("down")])
def test_fault_in_decoding_is_dead_lettered_unless_listed(error: Exception) -> None:
    function = Endless()
    function.use_case.decode_error = error
    assert function.run(0, 1) == [0]
    function.clock.sleep(UNLISTED_RETRY_S)
    assert function.run(0, 1) == ([] if isinstance(error, KeyError) else [0])
    assert function.reasons() == ([("unlisted", "0")] if isinstance(error, KeyError) else [])


@pytest.mark.guarantee("unlisted_answer.about_all_is_about_none")
@pytest.mark.kills(guard="unlisted.whole_batch")
def test_error_of_a_whole_batch_dead_letters_no_record() -> None:
    function = Endless(work=failing(Unlisted("418"), 0, 1, 2))
    for _ in range(3):
        assert function.run(0, 1, 2) == [0, 1, 2]
        function.clock.sleep(UNLISTED_RETRY_S)
    assert function.reasons() == []


@pytest.mark.guarantee("unlisted_answer.about_all_is_about_none")
@pytest.mark.kills(guard="unlisted.flood")
def test_flood_of_unlisted_errors_dead_letters_few_records() -> None:
    bad = range(1, MOST_DEAD_LETTERED + 6)
    function = Endless(work=failing(Unlisted("418"), *bad))
    function.run(0, *bad)
    function.clock.sleep(UNLISTED_RETRY_S)
    assert len(function.run(0, *bad)) == 5
    assert len(function.run(0, *bad[MOST_DEAD_LETTERED:])) == 5
    function.clock.sleep(UNLISTED_FORGET_S - 1)
    function.run(0, *bad[MOST_DEAD_LETTERED:])
    function.clock.sleep(2)
    assert function.run(0, *bad[MOST_DEAD_LETTERED:]) == []
    assert len(function.reasons()) == len(bad)


def test_functions_with_endless_attempts_are_those_listed() -> None:
    """The attempts of the others end, and the scheduler retries their records."""
    catalogue = read_catalogue(generation="g1")
    without_end = {
        each.name for each in catalogue if each.event_source and each.event_source.config.get("attempts") == -1
    }
    assert len(without_end) == 6
    for path in (ROOT / "functions").glob("*/handler.py"):
        assert ("endless=True" in path.read_text()) == (path.parent.name in without_end), path
