"""What waits, on DynamoDB: the table of schemas/dynamodb/waiting.json.

A bucket is a due minute and a shard of it, so that 08:00 is not one hot partition. A bucket's mark is written before
what goes into it, and taken away only when the bucket is empty and its minute so long past that nobody writes to it any
more: no sweep misses a bucket, however long none has run.
"""

import json
import os
import zlib
from collections.abc import Iterator
from contextlib import suppress
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from masscomm.aws_client import DynamoDb
from masscomm.aws_request import Limits
from masscomm.dynamodb import ConditionFailed, answering
from masscomm.errors import Retry
from masscomm.waiting import CLAIM_S, MINUTE_MS, Waiting

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

TABLE = "waiting"
_WHAT = "what waits"
_SHARDS = 8
_MARKS = "minutes"
# Minutes after which nobody writes to a bucket any more: an invocation's time and clocks that differ, many times over.
_CLOSED_AFTER = 10
# An item takes 400 kB, names and all.
_PART_BYTES = 350_000
# A table of last resort: what nobody released in that time after it was due is forgotten by DynamoDB.
_KEPT_S = 30 * 86_400


class DynamoDbWaitingStore:
    """One for each function environment; client: for tests."""

    def __init__(self, *, table: str = TABLE, client: "DynamoDBClient | None" = None) -> None:
        self._table = table
        self._client: Any = client or DynamoDb(Limits(connect_s=1, read_s=3, attempts=3))
        self._marked: set[str] = set()

    @classmethod
    def from_environment(cls) -> "DynamoDbWaitingStore":
        """WAITING_TABLE, where the table has another name."""
        return cls(table=os.environ.get("WAITING_TABLE", TABLE))

    def put(self, item: Waiting, now_ms: int) -> None:
        due_ms = max(item.due_ms, now_ms)  # a minute that is past may be closed
        bucket = _bucket(due_ms, item.id)
        packed = zlib.compress(item.value)
        expires = {"N": str(due_ms // 1000 + _KEPT_S)}
        parts = [packed[start : start + _PART_BYTES] for start in range(0, len(packed), _PART_BYTES)] or [b""]
        with answering(_WHAT):
            self._mark(bucket, now_ms)
            for number, part in enumerate(parts[1:], start=1):
                self._client.put_item(
                    TableName=self._table,
                    Item={**_part_key(item.id, number), "value": {"B": part}, "expires_at": expires},
                )
        # Where it waits already, as it does.
        with suppress(ConditionFailed), answering(_WHAT):
            self._client.put_item(
                TableName=self._table,
                Item={
                    **_key(bucket, item.id),
                    "due_ms": {"N": str(due_ms)},
                    "topic": {"S": item.topic},
                    "value": {"B": parts[0]},
                    "parts": {"N": str(len(parts))},
                    "headers": {"S": json.dumps([[name, value.hex()] for name, value in item.headers])},
                    "why": {"S": item.why},
                    "expires_at": expires,
                },
                ConditionExpression="attribute_not_exists(id)",
            )

    def due(self, now_ms: int) -> Iterator[Waiting]:
        for bucket in self._buckets(now_ms):
            empty = True
            for row in self._query(bucket):
                empty = False
                if int(row["due_ms"]["N"]) <= now_ms:
                    yield self._waiting(row)
            if empty and int(bucket.partition("#")[0]) < now_ms // MINUTE_MS - _CLOSED_AFTER:
                with answering(_WHAT):
                    self._client.delete_item(TableName=self._table, Key=_key(_MARKS, bucket))

    def everything(self) -> Iterator[Waiting]:
        """All that waits, due or not, for people who look for something: reads the whole table and changes nothing."""
        with answering(_WHAT):
            for page in self._client.get_paginator("scan").paginate(TableName=self._table):
                for row in page["Items"]:
                    if "topic" in row:  # else a mark, or a part of a large value
                        yield self._waiting(row)

    def claim(self, item: Waiting, now_ms: int) -> bool:
        try:
            with answering(_WHAT):
                self._client.update_item(
                    TableName=self._table,
                    Key=_key(_bucket(item.due_ms, item.id), item.id),
                    UpdateExpression="SET claimed_until_ms = :until",
                    ConditionExpression="attribute_exists(id) AND"
                    " (attribute_not_exists(claimed_until_ms) OR claimed_until_ms <= :now)",
                    ExpressionAttributeValues={
                        ":until": {"N": str(now_ms + CLAIM_S * 1000)},
                        ":now": {"N": str(now_ms)},
                    },
                )
        except ConditionFailed:
            return False
        return True

    def done(self, item: Waiting) -> None:
        with answering(_WHAT):
            answer = self._client.delete_item(
                TableName=self._table, Key=_key(_bucket(item.due_ms, item.id), item.id), ReturnValues="ALL_OLD"
            )
            for number in range(1, int(answer.get("Attributes", {}).get("parts", {"N": "1"})["N"])):
                self._client.delete_item(TableName=self._table, Key=_part_key(item.id, number))

    def _mark(self, bucket: str, now_ms: int) -> None:
        if bucket in self._marked:
            return
        self._client.put_item(TableName=self._table, Item=_key(_MARKS, bucket))
        this_minute = f"{now_ms // MINUTE_MS:010d}"
        self._marked = {each for each in self._marked if each >= this_minute} | {bucket}

    def _buckets(self, now_ms: int) -> list[str]:
        """Those of every minute up to now that may hold something, oldest first."""
        with answering(_WHAT):
            pages = self._client.get_paginator("query").paginate(
                TableName=self._table,
                ConsistentRead=True,
                KeyConditionExpression="due_bucket = :marks AND id <= :now",
                ExpressionAttributeValues={":marks": {"S": _MARKS}, ":now": {"S": f"{now_ms // MINUTE_MS:010d}#~"}},
            )
            return [row["id"]["S"] for page in pages for row in page["Items"]]

    def _query(self, bucket: str) -> Iterator[dict[str, Any]]:
        request: dict[str, Any] = {
            "TableName": self._table,
            "ConsistentRead": True,
            "KeyConditionExpression": "due_bucket = :bucket",
            "ExpressionAttributeValues": {":bucket": {"S": bucket}},
        }
        while True:
            with answering(_WHAT):
                page = self._client.query(**request)
            yield from page["Items"]
            if "LastEvaluatedKey" not in page:
                return
            request["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    def _waiting(self, row: dict[str, Any]) -> Waiting:
        item_id = row["id"]["S"]
        packed = row["value"]["B"]
        with answering(_WHAT):
            for number in range(1, int(row["parts"]["N"])):
                part = self._client.get_item(
                    TableName=self._table, Key=_part_key(item_id, number), ConsistentRead=True
                ).get("Item")
                if part is None:  # another sweep has just released it, and its parts went after it
                    raise Retry(f"a part of what waits as {item_id} is not there")
                packed += part["value"]["B"]
        return Waiting(
            id=item_id,
            due_ms=int(row["due_ms"]["N"]),
            topic=row["topic"]["S"],
            value=zlib.decompress(packed),
            why=row["why"]["S"],
            headers=tuple((name, bytes.fromhex(value)) for name, value in json.loads(row["headers"]["S"])),
        )


def _bucket(due_ms: int, item_id: str) -> str:
    shard = blake2b(item_id.encode(), digest_size=1).digest()[0] % _SHARDS
    return f"{due_ms // MINUTE_MS:010d}#{shard}"


def _key(bucket: str, item_id: str) -> dict[str, Any]:
    return {"due_bucket": {"S": bucket}, "id": {"S": item_id}}


def _part_key(item_id: str, number: int) -> dict[str, Any]:
    return _key(f"part#{item_id}", f"{number:04d}")
