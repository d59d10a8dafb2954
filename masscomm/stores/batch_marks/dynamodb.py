"""The batch marks in DynamoDB: one item a batch in the table of schemas/dynamodb/delivery_ledger.json."""

import json
import zlib
from typing import Any

from masscomm.aws.dynamodb import ConditionFailed, answering
from masscomm.aws.request import Limits
from masscomm.aws.table import TableAdapter
from masscomm.domain.time_limits import BATCH_MARKS_KEPT_S
from masscomm.stores.batch_marks.port import BatchKey, BatchMark

_WHAT = "batch marks"
# The largest text of an item: a batch has at most 10,000 records.
_MAX_BYTES = 16_000_000


class DynamoDbBatchMarks(TableAdapter):
    """The store in DynamoDB."""

    TABLE, SETTING = "delivery_ledger", "DELIVERY_LEDGER_TABLE"
    LIMITS = Limits(connections=1, connect_s=1, read_s=2, attempts=3)

    def begin(self, batch: BatchKey, at_s: int) -> BatchMark:
        expires_at = {"N": str(at_s + BATCH_MARKS_KEPT_S)}
        try:
            with answering(_WHAT):
                old = self._client.update_item(
                    TableName=self._table,
                    Key=_key(batch),
                    UpdateExpression="ADD invocations :one SET expires_at = :expires_at",
                    ConditionExpression="attribute_not_exists(record_id) OR expires_at > :now",
                    ExpressionAttributeValues={
                        ":one": {"N": "1"},
                        ":expires_at": expires_at,
                        ":now": {"N": str(at_s)},
                    },
                    ReturnValues="ALL_OLD",
                ).get("Attributes")
        except ConditionFailed:
            old = None  # An expired item is absent.
            with answering(_WHAT):
                self._client.put_item(
                    TableName=self._table,
                    Item={**_key(batch), "invocations": {"N": "1"}, "expires_at": expires_at},
                )
        if not old:
            return BatchMark()
        invocations = int(old["invocations"]["N"])
        return BatchMark(
            invocations=invocations + 1,
            crashed=int(old.get("ended", {"N": "0"})["N"]) != invocations,
            **_read(old["mark"]["B"] if "mark" in old else b""),
        )

    def record(self, batch: BatchKey, mark: BatchMark, *, ended: bool) -> None:
        with answering(_WHAT):
            self._client.update_item(
                TableName=self._table,
                Key=_key(batch),
                UpdateExpression="SET mark = :mark, ended = :ended",
                ExpressionAttributeValues={
                    ":mark": {"B": _written(mark)},
                    ":ended": {"N": str(mark.invocations if ended else 0)},
                },
            )


def _key(batch: BatchKey) -> dict[str, Any]:
    return {
        "record_id": {"S": f"{batch.topic}/{batch.partition}"},
        "part": {"S": f"batch#{batch.offset}#{batch.timestamp_ms}"},
    }


def _written(mark: BatchMark) -> bytes:
    document = {"done": sorted(mark.done), "begun": sorted(mark.begun), "crashes": dict(mark.crashes)}
    return zlib.compress(json.dumps(document, separators=(",", ":")).encode())


def _read(value: bytes) -> dict[str, Any]:
    """Return the fields of a mark; none of one that is malformed: its records are processed again."""
    try:
        document = json.loads(zlib.decompressobj().decompress(value, _MAX_BYTES))
        return {
            "done": frozenset(map(str, document["done"])),
            "begun": frozenset(map(str, document["begun"])),
            "crashes": {str(position): int(count) for position, count in document["crashes"].items()},
        }
    except (zlib.error, ValueError, KeyError, TypeError, AttributeError):
        return {}
