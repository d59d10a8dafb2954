"""The webhook endpoints in DynamoDB, in the table of schemas/dynamodb/webhook_endpoints.json."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from uuid import uuid4

from masscomm.aws.dynamodb import ConditionFailed, answering, key_of, query_items, read_items, transact
from masscomm.aws.request import Limits
from masscomm.aws.table import TableAdapter
from masscomm.domain.webhook_authentication import Authentication, AuthenticationType
from masscomm.domain.webhooks import MAX_ENDPOINTS, BodyFormat, Endpoint, EndpointKey
from masscomm.errors import Retry
from masscomm.observability.unreadable_items import read_each
from masscomm.stores.webhook_endpoints.port import CreatedBefore, CreationRequest, TooManyEndpoints

_WHAT = "webhook endpoints"
_CLUBS = "clubs"
_CREATE_ATTEMPTS = 10
_TEXTS = (
    *("url", "description", "disabled_reason", "key_id", "previous_key_id", "role_arn"),
    *("rotation_digest", "previous_rotation_digest", "rotation_request", "previous_rotation_request"),
)
_NUMBERS = (
    *("created_at_ms", "secret_version", "previous_until_ms", "failing_since_ms", "enabled_at_ms", "revision"),
    *("probe_at_ms", "failed_probes", "max_count", "max_bytes", "max_wait_s", "max_concurrency", "rate_per_s"),
    *("previous_authentication_until_ms", "ordered_since_ms"),
    "contact_user_id",
)
_AUTHENTICATIONS = ("authentication", "previous_authentication")


class DynamoDbWebhookEndpoints(TableAdapter):
    """The store of endpoints in DynamoDB."""

    TABLE, SETTING = "webhook_endpoints", "WEBHOOK_ENDPOINTS_TABLE"
    LIMITS = Limits(connections=4, connect_s=1, read_s=2, attempts=3)

    def create(self, endpoint: Endpoint, request: CreationRequest | None = None) -> CreatedBefore | None:
        club_id = endpoint.key.club_id
        if request is not None and (before := self._created_before(club_id, request)) is not None:
            return before
        for _ in range(_CREATE_ATTEMPTS):
            # The version is read before the endpoints: a creation that is not counted changes it.
            version = self._club_version(club_id)
            if len(self.of_club(club_id)) >= MAX_ENDPOINTS:
                raise TooManyEndpoints
            puts = [self._put_club(club_id, version), self._put_new(endpoint)]
            puts += [] if request is None else [self._put_request(endpoint.key, request)]
            cancelled = transact(self._client, _WHAT, puts)
            if not cancelled:
                return None
            if item := cancelled.get(2):
                return _created(club_id, item)
        raise Retry("other requests create endpoints of the club")

    def _created_before(self, club_id: int, request: CreationRequest) -> CreatedBefore | None:
        """Return what a request under the same id has created; None if there was none, or only an expired one."""
        with answering(_WHAT):
            answer = self._client.get_item(
                TableName=self._table, Key=_request_key(club_id, request), ConsistentRead=True
            )
        item = answer.get("Item")
        return None if item is None or int(item["expires_at"]["N"]) <= request.at_s else _created(club_id, item)

    def _club_version(self, club_id: int) -> str | None:
        """Return the version of a club's item, which changes with each new endpoint; None if it has none."""
        with answering(_WHAT):
            answer = self._client.get_item(TableName=self._table, Key=_club_key(club_id), ConsistentRead=True)
        version = answer.get("Item", {}).get("version")
        return None if version is None else str(version["S"])

    def _put_club(self, club_id: int, version: str | None) -> dict[str, Any]:
        """Return the parameters of the action that stores a club, whose endpoints are those of a version."""
        put = {"TableName": self._table, "Item": {**_club_key(club_id), "version": {"S": str(uuid4())}}}
        if version is None:
            return {**put, "ConditionExpression": "attribute_not_exists(version)"}
        return {
            **put,
            # guard: webhooks.counted_endpoints
            "ConditionExpression": "version = :counted",
            "ExpressionAttributeValues": {":counted": {"S": version}},
        }

    def _put_new(self, endpoint: Endpoint) -> dict[str, Any]:
        """Return the parameters of the action that stores a new endpoint."""
        condition = "attribute_not_exists(id)"
        return {"TableName": self._table, "Item": _item(endpoint), "ConditionExpression": condition}

    def _put_request(self, key: EndpointKey, request: CreationRequest) -> dict[str, Any]:
        """Return the parameters of the action that stores a request."""
        return {
            "TableName": self._table,
            "Item": {
                **_request_key(key.club_id, request),
                "request_digest": {"S": request.digest},
                "endpoint": {"S": key.id},
                "expires_at": {"N": str(request.expires_at)},
            },
            # guard: webhooks.created_once
            "ConditionExpression": "attribute_not_exists(id) OR expires_at <= :now",
            "ExpressionAttributeValues": {":now": {"N": str(request.at_s)}},
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }

    def find(self, key: EndpointKey) -> Endpoint | None:
        with answering(_WHAT):
            answer = self._client.get_item(TableName=self._table, Key=_key(key), ConsistentRead=True)
        item = answer.get("Item")
        return None if item is None else _endpoint(item)

    def find_all(self, keys: Iterable[EndpointKey]) -> Mapping[EndpointKey, Endpoint]:
        items = read_items(self._client, _WHAT, self._table, [_key(key) for key in dict.fromkeys(keys)])
        return {endpoint.key: endpoint for endpoint in map(_endpoint, items)}

    def of_club(self, club_id: int) -> Sequence[Endpoint]:
        found = read_each(self._items(str(club_id)), _endpoint, store=self._table, key=key_of("club", "id"))
        return sorted(found, key=lambda each: (each.created_at_ms, each.key.id))

    def replace(self, endpoint: Endpoint) -> bool:
        try:
            with answering(_WHAT):
                self._client.put_item(
                    TableName=self._table,
                    Item=_item(endpoint),
                    ConditionExpression="revision = :previous",  # guard: webhooks.endpoint_revision
                    ExpressionAttributeValues={":previous": {"N": str(endpoint.revision - 1)}},
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                )
        except ConditionFailed as failed:
            # The client repeats a request whose response was lost. Another change in its place would, for example,
            # rotate a secret twice, and so end the secret that the receiver has.
            return bool(failed.item) and _endpoint(failed.item) == endpoint  # guard: webhooks.lost_response
        return True

    def delete(self, key: EndpointKey) -> bool:
        with answering(_WHAT):
            answer = self._client.delete_item(TableName=self._table, Key=_key(key), ReturnValues="ALL_OLD")
        return bool(answer.get("Attributes"))

    def clubs(self) -> Iterator[int]:
        for item in self._items(_CLUBS):
            yield int(item["id"]["S"])

    def _items(self, club: str) -> Iterator[Mapping[str, Any]]:
        return query_items(self._client, _WHAT, self._table, {"club": {"S": club}})


