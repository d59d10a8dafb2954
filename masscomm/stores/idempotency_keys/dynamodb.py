"""The claims of idempotency keys in DynamoDB: each is one item in the table of
schemas/dynamodb/idempotency_keys.json.
"""

from collections.abc import Mapping
from typing import Any

from masscomm.aws.dynamodb import ConditionFailed, answering
from masscomm.aws.request import Limits
from masscomm.aws.table import TableAdapter
from masscomm.domain.time_limits import IDEMPOTENCY_CALL_S
from masscomm.errors import Retry
from masscomm.stores.idempotency_keys.port import Claim

_ATTEMPTS = 2
_ATTEMPT_S = IDEMPOTENCY_CALL_S / _ATTEMPTS
_WHAT = "idempotency keys"
_TEXTS = ("id", "request", "send_id", "owner")
_NUMBERS = ("requested_at_ms", "chunk_size", "until_ms")
# `owner` is a reserved word in DynamoDB's expressions.
_OWNER = {"#owner": "owner"}


class DynamoDbIdempotencyKeys(TableAdapter):
    """The store of claims in DynamoDB."""

    TABLE, SETTING = "idempotency_keys", "IDEMPOTENCY_KEYS_TABLE"
    LIMITS = Limits(connections=1, connect_s=_ATTEMPT_S / 2, read_s=_ATTEMPT_S / 2, attempts=_ATTEMPTS)

    def find(self, id_: str, *, now_ms: int) -> Claim | None:
        with answering(_WHAT):
            item = self._client.get_item(TableName=self._table, Key={"id": {"S": id_}}, ConsistentRead=True).get("Item")
        # The expiry is checked here, because DynamoDB may delete an expired item days later (AWS documentation,
        # "Working with expired items and time to live").
        return _claim(item) if item is not None and int(item["expires_at"]["N"]) > now_ms // 1000 else None

    def claim(self, claim: Claim, *, now_ms: int) -> Claim:
        try:
            with answering(_WHAT):
                self._client.put_item(
                    TableName=self._table,
                    Item=_item(claim),
                    # guard: idempotency.expired_claim
                    ConditionExpression="attribute_not_exists(id) OR expires_at <= :now",
                    ExpressionAttributeValues={":now": {"N": str(now_ms // 1000)}},
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                )
        except ConditionFailed as failed:
            return _claim(failed.item)
        return claim

    def take_over(self, claim: Claim, *, owner: str, until_ms: int) -> Claim:
        try:
            with answering(_WHAT):
                answer = self._client.update_item(
                    TableName=self._table,
                    Key={"id": {"S": claim.id}},
                    UpdateExpression="SET #owner = :owner, until_ms = :until",
                    ConditionExpression="#owner = :previous AND attribute_not_exists(#response)",
                    ExpressionAttributeNames={**_OWNER, "#response": "response"},
                    ExpressionAttributeValues={
                        ":owner": {"S": owner},
                        ":until": {"N": str(until_ms)},
                        ":previous": {"S": claim.owner},
                    },
                    ReturnValues="ALL_NEW",
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                )
        except ConditionFailed as failed:
            if not failed.item:
                raise Retry("the claim has expired") from failed
            return _claim(failed.item)
        return _claim(answer["Attributes"])

    def complete(self, claim: Claim, response: str) -> None:
        self._update(claim, "response", {"S": response})

    def release(self, claim: Claim) -> None:
        self._update(claim, "until_ms", {"N": "0"})

    def free(self, claim: Claim) -> None:
        # An expired claim is ignored. DynamoDB deletes no item whose time lies more than five years back (AWS
        # documentation, "Using time to live").
        self._update(claim, "expires_at", {"N": str(claim.requested_at_ms // 1000)})

    def _update(self, claim: Claim, name: str, value: Mapping[str, str]) -> None:
        """Set an attribute of a claim, if the claim still has this owner."""
        try:
            with answering(_WHAT):
                self._client.update_item(
                    TableName=self._table,
                    Key={"id": {"S": claim.id}},
                    UpdateExpression="SET #name = :value",
                    ConditionExpression="#owner = :owner",  # guard: idempotency.owner
                    ExpressionAttributeNames={**_OWNER, "#name": name},
                    ExpressionAttributeValues={":value": value, ":owner": {"S": claim.owner}},
                )
        except ConditionFailed:
            return


def _item(claim: Claim) -> dict[str, Any]:
    return {
        **{name: {"S": getattr(claim, name)} for name in _TEXTS},
        **{name: {"N": str(getattr(claim, name))} for name in _NUMBERS},
        "expires_at": {"N": str(claim.expires_at)},
    }


def _claim(item: Mapping[str, Any]) -> Claim:
    """Return the claim in an item. Raises Retry if the item is malformed."""
    try:
        values: dict[str, Any] = {name: item[name]["S"] for name in _TEXTS}
        values |= {name: int(item[name]["N"]) for name in _NUMBERS}
        return Claim(**values, response=item["response"]["S"] if "response" in item else None)
    except (KeyError, ValueError) as error:
        raise Retry(f"the item of an idempotency key is malformed: {error!r}") from error
