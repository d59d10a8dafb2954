"""The sent messages in DynamoDB: one item a partition in the table of schemas/dynamodb/delivery_ledger.json."""

import json
import zlib
from collections.abc import Collection, Sequence
from typing import Any

from masscomm.aws.dynamodb import answering
from masscomm.aws.request import Limits
from masscomm.aws.table import TableAdapter
from masscomm.domain.time_limits import SENT_POSITIONS_KEPT_S
from masscomm.stores.sent_messages.port import Partition, RecordPosition, Sent

_WHAT = "sent messages"
_PART = {"S": "sent"}
# The largest text of an item: each record has at most 500 positions.
_MAX_BYTES = 16_000_000


class DynamoDbSentMessages(TableAdapter):
    """The store in DynamoDB."""

    TABLE, SETTING = "delivery_ledger", "DELIVERY_LEDGER_TABLE"
    LIMITS = Limits(connections=4, connect_s=1, read_s=2, attempts=3)

    def find(self, partition: Partition) -> Sent:
        with answering(_WHAT):
            answer = self._client.query(
                TableName=self._table,
                KeyConditionExpression="record_id = :partition AND part = :sent",
                ExpressionAttributeValues={":partition": _id(partition), ":sent": _PART},
                ConsistentRead=True,  # A kill may have been a moment ago.
            )
        items: Sequence[Any] = answer["Items"]
        return _read(items[0]["sent"]["B"]) if items else {}

    def record(self, partition: Partition, sent: Sent, at_s: int) -> None:
        item = {
            "record_id": _id(partition),
            "part": _PART,
            "sent": {"B": _written(sent)},
            "expires_at": {"N": str(at_s + SENT_POSITIONS_KEPT_S)},
        }
        with answering(_WHAT):
            self._client.put_item(TableName=self._table, Item=item)


def _id(partition: Partition) -> dict[str, str]:
    return {"S": f"{partition.topic}/{partition.number}"}


def _written(sent: Sent) -> bytes:
    """Return the compressed rows [offset, time, bits of the positions as a hexadecimal number]."""
    rows = [[record.offset, record.timestamp_ms, f"{_bits(positions):x}"] for record, positions in sorted(sent.items())]
    return zlib.compress(json.dumps(rows, separators=(",", ":")).encode())


def _bits(positions: Collection[int]) -> int:
    found = 0
    for position in positions:
        found |= 1 << position
    return found


def _read(value: bytes) -> Sent:
    """Return the rows of an item; none of one that is malformed: its messages are sent again."""
    try:
        rows = json.loads(zlib.decompressobj().decompress(value, _MAX_BYTES))
        return {
            RecordPosition(offset, timestamp_ms): {
                place for place, bit in enumerate(reversed(f"{int(digits, 16):b}")) if bit == "1"
            }
            for offset, timestamp_ms, digits in rows
        }
    except (zlib.error, ValueError, TypeError):
        return {}
