"""Saved audiences in DynamoDB, in the table of schemas/dynamodb/categories.json: the functions that use them read it
for categories, too.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from masscomm.aws.dynamodb import ConditionFailed, answering, key_of, query_items
from masscomm.aws.request import Limits
from masscomm.aws.table import TableAdapter
from masscomm.domain.saved_audiences import SavedAudience
from masscomm.errors import Retry
from masscomm.observability.unreadable_items import read_each

_WHAT = "saved audiences"


class DynamoDbSavedAudiences(TableAdapter):
    """The store of saved audiences in DynamoDB."""

    TABLE, SETTING = "categories", "CATEGORIES_TABLE"
    LIMITS = Limits(connections=4, connect_s=1, read_s=2, attempts=3)

    def put(self, audience: SavedAudience) -> bool:
        with answering(_WHAT):
            answer = self._client.put_item(TableName=self._table, Item=_item(audience), ReturnValues="ALL_OLD")
        return not answer.get("Attributes")

    def put_if(self, audience: SavedAudience, before: SavedAudience | None) -> bool:
        try:
            with answering(_WHAT):
                self._client.put_item(TableName=self._table, Item=_item(audience), **_still(before))
        except ConditionFailed:
            return False
        return True

    def find(self, club_id: int, name: str) -> SavedAudience | None:
        with answering(_WHAT):
            answer = self._client.get_item(TableName=self._table, Key=_key(club_id, name), ConsistentRead=True)
        return _audience(club_id, answer["Item"]) if "Item" in answer else None

    def of_club(self, club_id: int) -> Sequence[SavedAudience]:
        items = query_items(self._client, _WHAT, self._table, {"part": {"S": _part(club_id)}})
        return list(
            read_each(items, lambda item: _audience(club_id, item), store=self._table, key=key_of("part", "name"))
        )

    def delete(self, club_id: int, name: str) -> bool:
        with answering(_WHAT):
            answer = self._client.delete_item(TableName=self._table, Key=_key(club_id, name), ReturnValues="ALL_OLD")
        return bool(answer.get("Attributes"))

    def delete_if(self, audience: SavedAudience) -> bool:
        key = _key(audience.club_id, audience.name)
        try:
            with answering(_WHAT):
                self._client.delete_item(TableName=self._table, Key=key, **_still(audience))
        except ConditionFailed:
            return False
        return True


def _item(audience: SavedAudience) -> dict[str, Any]:
    return {
        **_key(audience.club_id, audience.name),
        "definition": {"S": _text(audience)},
        "changed_at_ms": {"N": str(audience.changed_at_ms)},
    }


def _text(audience: SavedAudience) -> str:
    return json.dumps(audience.definition, ensure_ascii=False)


def _still(before: SavedAudience | None) -> dict[str, Any]:
    """Return the condition that the stored audience is this one; None: that there is none."""
    if before is None:
        return {"ConditionExpression": "attribute_not_exists(part)"}
    return {
        # guard: audiences.changed_meanwhile
        "ConditionExpression": "#definition = :definition AND changed_at_ms = :changed_at_ms",
        "ExpressionAttributeNames": {"#definition": "definition"},
        "ExpressionAttributeValues": {
            ":definition": {"S": _text(before)},
            ":changed_at_ms": {"N": str(before.changed_at_ms)},
        },
    }


def _part(club_id: int) -> str:
    return f"audiences#{club_id}"


def _key(club_id: int, name: str) -> dict[str, Any]:
    return {"part": {"S": _part(club_id)}, "name": {"S": name}}


def _audience(club_id: int, item: Mapping[str, Any]) -> SavedAudience:
    """Return the audience in an item. Raises Retry if the item is malformed."""
    try:
        return SavedAudience(
            club_id=club_id,
            name=item["name"]["S"],
            definition=json.loads(item["definition"]["S"]),
            changed_at_ms=int(item["changed_at_ms"]["N"]),
        )
    except (KeyError, ValueError, TypeError) as error:
        raise Retry(f"the item of a saved audience is malformed: {error!r}") from error