def _key(key: EndpointKey) -> dict[str, Any]:
    return {"club": {"S": str(key.club_id)}, "id": {"S": key.id}}


def _club_key(club_id: int) -> dict[str, Any]:
    return {"club": {"S": _CLUBS}, "id": {"S": str(club_id)}}


def _request_key(club_id: int, request: CreationRequest) -> dict[str, Any]:
    return {"club": {"S": f"requests#{club_id}"}, "id": {"S": request.id}}


def _created(club_id: int, item: Mapping[str, Any]) -> CreatedBefore:
    """Return what the request in an item has created. Raises Retry if the item is malformed."""
    try:
        return CreatedBefore(item["request_digest"]["S"], EndpointKey(club_id, item["endpoint"]["S"]))
    except (KeyError, TypeError) as error:
        raise Retry(f"the item of a request for a webhook endpoint is malformed: {error!r}") from error


def _item(endpoint: Endpoint) -> dict[str, Any]:
    texts = {name: {"S": value} for name in _TEXTS if (value := getattr(endpoint, name))}
    numbers = {name: {"N": str(value)} for name in _NUMBERS if (value := getattr(endpoint, name)) is not None}
    types = {"event_types": {"SS": list(endpoint.event_types)}} if endpoint.event_types else {}
    flags = {"enabled": {"BOOL": endpoint.enabled}, "is_slow": {"BOOL": endpoint.is_slow}}
    other = {} if endpoint.format is BodyFormat.MASSCOMM else {"format": {"S": endpoint.format}}
    given = {name: value for name in _AUTHENTICATIONS if (value := getattr(endpoint, name)) is not None}
    authentications = {name: _authentication_item(value) for name, value in given.items()}
    return {**_key(endpoint.key), **texts, **numbers, **types, **other, **flags, **authentications}


def _authentication_item(authentication: Authentication) -> dict[str, Any]:
    return {
        "M": {
            "type": {"S": authentication.type},
            "shown": {"S": json.dumps(authentication.shown)},
            "sealed": {"B": authentication.sealed},
            "since_ms": {"N": str(authentication.since_ms)},
        }
    }


def _authentication(item: Mapping[str, Any]) -> Authentication:
    values = item["M"]
    return Authentication(
        type=AuthenticationType(values["type"]["S"]),
        shown=json.loads(values["shown"]["S"]),
        sealed=bytes(values["sealed"]["B"]),
        since_ms=int(values["since_ms"]["N"]),
    )


def _endpoint(item: Mapping[str, Any]) -> Endpoint:
    """Return the endpoint in an item. Raises Retry if the item is malformed."""
    try:
        texts = {name: item[name]["S"] for name in _TEXTS if name in item}
        fields: dict[str, Any] = texts | {name: int(item[name]["N"]) for name in _NUMBERS if name in item}
        fields |= {name: _authentication(item[name]) for name in _AUTHENTICATIONS if name in item}
        return Endpoint(
            key=EndpointKey(int(item["club"]["S"]), item["id"]["S"]),
            event_types=tuple(sorted(item["event_types"]["SS"])) if "event_types" in item else (),
            # An item of before formats has none.
            format=BodyFormat(item["format"]["S"]) if "format" in item else BodyFormat.MASSCOMM,
            enabled=bool(item["enabled"]["BOOL"]),
            is_slow="is_slow" in item and bool(item["is_slow"]["BOOL"]),
            **fields,
        )
    except (KeyError, ValueError, TypeError) as error:
        raise Retry(f"the item of a webhook endpoint is malformed: {error!r}") from error
