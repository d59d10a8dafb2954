"""The leases of broadcast queues in DynamoDB: one item in the table of schemas/dynamodb/broadcast_queues.json."""

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self

from functions.preference_checker.broadcast_queues import QueueLease, QueueLeases, logger
from masscomm.aws.client import DynamoDb
from masscomm.aws.dynamodb import ConditionFailed, answering
from masscomm.aws.request import Limits
from masscomm.domain.lanes import BROADCASTS, Lane
from masscomm.domain.time_limits import QUEUE_LEASES_KEPT_S
from masscomm.errors import Retry
from masscomm.observability.unreadable_items import UnreadableItem, report_unreadable

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

TABLE = "broadcast_queues"
_KEY = {"id": {"S": "broadcasts"}}
_WHAT = "queue leases"


class DynamoDbQueueLeaseStore:
    """The store of queue leases in DynamoDB. Each function environment has one instance.

    Args:
        client: A client that tests provide.
    """

    def __init__(self, *, table: str = TABLE, client: "DynamoDBClient | None" = None) -> None:
        self._table = table
        # The assignment of queues is only an optimisation, so requests have one attempt and short time-outs.
        self._client: Any = client or DynamoDb(Limits(connections=1, connect_s=0.25, read_s=0.5))

    @classmethod
    def from_environment(cls) -> Self:
        """Return the store in the table BROADCAST_QUEUES_TABLE, by default the name in schemas/dynamodb."""
        return cls(table=os.environ.get("BROADCAST_QUEUES_TABLE", TABLE))

    def read(self) -> QueueLeases:
        try:
            with answering(_WHAT):
                item = self._client.get_item(TableName=self._table, Key=_KEY, ConsistentRead=True).get("Item")
            return (
                QueueLeases()
                if item is None
                else QueueLeases(version=int(item["version"]["N"]), by_lane=dict(_leases(item["uses"]["M"])))
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise Retry(f"the item of queue leases is malformed: {error!r}") from error

    def replace(self, version: int, leases: Mapping[Lane, QueueLease], now_ms: int) -> bool:
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
                        "uses": {"M": {lane.value: {"M": _numbers(lease)} for lane, lease in leases.items()}},
                        "expires_at": {"N": str(now_ms // 1000 + QUEUE_LEASES_KEPT_S)},
                    },
                    **condition,
                )
        except ConditionFailed:
            return False
        return True


def _numbers(lease: QueueLease) -> dict[str, Any]:
    return {"club_id": {"N": str(lease.club_id)}, "used_ms": {"N": str(lease.renewed_ms)}}


def _leases(found: Mapping[str, Any]) -> Iterator[tuple[Lane, QueueLease]]:
    """Yield the leases of the queues that exist; another version may have more queues. A lease that cannot be read is
    skipped: the next tenant that begins a broadcast leases this queue, and replaces it.
    """
    for lane in BROADCASTS:
        if lane.value not in found:
            continue
        try:
            lease = found[lane.value]["M"]
            yield lane, QueueLease(club_id=int(lease["club_id"]["N"]), renewed_ms=int(lease["used_ms"]["N"]))
        except (KeyError, TypeError, ValueError) as error:  # guard: queues.unreadable_lease
            report_unreadable(UnreadableItem(store=TABLE, key={"queue": lane.value}, error=repr(error)), logger)
