"""A device without an endpoint delays neither the user's other devices nor the invocation."""

from collections import Counter

import pytest

from masscomm.domain.provider_errors import ApplicationOff, Transient
from masscomm.domain.users import Device
from tests.support.harness.chain import NOW, delivery, results_of
from tests.support.harness.delivery import Delivery

SENT = ("sent", None)
DELAYED = ("sending", None)


def _put_unregistered(chain: Delivery, device_id: int, user_id: int, *, age_s: float | None = 3_600) -> None:
    """Store an active device without an endpoint, whose row changed `age_s` seconds ago."""
    changed_at_ms = None if age_s is None else chain.clock.now_ms() - round(age_s * 1000)
    chain.directory.put(Device(device_id=device_id, user_id=user_id, platform="gcm", changed_at_ms=changed_at_ms))


@pytest.mark.guarantee("push.missing_endpoint_delays_no_device")
@pytest.mark.parametrize("age_s", [0.0, 3_600, None])
def test_ready_device_is_pushed_at_once_the_other_delayed(age_s: float | None) -> None:
    chain = Delivery()
    _put_unregistered(chain, 11, 1, age_s=age_s)
    assert chain.deliver(delivery([1, 2])) == []
    assert chain.clock.now_ms() == NOW
    assert chain.published_arns() == ["arn-1", "arn-2"]
    assert results_of(chain.outcomes()) == {(1, "push"): DELAYED, (2, "push"): SENT}
    chain.put_device(11, 1)
    chain.forget()
    assert chain.release() == []
    assert chain.published_arns() == ["arn-1", "arn-11", "arn-2"]
    assert results_of(chain.outcomes()) == {(1, "push"): SENT}
    assert [len(ids) for ids in chain.outcomes()[0].provider_message_ids] == [2]


def test_kill_after_the_ready_devices_push_doubles_no_push() -> None:
    """The slice records the accepted device, so a redelivery does not publish to it again."""
    chain = Delivery()
    _put_unregistered(chain, 11, 1)
    chain.delay_store.failing = Transient("killed")
    assert chain.deliver(delivery([1])) == [0]
    chain.delay_store.failing = None
    assert chain.deliver(delivery([1])) == []
    assert chain.published_arns() == ["arn-1"]


@pytest.mark.guarantee("push.one_message_a_phone")
@pytest.mark.kills(guard="endpoints.one_push_a_phone")
def test_phone_with_two_rows_gets_one_push() -> None:
    """The token of a phone has one endpoint, and the monolith may have a row for each login on the phone."""
    chain = Delivery()
    chain.put_device(11, 1, endpoint_arn="arn-1")
    assert chain.deliver(delivery([1])) == []
    assert chain.published_arns() == ["arn-1"]
    assert results_of(chain.outcomes()) == {(1, "push"): SENT}


def test_late_row_of_a_reached_phone_gets_no_push() -> None:
    chain = Delivery()
    _put_unregistered(chain, 11, 1)
    assert chain.deliver(delivery([1])) == []
    chain.put_device(11, 1, endpoint_arn="arn-1")
    chain.forget()
    assert chain.release() == []
    assert chain.published_arns() == ["arn-1"]
    assert results_of(chain.outcomes()) == {(1, "push"): SENT}


@pytest.mark.parametrize("age_s", [3_600, None])
def test_an_old_row_is_not_waited_for_in_the_invocation(age_s: float | None) -> None:
    chain = Delivery()
    _put_unregistered(chain, 9, 9, age_s=age_s)
    assert chain.deliver(delivery([9])) == []
    assert chain.clock.now_ms() == NOW
    assert chain.directory.calls["devices"] == 1
    assert results_of(chain.outcomes()) == {(9, "push"): DELAYED}


def test_unregistered_device_is_awaited_for_ten_seconds() -> None:
    chain = Delivery()
    _put_unregistered(chain, 9, 9, age_s=6)
    assert chain.deliver(delivery([9])) == []
    assert 4_000 <= chain.clock.now_ms() - NOW <= 4_250


def test_gone_device_is_not_called_again_with_unregistered_one() -> None:
    chain = Delivery()
    chain.push.put("arn-1", enabled=False)
    _put_unregistered(chain, 11, 1)
    assert chain.deliver(delivery([1])) == []
    assert len(chain.push.calls) == 1
    assert results_of(chain.outcomes()) == {(1, "push"): DELAYED}


def test_missing_endpoint_ends_as_sent_by_the_other_devices() -> None:
    chain = Delivery()
    _put_unregistered(chain, 11, 1)
    assert chain.deliver(delivery([1], expires_at=NOW + 3_600_000)) == []
    while chain.delay_store.items:
        chain.forget()
        assert chain.release() == []
    assert results_of(chain.outcomes()) == {(1, "push"): SENT}
    assert chain.published_arns() == ["arn-1"]


def test_waits_for_an_endpoint_double_without_an_upper_bound() -> None:
    """Each delay is at most twice the total so far: 12 attempts in three days, instead of one every half hour."""
    chain = Delivery()
    _put_unregistered(chain, 11, 1)
    assert chain.deliver(delivery([1])) == []
    tries = 0
    while chain.delay_store.items:
        assert chain.release() == []
        tries += 1
    assert 8 <= tries <= 14
    assert chain.clock.now_ms() - NOW >= 3 * 86_400_000


def test_a_refused_device_is_retried_every_half_hour() -> None:
    chain = Delivery()
    _put_unregistered(chain, 11, 1)
    chain.push.fail = lambda arn: ApplicationOff("disabled") if arn == "arn-2" else None
    assert chain.deliver(delivery([1, 2])) == []
    last = NOW
    for _ in range(12):
        (item,) = chain.delay_store.items.values()
        assert item.due_ms - last <= 30 * 60_000
        last = item.due_ms
        assert chain.release() == []


def _round_trips(unregistered: int, *, users: int = 2_000) -> int:
    """Deliver a broadcast until its last outcome. Returns the number of calls to stores and providers."""
    chain = Delivery()
    for user_id in range(1, users + 1):
        chain.put_device(user_id, user_id)
    for number in range(unregistered):
        user_id = 1 + number * (users // unregistered)
        _put_unregistered(chain, 100_000 + user_id, user_id)
    chain.directory.calls.clear()
    store = Counter[str]()

    def count(name: str) -> None:
        original = getattr(chain.delay_store, name)

        def counted(*args: object) -> object:
            store[name] += 1
            return original(*args)

        setattr(chain.delay_store, name, counted)

    count("put")
    count("done")
    for start in range(0, users, 500):
        ids = range(start + 1, start + 501)
        assert chain.deliver(delivery(ids, record_id=f"{start:08}-3333-5333-8333-333333333333")) == []
    while chain.delay_store.items:
        assert chain.release() == []
    assert len(chain.push.published) == users
    assert {status for (status, _) in results_of(chain.outcomes()[-1:]).values()} == {"sent"}
    asked = chain.directory.calls.total() + chain.ledger.calls.total() + len(chain.push.calls)
    # A call of the fake store counts twice: put also marks its minute, and release also claims its item in DynamoDB.
    return asked + 2 * store.total()


@pytest.mark.guarantee("push.missing_endpoints_add_few_round_trips")
def test_one_in_a_hundred_costs_a_fifth_more_round_trips() -> None:
    """The ratio is that of 1,000 unregistered devices among 100,000, spread evenly over the records."""
    assert _round_trips(20) <= 1.2 * _round_trips(0)
