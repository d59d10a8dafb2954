"""The delay store in DynamoDB: the table of schemas/dynamodb/waiting.json.

A bucket has the records of one lane, one due minute and one shard (the shards prevent a hot partition at popular times
such as 08:00). Before the first record of a bucket, an item that marks the bucket is written. It is deleted once the
bucket is empty and its minute is so long ago that no function writes to it any more. Therefore the scheduler finds
every bucket, even after a long outage.
"""

import json
import os
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from masscomm.aws.client import DynamoDb
from masscomm.aws.dynamodb import ConditionFailed, answering
from masscomm.aws.request import Limits
from masscomm.domain.sends import SendKey
from masscomm.domain.time_limits import CLAIM_S, DELAY_BUCKET_CLOSED_MIN, DELAYED_KEPT_S
from masscomm.observability.unreadable_items import UnreadableItem
from masscomm.stores.delayed_records.port import (
    MINUTE_MS,
    RELEASED_AGAIN,
    TABLE,
    ControlledSend,
    DelayedRecord,
    Prepared,
    StoreKey,
    key_of,
    lane_key,
    unreadable,
)

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_WHAT = "delayed records"
_MARKS = "minutes"
_CONTROLLED = "controlled"
# The index of the copies by their send. Its reads are behind the table by milliseconds, in an outage by seconds.
_BY_SEND = "by_send"
# The size limit of one item into which a large record is split. A DynamoDB item has at most 400 kB, attribute names
# included.
_PART_BYTES = 350_000
# A larger record is apart from its item: the claim of an item costs as many write units as its storage.
_INLINE_BYTES = 3_000


