"""Each send that is decided about is registered, and an id stays the id of the send that came first."""

from collections import Counter
from dataclasses import replace
from typing import Any, override

import boto3
import pytest
from moto import mock_aws

from local.emulators.local import REGION
from masscomm.domain.records import SendRequested
from masscomm.domain.sends import SendKey, Source
from masscomm.errors import Retry, Stop
from masscomm.kafka import topics
from masscomm.stores.sends.dynamodb import DynamoDbSends
from masscomm.stores.sends.in_memory import InMemorySends
from tests.support.harness.chain import NOW, SEND_ID, recheck, results_of, send
from tests.support.harness.counted import Counted
from tests.support.harness.preference_checker import Checker
from tests.support.servers.dynamodb_table import new_table

CRITICAL = f"{topics.SEND_MONOLITH}.critical"


@pytest.fixture
def checker() -> Checker:
    return Checker()


@pytest.mark.kills(guard="sends.completed_registration")
@pytest.mark.parametrize("user_ids", [[1], range(1, 201)])
def test_a_send_of_a_crashed_request_is_registered(checker: Checker, user_ids: Any) -> None:
    """send_handler was killed between the production of its records and the registration."""
    record = send(user_ids, principal="key-1", is_test=True, reference="r", chunk_count=2)
    for chunk_index in (0, 1):
        assert checker.check(replace(record, chunk_index=chunk_index), topic=topics.SEND_API) == []
    stored = checker.register.sends[SEND_ID]
    assert (stored.source, stored.is_test, stored.principal) == (Source.REST, True, "key-1")
    assert (stored.key, stored.chunks, stored.reference) == (SendKey(7, SEND_ID), 2, "r")
    assert checker.dead_letters() == []


UNANSWERED = {
    "urgent": send([1, 2]),
    "one recipient": send([1]),
    "large": send(range(1, 6_000)),
    "scheduled": send([1, 2], send_at=NOW + 60_000),
    "in chunks": send([1, 2], chunk_count=2),
    "expired": send([1, 2], expires_at=NOW),
    "unknown user": send([999]),
    "faulty": send([1, 2], chunk_index=3),
    "recheck": recheck([1, 2]),
}


@pytest.mark.parametrize("error", [Retry("slow"), Stop("no table")])
@pytest.mark.parametrize("topic", [topics.SEND_MONOLITH, CRITICAL, topics.SEND_API])
@pytest.mark.parametrize("name", UNANSWERED)
def test_nothing_happens_until_the_register_answers(checker: Checker, name: str, topic: str, error: Exception) -> None:
    """Nothing is recorded, produced, delayed or dead-lettered, although users may be looked up meanwhile."""
    checker.register.failing = error
    record = UNANSWERED[name]
    topic = topic if isinstance(record, SendRequested) else topics.RECHECK
    assert checker.check(record, topic=topic) == [0]
    assert (checker.producer.produced, checker.delay_store.items, checker.log.recorded) == ([], {}, {})
    checker.register.failing = None
    assert checker.check(record, topic=topic) == []
    assert len(checker.producer.produced) + len(checker.delay_store.items) > 0


@pytest.mark.parametrize("values", [{"chunk_index": 3}, {"type": "a b"}, {"send_id": "a_b"}])
@pytest.mark.parametrize("topic", [topics.SEND_MONOLITH, topics.SEND_API])
def test_a_faulty_record_leaves_no_item(checker: Checker, topic: str, values: dict[str, Any]) -> None:
    assert checker.check(send([1, 2], **values), topic=topic) == []
    assert (len(checker.dead_letters()), checker.register.sends) == (1, {})


FAILED = ("failed", "dead_letter")


@pytest.mark.guarantee("send_ids.kafka_and_rest_are_one_send")
@pytest.mark.kills(guard="sends.record_of_another_send")
@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("chunk_count", [1, 2])
@pytest.mark.parametrize("values", [{"club_id": 8}, {"template": "other"}])
def test_the_first_of_two_sends_keeps_the_id(
    checker: Checker, together: bool, chunk_count: int, values: dict[str, Any]
) -> None:
    """The send of another tenant, and another send of the tenant, to another user under the id."""
    first, second = send([1], chunk_count=chunk_count), send([2], chunk_count=chunk_count, **values)
    for batch in [[first, second]] if together else [[first], [second]]:
        assert checker.check(*batch) == []
    assert checker.register.sends[SEND_ID].key == SendKey(7, SEND_ID)
    assert [build.user_ids for build in checker.builds()] == [[1]]
    assert results_of(checker.outcomes()) == {(2, "push"): FAILED}
    assert len(checker.dead_letters()) == 1


@mock_aws
def test_sends_by_kafka_are_registered_in_one_transaction(checker: Checker) -> None:
    """A batch of sends of one chunk needs no read, and one transaction for 100 of them."""
    calls: Counter[str] = Counter()
    dynamodb: Any = boto3.client("dynamodb", region_name=REGION)
    client: Any = Counted(dynamodb, calls)
    register = DynamoDbSends(table=new_table(dynamodb, "sends"), client=client, clock=checker.clock)
    use_case = replace(checker.use_case, sends=register)
    for _ in range(2):
        sends = [checker.encoded(send([1], send_id=f"s{n}"), topics.SEND_MONOLITH, offset=n) for n in range(100)]
        assert checker.run(use_case, *sends) == []
        assert set(calls) == {"transact_write_items"}
    assert len(checker.builds()) == 200
    assert checker.dead_letters() == []
    # The repetition finds all of them.
    assert calls["transact_write_items"] == 2


class CountedSends(InMemorySends):
    """Counts the writes of the checker."""

    registered = 0

    @override
    def register(self, sends: Any) -> Any:
        self.registered += 1
        return super().register(sends)


def test_2000_chunks_of_a_send_read_and_write_one_item(checker: Checker) -> None:
    register = CountedSends(checker.clock)
    use_case = replace(checker.use_case, sends=register)
    for first in range(0, 2_000, 500):
        chunks = [
            checker.encoded(send([1], chunk_index=n, chunk_count=2_000), topics.SEND_API, offset=n)
            for n in range(first, first + 500)
        ]
        assert checker.run(use_case, *chunks) == []
    assert register.reads == [{SendKey(7, SEND_ID)}] * 4
    assert register.registered == 1
