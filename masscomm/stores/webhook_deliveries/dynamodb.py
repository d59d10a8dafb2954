"""The webhook events and deliveries in DynamoDB, in the table of schemas/dynamodb/webhook_deliveries.json."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any
from uuid import uuid4

from masscomm.aws.dynamodb import ConditionFailed, answering
from masscomm.aws.request import Limits
from masscomm.aws.table import TableAdapter
from masscomm.domain.known_fields import known_fields
from masscomm.domain.time_limits import WEBHOOK_DELIVERIES_KEPT_S
from masscomm.domain.webhooks import Attempt, Delivery, DeliveryStatus, EndpointKey, Event
from masscomm.errors import Retry
from masscomm.stores.webhook_deliveries.port import DeliveryPage, Due, Queue

_WHAT = "webhook deliveries"
_QUEUES, _EVENT = "queues", "event"
# The digits of a time in a sort key, which make the order of texts that of times.
_DIGITS = 13
_TEXTS = ("event_id", "event_type", "status")
_NUMBERS = ("at_ms", "due_ms", "attempts", "tries", "revision")


class DynamoDbWebhookDeliveries(TableAdapter):
    """The store of deliveries in DynamoDB."""

    TABLE, SETTING = "webhook_deliveries", "WEBHOOK_DELIVERIES_TABLE"
    LIMITS = Limits(connections=32, connect_s=1, read_s=2, attempts=3)

    def record(self, event: Event) -> Event:
        item = {
            **_place(f"event#{event.id}", _EVENT),
            "type": {"S": event.type},
            "club_id": {"N": str(event.club_id)},
            "at_ms": {"N": str(event.at_ms)},
            "body": {"S": event.body},
            **_expiry(event.at_ms),
        }
        stored = self._put_once(item)
        return event if stored is None else _event(stored)

    def event(self, event_id: str) -> Event | None:
        item = self._get(f"event#{event_id}", _EVENT)
        return None if item is None else _event(item)

    def add(self, delivery: Delivery) -> Delivery:
        existing = self._put_once(_item(delivery))
        stored = delivery if existing is None else _delivery(delivery.endpoint, existing)
        # A repeated call writes the entries of a call that crashed before it wrote them.
        self._enter(stored)
        self._touch(stored)
        return stored

    def find(self, endpoint: EndpointKey, delivery_id: str) -> Delivery | None:
        item = self._get(_deliveries(endpoint), delivery_id)
        return None if item is None else _delivery(endpoint, item)

    def page(self, endpoint: EndpointKey, *, limit: int, before: str | None = None) -> DeliveryPage:
        condition, values = "part = :part", {":part": {"S": _deliveries(endpoint)}}
        if before is not None:
            condition, values = f"{condition} AND id < :before", {**values, ":before": {"S": before}}
        with answering(_WHAT):
            answer = self._client.query(
                TableName=self._table,
                KeyConditionExpression=condition,
                ExpressionAttributeValues=values,
                ScanIndexForward=False,
                # One item more shows whether there are earlier deliveries.
                Limit=limit + 1,
                ConsistentRead=True,
            )
        found = [_delivery(endpoint, item) for item in answer["Items"]]
        # An answer ends after 1 MB. This also keeps the response of the route below Lambda's limit of 6 MB: in JSON
        # inside JSON, the bytes of an item become four at most.
        is_cut = len(found) <= limit and "LastEvaluatedKey" in answer  # guard: webhooks.large_deliveries
        return DeliveryPage(found[:limit], more=len(found) > limit or is_cut)

    def replace(self, delivery: Delivery, previous: Delivery) -> bool:
        self._enter(delivery)  # guard: webhooks.entry_before_delivery
        try:
            with answering(_WHAT):
                self._client.put_item(
                    TableName=self._table,
                    Item=_item(delivery),
                    ConditionExpression="revision = :previous",  # guard: webhooks.delivery_revision
                    ExpressionAttributeValues={":previous": {"N": str(previous.revision)}},
                )
        except ConditionFailed:
            return False
        if previous.due_ms is not None and previous.due_ms != delivery.due_ms:
            self.forget(delivery.endpoint, Due(previous.due_ms, delivery.id))
        self._touch(delivery)
        return True

    def queues(self) -> Iterator[Queue]:
        with answering(_WHAT):
            for page in self._client.get_paginator("query").paginate(
                TableName=self._table,
                KeyConditionExpression="part = :part",
                ExpressionAttributeValues={":part": {"S": _QUEUES}},
                ConsistentRead=True,
            ):
                for item in page["Items"]:
                    yield Queue(endpoint=EndpointKey.of_text(item["id"]["S"]), version=item["version"]["S"])

    def claim(self, endpoint: EndpointKey, *, now_ms: int, until_ms: int) -> bool:
        try:
            with answering(_WHAT):
                self._client.update_item(
                    TableName=self._table,
                    Key=_place(_QUEUES, endpoint.text),
                    UpdateExpression="SET claimed_until_ms = :until",
                    # guard: webhooks.claimed_queue
                    ConditionExpression="attribute_exists(id) AND "
                    "(attribute_not_exists(claimed_until_ms) OR claimed_until_ms <= :now)",
                    ExpressionAttributeValues={":until": {"N": str(until_ms)}, ":now": {"N": str(now_ms)}},
                )
        except ConditionFailed:
            return False
        return True

    def release(self, endpoint: EndpointKey, *, until_ms: int) -> None:
        try:
            with answering(_WHAT):
                self._client.update_item(
                    TableName=self._table,
                    Key=_place(_QUEUES, endpoint.text),
                    UpdateExpression="REMOVE claimed_until_ms",
                    ConditionExpression="claimed_until_ms = :until",
                    ExpressionAttributeValues={":until": {"N": str(until_ms)}},
                )
        except ConditionFailed:
            return  # The queue is dropped, or another sweep has claimed it.

    def due(self, endpoint: EndpointKey, *, limit: int) -> Sequence[Due]:
        with answering(_WHAT):
            answer = self._client.query(
                TableName=self._table,
                KeyConditionExpression="part = :part",
                ExpressionAttributeValues={":part": {"S": _pending(endpoint)}},
                Limit=limit,
                ConsistentRead=True,
            )
        found = [item["id"]["S"].partition("#") for item in answer["Items"]]
        return [Due(int(due), delivery_id) for due, _, delivery_id in found]

    def forget(self, endpoint: EndpointKey, due: Due) -> None:
        with answering(_WHAT):
            self._client.delete_item(TableName=self._table, Key=_place(_pending(endpoint), _due_key(due)))

    def drop(self, queue: Queue) -> None:
        try:
            with answering(_WHAT):
                self._client.delete_item(
                    TableName=self._table,
                    Key=_place(_QUEUES, queue.endpoint.text),
                    ConditionExpression="version = :version",  # guard: webhooks.empty_queue
                    ExpressionAttributeValues={":version": {"S": queue.version}},
                )
        except ConditionFailed:
            return

    def _enter(self, delivery: Delivery) -> None:
        """Store the entry of a pending delivery."""
        if delivery.due_ms is not None:
            place = _place(_pending(delivery.endpoint), _due_key(Due(delivery.due_ms, delivery.id)))
            with answering(_WHAT):
                self._client.put_item(TableName=self._table, Item={**place, **_expiry(delivery.due_ms)})

    def _touch(self, delivery: Delivery) -> None:
        """Store that an endpoint has pending deliveries, under a new version. It follows the entry: a sweep that found
        no entry then does not drop the queue.
        """
        if delivery.due_ms is not None:
            with answering(_WHAT):
                self._client.update_item(
                    TableName=self._table,
                    Key=_place(_QUEUES, delivery.endpoint.text),
                    UpdateExpression="SET version = :version",
                    ExpressionAttributeValues={":version": {"S": str(uuid4())}},
                )

    def _put_once(self, item: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Store an item unless its key exists. Return the stored item; None if it is this one."""
        try:
            with answering(_WHAT):
                self._client.put_item(
                    TableName=self._table,
                    Item=item,
                    ConditionExpression="attribute_not_exists(part)",  # guard: webhooks.recorded_event
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                )
        except ConditionFailed as failed:
            return failed.item
        return None

    def _get(self, part: str, id_: str) -> Mapping[str, Any] | None:
        with answering(_WHAT):
            item: Mapping[str, Any] | None = self._client.get_item(
                TableName=self._table, Key=_place(part, id_), ConsistentRead=True
            ).get("Item")
        return item


