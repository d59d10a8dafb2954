"""The results of small sends: their stores, and the outcome records whose results are stored."""

import random
from collections import Counter
from typing import Any

import pytest

from masscomm.clock import FixedClock
from masscomm.domain.notification_codes import BLOCK, code_of
from masscomm.domain.records import NotificationOutcome, Result
from masscomm.domain.send_results import MOST_USERS, SendResult
from masscomm.domain.statuses import Reason, Status
from masscomm.errors import Retry
from masscomm.stores.send_results.dynamodb import DynamoDbSendResults
from masscomm.stores.send_results.in_memory import InMemorySendResults
from masscomm.stores.send_results.port import SendResults
from masscomm.stores.sends.dynamodb import DynamoDbSends
from tests.support.contracts.send_results import KEY, NO_DEVICE, NOW, RESULT, SENT, SendResultsContract
from tests.support.contracts.sends import AUDIENCE, SEND, chunk
from tests.support.servers.dynamodb_table import new_table


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(NOW)


class TestInMemorySendResults(SendResultsContract):
    @pytest.fixture
    def results(self, clock: FixedClock) -> SendResults:
        return InMemorySendResults(clock)


class TestMotoSendResults(SendResultsContract):
    @pytest.fixture
    def table(self, moto_dynamodb: Any) -> str:
        return new_table(moto_dynamodb, "sends")

    @pytest.fixture
    def results(self, clock: FixedClock, moto_dynamodb: Any, table: str) -> SendResults:
        return DynamoDbSendResults(table=table, client=moto_dynamodb, clock=clock)

    def test_damaged_item_is_a_retry(self, results: SendResults, moto_dynamodb: Any, table: str) -> None:
        results.put([RESULT])
        [item] = moto_dynamodb.scan(TableName=table)["Items"]
        moto_dynamodb.put_item(TableName=table, Item={**item, "codes": {"B": b"x"}})
        with pytest.raises(Retry):
            results.since(KEY, None)

    def test_register_does_not_read_results(
        self, results: SendResults, clock: FixedClock, moto_dynamodb: Any, table: str
    ) -> None:
        """Results are below the send, as its parts and the chunks of its audience are."""
        sends = DynamoDbSends(table=table, client=moto_dynamodb, clock=clock)
        assert SEND.key == AUDIENCE.key == KEY
        sends.register([SEND])
        results.put([RESULT])
        assert sends.find(KEY.send_id) == SEND
        assert sends.read([KEY]) == {KEY: SEND}
        assert sends.message(KEY) is None
        assert sends.part(KEY.send_id, 0) is None
        assert sends.last(KEY.send_id) is None
        assert list(sends.announced()) == []
        assert list(sends.listed(KEY.club_id, start_ms=NOW - 86_400_000, before_ms=NOW + 86_400_000)) == []
        sends.record(AUDIENCE, 0, chunk(1))
        sends.record(AUDIENCE, 1, chunk(2, before=1))
        found = sends.last(KEY.send_id)
        assert found is not None
        assert found[0] == 1


def _outcome(positions: list[int], **changes: Any) -> NotificationOutcome:
    fields: dict[str, Any] = {
        "record_id": "r1",
        "parent_id": "p",
        "send_id": KEY.send_id,
        "chunk_index": 0,
        "range_start": 0,
        "range_end": 500,
        "channel": "push",
        "positions": positions,
        "user_ids": [position + 100 for position in positions],
        "club_id": KEY.club_id,
        "type": "news",
        "step": "delivery",
        "timestamp": NOW,
        "requested_at": NOW,
        "results": [
            Result(status=Status.SENT, count=1),
            Result(status=Status.SUPPRESSED, reason=Reason.NO_DEVICE, count=1),
        ],
        "result_index": [number % 2 for number in range(len(positions))],
    }
    return NotificationOutcome(**fields | changes)


def test_results_have_the_codes_of_an_outcome_record() -> None:
    assert SendResult.of(_outcome([3, 5])) == RESULT
    assert SendResult.of(_outcome([MOST_USERS - 1])) is not None


@pytest.mark.kills(guard="results.small_sends")
def test_results_of_larger_sends_are_not_stored() -> None:
    assert SendResult.of(_outcome([5, MOST_USERS])) is None
    assert SendResult.of(_outcome([-1, 5])) is None
    assert SendResult.of(_outcome([3], chunk_index=1)) is None
    assert SendResult.of(_outcome([])) is None
    assert SendResult.of(_outcome([3], send_id="#changed")) is None


def test_unknown_status_is_no_result() -> None:
    found = SendResult.of(_outcome([3, 4], results=[Result(status="melted", count=2)], result_index=[0, 0]))
    assert found is not None
    assert found.blocks() == {}


def test_blocks_have_each_result_at_its_position() -> None:
    draw = random.Random(7)  # noqa: S311 - not a secret
    for _ in range(50):
        positions = sorted(draw.sample(range(MOST_USERS), draw.randint(1, 500)))
        found = SendResult.of(_outcome(positions))
        assert found is not None
        at = {
            number * BLOCK + place: code
            for (_, _, _, number), codes in found.blocks().items()
            for place, code in enumerate(codes)
            if code
        }
        assert at == {position: (SENT, NO_DEVICE)[number % 2] for number, position in enumerate(positions)}
        assert Counter(found.codes)[code_of(Status.SENT, None)] == len(positions[::2])
