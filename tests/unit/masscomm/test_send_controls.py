"""The stores of controls keep their contract, also with responses of DynamoDB that moto never returns."""

from typing import Any

import pytest

from masscomm.domain.send_controls import SendControl, SendKey
from masscomm.errors import Retry
from masscomm.observability.unreadable_items import UnreadableItem
from masscomm.stores.send_controls import InMemorySendControls, SendControls
from masscomm.stores.send_controls_dynamodb import DynamoDbSendControls
from tests.support.contracts.send_control_store import CANCELLED, SEND, SendControlsContract
from tests.support.servers.dynamodb_table import new_table

_OTHER = SendKey(SEND.club_id, "other")


class TestInMemorySendControls(SendControlsContract):
    @pytest.fixture
    def controls(self) -> SendControls:
        return InMemorySendControls()


class TestMotoSendControls(SendControlsContract):
    @pytest.fixture
    def controls(self, moto_dynamodb: Any) -> SendControls:
        return DynamoDbSendControls(table=new_table(moto_dynamodb, "cancelled_sends"), client=moto_dynamodb)


class UnprocessingClient:
    """DynamoDB that leaves keys unprocessed for a number of reads."""

    def __init__(self, unprocessed_reads: int) -> None:
        self.unprocessed_reads = unprocessed_reads
        self.requests: list[Any] = []

    def batch_get_item(self, *, RequestItems: Any) -> Any:
        self.requests.append(RequestItems)
        if len(self.requests) <= self.unprocessed_reads:
            return {"Responses": {"t": []}, "UnprocessedKeys": RequestItems}
        return {"Responses": {"t": [{"id": {"S": f"{SEND.club_id}#{SEND.send_id}"}}]}}


def _store(client: Any) -> DynamoDbSendControls:
    return DynamoDbSendControls(table="t", client=client)


@pytest.mark.kills(guard="dynamodb.consistent_read")
def test_unprocessed_keys_are_read_again() -> None:
    client = UnprocessingClient(2)
    assert set(_store(client).read([SEND])) == {SEND}
    assert [request["t"]["ConsistentRead"] for request in client.requests] == [True] * 3


@pytest.mark.kills(guard="dynamodb.unread_key")
def test_a_key_that_is_never_read_is_retried() -> None:
    """A send whose cancellation is unknown must not be published."""
    with pytest.raises(Retry):
        _store(UnprocessingClient(100)).read([SEND])


def test_a_cancellation_outlives_a_send_of_next_year() -> None:
    assert CANCELLED.expires_at - CANCELLED.requested_at_ms / 1000 > 430 * 86_400


@pytest.fixture
def stored(moto_dynamodb: Any) -> DynamoDbSendControls:
    """The store with a damaged control of one send, and a damaged acceptance."""
    table = new_table(moto_dynamodb, "cancelled_sends")
    for id_ in (f"{SEND.text}#control", f"accepted#{SEND.send_id}"):
        moto_dynamodb.put_item(TableName=table, Item={"id": {"S": id_}, "revision": {"S": "x"}})
    return DynamoDbSendControls(table=table, client=moto_dynamodb)


@pytest.mark.kills(guard="send_controls.damaged_item")
@pytest.mark.kills(guard="send_controls.damaged_send")
def test_damaged_item_is_read_as_that_of_its_send(stored: DynamoDbSendControls) -> None:
    controls, registered = stored.read_with_registered([SEND, _OTHER], [SEND.send_id])
    assert controls[_OTHER] == SendControl(send=_OTHER)
    assert isinstance(registered[SEND.send_id], UnreadableItem)
    for ask in (controls[SEND].is_cancelled, controls[SEND].is_paused):
        with pytest.raises(Retry, match="malformed"):
            ask(CANCELLED.requested_at_ms)


def test_cancelled_send_stays_so_with_a_damaged_control(stored: DynamoDbSendControls) -> None:
    stored.record(CANCELLED)
    assert stored.read([SEND])[SEND].is_cancelled(CANCELLED.requested_at_ms)
