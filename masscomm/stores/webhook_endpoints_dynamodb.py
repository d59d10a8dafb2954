"""The webhook endpoints in DynamoDB, in the table of schemas/dynamodb/webhook_endpoints.json."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from masscomm.aws.dynamodb import ConditionFailed, answering
from masscomm.aws.request import Limits
from masscomm.aws.table import TableAdapter
from masscomm.domain.webhooks import Endpoint, EndpointKey
from masscomm.errors import Retry

_WHAT = "webhook endpoints"
_CLUBS = "clubs"
_TEXTS = ("url", "description", "disabled_reason", "key_id", "previous_key_id", "request_digest")
_NUMBERS = ("created_at_ms", "secret_version", "previous_until_ms", "failing_since_ms", "enabled_at_ms", "revision")


class DynamoDbWebhookEndpoints(TableAdapter):
    """The store of endpoints in DynamoDB."""

    TABLE, SETTING = "webhook_endpoints", "WEBHOOK_ENDPOINTS_TABLE"
    LIMITS = Limits(connections=4, connect_s=1, read_s=2, attempts=3)

    def create(self, endpoint: Endpoint) -> Endpoint:
        # The club is stored first: an endpoint whose club is not listed would receive nothing.
        with answering(_WHAT):
            self._client.put_item(
                TableName=self._table, Item={"club": {"S": _CLUBS}, "id": {"S": str(endpoint.key.club_id)}}
            )
        try:
            with answering(_WHAT):
                self._client.put_item(
                    TableName=self._table,
                    Item=_item(endpoint),
                    ConditionExpression="attribute_not_exists(id)",  # guard: webhooks.created_once
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                )
        except ConditionFailed as failed:
            return _endpoint(failed.item)
        return endpoint

    def find(self, key: EndpointKey) -> Endpoint | None:
        with answering(_WHAT):
            answer = self._client.get_item(TableName=self._table, Key=_key(key), ConsistentRead=True)
        item = answer.get("Item")
        return None if item is None else _endpoint(item)

    def of_club(self, club_id: int) -> Sequence[Endpoint]:
        found = [_endpoint(item) for item in self._items(str(club_id))]
        return sorted(found, key=lambda each: (each.created_at_ms, each.key.id))

    def replace(self, endpoint: Endpoint) -> bool:
        try:
            with answering(_WHAT):
                self._client.put_item(
                    TableName=self._table,
                    Item=_item(endpoint),
                    ConditionExpression="revision = :previous",  # guard: webhooks.endpoint_revision
                    ExpressionAttributeValues={":previous": {"N": str(endpoint.revision - 1)}},
                )
        except ConditionFailed:
            return False
        return True

    def delete(self, key: EndpointKey) -> bool:
        with answering(_WHAT):
            answer = self._client.delete_item(TableName=self._table, Key=_key(key), ReturnValues="ALL_OLD")
        return bool(answer.get("Attributes"))

    def clubs(self) -> Iterator[int]:
        for item in self._items(_CLUBS):
            yield int(item["id"]["S"])

    def _items(self, club: str) -> Iterator[Mapping[str, Any]]:
        with answering(_WHAT):
            for page in self._client.get_paginator("query").paginate(
                TableName=self._table,
                KeyConditionExpression="club = :club",
                ExpressionAttributeValues={":club": {"S": club}},
                ConsistentRead=True,
            ):
                yield from page["Items"]


def _key(key: EndpointKey) -> dict[str, Any]:
    return {"club": {"S": str(key.club_id)}, "id": {"S": key.id}}


def _item(endpoint: Endpoint) -> dict[str, Any]:
    texts = {name: {"S": value} for name in _TEXTS if (value := getattr(endpoint, name))}
    numbers = {name: {"N": str(value)} for name in _NUMBERS if (value := getattr(endpoint, name)) is not None}
    types = {"event_types": {"SS": list(endpoint.event_types)}} if endpoint.event_types else {}
    return {**_key(endpoint.key), **texts, **numbers, **types, "enabled": {"BOOL": endpoint.enabled}}


def _endpoint(item: Mapping[str, Any]) -> Endpoint:
    """Return the endpoint in an item. Raises Retry if the item is malformed."""
    try:
        texts = {name: item[name]["S"] for name in _TEXTS if name in item}
        fields: dict[str, Any] = texts | {name: int(item[name]["N"]) for name in _NUMBERS if name in item}
        return Endpoint(
            key=EndpointKey(int(item["club"]["S"]), item["id"]["S"]),
            event_types=tuple(sorted(item["event_types"]["SS"])) if "event_types" in item else (),
            enabled=bool(item["enabled"]["BOOL"]),
            **fields,
        )
    except (KeyError, ValueError, TypeError) as error:
        raise Retry(f"the item of a webhook endpoint is malformed: {error!r}") from error
