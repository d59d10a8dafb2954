"""First decisions on DynamoDB: the table of schemas/dynamodb/decisions.json, one conditional write a record."""

import os
from typing import TYPE_CHECKING, Any, Self

from masscomm.aws_client import DynamoDb
from masscomm.aws_request import Limits
from masscomm.clock import Clock
from masscomm.decisions import KEPT_S
from masscomm.dynamodb import ConditionFailed, answering
from masscomm.errors import DeadLetter

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

TABLE = "decisions"
# An item takes 400 kB, names and all.
_MAX_BYTES = 390_000


class DynamoDbDecisionLog:
    """One for each function environment, for all its threads; connections: calls at once; client: for tests."""

    def __init__(
        self, *, clock: Clock, table: str = TABLE, connections: int = 10, client: "DynamoDBClient | None" = None
    ) -> None:
        self._clock = clock
        self._table = table
        self._client: Any = client or DynamoDb(Limits(connections=connections, connect_s=1, read_s=2, attempts=3))

    @classmethod
    def from_environment(cls, *, clock: Clock) -> Self:
        """The table of DECISIONS_TABLE, or as schemas/dynamodb calls it."""
        return cls(clock=clock, table=os.environ.get("DECISIONS_TABLE", TABLE))

    def first(self, record_id: str, decided: bytes) -> bytes:
        if len(decided) > _MAX_BYTES:
            raise DeadLetter("too_large", f"the decisions of one record take {len(decided)} bytes")
        try:
            with answering("first decisions"):
                self._client.put_item(
                    TableName=self._table,
                    Item={
                        "record_id": {"S": record_id},
                        "decided": {"B": decided},
                        "expires_at": {"N": str(self._clock.now_ms() // 1000 + KEPT_S)},
                    },
                    ConditionExpression="attribute_not_exists(record_id)",
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                )
        except ConditionFailed as failed:
            return bytes(failed.item["decided"]["B"])
        return decided
