"""The results of users with very many devices fit into DynamoDB items and Kafka records."""

import pytest

from functions.delivery import outcomes, retry_scheduler
from masscomm.domain.provider_errors import ApplicationOff
from tests.support.harness.chain import delivery, results_of
from tests.support.harness.delivery import Delivery

SENT = ("sent", None)
DELAYED = ("sending", None)
USERS = range(1, 9)


def _with_devices(each: int) -> Delivery:
    chain = Delivery()
    for user_id in USERS:
        for device in range(each):
            chain.put_device(user_id * 1_000 + device, user_id)
        chain.put_device(user_id, user_id)
    return chain


@pytest.mark.guarantee("outcome.large_outcome_is_split")
def test_outcomes_too_large_for_one_record_are_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcomes, "IDS_BYTES", 400)
    chain = _with_devices(9)
    for _ in range(2):
        assert chain.deliver(delivery(USERS, range_end=8)) == []
    first, again = chain.outcomes()[:4], chain.outcomes()[4:]
    assert len(chain.push.published) == 80
    assert results_of(first) == {(user_id, "push"): SENT for user_id in USERS}
    assert len({outcome.record_id for outcome in first}) == 4
    assert [outcome.record_id for outcome in first] == [outcome.record_id for outcome in again]
    assert sum(len(ids) for outcome in first for ids in outcome.provider_message_ids) == 80


def test_message_ids_of_one_user_are_cut_to_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcomes, "IDS_BYTES", 100)
    chain = _with_devices(50)
    assert chain.deliver(delivery([1], range_end=1)) == []
    (outcome,) = chain.outcomes()
    assert results_of([outcome]) == {(1, "push"): SENT}
    assert 5 <= len(outcome.provider_message_ids[0]) < 51


def test_delayed_records_too_large_for_a_topic_are_several(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry records list the devices that already have the message, so many devices need several records."""
    monkeypatch.setattr(retry_scheduler, "RECORD_BYTES", 1_000)
    chain = _with_devices(9)
    chain.push.fail = lambda arn: ApplicationOff("off") if int(arn.removeprefix("arn-")) < 1_000 else None
    for _ in range(2):
        assert chain.deliver(delivery(USERS, range_end=8)) == []
    items = list(chain.delay_store.items.values())
    assert len(items) == 2
    assert sorted(user for item in items for user in chain.delayed_delivery(item).user_ids) == list(USERS)
    assert all(len(item.value) <= 1_000 for item in items)
    chain.push.fail = lambda _arn: None
    chain.forget()
    assert chain.release() == []
    assert results_of(chain.outcomes()) == {(user_id, "push"): SENT for user_id in USERS}
    assert len(chain.push.published) == 80
