"""The results of small sends in DynamoDB, in the register's table (schemas/dynamodb/sends.json)."""

from array import array
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from masscomm.aws.dynamodb import answering, write_items
from masscomm.aws.request import Limits
from masscomm.aws.table import TableAdapter
from masscomm.clock import Clock, SystemClock
from masscomm.domain.notification_codes import restored, stored
from masscomm.domain.send_results import SendResult
from masscomm.domain.sends import SendKey
from masscomm.domain.time_limits import REGISTERED_SENDS_KEPT_S, RESULTS_PUT_S
from masscomm.errors import Retry

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_WHAT = "the results of sends"
# Items below a send whose sort keys begin with it are results. No query of masscomm/stores/sends/dynamodb.py has them.
_RESULT = "result#"
# The number of concurrent requests of one batch.
CONNECTIONS = 4


class DynamoDbSendResults(TableAdapter):
    """The store in DynamoDB. A put has one attempt."""

    TABLE, SETTING = "sends", "SENDS_TABLE"
    LIMITS = Limits(connections=CONNECTIONS, connect_s=RESULTS_PUT_S / 2, read_s=RESULTS_PUT_S / 2)

    def __init__(
        self, *, table: str | None = None, client: "DynamoDBClient | None" = None, clock: Clock | None = None
    ) -> None:
        super().__init__(table=table, client=client)
        self._clock = clock or SystemClock()

    def put(self, results: Sequence[SendResult]) -> None:
        now_ms = self._clock.now_ms()
        # BatchWriteItem refuses two puts of one key.
        # https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchWriteItem.html
        items = {(each.send.send_id, each.record_id): item_of(each, now_ms) for each in results}
        write_items(self._client, _WHAT, self._table, items.values())

    def since(self, send: SendKey, at_ms: int | None) -> Sequence[SendResult]:
        now_s = self._clock.now_ms() // 1000
        with answering(_WHAT):
            pages = self._client.get_paginator("query").paginate(
                TableName=self._table,
                KeyConditionExpression="send_id = :send AND begins_with(part, :result)",
                # guard: tenancy.send_results
                FilterExpression="club_id = :club AND at_ms >= :since AND expires_at > :now",
                ExpressionAttributeValues={
                    ":send": {"S": send.send_id},
                    ":result": {"S": _RESULT},
                    ":club": {"N": str(send.club_id)},
                    ":since": {"N": str(at_ms or 0)},
                    ":now": {"N": str(now_s)},
                },
                ConsistentRead=True,
            )
            return [_result(send, item) for page in pages for item in page["Items"]]


def item_of(result: SendResult, now_ms: int) -> dict[str, Any]:
    """Return the item of results that are stored now. It is kept as long as a send that is registered now."""
    return {
        "send_id": {"S": result.send.send_id},
        "part": {"S": f"{_RESULT}{result.record_id}"},
        "club_id": {"N": str(result.send.club_id)},
        "channel": {"S": result.channel},
        "first": {"N": str(result.first)},
        "codes": {"B": stored(result.codes)},
        "at_ms": {"N": str(now_ms)},
        "expires_at": {"N": str(now_ms // 1000 + REGISTERED_SENDS_KEPT_S)},
    }


def _result(send: SendKey, item: Mapping[str, Any]) -> SendResult:
    """Return the results in an item. Raises Retry if the item is malformed."""
    try:
        codes: array[int] = restored(item["codes"]["B"])
        return SendResult(
            send=send,
            record_id=item["part"]["S"].removeprefix(_RESULT),
            channel=item["channel"]["S"],
            first=int(item["first"]["N"]),
            codes=codes,
        )
    except (LookupError, ValueError, TypeError) as error:
        raise Retry(f"the item of a result is malformed: {error!r}") from error
