"""The registers of sends keep their contract, even with responses of DynamoDB that moto never returns."""

from typing import Any

import pytest

from masscomm.clock import FixedClock
from masscomm.domain.sends import SendControl, SendKey
from masscomm.errors import Retry
from masscomm.stores.sends.dynamodb import DynamoDbSends
from masscomm.stores.sends.in_memory import InMemorySends
from masscomm.stores.sends.port import Progress, Sends, change
from tests.support.contracts.sends import AUDIENCE, KEY, NOW, SEND, SendsContract, chunk
from tests.support.servers.dynamodb_table import new_table

_OTHER = SendKey(KEY.club_id, "other")


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(NOW)


class TestInMemorySends(SendsContract):
    @pytest.fixture
    def sends(self, clock: FixedClock) -> Sends:
        return InMemorySends(clock)


class TestMotoSends(SendsContract):
    @pytest.fixture
    def sends(self, clock: FixedClock, moto_dynamodb: Any) -> Sends:
        return DynamoDbSends(table=new_table(moto_dynamodb, "sends"), client=moto_dynamodb, clock=clock)

    def test_missing_or_damaged_chunk_is_a_retry(self, sends: DynamoDbSends) -> None:
        with pytest.raises(Retry):
            list(sends.chunks(KEY.send_id, 0, 1))
        sends.record(AUDIENCE, 0, chunk(1))
        _set(sends, "chunk#00000000", "user_ids", {"B": b"x"})
        with pytest.raises(Retry):
            sends.last(KEY.send_id)

    def test_progress_of_a_later_version_is_read(self, sends: DynamoDbSends) -> None:
        progress = Progress(share=2, chunks=7, records=6)
        sends.advance(AUDIENCE, progress)
        _set(sends, "progress", "later", {"S": "x"})
        assert sends.progress(KEY.send_id) == progress

    @pytest.mark.kills(guard="send_controls.damaged_item")
    @pytest.mark.kills(guard="send_controls.unreadable")
    def test_damaged_item_holds_its_own_send(self, sends: DynamoDbSends) -> None:
        sends.register([SEND])
        _set(sends, "send", "revision", {"S": "x"})
        controls = sends.controls([KEY, _OTHER])
        assert controls[_OTHER] == SendControl(send=_OTHER)
        for ask in (controls[KEY].is_cancelled, controls[KEY].is_paused):
            with pytest.raises(Retry, match="malformed"):
                ask(NOW)
        with pytest.raises(Retry, match="malformed"):
            sends.find(KEY.send_id)

    def test_cancelled_send_stays_so_when_damaged(self, sends: DynamoDbSends) -> None:
        change(sends, SEND, lambda send: send)
        sends.register([SEND])
        _set(sends, "send", "revision", {"S": "x"})
        _set(sends, "send", "cancelled_at_ms", {"N": "1"})
        assert sends.controls([KEY])[KEY].is_cancelled(NOW)


def _set(sends: DynamoDbSends, part: str, name: str, value: Any) -> None:
    sends._client.update_item(
        TableName=sends._table,
        Key={"send_id": {"S": KEY.send_id}, "part": {"S": part}},
        UpdateExpression="SET #name = :value",
        ExpressionAttributeNames={"#name": name},
        ExpressionAttributeValues={":value": value},
    )


class UnprocessingClient:
    """DynamoDB that leaves keys unprocessed for a number of reads."""

    def __init__(self, unprocessed_reads: int) -> None:
        self.unprocessed_reads = unprocessed_reads
        self.requests: list[Any] = []

    def batch_get_item(self, *, RequestItems: Any) -> Any:
        self.requests.append(RequestItems)
        if len(self.requests) <= self.unprocessed_reads:
            return {"Responses": {"t": []}, "UnprocessedKeys": RequestItems}
        item = {"club_id": {"N": "7"}, "send_id": {"S": KEY.send_id}, "expires_at": {"N": str(2 * NOW)}}
        return {"Responses": {"t": [item]}}


def _register(client: Any) -> DynamoDbSends:
    return DynamoDbSends(table="t", client=client, clock=FixedClock(NOW))


@pytest.mark.kills(guard="dynamodb.consistent_read")
def test_unprocessed_keys_are_read_again() -> None:
    client = UnprocessingClient(2)
    assert set(_register(client).read([KEY])) == {KEY}
    assert [request["t"]["ConsistentRead"] for request in client.requests] == [True] * 3


@pytest.mark.kills(guard="dynamodb.unread_key")
def test_key_that_is_never_read_is_retried() -> None:
    """A send whose cancellation is unknown must not be published."""
    with pytest.raises(Retry):
        _register(UnprocessingClient(100)).read([KEY])
