"""The subscriptions in DynamoDB, in the table of schemas/dynamodb/subscriptions.json."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import uuid4

from masscomm.aws.dynamodb import ConditionFailed, answering, query_items, write_together
from masscomm.aws.request import Limits
from masscomm.aws.table import TableAdapter
from masscomm.domain.known_fields import known_fields
from masscomm.domain.notification_rules import RefusedEvents, RuleRefusal
from masscomm.domain.records import SubscriptionChanged
from masscomm.domain.subscriptions import MAX_SUBSCRIPTIONS, Subscription, SubscriptionKey, subscriber_of
from masscomm.domain.webhooks import EndpointKey
from masscomm.errors import Retry
from masscomm.stores.subscriptions.port import TooManySubscriptions, Unpublished

_WHAT = "subscriptions"
_UNPUBLISHED = "unpublished"


class DynamoDbSubscriptions(TableAdapter):
    """The store of subscriptions in DynamoDB."""

    TABLE, SETTING = "subscriptions", "SUBSCRIPTIONS_TABLE"
    LIMITS = Limits(connections=4, connect_s=1, read_s=2, attempts=3)

    def put(self, subscription: Subscription, at_ms: int) -> Unpublished:
        key = SubscriptionKey(subscription.endpoint, subscription.id)
        if self.find(key) is None and len(self.of_endpoint(key.endpoint)) >= MAX_SUBSCRIPTIONS:
            raise TooManySubscriptions
        mark = _mark(key, at_ms)
        item = {**_key(key), "record": {"S": json.dumps(subscription.to_record().to_avro(), ensure_ascii=False)}}
        put = {"TableName": self._table, "Item": item}
        write_together(self._client, _WHAT, [{"Put": put}, self._marking(mark)])
        return mark

    def find(self, key: SubscriptionKey) -> Subscription | None:
        with answering(_WHAT):
            answer = self._client.get_item(TableName=self._table, Key=_key(key), ConsistentRead=True)
        item = answer.get("Item")
        return None if item is None else _subscription(item)

    def of_endpoint(self, endpoint: EndpointKey) -> Sequence[Subscription]:
        return [_subscription(item) for item in self._items(_part(endpoint))]

    def delete(self, key: SubscriptionKey, at_ms: int) -> Unpublished | None:
        mark = _mark(key, at_ms)
        delete = {"TableName": self._table, "Key": _key(key), "ConditionExpression": "attribute_exists(id)"}
        try:
            write_together(self._client, _WHAT, [{"Delete": delete}, self._marking(mark)])
        except ConditionFailed:
            return None
        return mark

    def refuse(self, key: SubscriptionKey, refused: Sequence[RefusedEvents]) -> None:
        # An attribute for each reason: concurrent requests need no earlier value.
        names: dict[str, str] = {}
        values: dict[str, Any] = {}
        adds, sets = [], []
        for number, each in enumerate(refused):
            names |= {f"#count{number}": f"refused_{each.reason}", f"#last{number}": f"last_{each.reason}"}
            last = json.dumps({"at_ms": each.last_at_ms, "detail": each.detail})
            values |= {f":count{number}": {"N": str(each.events)}, f":last{number}": {"S": last}}
            adds.append(f"#count{number} :count{number}")
            sets.append(f"#last{number} = :last{number}")
        try:
            with answering(_WHAT):
                self._client.update_item(
                    TableName=self._table,
                    Key=_key(key),
                    ConditionExpression="attribute_exists(id)",  # guard: rules.refused_by_deleted
                    UpdateExpression=f"ADD {', '.join(adds)} SET {', '.join(sets)}",
                    ExpressionAttributeNames=names,
                    ExpressionAttributeValues=values,
                )
        except ConditionFailed:
            return  # The rule is deleted.

    def mark(self, keys: Iterable[SubscriptionKey], at_ms: int) -> Sequence[Unpublished]:
        marks = [_mark(key, at_ms) for key in keys]
        for mark in marks:
            with answering(_WHAT):
                self._client.put_item(**self._marking(mark)["Put"])
        return marks

    def unpublished(self) -> Iterator[Unpublished]:
        for item in self._items(_UNPUBLISHED):
            endpoint_id, _, id_ = item["id"]["S"].partition("/")
            endpoint = subscriber_of(endpoint_id)
            if endpoint is None:
                raise Retry(f"the mark {item['id']['S']} of a subscription names no endpoint")
            yield Unpublished(
                key=SubscriptionKey(endpoint, id_), at_ms=int(item["at_ms"]["N"]), version=item["version"]["S"]
            )

    def published(self, change: Unpublished) -> None:
        try:
            with answering(_WHAT):
                self._client.delete_item(
                    TableName=self._table,
                    Key=_mark_key(change.key),
                    ConditionExpression="version = :version",  # guard: subscriptions.later_change
                    ExpressionAttributeValues={":version": {"S": change.version}},
                )
        except ConditionFailed:
            return  # The subscription has changed again, or another sweep has removed the mark.

    def _marking(self, mark: Unpublished) -> dict[str, Any]:
        item = {**_mark_key(mark.key), "at_ms": {"N": str(mark.at_ms)}, "version": {"S": mark.version}}
        return {"Put": {"TableName": self._table, "Item": item}}

    def _items(self, part: str) -> Iterator[Mapping[str, Any]]:
        return query_items(self._client, _WHAT, self._table, {"part": {"S": part}})


def _mark(key: SubscriptionKey, at_ms: int) -> Unpublished:
    return Unpublished(key=key, at_ms=at_ms, version=str(uuid4()))


def _part(endpoint: EndpointKey) -> str:
    return f"endpoint#{endpoint.id}"


def _key(key: SubscriptionKey) -> dict[str, Any]:
    return {"part": {"S": _part(key.endpoint)}, "id": {"S": key.id}}


def _mark_key(key: SubscriptionKey) -> dict[str, Any]:
    return {"part": {"S": _UNPUBLISHED}, "id": {"S": f"{key.endpoint.id}/{key.id}"}}


def _subscription(item: Mapping[str, Any]) -> Subscription:
    """Return the subscription in an item. Raises Retry if the item is malformed."""
    try:
        fields = known_fields(SubscriptionChanged, json.loads(item["record"]["S"]))
        return replace(Subscription.of_record(SubscriptionChanged(**fields)), refused=_refused(item))
    except (KeyError, ValueError, TypeError) as error:
        raise Retry(f"the item of a subscription is malformed: {error!r}") from error


def _refused(item: Mapping[str, Any]) -> tuple[RefusedEvents, ...]:
    """Return the refused events in an item, the latest first. Those of later versions' reasons are ignored."""
    found = []
    for reason in RuleRefusal:
        if (count := item.get(f"refused_{reason}")) is not None:
            last = json.loads(item[f"last_{reason}"]["S"])
            found.append(RefusedEvents(reason, int(count["N"]), last["at_ms"], last["detail"]))
    return tuple(sorted(found, key=lambda each: each.last_at_ms, reverse=True))