def _place(part: str, id_: str) -> dict[str, Any]:
    return {"part": {"S": part}, "id": {"S": id_}}


def _deliveries(endpoint: EndpointKey) -> str:
    return f"deliveries#{endpoint.text}"


def _pending(endpoint: EndpointKey) -> str:
    return f"pending#{endpoint.text}"


def _due_key(due: Due) -> str:
    return f"{due.due_ms:0{_DIGITS}d}#{due.delivery_id}"


def _expiry(at_ms: int) -> dict[str, Any]:
    return {"expires_at": {"N": str(at_ms // 1000 + WEBHOOK_DELIVERIES_KEPT_S)}}


def _item(delivery: Delivery) -> dict[str, Any]:
    return {
        **_place(_deliveries(delivery.endpoint), delivery.id),
        **{name: {"S": str(getattr(delivery, name))} for name in _TEXTS},
        **{name: {"N": str(value)} for name in _NUMBERS if (value := getattr(delivery, name)) is not None},
        **({"resend_digest": {"S": delivery.resend_digest}} if delivery.resend_digest else {}),
        "last": {"S": json.dumps([asdict(each) for each in delivery.last], ensure_ascii=False)},
        **_expiry(delivery.due_ms or delivery.at_ms),
    }


def _delivery(endpoint: EndpointKey, item: Mapping[str, Any]) -> Delivery:
    """Return the delivery in an item. Raises Retry if the item is malformed."""
    try:
        return Delivery(
            endpoint=endpoint,
            event_id=item["event_id"]["S"],
            event_type=item["event_type"]["S"],
            status=DeliveryStatus(item["status"]["S"]),
            resend_digest=item["resend_digest"]["S"] if "resend_digest" in item else "",
            last=tuple(Attempt(**known_fields(Attempt, each)) for each in json.loads(item["last"]["S"])),
            **{name: int(item[name]["N"]) for name in _NUMBERS if name in item},
        )
    except (KeyError, ValueError, TypeError) as error:
        raise Retry(f"the item of a webhook delivery is malformed: {error!r}") from error


def _event(item: Mapping[str, Any]) -> Event:
    """Return the event in an item. Raises Retry if the item is malformed."""
    try:
        return Event(
            id=item["part"]["S"].removeprefix("event#"),
            type=item["type"]["S"],
            club_id=int(item["club_id"]["N"]),
            at_ms=int(item["at_ms"]["N"]),
            body=item["body"]["S"],
        )
    except (KeyError, ValueError) as error:
        raise Retry(f"the item of a webhook event is malformed: {error!r}") from error
