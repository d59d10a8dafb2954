"""Who uses which queue of broadcasts, on DynamoDB: one item of the table of schemas/dynamodb/broadcast_queues.json."""

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self

from functions.preference_checker.broadcast_queues import Use, Uses
from masscomm.aws.client import DynamoDb
from masscomm.aws.dynamodb import ConditionFailed, answering
from masscomm.aws.request import Limits
from masscomm.domain.lanes import BROADCASTS, Lane
from masscomm.errors import Retry

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

TABLE = "broadcast_queues"
_KEY = {"id": {"S": "broadcasts"}}
_KEPT_S = 7 * 86_400
_WHAT = "who uses which queue"


class DynamoDbUseStore:
    """One for each function environment; client: for tests."""

    def __init__(self, *, table: str = TABLE, client: "DynamoDBClient | None" = None) -> None:
        self._table = table
        # It may delay nobody, and what it says can be done without: one attempt, and no patience.
        self._client: Any = client or DynamoDb(Limits(connections=1, connect_s=0.25, read_s=0.5))

    @classmethod
    def from_environment(cls) -> Self:
        """The table of BROADCAST_QUEUES_TABLE, or as schemas/dynamodb calls it."""
        return cls(table=os.environ.get("BROADCAST_QUEUES_TABLE", TABLE))

    def read(self) -> Uses:
        try:
            with answering(_WHAT):
                item = self._client.get_item(TableName=self._table, Key=_KEY, ConsistentRead=True).get("Item")
            return (
                Uses() if item is None else Uses(version=int(item["version"]["N"]), of=dict(_uses(item["uses"]["M"])))
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise Retry(f"what DynamoDB tells of queues makes no sense: {error!r}") from error

    def replace(self, version: int, uses: Mapping[Lane, Use], now_ms: int) -> bool:
        condition: dict[str, Any] = {"ConditionExpression": "attribute_not_exists(id)"}
        if version:
            condition = {
                "ConditionExpression": "version = :version",
                "ExpressionAttributeValues": {":version": {"N": str(version)}},
            }
        try:
            with answering(_WHAT):
                self._client.put_item(
                    TableName=self._table,
                    Item={
                        **_KEY,
                        "version": {"N": str(version + 1)},
                        "uses": {"M": {lane.value: {"M": _numbers(use)} for lane, use in uses.items()}},
                        "expires_at": {"N": str(now_ms // 1000 + _KEPT_S)},
                    },
                    **condition,
                )
        except ConditionFailed:
            return False
        return True


def _numbers(use: Use) -> dict[str, Any]:
    return {"club_id": {"N": str(use.club_id)}, "used_ms": {"N": str(use.used_ms)}}


def _uses(found: Mapping[str, Any]) -> Iterator[tuple[Lane, Use]]:
    """Of the queues that there are: there may have been more of them."""
    for lane in BROADCASTS:
        if lane.value in found:
            use = found[lane.value]["M"]
            yield lane, Use(club_id=int(use["club_id"]["N"]), used_ms=int(use["used_ms"]["N"]))
