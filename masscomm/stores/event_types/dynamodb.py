"""The event types in DynamoDB, in the table of schemas/dynamodb/event_types.json."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from masscomm.aws.dynamodb import answering, query_items, read_items
from masscomm.aws.request import Limits
from masscomm.aws.table import TableAdapter
from masscomm.domain.events import EventType
from masscomm.errors import Retry

_WHAT = "event types"
# All types have one partition key: a list reads some hundred items of some kilobytes.
_PART = "types"


class DynamoDbEventTypes(TableAdapter):
    """The store of event types in DynamoDB."""

    TABLE, SETTING = "event_types", "EVENT_TYPES_TABLE"
    LIMITS = Limits(connections=4, connect_s=1, read_s=2, attempts=3)

    def put(self, event_type: EventType) -> bool:
        texts = {"schema": event_type.schema, "user_path": event_type.user_path}
        item = {
            **_key(event_type.name),
            "description": {"S": event_type.description},
            "example": {"S": json.dumps(event_type.example, ensure_ascii=False)},
            **{name: {"S": value} for name, value in texts.items() if value is not None},
        }
        with answering(_WHAT):
            answer = self._client.put_item(TableName=self._table, Item=item, ReturnValues="ALL_OLD")
        return "Attributes" not in answer

    def find(self, names: Iterable[str]) -> Mapping[str, EventType]:
        items = read_items(self._client, _WHAT, self._table, [_key(name) for name in dict.fromkeys(names)])
        return {found.name: found for found in map(_event_type, items)}

    def every(self) -> Sequence[EventType]:
        items = query_items(self._client, _WHAT, self._table, {"part": {"S": _PART}})
        return [_event_type(item) for item in items]

    def delete(self, name: str) -> bool:
        with answering(_WHAT):
            answer = self._client.delete_item(TableName=self._table, Key=_key(name), ReturnValues="ALL_OLD")
        return bool(answer.get("Attributes"))


def _key(name: str) -> dict[str, Any]:
    return {"part": {"S": _PART}, "name": {"S": name}}


def _event_type(item: Mapping[str, Any]) -> EventType:
    """Return the event type in an item. Raises Retry if the item is malformed."""
    try:
        return EventType(
            name=item["name"]["S"],
            description=item["description"]["S"],
            example=json.loads(item["example"]["S"]),
            schema=item["schema"]["S"] if "schema" in item else None,
            user_path=item["user_path"]["S"] if "user_path" in item else None,
        )
    except (KeyError, ValueError, TypeError) as error:
        raise Retry(f"the item of an event type is malformed: {error!r}") from error