class DynamoDbDelayStore:
    """The delay store in DynamoDB. Each function environment has one instance.

    Args:
        client: A client that tests provide.
    """

    def __init__(self, *, table: str = TABLE, client: "DynamoDBClient | None" = None) -> None:
        self._table = table
        self._client: Any = client or DynamoDb(Limits(connect_s=1, read_s=3, attempts=3))
        self._marked: set[StoreKey] = set()

    @classmethod
    def from_environment(cls) -> "DynamoDbDelayStore":
        """Return the store in the table WAITING_TABLE, by default `waiting`."""
        return cls(table=os.environ.get("WAITING_TABLE", TABLE))

    def put(self, item: DelayedRecord, now_ms: int) -> None:
        due_ms = max(item.due_ms, now_ms)  # An earlier minute's bucket may be closed.
        key = key_of(replace(item, due_ms=due_ms))
        packed = b"" if item.prepared is not None else _packed(item)
        with answering(_WHAT):
            self._mark(key[0], critical=item.critical, now_ms=now_ms)
        if item.prepared is not None:
            copy, parts = item.prepared
        elif len(packed) > _INLINE_BYTES:  # guard: delay_store.apart
            (copy, parts), packed = self._put_parts(packed, due_ms), b""
        else:
            copy, parts = str(uuid4()), 1
        try:
            with answering(_WHAT):
                self._client.put_item(
                    TableName=self._table,
                    Item={
                        **_primary_key(key),
                        "due_ms": {"N": str(due_ms)},
                        "topic": {"S": item.topic},
                        "value": {"B": packed},
                        "parts": {"N": str(parts)},
                        "copy": {"S": copy},
                        "why": {"S": item.delay_reason},
                        **_send(item),
                        **({} if item.record_key is None else {"record_key": {"S": item.record_key}}),
                        "expires_at": {"N": str(_expires_at_s(due_ms))},
                    },
                    ConditionExpression="attribute_not_exists(id)",
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                )
        except ConditionFailed as refused:
            # If the response to a first request was lost, the stored copy is this one, and the write has succeeded.
            if refused.item.get("copy") != {"S": copy}:
                self._delete_parts(copy, parts)

    def change(self, item: DelayedRecord, value: bytes) -> None:
        """Replace the value of a stored copy. It keeps its key, which records of a send with fallbacks carry. One that
        was removed meanwhile stays so.
        """
        packed, copy, parts = _packed(replace(item, value=value)), str(uuid4()), 1
        if len(packed) > _INLINE_BYTES:
            (copy, parts), packed = self._put_parts(packed, item.due_ms), b""
        try:
            with answering(_WHAT):
                before = self._client.update_item(
                    TableName=self._table,
                    Key=_primary_key(item.key or key_of(item)),
                    UpdateExpression="SET #value = :value, #parts = :parts, #copy = :copy",
                    ConditionExpression="attribute_exists(id)",
                    ExpressionAttributeNames={f"#{name}": name for name in ("value", "parts", "copy")},
                    ExpressionAttributeValues={
                        ":value": {"B": packed},
                        ":parts": {"N": str(parts)},
                        ":copy": {"S": copy},
                    },
                    ReturnValues="ALL_OLD",
                )["Attributes"]
            copy, parts = _text(before, "copy"), _number(before, "parts")
        except ConditionFailed:
            pass
        self._delete_parts(copy, parts)

    def prepare(self, item: DelayedRecord, now_ms: int) -> DelayedRecord:
        due_ms = max(item.due_ms, now_ms)
        prepared = self._put_parts(_packed(item), due_ms)
        return replace(item, due_ms=due_ms, value=b"", headers=(), prepared=prepared)

    def put_again(self, item: DelayedRecord, now_ms: int) -> None:
        is_content_there = item.prepared is not None and self._get(_part(item.prepared.copy, 1)) is not None
        if is_content_there and self._get(key_of(item)) is None:  # guard: delay_store.put_again
            self.put(item, now_ms)

    def due(self, now_ms: int, *, critical: bool) -> Iterator[DelayedRecord | UnreadableItem]:
        closed = f"{now_ms // MINUTE_MS - DELAY_BUCKET_CLOSED_MIN:010d}"
        lane = lane_key(critical=critical)
        for minute, bucket in self._buckets(_marks(critical=critical), f"{lane}#", now_ms):
            empty = True
            for row in self._query(bucket, before=f"{now_ms + 1:015d}"):
                empty = False
                yield from self._read(row)
            # The bucket of a closed minute cannot contain a record that is due later.
            if empty and minute < closed:
                self._delete((_marks(critical=critical), bucket))

    def scan(self) -> Iterator[DelayedRecord]:
        """Yield every readable record, due or not. The whole table is scanned."""
        with answering(_WHAT):
            for page in self._client.get_paginator("scan").paginate(TableName=self._table):
                for row in page["Items"]:
                    if "topic" in row:  # The other rows mark buckets, or are parts of a large value.
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
        # A damaged row may lack the attributes.
        row = answer.get("Attributes", {})
        if item.topic not in RELEASED_AGAIN:  # guard: delay_store.expiring_parts
            self._delete_parts(_text(row, "copy"), _number(row, "parts"))

    def of_send(self, send: SendKey, delay_reason: str | None = None) -> Iterator[DelayedRecord | UnreadableItem]:
        request: dict[str, Any] = {
            "TableName": self._table,
            "IndexName": _BY_SEND,
            "KeyConditionExpression": "send = :send",
            "ExpressionAttributeValues": {":send": {"S": send.text}},
        }
        if delay_reason is not None:
            request["FilterExpression"] = "why = :why"
            request["ExpressionAttributeValues"][":why"] = {"S": delay_reason}
        for found in self._pages(request):
            # The index may still have a copy that was released.
            if (row := self._get((found["due_bucket"]["S"], found["id"]["S"]))) is not None:
                yield from self._read(row)

    def find(self, key: StoreKey) -> DelayedRecord | None:
        row = self._get(key)
        found = () if row is None else self._read(row)
        return next((each for each in found if isinstance(each, DelayedRecord)), None)

    def put_controlled(self, controlled: ControlledSend) -> None:
        with answering(_WHAT):
            self._client.put_item(
                TableName=self._table,
                Item={
                    **_primary_key((_CONTROLLED, controlled.send.text)),
                    "changed_at_ms": {"N": str(controlled.changed_at_ms)},
                },
            )

    def controlled(self) -> Iterator[ControlledSend | UnreadableItem]:
        for row in self._query(_CONTROLLED):
            id_ = row["id"]["S"]
            try:
                yield ControlledSend(SendKey.of_text(id_), int(row["changed_at_ms"]["N"]))
            except (LookupError, ValueError) as error:  # guard: delay_store.unreadable_control
                yield unreadable((_CONTROLLED, id_), f"{type(error).__name__}: {error}")

    def done_controlled(self, controlled: ControlledSend) -> None:
        with suppress(ConditionFailed), answering(_WHAT):
            self._client.delete_item(
                TableName=self._table,
                Key=_primary_key((_CONTROLLED, controlled.send.text)),
                # guard: send_controls.changed_again
                ConditionExpression="changed_at_ms = :changed",
                ExpressionAttributeValues={":changed": {"N": str(controlled.changed_at_ms)}},
            )

    def _put_parts(self, packed: bytes, due_ms: int) -> Prepared:
        """Store the packed content of a record apart from its item."""
        # The keys of the parts are unique to this call: the same record id with another time or content must not share
        # parts.
        copy = str(uuid4())  # guard: delay_store.parts_of_a_copy
        parts = [packed[start : start + _PART_BYTES] for start in range(0, len(packed), _PART_BYTES)]
        expires = {"N": str(_expires_at_s(due_ms))}
        with answering(_WHAT):
            for number, part in enumerate(parts, start=1):
                self._client.put_item(
                    TableName=self._table,
                    Item={**_primary_key(_part(copy, number)), "value": {"B": part}, "expires_at": expires},
                )
        return Prepared(copy, 1 + len(parts))

    def _mark(self, bucket: str, *, critical: bool, now_ms: int) -> None:
        mark = (_marks(critical=critical), bucket)
        if mark in self._marked:
            return
        self._client.put_item(TableName=self._table, Item=_primary_key(mark))
        this_minute = f"{now_ms // MINUTE_MS:010d}"
        self._marked = {each for each in self._marked if each[1].split("#")[1] >= this_minute} | {mark}

    def _buckets(self, marks: str, lane: str, now_ms: int) -> Iterator[tuple[str, str]]:
        """Yield (minute, bucket) for every marked bucket up to now, oldest first. `lane` is the prefix of the
        buckets' names.
        """
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

    def _query(self, bucket: str, *, before: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield the rows of a bucket whose keys are below `before`, by default all of them."""
        request: dict[str, Any] = {
            "TableName": self._table,
            "ConsistentRead": True,
            "KeyConditionExpression": "due_bucket = :bucket",
            "ExpressionAttributeValues": {":bucket": {"S": bucket}},
        }
        if before is not None:
            request["KeyConditionExpression"] += " AND id < :before"
            request["ExpressionAttributeValues"][":before"] = {"S": before}
        yield from self._pages(request)

    def _pages(self, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the rows of all pages of a query."""
        while True:
            with answering(_WHAT):
                page = self._client.query(**request)
            yield from page["Items"]
            if "LastEvaluatedKey" not in page:
                return
            request["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    def _read(self, row: dict[str, Any]) -> Iterator[DelayedRecord | UnreadableItem]:
        """Yield the copy in a row, unless another run of the scheduler has released it meanwhile. Raises Retry or
        Stop.
        """
        key = (row["due_bucket"]["S"], row["id"]["S"])
        try:
            packed = self._whole(row)
            if packed is None:
                gone = self._get(key) is None
                if not gone:
                    yield unreadable(key, "a part of it is not there")
                return
            item = _unpacked(row, packed, key)
        # guard: delay_store.unreadable_item
        except (LookupError, ValueError, TypeError, AttributeError, zlib.error) as error:
            yield unreadable(key, f"{type(error).__name__}: {error}")
            return
        yield item

    def _whole(self, row: dict[str, Any]) -> bytes | None:
        """Return the bytes of a row joined with those of its further parts; None if a part is missing.

        Raises Retry or Stop, and any exception for a damaged row.
        """
        packed: bytes = row["value"]["B"]
        for number in range(1, int(row["parts"]["N"])):
            part = self._get(_part(row["copy"]["S"], number))
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


def _expires_at_s(due_ms: int) -> int:
    return due_ms // 1000 + DELAYED_KEPT_S


def _part(copy: str, number: int) -> StoreKey:
    return f"part#{copy}", f"{number:04d}"


def _packed(item: DelayedRecord) -> bytes:
    """Return headers and value as one byte string, because each of them may be as large as a Kafka record."""
    headers = json.dumps([[name, value.hex()] for name, value in item.headers])
    return zlib.compress(headers.encode() + b"\n" + item.value)


def _unpacked(row: dict[str, Any], packed: bytes, key: StoreKey) -> DelayedRecord:
    headers, _, value = zlib.decompress(packed).partition(b"\n")
    return DelayedRecord(
        id=key[1].partition("#")[2],
        due_ms=int(row["due_ms"]["N"]),
        topic=row["topic"]["S"],
        value=value,
        delay_reason=row["why"]["S"],
        headers=tuple((name, bytes.fromhex(each)) for name, each, *_ in json.loads(headers)),
        record_key=row["record_key"]["S"] if "record_key" in row else None,
        send=SendKey.of_text(row["send"]["S"]) if "send" in row else None,
        key=key,
    )


def _send(item: DelayedRecord) -> dict[str, Any]:
    """Return the attribute by which the index finds the copies of a send. A hostile id may be longer than a key."""
    if item.send is None or not item.send.is_valid:  # guard: send_controls.hostile_delayed_record
        return {}
    return {"send": {"S": item.send.text}}


def _text(row: dict[str, Any], name: str) -> str:
    return str(row.get(name, {}).get("S", ""))


def _number(row: dict[str, Any], name: str) -> int:
    """Return the number in an attribute; 0 if it is not a number, so that the row is due and reported as unreadable."""
    text = str(row.get(name, {}).get("N", ""))
    return int(text) if text.isdigit() else 0
