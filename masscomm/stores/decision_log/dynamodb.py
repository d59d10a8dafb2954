"""The decision log in DynamoDB: the table of schemas/dynamodb/decisions.json, with one conditional write per record.

Decisions that are larger than an item are split into several items. The further items are written first, under ids
derived from the whole content. The condition on the record's own item then determines which of the further items are
valid.
"""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from masscomm.aws.client import DynamoDb
from masscomm.aws.dynamodb import ConditionFailed, answering, digest_of, parts_of
from masscomm.aws.request import Limits
from masscomm.clock import Clock
from masscomm.domain.time_limits import DECISIONS_KEPT_S
from masscomm.errors import Retry

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

TABLE = "decisions"


class DynamoDbDecisionLog:
    """The decision log in DynamoDB. Each function environment has one instance for all its threads.

    Args:
        connections: The number of concurrent calls.
        client: A client that tests provide.
    """

    def __init__(
        self, *, clock: Clock, table: str = TABLE, connections: int = 10, client: "DynamoDBClient | None" = None
    ) -> None:
        self._clock = clock
        self._table = table
        self._client: Any = client or DynamoDb(Limits(connections=connections, connect_s=1, read_s=2, attempts=3))

    @classmethod
    def from_environment(cls, *, clock: Clock) -> Self:
        """Return the log in the table DECISIONS_TABLE, by default the name in schemas/dynamodb."""
        return cls(clock=clock, table=os.environ.get("DECISIONS_TABLE", TABLE))

    def put_if_absent(self, record_id: str, packed: bytes) -> bytes:
        parts, digest = parts_of(packed), digest_of(packed)
        expires = {"N": str(self._clock.now_ms() // 1000 + DECISIONS_KEPT_S)}
        item: dict[str, Any] = {"record_id": {"S": record_id}, "decided": {"B": parts[0]}, "expires_at": expires}
        if len(parts) > 1:
            item |= {"parts": {"N": str(len(parts))}, "digest": {"S": digest}}
        with answering("the decision log"):
            for number, part in enumerate(parts[1:], start=1):
                key = {"record_id": {"S": _part_id(record_id, digest, number)}}
                self._client.put_item(
                    TableName=self._table, Item={**key, "decided": {"B": part}, "expires_at": expires}
                )
        try:
            with answering("the decision log"):
                self._client.put_item(
                    TableName=self._table,
                    Item=item,
                    ConditionExpression="attribute_not_exists(record_id)",
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                )
        except ConditionFailed as failed:
            return whole(self._client, self._table, failed.item)
        return packed

    def find(self, record_id: str) -> bytes | None:
        with answering("the decision log"):
            item = self._client.get_item(
                TableName=self._table, Key={"record_id": {"S": record_id}}, ConsistentRead=True
            ).get("Item")
        return None if item is None else whole(self._client, self._table, item)


def whole(client: Any, table: str, item: Mapping[str, Any]) -> bytes:
    """Return the packed decisions of a record, joined from its item and the further items. Raises Retry or Stop."""
    packed = bytes(item["decided"]["B"])
    if "parts" in item:
        for number in range(1, int(item["parts"]["N"])):
            key = {"record_id": {"S": _part_id(item["record_id"]["S"], item["digest"]["S"], number)}}
            with answering("the decision log"):
                part = client.get_item(TableName=table, Key=key, ConsistentRead=True).get("Item")
            if part is None:
                raise Retry(f"a part of the decisions about {item['record_id']['S']} is missing")
            packed += bytes(part["decided"]["B"])
    return packed


def _part_id(record_id: str, digest: str, number: int) -> str:
    return f"{record_id}#{digest}#{number:04d}"
