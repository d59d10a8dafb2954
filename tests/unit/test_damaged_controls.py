"""A stored control that cannot be read stops its own send, and no other one."""

import pytest

from masscomm.domain.sends import SendControl, SendKey
from masscomm.stores.sends.in_memory import InMemorySends
from tests.support.harness.builder import Builder
from tests.support.harness.chain import SEND_ID, build, delivery, send
from tests.support.harness.delivery import Delivery
from tests.support.harness.preference_checker import Checker

OTHER_ID = "0b1c2d3e-0000-4000-8000-000000000007"
DAMAGED = SendKey(7, SEND_ID)


def damage(controls: InMemorySends) -> None:
    controls.control(SendControl(send=DAMAGED, fault="KeyError('revision')"))


@pytest.mark.guarantee("controls.damaged_control_stops_its_send_alone")
@pytest.mark.kills(guard="send_controls.unreadable")
@pytest.mark.kills(guard="send_controls.unreadable_delivery")
def test_delivery_publishes_the_other_sends_of_its_batch() -> None:
    chain = Delivery()
    damage(chain.register)
    other = delivery([2], record_id="33333333-3333-5333-8333-000000000002", send_id=OTHER_ID)
    assert chain.deliver(delivery([1]), other) == [0]
    assert chain.published_arns() == ["arn-2"]
    del chain.register.sends[SEND_ID]
    assert chain.deliver(delivery([1])) == []
    assert chain.published_arns() == ["arn-1", "arn-2"]


@pytest.mark.guarantee("controls.damaged_control_stops_its_send_alone")
def test_results_wait_until_the_control_can_be_read() -> None:
    """A recipient whom a pause held is due at another time, if the send is not paused any more."""
    chain = Delivery()
    assert chain.deliver(delivery([1])) == []
    chain.producer.produced.clear()
    damage(chain.register)
    assert chain.deliver(delivery([1])) == [0]
    assert chain.outcomes() == []


@pytest.mark.guarantee("controls.damaged_control_stops_its_send_alone")
def test_preference_checker_decides_about_other_sends() -> None:
    checker = Checker()
    damage(checker.register)
    assert checker.check(send([1]), send([2], send_id=OTHER_ID)) == [0]
    assert {each.send_id for each in checker.builds()} == {OTHER_ID}


@pytest.mark.guarantee("controls.damaged_control_stops_its_send_alone")
def test_builder_builds_the_messages_of_other_sends() -> None:
    builder = Builder()
    builder.put_template("Hi", "There")
    damage(builder.register)
    other = build([1, 2], record_id="11111111-1111-5111-8111-000000000002", send_id=OTHER_ID)
    assert builder.build(build([1, 2]), other) == [0]
    assert {each.send_id for each in builder.deliveries()} == {OTHER_ID}
