"""The use of API keys in DynamoDB: the table of schemas/dynamodb/key_usage.json."""

import random
import time
from typing import Any

from masscomm.aws.dynamodb import ConditionFailed, answering, write_together
from masscomm.aws.request import Limits
from masscomm.aws.table import TableAdapter
from masscomm.domain.key_limits import Use, Window
from masscomm.errors import Retry

_WHAT = "the use of an API key"
# Transactions of concurrent requests with one key conflict. Such a transaction is repeated after a random pause.
_ATTEMPTS, _PAUSE_S = 8, 0.05
_RETURN_OLD = {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}


class DynamoDbKeyUsage(TableAdapter):
    """The store of the use of API keys in DynamoDB."""

    TABLE, SETTING = "key_usage", "KEY_USAGE_TABLE"
    LIMITS = Limits(connections=2, connect_s=0.5, read_s=1, attempts=2)

    def take(self, window: Window, amount: int, *, send_id: str | None = None) -> Use:
        if amount > window.maximum:
            return Use(counted=False, used=self._used(window))
        return self._add(window, amount) if send_id is None else self._add_once(window, amount, send_id)

    def _add(self, window: Window, amount: int) -> Use:
        try:
            with answering(_WHAT):
                answer = self._client.update_item(**self._addition(window, amount), ReturnValues="UPDATED_NEW")
        except ConditionFailed as failed:
            return Use(counted=False, used=_used_in(failed.item))
        return Use(counted=True, used=_used_in(answer["Attributes"]))

    def _add_once(self, window: Window, amount: int, send_id: str) -> Use:
        marker = {"id": {"S": window.use_id(amount, send_id)}, "expires_at": {"N": str(window.expires_at)}}
        put: dict[str, Any] = {
            "TableName": self._table,
            "Item": marker,
            "ConditionExpression": "attribute_not_exists(id)",  # guard: limits.send_counted_once
            **_RETURN_OLD,
        }
        try:
            write_repeatedly(self._client, _WHAT, [{"Put": put}, {"Update": self._addition(window, amount)}])
        except ConditionFailed as failed:
            if failed.item.get("id") != marker["id"]:
                return Use(counted=False, used=_used_in(failed.item))
        return Use(counted=True, used=self._used(window))

    def give_back(self, window: Window, amount: int) -> None:
        subtraction = {
            "TableName": self._table,
            "Key": {"id": {"S": window.id}},
            "UpdateExpression": "ADD used :given_back",
            # The item of an earlier day may be deleted already.
            "ConditionExpression": "used >= :amount",
            "ExpressionAttributeValues": {":given_back": {"N": str(-amount)}, ":amount": {"N": str(amount)}},
        }
        try:
            # A transaction has a token: a repeated request subtracts nothing again.
            write_repeatedly(self._client, _WHAT, [{"Update": subtraction}])
        except ConditionFailed:
            return

    def _used(self, window: Window) -> int:
        key = {"id": {"S": window.id}}
        with answering(_WHAT):
            found = self._client.get_item(TableName=self._table, Key=key, ConsistentRead=True)
        return _used_in(found.get("Item", {}))

    def _addition(self, window: Window, amount: int) -> dict[str, Any]:
        return {
            "TableName": self._table,
            "Key": {"id": {"S": window.id}},
            "UpdateExpression": "ADD used :amount SET expires_at = :expires_at",
            "ConditionExpression": "attribute_not_exists(used) OR used <= :room",  # guard: limits.atomic_count
            "ExpressionAttributeValues": {
                ":amount": {"N": str(amount)},
                ":room": {"N": str(window.maximum - amount)},
                ":expires_at": {"N": str(window.expires_at)},
            },
            **_RETURN_OLD,
        }


def write_repeatedly(client: Any, what: str, transaction: list[Any]) -> None:
    """Write all items or none, again while transactions conflict. Raises ConditionFailed with the first item whose
    condition is not met, Retry or Stop.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            write_together(client, what, transaction)
        except Retry as error:
            if attempt == _ATTEMPTS or not _is_conflict(error.__cause__):
                raise
            time.sleep(random.uniform(0, _PAUSE_S * attempt))  # noqa: S311 - no secret
        else:
            return


def _used_in(item: dict[str, Any]) -> int:
    return int(item["used"]["N"]) if "used" in item else 0


def _is_conflict(error: BaseException | None) -> bool:
    response: Any = getattr(error, "response", {})
    return any(reason.get("Code") == "TransactionConflict" for reason in response.get("CancellationReasons", []))
