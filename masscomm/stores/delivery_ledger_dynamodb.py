"""The delivery ledger on DynamoDB: the table of schemas/dynamodb/delivery_ledger.json.

Conditional writes of single items, so that two functions with one record agree without a transaction. A slice that is
too large for one item (many devices, long message ids) is stored in several. The further items are written first, under
keys derived from the whole slice, and the condition on the slice's own item determines which of them count.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from masscomm.aws.client import DynamoDb
from masscomm.aws.dynamodb import ConditionFailed, answering, digest_of, parts_of
from masscomm.aws.request import Limits
from masscomm.clock import Clock
from masscomm.errors import Retry
from masscomm.stores.delivery_ledger import (
    CLOCK_SKEW_S,
    KEPT_S,
    LEASE_KEPT_S,
    LEASE_S,
    Lease,
    LeasedElsewhere,
    RecipientResult,
    SliceConflict,
    first_results,
    from_document,
    to_document,
)

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_LEASE = {"S": "lease"}
SLICE = "slice#"
# Between the lease and the slices, so that one query reads the slices and their parts.
_PART = "part#"


class DynamoDbDeliveryLedger:
    """owner: the unique name of this function environment, which no other may have. client: for tests."""

    def __init__(
        self, *, table: str, owner: str, clock: Clock, connections: int = 10, client: "DynamoDBClient | None" = None
    ) -> None:
        self._table = table
        self._owner = owner
        self._clock = clock
        # A second attempt is quicker than a redelivery of the record, and both attempts end well within a lease.
        self._client: Any = client or DynamoDb(Limits(connections=connections, connect_s=1, read_s=2, attempts=2))

    def acquire(self, record_id: str) -> Lease | LeasedElsewhere:
        began, now_ms = self._clock.monotonic(), self._clock.now_ms()
        lapsed_ms = now_ms - round(CLOCK_SKEW_S * 1000)
        try:
            with answering("a lease"):
                response = self._client.update_item(
                    TableName=self._table,
                    Key={"record_id": {"S": record_id}, "part": _LEASE},
                    UpdateExpression="SET #owner = :owner, until_ms = :until, expires_at = :expires",
                    # guard: lease.one_holder
                    ConditionExpression="attribute_not_exists(#owner) OR #owner = :owner OR until_ms <= :lapsed",
                    ExpressionAttributeNames={"#owner": "owner"},
                    ExpressionAttributeValues={**self._lease(now_ms), ":lapsed": {"N": str(lapsed_ms)}},
                    ReturnValues="ALL_OLD",
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                )
        except ConditionFailed as failed:
            until_ms = int(failed.item["until_ms"]["N"])
            return LeasedElsewhere(free_in_s=max(0.0, (until_ms - lapsed_ms) / 1000))
        return Lease(valid_until=began + LEASE_S, fresh="Attributes" not in response)

    def renew(self, record_id: str) -> Lease | None:
        began, now_ms = self._clock.monotonic(), self._clock.now_ms()
        try:
            with answering("a lease's renewal"):
                self._client.update_item(
                    TableName=self._table,
                    Key={"record_id": {"S": record_id}, "part": _LEASE},
                    UpdateExpression="SET until_ms = :until, expires_at = :expires",
                    ConditionExpression="#owner = :owner",
                    ExpressionAttributeNames={"#owner": "owner"},
                    ExpressionAttributeValues=self._lease(now_ms),
                )
        except ConditionFailed:
            return None
        return Lease(valid_until=began + LEASE_S)

    def release(self, record_id: str) -> None:
        try:
            with answering("a lease's release"):
                self._client.update_item(
                    TableName=self._table,
                    Key={"record_id": {"S": record_id}, "part": _LEASE},
                    UpdateExpression="SET until_ms = :zero",
                    ConditionExpression="#owner = :owner",
                    ExpressionAttributeNames={"#owner": "owner"},
                    ExpressionAttributeValues={":zero": {"N": "0"}, ":owner": {"S": self._owner}},
                )
        except ConditionFailed:
            return

    def results(self, record_id: str) -> list[RecipientResult]:
        items = []
        with answering("a record's slices"):
            pages = self._client.get_paginator("query").paginate(
                TableName=self._table,
                KeyConditionExpression="record_id = :record AND part > :lease",
                ExpressionAttributeValues={":record": {"S": record_id}, ":lease": _LEASE},
                # The query must return a slice that was just recorded: otherwise its messages are published again.
                ConsistentRead=True,
            )
            for page in pages:
                items += page["Items"]
        return first_results([(int(item["recorded_ms"]["N"]), results) for item, results in slices_of(items)])

    def record(self, record_id: str, results: Sequence[RecipientResult]) -> None:
        now_ms, position = self._clock.now_ms(), results[0].position
        text = json.dumps(to_document(results), separators=(",", ":")).encode()
        parts, digest = [part.decode() for part in parts_of(text)], digest_of(text)
        common = {"record_id": {"S": record_id}, "expires_at": {"N": str(now_ms // 1000 + KEPT_S)}}
        with answering("a slice"):
            for number, part in enumerate(parts[1:], start=1):
                key = {"part": {"S": part_key(position, digest, number)}}
                self._client.put_item(TableName=self._table, Item={**common, **key, "text": {"S": part}})
        item: dict[str, Any] = {
            **common,
            "part": {"S": f"{SLICE}{position:010d}"},
            "decided": {"S": parts[0]},
            "owner": {"S": self._owner},
            "recorded_ms": {"N": str(now_ms)},
        }
        if len(parts) > 1:
            item |= {"parts": {"N": str(len(parts))}, "digest": {"S": digest}}
        try:
            with answering("a slice"):
                self._client.put_item(
                    TableName=self._table,
                    Item=item,
                    ConditionExpression="attribute_not_exists(part)",
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                )
        except ConditionFailed as failed:
            # Our own, where the answer to the first attempt was lost.
            if any(failed.item.get(name) != item.get(name) for name in ("decided", "digest")):
                raise SliceConflict(f"positions from {position} were recorded by another invocation") from failed

    def _lease(self, now_ms: int) -> dict[str, Any]:
        return {
            ":owner": {"S": self._owner},
            ":until": {"N": str(now_ms + round(LEASE_S * 1000))},
            ":expires": {"N": str(now_ms // 1000 + LEASE_KEPT_S)},
        }


def slices_of(items: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], list[RecipientResult]]]:
    """(a slice's own item, its decisions) of the items of one record. Errors: Retry where a part is not there yet."""
    by_key = {item["part"]["S"]: item for item in items}
    for key, item in by_key.items():
        if not key.startswith(SLICE):
            continue
        text = str(item["decided"]["S"])
        for number in range(1, int(item["parts"]["N"]) if "parts" in item else 1):
            part = by_key.get(part_key(int(key.removeprefix(SLICE)), item["digest"]["S"], number))
            if part is None:
                raise Retry(f"part {number} of {key} is not there: it was recorded while the record was read")
            text += part["text"]["S"]
        yield item, from_document(json.loads(text))


def part_key(position: int, digest: str, number: int) -> str:
    """Return the key of a further part of the slice that begins at a position. digest: of the slice's whole text."""
    return f"{_PART}{position:010d}#{digest}#{number:04d}"
