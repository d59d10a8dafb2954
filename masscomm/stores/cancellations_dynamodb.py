"""The cancellations of sends in DynamoDB: each is one item in the table of schemas/dynamodb/cancelled_sends.json."""

from collections.abc import Collection, Iterable, Mapping
from itertools import batched
from typing import Any

from masscomm.aws.dynamodb import ConditionFailed, answering
from masscomm.aws.request import Limits
from masscomm.aws.table import TableAdapter
from masscomm.errors import Retry
from masscomm.stores.cancellations import Cancellation, SendKey

_WHAT = "cancelled sends"
# DynamoDB's limit of keys in one BatchGetItem, and our attempts to read the keys that it leaves unprocessed.
_KEYS_A_READ = 100
_ATTEMPTS = 3


class DynamoDbCancellations(TableAdapter):
    """The store of cancellations in DynamoDB."""

    TABLE, SETTING = "cancelled_sends", "CANCELLED_SENDS_TABLE"
    LIMITS = Limits(connections=2, connect_s=1, read_s=2, attempts=2)

    def cancelled(self, sends: Iterable[SendKey]) -> Collection[SendKey]:
        wanted = {_id(send): send for send in sends if send.is_valid}  # guard: cancellations.hostile_send_id
        found: set[SendKey] = set()
        for ids in batched(wanted, _KEYS_A_READ, strict=False):
            found.update(wanted[id_] for id_ in self._existing(ids))
        return found

    def _existing(self, ids: Iterable[str]) -> Iterable[str]:
        """Return the ids that have an item. Raises Retry if DynamoDB leaves keys unread."""
        # guard: cancellations.consistent_read
        request: Any = {self._table: {"Keys": [{"id": {"S": id_}} for id_ in ids], "ConsistentRead": True}}
        found: list[str] = []
        for _ in range(_ATTEMPTS):
            with answering(_WHAT):
                answer = self._client.batch_get_item(RequestItems=request)
            found += [item["id"]["S"] for item in answer.get("Responses", {}).get(self._table, [])]
            request = answer.get("UnprocessedKeys")
            if not request:
                return found
        # The sends of unread keys may be cancelled.
        raise Retry("DynamoDB has not read all cancelled sends")  # guard: cancellations.unread_key

    def find(self, send: SendKey) -> Cancellation | None:
        if not send.is_valid:
            return None
        with answering(_WHAT):
            item = self._client.get_item(TableName=self._table, Key={"id": {"S": _id(send)}}, ConsistentRead=True).get(
                "Item"
            )
        return None if item is None else _cancellation(item)

    def record(self, cancellation: Cancellation) -> Cancellation:
        try:
            with answering(_WHAT):
                self._client.put_item(
                    TableName=self._table,
                    Item={
                        "id": {"S": _id(cancellation.send)},
                        "club_id": {"N": str(cancellation.send.club_id)},
                        "send_id": {"S": cancellation.send.send_id},
                        "requested_at_ms": {"N": str(cancellation.requested_at_ms)},
                        "published_before": {"N": str(cancellation.published_before)},
                        "expires_at": {"N": str(cancellation.expires_at)},
                    },
                    ConditionExpression="attribute_not_exists(id)",
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                )
        except ConditionFailed as failed:
            return _cancellation(failed.item)
        return cancellation


def _id(send: SendKey) -> str:
    return f"{send.club_id}#{send.send_id}"  # guard: cancellations.tenants_send


def _cancellation(item: Mapping[str, Any]) -> Cancellation:
    """Return the cancellation in an item. Raises Retry if the item is malformed."""
    try:
        return Cancellation(
            send=SendKey(int(item["club_id"]["N"]), item["send_id"]["S"]),
            requested_at_ms=int(item["requested_at_ms"]["N"]),
            published_before=int(item["published_before"]["N"]),
        )
    except (KeyError, ValueError) as error:
        raise Retry(f"the item of a cancelled send is malformed: {error!r}") from error
