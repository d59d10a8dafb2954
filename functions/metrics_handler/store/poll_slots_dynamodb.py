"""The slots of long polls in DynamoDB: each slot is one item in the table of schemas/dynamodb/open_polls.json."""

import os
import random
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

from functions.metrics_handler.store.poll_slots import Slot
from masscomm.aws.client import DynamoDb
from masscomm.aws.dynamodb import ConditionFailed, answering
from masscomm.aws.request import Limits
from masscomm.domain.time_limits import POLL_SLOTS_KEPT_S

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

TABLE = "open_polls"
_WHAT = "open polls"


class DynamoDbPollSlots:
    """The store of slots in DynamoDB. Each function environment has one instance.

    Args:
        client: A client that tests provide.
    """

    def __init__(self, *, table: str = TABLE, client: "DynamoDBClient | None" = None) -> None:
        self._table = table
        self._given: Any = client

    @classmethod
    def from_environment(cls) -> Self:
        """Return the store in the table OPEN_POLLS_TABLE, by default the name in schemas/dynamodb."""
        return cls(table=os.environ.get("OPEN_POLLS_TABLE", TABLE))

    @cached_property
    def _client(self) -> Any:
        """Return the client, created when the first poll waits: a function that serves no polls has no such table."""
        # A caller waits for this request, so it has one attempt and short time-outs.
        return self._given or DynamoDb(Limits(connections=1, connect_s=0.25, read_s=0.5))

    def take(self, caller: str, limit: int, *, now_ms: int, until_ms: int) -> Slot | None:
        # Concurrent polls begin with different slots, so that they rarely conflict.
        first = random.randrange(limit) if limit else 0  # noqa: S311 - no secret
        for number in (*range(first, limit), *range(first)):
            slot = Slot(caller=caller, number=number, token=str(uuid4()))
            try:
                with answering(_WHAT):
                    self._client.put_item(
                        TableName=self._table,
                        Item={
                            **_key(slot),
                            "token": {"S": slot.token},
                            "until_ms": {"N": str(until_ms)},
                            "expires_at": {"N": str(until_ms // 1000 + POLL_SLOTS_KEPT_S)},
                        },
                        ConditionExpression="attribute_not_exists(id) OR until_ms <= :now",
                        ExpressionAttributeValues={":now": {"N": str(now_ms)}},
                    )
            except ConditionFailed:
                continue
            return slot
        return None

    def free(self, slot: Slot) -> None:
        try:
            with answering(_WHAT):
                self._client.delete_item(
                    TableName=self._table,
                    Key=_key(slot),
                    ConditionExpression="#token = :token",
                    # `token` is a reserved word in DynamoDB's expressions.
                    ExpressionAttributeNames={"#token": "token"},
                    ExpressionAttributeValues={":token": {"S": slot.token}},
                )
        except ConditionFailed:
            return


def _key(slot: Slot) -> dict[str, Any]:
    return {"id": {"S": f"{slot.caller}#{slot.number}"}}
