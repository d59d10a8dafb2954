"""The sent messages in DynamoDB: one item a partition in the table of schemas/dynamodb/delivery_ledger.json."""

import json
import zlib
from collections.abc import Collection, Mapping, Sequence
from itertools import batched
from typing import Any

from masscomm.aws.dynamodb import answering, write_together
from masscomm.aws.request import Limits
from masscomm.aws.table import TableAdapter
from masscomm.domain.time_limits import SENT_POSITIONS_KEPT_S
from masscomm.stores.delayed_records.port import DelayedRecord, Prepared
from masscomm.stores.sent_messages.port import Partition, Positions, RecordPosition, Sent

_WHAT = "sent messages"
_PART = {"S": "sent"}
# The items of a transaction, which costs twice as much: a batch has fewer partitions.
# https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html
_ACTIONS = 100
# The largest text of an attribute: each record has at most 500 positions.
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
        return _sent(items[0]) if items else Sent()

    def record(self, sent: Mapping[Partition, Sent], at_s: int) -> None:
        puts = [{"TableName": self._table, "Item": _item(partition, each, at_s)} for partition, each in sent.items()]
        for some in batched(puts, _ACTIONS, strict=False):
            if len(some) > 1:
                write_together(self._client, _WHAT, [{"Put": put} for put in some])
                continue
            with answering(_WHAT):
                self._client.put_item(**some[0])


def _id(partition: Partition) -> dict[str, str]:
    return {"S": f"{partition.topic}/{partition.number}"}


def _item(partition: Partition, sent: Sent, at_s: int) -> dict[str, Any]:
    prepared = [
        [each.id, each.due_ms, each.topic, each.delay_reason, each.record_key, *(each.prepared or ())]
        for each in sent.prepared
    ]
    return {
        "record_id": _id(partition),
        "part": _PART,
        "sent": {"B": _written(_rows(sent.settled))},
        "waiting": {"B": _written(_rows(sent.waiting))},
        "prepared": {"B": _written(prepared)},
        "expires_at": {"N": str(at_s + SENT_POSITIONS_KEPT_S)},
    }


def _sent(item: Mapping[str, Any]) -> Sent:
    """Return what an item has; nothing of one that is malformed: its messages are sent again. An item of an earlier
    version has only `sent`.
    """
    try:
        return Sent(
            settled=_positions(_read(item["sent"])),
            waiting=_positions(_read(item["waiting"])) if "waiting" in item else {},
            prepared=tuple(_record(*row) for row in _read(item["prepared"])) if "prepared" in item else (),
        )
    except (zlib.error, LookupError, ValueError, TypeError):
        return Sent()


def _rows(positions: Positions) -> list[Any]:
    """Return the rows [offset, time, bits of the positions as a hexadecimal number]."""
    return [[record.offset, record.timestamp_ms, f"{_bits(some):x}"] for record, some in sorted(positions.items())]


def _positions(rows: Any) -> dict[RecordPosition, Collection[int]]:
    return {
        RecordPosition(offset, timestamp_ms): {
            place for place, bit in enumerate(reversed(f"{int(digits, 16):b}")) if bit == "1"
        }
        for offset, timestamp_ms, digits in rows
    }


def _bits(positions: Collection[int]) -> int:
    found = 0
    for position in positions:
        found |= 1 << position
    return found


def _record(
    id_: str, due_ms: int, topic: str, why: str, record_key: str | None, copy: str, parts: int
) -> DelayedRecord:
    return DelayedRecord(
        id=id_,
        due_ms=due_ms,
        topic=topic,
        value=b"",
        delay_reason=why,
        record_key=record_key,
        prepared=Prepared(copy, parts),
    )


def _written(rows: Any) -> bytes:
    return zlib.compress(json.dumps(rows, separators=(",", ":")).encode())


def _read(attribute: Mapping[str, Any]) -> Any:
    return json.loads(zlib.decompressobj().decompress(attribute["B"], _MAX_BYTES))
