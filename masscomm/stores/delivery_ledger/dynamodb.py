"""The delivery ledger in DynamoDB: the table of schemas/dynamodb/delivery_ledger.json.

All writes are conditional, so that two invocations that process the same record agree on its results. The items of many
records are written in one transaction (masscomm/stores/transactions.py). A slice that is too large for one item (many
devices, long message ids) is split into several items. The further items are written first, under keys derived from the
whole slice. The condition on the slice's own item then determines which of the further items are valid.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from masscomm import fast_json
from masscomm.aws.client import DynamoDb
from masscomm.aws.dynamodb import ConditionFailed, answering, digest_of, parts_of, transact
from masscomm.aws.request import Limits
from masscomm.clock import Clock
from masscomm.domain.call_results import RecipientResult
from masscomm.domain.ids import is_record_id
from masscomm.domain.time_limits import CLOCK_SKEW_S, LEASE_KEPT_S, LEASE_S, LEDGER_KEPT_S
from masscomm.errors import MasscommError, Retry
from masscomm.stores.delivery_ledger.port import (
    Lease,
    LeasedElsewhere,
    SliceConflict,
    first_results,
    from_document,
    to_document,
)
from masscomm.stores.transactions import write_all

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_LEASE = {"S": "lease"}
SLICE = "slice#"
# The prefix of the sort keys of the further items of a slice. They lie between those of the lease and of the slices, so
# that one query reads slices and further items.
_PART = "part#"
_ABSENT = "attribute_not_exists(part)"  # guard: delivery_ledger.absent_item


class DynamoDbDeliveryLedger:
    """The delivery ledger in DynamoDB.

    Args:
        owner: The name of this function environment, which must be unique.
        client: A client that tests provide.
    """

    def __init__(
        self, *, table: str, owner: str, clock: Clock, connections: int = 10, client: "DynamoDBClient | None" = None
    ) -> None:
        self._table = table
        self._owner = owner
        self._clock = clock
        # A second attempt is quicker than a redelivery of the record, and both attempts end well within a lease.
        self._client: Any = client or DynamoDb(Limits(connections=connections, connect_s=1, read_s=2, attempts=2))

    def acquire(self, record_id: str) -> Lease | LeasedElsewhere:
        began = self._clock.monotonic()
        try:
            with answering("a lease"):
                item = _lease_item(record_id, self._lease_attributes(self._clock.now_ms()))
                self._client.put_item(**self._put_if_absent(item))
        except ConditionFailed as failed:
            return self._next_lease(record_id, failed.item)
        return Lease(valid_until=began + LEASE_S, fresh=True)

    def _next_lease(self, record_id: str, stored: Mapping[str, Any]) -> Lease | LeasedElsewhere:
        """Acquire the lease of a record that has had one, whose item is `stored`."""
        began, now_ms = self._clock.monotonic(), self._clock.now_ms()
        lapsed_ms = now_ms - round(CLOCK_SKEW_S * 1000)
        if stored["owner"] != {"S": self._owner} and int(stored["until_ms"]["N"]) > lapsed_ms:
            return _leased_elsewhere(stored, lapsed_ms)
        try:
            with answering("a lease"):
                self._client.update_item(
                    TableName=self._table,
                    Key={"record_id": {"S": record_id}, "part": _LEASE},
                    UpdateExpression="SET #owner = :owner, until_ms = :until, expires_at = :expires",
                    # guard: lease.one_holder
                    ConditionExpression="attribute_not_exists(#owner) OR #owner = :owner OR until_ms <= :lapsed",
                    ExpressionAttributeNames={"#owner": "owner"},
                    ExpressionAttributeValues={**self._lease(now_ms), ":lapsed": {"N": str(lapsed_ms)}},
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                )
        except ConditionFailed as failed:
            return _leased_elsewhere(failed.item, lapsed_ms)
        return Lease(valid_until=began + LEASE_S)

    def acquire_all(self, record_ids: Sequence[str]) -> dict[str, Lease | LeasedElsewhere | MasscommError]:
        # DynamoDB refuses the whole request if one key is invalid.
        rest = _item_bytes(_lease_item("", self._lease_attributes(0)))
        sizes = {each: rest + len(each.encode()) if is_record_id(each) else None for each in record_ids}
        return write_all(
            sizes,
            transact=self._acquire_together,
            alone=self.acquire,
        )

    def _acquire_together(self, record_ids: Sequence[str]) -> dict[str, Callable[[], Lease | LeasedElsewhere]]:
        """Acquire leases of records that have never had one. Other leases need single requests, because a successful
        transaction does not return the previous items.
        """
        began, now_ms = self._clock.monotonic(), self._clock.now_ms()
        attributes = self._lease_attributes(now_ms)
        items = [_lease_item(record_id, attributes) for record_id in record_ids]
        stored = transact(self._client, "leases", [self._put_if_absent(item) for item in items])
        if not stored:
            lease = Lease(valid_until=began + LEASE_S, fresh=True)
            return dict.fromkeys(record_ids, lambda: lease)
        # Without the stored item, the transaction was cancelled by a conflict, and the record may have no lease.
        return {
            record_id: partial(self._next_lease, record_id, item) if item else partial(self.acquire, record_id)
            for index, item in stored.items()
            for record_id in [record_ids[index]]
        }

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
                # The read is consistent, because the query must return a slice that has just been recorded; otherwise
                # its messages are published again.
                ConsistentRead=True,
            )
            for page in pages:
                items += page["Items"]
        return first_results([(int(item["recorded_ms"]["N"]), results) for item, results in slices_of(items)])

    def record(self, record_id: str, results: Sequence[RecipientResult]) -> None:
        item, parts = self._slice_items(record_id, results)
        try:
            with answering("a slice"):
                for part in parts:
                    self._client.put_item(TableName=self._table, Item=part)
                self._client.put_item(**self._put_if_absent(item))
        except ConditionFailed as failed:
            _check_recorded(item, failed.item)

    def record_all(
        self, slices: Mapping[str, Sequence[RecipientResult]]
    ) -> dict[str, SliceConflict | MasscommError | None]:
        items, sizes = {}, {}
        for record_id, results in slices.items():
            items[record_id], parts = self._slice_items(record_id, results)
            together = is_record_id(record_id) and not parts
            sizes[record_id] = _item_bytes(items[record_id]) if together else None
        return write_all(
            sizes,
            transact=partial(self._record_together, items, slices),
            alone=lambda record_id: self.record(record_id, slices[record_id]),
        )

    def _record_together(
        self, items: Mapping[str, Any], slices: Mapping[str, Sequence[RecipientResult]], record_ids: Sequence[str]
    ) -> dict[str, Callable[[], None]]:
        puts = [self._put_if_absent(items[record_id]) for record_id in record_ids]
        stored = transact(self._client, "slices", puts)
        if not stored:
            return dict.fromkeys(record_ids, lambda: None)
        return {
            record_ids[index]: partial(_check_recorded, items[record_ids[index]], item)
            if item
            else partial(self.record, record_ids[index], slices[record_ids[index]])
            for index, item in stored.items()
        }

    def _slice_items(
        self, record_id: str, results: Sequence[RecipientResult]
    ) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Return the own item of a slice, and its further items, which are written first."""
        now_ms, position = self._clock.now_ms(), results[0].position
        text = fast_json.ascii_text(to_document(results)).encode()
        first, *further = [part.decode() for part in parts_of(text)]
        common = {"record_id": {"S": record_id}, "expires_at": {"N": str(now_ms // 1000 + LEDGER_KEPT_S)}}
        item: dict[str, Any] = {
            **common,
            "part": {"S": f"{SLICE}{position:010d}"},
            "decided": {"S": first},
            "owner": {"S": self._owner},
            "recorded_ms": {"N": str(now_ms)},
        }
        if not further:
            return item, []
        digest = digest_of(text)
        item |= {"parts": {"N": str(len(further) + 1)}, "digest": {"S": digest}}
        return item, [
            {**common, "part": {"S": part_key(position, digest, number)}, "text": {"S": part}}
            for number, part in enumerate(further, start=1)
        ]

    def _put_if_absent(self, item: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "TableName": self._table,
            "Item": item,
            "ConditionExpression": _ABSENT,
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }

    def _lease_attributes(self, now_ms: int) -> dict[str, Any]:
        """Return the item of a lease without its record's id."""
        lease = self._lease(now_ms)
        return {
            "part": _LEASE,
            "owner": lease[":owner"],
            "until_ms": lease[":until"],
            "expires_at": lease[":expires"],
        }

    def _lease(self, now_ms: int) -> dict[str, Any]:
        return {
            ":owner": {"S": self._owner},
            ":until": {"N": str(now_ms + round(LEASE_S * 1000))},
            ":expires": {"N": str(now_ms // 1000 + LEASE_KEPT_S)},
        }


def _lease_item(record_id: str, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the item of a record's first lease."""
    return {"record_id": {"S": record_id}, **attributes}


def _leased_elsewhere(item: Mapping[str, Any], lapsed_ms: int) -> LeasedElsewhere:
    return LeasedElsewhere(free_in_s=max(0.0, (int(item["until_ms"]["N"]) - lapsed_ms) / 1000))


def _check_recorded(item: Mapping[str, Any], stored: Mapping[str, Any]) -> None:
    """Check a stored slice after a failed condition. If it equals ours, the response to an earlier attempt was lost,
    and the write has succeeded.

    Raises:
        SliceConflict: The stored slice differs from ours.
    """
    if any(stored.get(name) != item.get(name) for name in ("decided", "digest")):
        raise SliceConflict(f"{item['part']['S']} was recorded by another invocation")


def _item_bytes(item: Mapping[str, Mapping[str, str]]) -> int:
    """Return a size in bytes that is at least the size that DynamoDB computes for an item whose values are texts and
    numbers.
    """
    return sum(len(name) + len(text.encode()) for name, value in item.items() for text in value.values())


def slices_of(items: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], list[RecipientResult]]]:
    """Return, from all items of one record, (the slice's own item, its decisions) for each slice. Raises Retry if a
    further item is missing.
    """
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
    """Return the key of a further item of the slice that begins at a position. `digest` is the digest of the slice's
    whole text.
    """
    return f"{_PART}{position:010d}#{digest}#{number:04d}"
