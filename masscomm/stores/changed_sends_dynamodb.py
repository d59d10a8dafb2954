"""The changed sends in DynamoDB, in the table of schemas/dynamodb/changed_sends.json."""

from collections.abc import Iterator, Mapping
from typing import Any

from masscomm.aws.dynamodb import ConditionFailed, answering
from masscomm.aws.request import Limits
from masscomm.aws.table import TableAdapter
from masscomm.domain.send_controls import SendKey
from masscomm.domain.time_limits import CHANGED_SENDS_KEPT_S
from masscomm.errors import Retry
from masscomm.observability.unreadable_items import read_each
from masscomm.stores.changed_sends import ChangedSend, Position

_WHAT = "changed sends"
_CHANGED = "changed"
_POSITION = {"part": {"S": "position"}, "id": {"S": "counts"}}


class DynamoDbChangedSends(TableAdapter):
    """The store of changed sends in DynamoDB."""

    TABLE, SETTING = "changed_sends", "CHANGED_SENDS_TABLE"
    LIMITS = Limits(connections=2, connect_s=0.5, read_s=1.5, attempts=2)

    def put(self, changed: ChangedSend) -> None:
        with answering(_WHAT):
            self._client.put_item(
                TableName=self._table,
                Item={
                    "part": {"S": _CHANGED},
                    "id": {"S": changed.send.text},
                    "changed_at_ms": {"N": str(changed.changed_at_ms)},
                    "expires_at": {"N": str(changed.changed_at_ms // 1000 + CHANGED_SENDS_KEPT_S)},
                },
            )

    def all(self) -> Iterator[ChangedSend]:
        with answering(_WHAT):
            for page in self._client.get_paginator("query").paginate(
                TableName=self._table,
                KeyConditionExpression="part = :part",
                ExpressionAttributeValues={":part": {"S": _CHANGED}},
                ConsistentRead=True,
            ):
                yield from read_each(
                    page["Items"], _changed, store=self._table, key=lambda item: {"id": item["id"]["S"]}
                )

    def remove(self, changed: ChangedSend) -> None:
        try:
            with answering(_WHAT):
                self._client.delete_item(
                    TableName=self._table,
                    Key={"part": {"S": _CHANGED}, "id": {"S": changed.send.text}},
                    ConditionExpression="changed_at_ms = :examined",  # guard: webhooks.changed_again
                    ExpressionAttributeValues={":examined": {"N": str(changed.changed_at_ms)}},
                )
        except ConditionFailed:
            return

    def position(self) -> Position | None:
        with answering(_WHAT):
            item = self._client.get_item(TableName=self._table, Key=_POSITION, ConsistentRead=True).get("Item")
        if item is None:
            return None
        transaction, _, send_id = item["last"]["S"].partition("/")
        return Position(int(transaction), send_id)

    def move(self, position: Position) -> None:
        last = f"{position.transaction}/{position.send_id}"
        with answering(_WHAT):
            self._client.put_item(TableName=self._table, Item={**_POSITION, "last": {"S": last}})


def _changed(item: Mapping[str, Any]) -> ChangedSend:
    """Return the changed send in an item. Raises Retry if the item is malformed."""
    try:
        return ChangedSend(send=SendKey.of_text(item["id"]["S"]), changed_at_ms=int(item["changed_at_ms"]["N"]))
    except (KeyError, ValueError) as error:
        raise Retry(f"the item of a changed send is malformed: {error!r}") from error
