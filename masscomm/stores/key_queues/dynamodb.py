"""The queues of keys in DynamoDB: one item a key in the table of schemas/dynamodb/delivery_ledger.json."""

from collections.abc import Mapping
from typing import Any

from masscomm.aws.dynamodb import ConditionFailed, answering, query_items
from masscomm.aws.request import Limits
from masscomm.aws.table import TableAdapter
from masscomm.domain.time_limits import DELAYED_KEPT_S
from masscomm.stores.key_queues.port import KeyQueue, Ordering

_WHAT = "queues of keys"
# The form of the ids of messages (masscomm.domain.ids.event_message_id).
_PREFIX, _DIGITS = "evt_", 32


class DynamoDbKeyQueues(TableAdapter):
    """The store in DynamoDB."""

    TABLE, SETTING = "delivery_ledger", "DELIVERY_LEDGER_TABLE"
    LIMITS = Limits(connections=16, connect_s=1, read_s=2, attempts=3)

    def find(self, ordering: Ordering) -> Mapping[str, KeyQueue]:
        items = query_items(self._client, _WHAT, self._table, {"record_id": _id(ordering)})
        return {item["part"]["S"]: _queue(item) for item in items}

    def replace(self, ordering: Ordering, key: str, old: KeyQueue | None, new: KeyQueue | None, at_s: int) -> bool:
        item_key = {"record_id": _id(ordering), "part": {"S": key}}
        try:
            with answering(_WHAT):
                if new is None:
                    self._client.delete_item(TableName=self._table, Key=item_key, **_condition(old))
                else:
                    expires = {"expires_at": {"N": str(at_s + DELAYED_KEPT_S)}}
                    self._client.put_item(
                        TableName=self._table, Item={**item_key, **_values(new), **expires}, **_condition(old)
                    )
        except ConditionFailed as failed:
            # The client repeats a request whose response was lost.
            return (_queue(failed.item) if failed.item else None) == new
        return True


def _id(ordering: Ordering) -> dict[str, str]:
    return {"S": f"order/{ordering.endpoint.id}/{ordering.since_ms}"}


def _values(queue: KeyQueue) -> dict[str, Any]:
    ids = b"".join(bytes.fromhex(each.removeprefix(_PREFIX)) for each in queue.ids)
    return {"ids": {"B": ids}, "due_ms": {"N": str(queue.due_ms)}}


def _condition(old: KeyQueue | None) -> dict[str, Any]:
    if old is None:
        condition: dict[str, Any] = {"ConditionExpression": "attribute_not_exists(part)"}
    else:
        condition = {
            "ConditionExpression": "ids = :ids AND due_ms = :due_ms",
            "ExpressionAttributeValues": {f":{name}": value for name, value in _values(old).items()},
        }
    return {**condition, "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}


def _queue(item: Mapping[str, Any]) -> KeyQueue:
    ids = bytes(item["ids"]["B"]).hex()
    each = (f"{_PREFIX}{ids[place : place + _DIGITS]}" for place in range(0, len(ids), _DIGITS))
    return KeyQueue(tuple(each), int(item["due_ms"]["N"]))
