"""Recipients are published to by rows that are at most a second old, and yet most are looked up once."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from functions.delivery.deliver import Deliver
from functions.delivery.upcoming import FIRST_PORTION, LARGEST_PORTION, PortionSize
from masscomm.domain.provider_errors import Transient
from masscomm.domain.records import Taken
from masscomm.domain.sends import SendControl, SendKey
from masscomm.domain.time_limits import DELIVERY_RESERVE_S, FLUSH_RESERVE_S, LOOK_UP_VALID_S
from masscomm.domain.users import UserSettings
from masscomm.errors import Retry
from tests.support.harness.chain import NOW, SEND_ID, delivery, results_of
from tests.support.harness.delivery import Delivery

KEY = SendKey(7, SEND_ID)
GROUP = 10


class Broadcast(Delivery):
    """A delivery function that publishes in groups of ten; each group takes `group_s` seconds."""

    def __init__(self, users: int, group_s: float) -> None:
        super().__init__()
        self.users = list(range(100, 100 + users))
        for user_id in self.users:
            self.put_device(user_id, user_id)
        self.looked_up: list[int] = []
        self.after: dict[int, Callable[[], object]] = {}
        self.slow: Deliver = self.environment(self.ledger, unrecorded=GROUP)
        self._groups, self._group_s = 0, group_s
        record_all = self.ledger.record_all
        user_settings = self.directory.user_settings

        def slowly(slices: Any) -> Any:
            answers = record_all(slices)
            self.clock.advance(self._group_s)
            self._groups += 1
            self.after.get(self._groups, lambda: None)()
            return answers

        def counted(user_ids: Sequence[int]) -> dict[int, UserSettings]:
            self.looked_up += user_ids
            return user_settings(user_ids)

        self.ledger.record_all = slowly  # type: ignore[method-assign]
        self.directory.user_settings = counted  # type: ignore[method-assign]

    def broadcast(self, *, records: int = 1) -> list[int]:
        size = len(self.users) // records
        parts = [
            delivery(self.users[place * size : (place + 1) * size], record_id=str(place)) for place in range(records)
        ]
        return self.deliver(*parts, environment=self.slow, seconds=3_600)

    def published(self) -> int:
        return len(self.push.published)

    def statuses(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for status, _ in results_of(self.outcomes()).values():
            found[status] = found.get(status, 0) + 1
        return found


@pytest.mark.guarantee("cancelling.one_second_later_nothing_is_published")
def test_a_cancelled_batch_publishes_a_second_more() -> None:
    chain = Broadcast(200, group_s=0.4)
    chain.after[2] = lambda: chain.register.control(SendControl(send=KEY, cancelled_at_ms=NOW))
    assert chain.broadcast(records=2) == []
    published_a_second = GROUP * int(LOOK_UP_VALID_S / 0.4)
    assert 2 * GROUP <= chain.published() <= 2 * GROUP + published_a_second + GROUP
    assert chain.statuses() == {"sent": chain.published(), "cancelled": 200 - chain.published()}


@pytest.mark.guarantee("preferences.opt_out_is_honoured_a_second_later")
def test_an_opt_out_during_a_batch_has_an_effect() -> None:
    chain = Broadcast(200, group_s=0.4)

    def opt_out() -> None:
        chain.directory.put(*(UserSettings(user_id=user_id, channels={"push": False}) for user_id in chain.users))

    chain.after[2] = opt_out
    assert chain.broadcast() == []
    assert chain.published() <= 2 * GROUP + GROUP * int(LOOK_UP_VALID_S / 0.4) + GROUP
    assert chain.statuses() == {"sent": chain.published(), "suppressed": 200 - chain.published()}


def test_a_pause_during_a_batch_holds_the_other_recipients() -> None:
    """The record that was published in part waits with its other recipients, and the later record as a whole."""
    chain = Broadcast(200, group_s=0.4)
    paused = SendControl(send=KEY, paused_at_ms=NOW, revision=1)
    chain.after[2] = lambda: chain.register.control(paused)
    assert chain.broadcast(records=2) == []
    published = chain.published()
    assert published < 100
    assert sorted(map(len, chain.delayed_user_ids().values())) == [100 - published, 100]
    assert chain.statuses() == {"sent": published}
    chain.register.control(SendControl(send=KEY, revision=2))
    chain.release(environment=chain.slow)
    assert chain.published() == 200


@pytest.mark.parametrize("group_s", [0.0, 0.01, 0.09])
def test_recipients_of_a_broadcast_are_looked_up_once(group_s: float) -> None:
    chain = Broadcast(2_000, group_s=group_s)
    chain.slow.portion_size.recipients = 100
    assert chain.broadcast(records=4) == []
    assert chain.published() == 2_000
    assert len(chain.looked_up) <= 1.02 * 2_000


def test_a_slow_environment_looks_up_fewer_recipients() -> None:
    """At first the last recipients of a portion expire; then a portion is published to within its second."""
    chain = Broadcast(1_000, group_s=0.3)
    assert chain.broadcast() == []
    assert chain.published() == 1_000
    assert chain.slow.portion_size.recipients <= 4 * GROUP
    assert len(chain.looked_up) - FIRST_PORTION <= 1_000


def test_a_failed_look_up_publishes_nothing_more() -> None:
    chain = Broadcast(200, group_s=0.4)

    def fail() -> None:
        chain.register.failing = Retry("DynamoDB does not answer")

    chain.after[2] = fail
    assert chain.broadcast(records=2) == [0, 1]
    published = chain.published()
    assert published < 100
    chain.register.failing = None
    chain.after.clear()
    assert chain.broadcast(records=2) == []
    assert chain.published() == 200


def test_a_look_up_slower_than_a_second_makes_progress() -> None:
    chain = Broadcast(40, group_s=0.0)
    read = chain.register.controls

    def slowly(keys: Any) -> Any:
        chain.clock.advance(2 * LOOK_UP_VALID_S)
        return read(keys)

    chain.register.controls = slowly  # type: ignore[method-assign]
    assert chain.broadcast() == []
    assert chain.published() == 40


def test_a_portion_grows_only_up_to_a_batch() -> None:
    size = PortionSize()
    for _ in range(9):
        size.ended(0.1)
    assert size.recipients == LARGEST_PORTION
    size.ended(0.9 * LOOK_UP_VALID_S)
    assert size.recipients == LARGEST_PORTION
    size.expired(LARGEST_PORTION, at_least=40)
    assert size.recipients == 40


@pytest.mark.kills(guard="delivery.untried_recipients")
def test_recipients_without_time_are_delayed_with_refused_ones() -> None:
    """A redelivery would hold the partition. A device that accepted the message before the record was delayed stays
    recorded.
    """
    chain = Broadcast(200, group_s=0.4)
    chain.push.fail = lambda arn: Transient("InternalError") if arn == "arn-100" else None
    nearly_over = chain.clock.monotonic() + 60 - FLUSH_RESERVE_S - DELIVERY_RESERVE_S
    chain.after[2] = lambda: chain.clock.advance(nearly_over - chain.clock.monotonic())
    taken = [Taken(position=199, target="9999", message_id="m")]
    record = replace(delivery(chain.users), taken=taken)
    assert chain.deliver(record, environment=chain.slow, seconds=60) == []
    assert chain.published() == 2 * GROUP - 1
    [item] = chain.delay_store.items.values()
    waiting = chain.delayed_delivery(item)
    assert waiting.user_ids == [100, *chain.users[2 * GROUP :]]
    assert [entry.target for entry in waiting.taken] == ["9999"]


def test_a_group_waits_for_no_third_look_up() -> None:
    """Nearly all users have no device, so that a full group would need all look-ups."""
    chain = Broadcast(8, group_s=0.0)
    chain.users = [user_id for near in chain.users for user_id in (near, *range(near * 1_000, near * 1_000 + 99))]
    chain.slow.portion_size.recipients = 100
    read = chain.register.controls
    begun: list[float] = []
    published_after: list[int] = []

    def slowly(keys: Any) -> Any:
        begun.append(chain.clock.monotonic())
        chain.clock.advance(0.6 * LOOK_UP_VALID_S)
        return read(keys)

    chain.register.controls = slowly  # type: ignore[method-assign]
    chain.push.fail = lambda _arn: published_after.append(len(begun))
    assert chain.broadcast() == []
    assert chain.published() == 8
    assert published_after[0] == 2
