"""The slots of requests in DynamoDB: each slot is one item in the table of schemas/dynamodb/open_polls.json."""

import random
from typing import Any
from uuid import uuid4

from masscomm.aws.dynamodb import ConditionFailed, answering
from masscomm.aws.request import Limits
from masscomm.aws.table import TableAdapter
from masscomm.domain.time_limits import POLL_SLOTS_KEPT_S
from masscomm.stores.request_slots.port import Kind, Slot

_WHAT = "slots of requests"


class DynamoDbRequestSlots(TableAdapter):
    """The store of slots in DynamoDB."""

    TABLE, SETTING = "open_polls", "OPEN_POLLS_TABLE"
    # A caller waits for these requests, so they have one attempt and short time-outs.
    LIMITS = Limits(connections=1, connect_s=0.25, read_s=0.5)

    def take(self, kind: Kind, caller: str, limit: int, *, now_ms: int, until_ms: int) -> Slot | None:
        # Concurrent requests begin with different slots, so that they rarely conflict.
        first = random.randrange(limit) if limit else 0  # noqa: S311 - no secret
        for number in (*range(first, limit), *range(first)):
            slot = Slot(kind=kind, caller=caller, number=number, token=str(uuid4()))
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
    return {"id": {"S": slot.id}}
