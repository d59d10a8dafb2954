"""The delay store on DynamoDB: the table of schemas/dynamodb/waiting.json.

A bucket is a lane, a due minute and a shard, so that 08:00 is not one hot partition. A bucket's mark is written before
its first record. It is deleted when the bucket is empty and its minute so long ago that no function writes to it any
more: a sweep finds every bucket after an outage of any length.
"""

import json
import os
import zlib
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from masscomm.aws.client import DynamoDb
from masscomm.aws.dynamodb import ConditionFailed, answering
from masscomm.aws.request import Limits
from masscomm.stores.delayed_records import (
    CLAIM_S,
    MINUTE_MS,
    DelayedRecord,
    StoreKey,
    UnreadableRecord,
    is_critical,
    key_of,
    lane_key,
)

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

TABLE = "waiting"
_WHAT = "delayed records"
_MARKS = "minutes"
# Minutes after which no function writes to a bucket: many times an invocation plus clock skew.
_CLOSED_AFTER = 10
# An item has at most 400 kB, names of attributes included.
_PART_BYTES = 350_000
# DynamoDB deletes a record this long after it was due.
_KEPT_S = 30 * 86_400


class DynamoDbDelayStore:
    """One for each function environment. client: for tests."""

    def __init__(self, *, table: str = TABLE, client: "DynamoDBClient | None" = None) -> None:
        self._table = table
        self._client: Any = client or DynamoDb(Limits(connect_s=1, read_s=3, attempts=3))
        self._marked: set[StoreKey] = set()

    @classmethod
    def from_environment(cls) -> "DynamoDbDelayStore":
        """Return the store on the table WAITING_TABLE, by default `waiting`."""
        return cls(table=os.environ.get("WAITING_TABLE", TABLE))

    def put(self, item: DelayedRecord, now_ms: int) -> None:
        due_ms = max(item.due_ms, now_ms)  # the bucket of an earlier minute may be closed
        key = key_of(replace(item, due_ms=due_ms))
        # Parts belong to this put: the same id for another time, or with other contents, has parts of its own.
        copy = str(uuid4())  # guard: delay_store.parts_of_a_copy
        packed = _packed(item)
        expires = {"N": str(due_ms // 1000 + _KEPT_S)}
        parts = [packed[start : start + _PART_BYTES] for start in range(0, len(packed), _PART_BYTES)]
        with answering(_WHAT):
            self._mark(key[0], critical=item.critical, now_ms=now_ms)
            for number, part in enumerate(parts[1:], start=1):
                self._client.put_item(
                    TableName=self._table,
                    Item={**_primary_key(_part(copy, number)), "value": {"B": part}, "expires_at": expires},
                )
        try:
            with answering(_WHAT):
                self._client.put_item(
                    TableName=self._table,
                    Item={
                        **_primary_key(key),
                        "due_ms": {"N": str(due_ms)},
                        "topic": {"S": item.topic},
                        "value": {"B": parts[0]},
                        "parts": {"N": str(len(parts))},
                        "copy": {"S": copy},
                        "why": {"S": item.delay_reason},
                        "expires_at": expires,
                    },
                    ConditionExpression="attribute_not_exists(id)",
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                )
        except ConditionFailed as refused:
            # If the answer to the first request was lost, the stored copy is this one.
            if refused.item.get("copy") != {"S": copy}:
                self._delete_parts(copy, len(parts))

    def due(self, now_ms: int, *, critical: bool) -> Iterator[DelayedRecord | UnreadableRecord]:
        closed = f"{now_ms // MINUTE_MS - _CLOSED_AFTER:010d}"
        lane = lane_key(critical=critical)
        for minute, bucket in self._buckets(_marks(critical=critical), f"{lane}#", now_ms):
            empty = True
            for row in self._query(bucket, before=f"{now_ms + 1:015d}"):
                empty = False
                yield from self._read(row)
            # The bucket of a closed minute contains no record that is due later.
            if empty and minute < closed:
                self._delete((_marks(critical=critical), bucket))
        yield from self._due_in_previous_form(now_ms, closed, critical=critical)  # guard: delay_store.previous_form

    def _due_in_previous_form(
        self, now_ms: int, closed: str, *, critical: bool
    ) -> Iterator[DelayedRecord | UnreadableRecord]:
        """Yield the due copies that earlier versions stored.

        Their buckets have no lane, their ids no due time, and their headers an attribute of their own.
        """
        for minute, bucket in self._buckets(_MARKS, "", now_ms):
            empty = True
            # The filter for critical records hides others: only the bulk lane checks whether the bucket is empty.
            for row in self._query(bucket, containing=".critical" if critical else None):
                empty = False
                if is_critical(_text(row, "topic")) is critical and _number(row, "due_ms") <= now_ms:
                    yield from self._read(row)
            if not critical and empty and minute < closed:
                self._delete((_MARKS, bucket))

    def scan(self) -> Iterator[DelayedRecord]:
        """Yield every readable record, due or not; scans the table."""
        with answering(_WHAT):
            for page in self._client.get_paginator("scan").paginate(TableName=self._table):
                for row in page["Items"]:
                    if "topic" in row:  # else a mark, or a part of a large value
                        yield from (each for each in self._read(row) if isinstance(each, DelayedRecord))

    def claim(self, item: DelayedRecord, now_ms: int) -> bool:
        try:
            with answering(_WHAT):
                self._client.update_item(
                    TableName=self._table,
                    Key=_primary_key(item.key or key_of(item)),
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

    def done(self, item: DelayedRecord) -> None:
        with answering(_WHAT):
            answer = self._client.delete_item(
                TableName=self._table, Key=_primary_key(item.key or key_of(item)), ReturnValues="ALL_OLD"
            )
        row = answer.get("Attributes", {})
        if "copy" in row:  # else parts that another copy may share: they expire
            self._delete_parts(row["copy"]["S"], int(row["parts"]["N"]))

    def _mark(self, bucket: str, *, critical: bool, now_ms: int) -> None:
        mark = (_marks(critical=critical), bucket)
        if mark in self._marked:
            return
        self._client.put_item(TableName=self._table, Item=_primary_key(mark))
        this_minute = f"{now_ms // MINUTE_MS:010d}"
        self._marked = {each for each in self._marked if each[1].split("#")[1] >= this_minute} | {mark}

    def _buckets(self, marks: str, lane: str, now_ms: int) -> Iterator[tuple[str, str]]:
        """Yield (minute, bucket) for every marked bucket up to now, oldest first. lane: the prefix of the buckets."""
        with answering(_WHAT):
            pages = self._client.get_paginator("query").paginate(
                TableName=self._table,
                ConsistentRead=True,
                KeyConditionExpression="due_bucket = :marks AND id <= :now",
                ExpressionAttributeValues={
                    ":marks": {"S": marks},
                    ":now": {"S": f"{lane}{now_ms // MINUTE_MS:010d}#~"},
                },
            )
            buckets = [row["id"]["S"] for page in pages for row in page["Items"]]
        for bucket in buckets:
            yield bucket.removeprefix(lane).partition("#")[0], bucket

    def _query(
        self, bucket: str, *, before: str | None = None, containing: str | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield the rows of a bucket. before: only keys below it; containing: only topics whose name contains it."""
        request: dict[str, Any] = {
            "TableName": self._table,
            "ConsistentRead": True,
            "KeyConditionExpression": "due_bucket = :bucket",
            "ExpressionAttributeValues": {":bucket": {"S": bucket}},
        }
        if before is not None:
            request["KeyConditionExpression"] += " AND id < :before"
            request["ExpressionAttributeValues"][":before"] = {"S": before}
        if containing is not None:
            request["FilterExpression"] = "contains(topic, :containing)"
            request["ExpressionAttributeValues"][":containing"] = {"S": containing}
        while True:
            with answering(_WHAT):
                page = self._client.query(**request)
            yield from page["Items"]
            if "LastEvaluatedKey" not in page:
                return
            request["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    def _read(self, row: dict[str, Any]) -> Iterator[DelayedRecord | UnreadableRecord]:
        """Yield the copy of a row, unless another sweep has released it since. Errors: Retry, Stop."""
        key = (row["due_bucket"]["S"], row["id"]["S"])
        try:
            packed = self._whole(row)
            if packed is None:
                gone = self._get(key) is None
                if not gone:
                    yield UnreadableRecord(key=key, error="a part of it is not there")
                return
            item = _unpacked(row, packed, key)
        # guard: delay_store.unreadable_item
        except (LookupError, ValueError, TypeError, AttributeError, zlib.error) as error:
            yield UnreadableRecord(key=key, error=f"{type(error).__name__}: {error}"[:500])
            return
        yield item

    def _whole(self, row: dict[str, Any]) -> bytes | None:
        """Return the bytes of the row and its parts; None if a part is missing.

        Errors: Retry, Stop, any exception for a damaged row.
        """
        packed: bytes = row["value"]["B"]
        for number in range(1, int(row["parts"]["N"])):
            part = self._get(_part(row["copy"]["S"] if "copy" in row else row["id"]["S"], number))
            if part is None:
                return None
            packed += part["value"]["B"]
        return packed

    def _get(self, key: StoreKey) -> dict[str, Any] | None:
        with answering(_WHAT):
            row: dict[str, Any] | None = self._client.get_item(
                TableName=self._table, Key=_primary_key(key), ConsistentRead=True
            ).get("Item")
        return row

    def _delete(self, key: StoreKey) -> None:
        with answering(_WHAT):
            self._client.delete_item(TableName=self._table, Key=_primary_key(key))

    def _delete_parts(self, copy: str, parts: int) -> None:
        for number in range(1, parts):
            self._delete(_part(copy, number))


def _marks(*, critical: bool) -> str:
    return f"{_MARKS}.{lane_key(critical=critical)}"


def _primary_key(key: StoreKey) -> dict[str, Any]:
    return {"due_bucket": {"S": key[0]}, "id": {"S": key[1]}}


def _part(copy: str, number: int) -> StoreKey:
    return f"part#{copy}", f"{number:04d}"


def _packed(item: DelayedRecord) -> bytes:
    """Pack headers and value together: each of them may be as large as a Kafka record."""
    headers = json.dumps([[name, value.hex()] for name, value in item.headers])
    return zlib.compress(headers.encode() + b"\n" + item.value)


def _unpacked(row: dict[str, Any], packed: bytes, key: StoreKey) -> DelayedRecord:
    unzipped = zlib.decompress(packed)
    if "copy" in row:
        headers, _, value = unzipped.partition(b"\n")
        item_id = key[1].partition("#")[2]
    else:
        headers, value, item_id = row["headers"]["S"].encode(), unzipped, key[1]
    return DelayedRecord(
        id=item_id,
        due_ms=int(row["due_ms"]["N"]),
        topic=row["topic"]["S"],
        value=value,
        delay_reason=row["why"]["S"],
        headers=tuple((name, bytes.fromhex(each)) for name, each in json.loads(headers)),
        key=key,
    )


def _text(row: dict[str, Any], name: str) -> str:
    return str(row.get(name, {}).get("S", ""))


def _number(row: dict[str, Any], name: str) -> int:
    """Return the number; 0 if the attribute is not a number: the row is then due and unreadable."""
    text = str(row.get(name, {}).get("N", ""))
    return int(text) if text.isdigit() else 0
