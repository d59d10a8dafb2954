"""The access tokens in DynamoDB, in the table of schemas/dynamodb/webhook_endpoints.json."""

from collections.abc import Mapping
from typing import Any

from masscomm.aws.dynamodb import ConditionFailed, answering
from masscomm.aws.request import Limits
from masscomm.aws.table import TableAdapter
from masscomm.domain.webhooks import EndpointKey
from masscomm.errors import Retry
from masscomm.stores.webhook_tokens.port import StoredToken

_WHAT = "access tokens"


class DynamoDbWebhookTokens(TableAdapter):
    """The store of access tokens in DynamoDB."""

    TABLE, SETTING = "webhook_endpoints", "WEBHOOK_ENDPOINTS_TABLE"
    LIMITS = Limits(connections=4, connect_s=1, read_s=2, attempts=3)

    def find(self, endpoint: EndpointKey) -> StoredToken | None:
        with answering(_WHAT):
            answer = self._client.get_item(TableName=self._table, Key=_key(endpoint), ConsistentRead=True)
        item = answer.get("Item")
        return None if item is None else _token(item)

    def replace(self, endpoint: EndpointKey, token: StoredToken, previous: StoredToken | None) -> bool:
        ends_ms = max(token.expires_at_ms, token.requested_until_ms)
        item = {
            **_key(endpoint),
            "expires_at_ms": {"N": str(token.expires_at_ms)},
            "requested_until_ms": {"N": str(token.requested_until_ms)},
            "version": {"S": token.version},
            "expires_at": {"N": str(ends_ms // 1000)},
            **({"sealed": {"B": token.sealed}} if token.sealed else {}),
        }
        # The client repeats a request whose response was lost.
        condition, values = "version = :version", {":version": {"S": token.version}}
        if previous is None:
            condition = f"attribute_not_exists(version) OR {condition}"
        else:
            condition = f"version = :previous OR {condition}"  # guard: webhook_tokens.one_request
            values[":previous"] = {"S": previous.version}
        try:
            with answering(_WHAT):
                self._client.put_item(
                    TableName=self._table,
                    Item=item,
                    ConditionExpression=condition,
                    ExpressionAttributeValues=values,
                )
        except ConditionFailed:
            return False
        return True


def _key(endpoint: EndpointKey) -> dict[str, Any]:
    return {"club": {"S": f"tokens#{endpoint.club_id}"}, "id": {"S": endpoint.id}}


def _token(item: Mapping[str, Any]) -> StoredToken:
    """Return the token in an item. Raises Retry if the item is malformed."""
    try:
        return StoredToken(
            sealed=bytes(item["sealed"]["B"]) if "sealed" in item else b"",
            expires_at_ms=int(item["expires_at_ms"]["N"]),
            requested_until_ms=int(item["requested_until_ms"]["N"]),
            version=item["version"]["S"],
        )
    except (KeyError, ValueError, TypeError) as error:
        raise Retry(f"the item of an access token is malformed: {error!r}") from error
