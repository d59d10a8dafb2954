"""The dead letters of webhooks in DynamoDB, in the table of schemas/dynamodb/webhook_dead_letters.json."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from masscomm.aws.dynamodb import answering, read_items, write_items
from masscomm.aws.request import Limits
from masscomm.aws.table import TableAdapter
from masscomm.domain.known_fields import known_fields
from masscomm.domain.records import EventOccurred
from masscomm.domain.time_limits import WEBHOOK_DEAD_LETTERS_KEPT_S
from masscomm.domain.webhooks import EndpointKey
from masscomm.errors import Retry
from masscomm.stores.webhook_dead_letters.port import DeadLetterPage, WebhookDeadLetter

_WHAT = "webhook dead letters"
_NUMBERS = ("at_ms", "produced_at_ms", "attempts", "status")


class DynamoDbWebhookDeadLetters(TableAdapter):
    """The store of dead letters in DynamoDB."""

    TABLE, SETTING = "webhook_dead_letters", "WEBHOOK_DEAD_LETTERS_TABLE"
    LIMITS = Limits(connections=16, connect_s=1, read_s=2, attempts=3)

    def put(self, letters: Collection[WebhookDeadLetter]) -> None:
        distinct = {(letter.endpoint, letter.id): letter for letter in letters}
        write_items(self._client, _WHAT, self._table, map(_item, distinct.values()))

    def page(
        self,
        endpoint: EndpointKey,
        *,
        limit: int,
        before_ms: int,
        after: str | None = None,
        event_type: str | None = None,
    ) -> DeadLetterPage:
        request: dict[str, Any] = {
            "TableName": self._table,
            "KeyConditionExpression": "endpoint = :endpoint AND id < :before",
            "ExpressionAttributeValues": {
                ":endpoint": {"S": endpoint.text},
                ":before": {"S": f"{before_ms:013d}"},
            },
            # One item more shows whether there are later ones.
            "Limit": limit + 1,
            "ConsistentRead": True,
        }
        if after is not None:
            request["ExclusiveStartKey"] = _key(endpoint, after)
        with answering(_WHAT):
            answer = self._client.query(**request)
        read = [_letter(endpoint, item) for item in answer["Items"]]
        # An answer ends after 1 MB, which also bounds the response of the route.
        is_cut = len(read) <= limit and "LastEvaluatedKey" in answer
        more, read = len(read) > limit or is_cut, read[:limit]
        letters = [letter for letter in read if event_type in (None, letter.event.type)]
        return DeadLetterPage(letters, more=more, last=read[-1].id if read else None)

    def find(self, endpoint: EndpointKey, ids: Collection[str]) -> Sequence[WebhookDeadLetter]:
        keys = [_key(endpoint, id_) for id_ in sorted(set(ids))]
        found = [_letter(endpoint, item) for item in read_items(self._client, _WHAT, self._table, keys)]
        return sorted(found, key=lambda letter: letter.id)

    def delete(self, endpoint: EndpointKey, ids: Collection[str]) -> None:
        for id_ in sorted(set(ids)):
            with answering(_WHAT):
                self._client.delete_item(TableName=self._table, Key=_key(endpoint, id_))


def _key(endpoint: EndpointKey, id_: str) -> dict[str, Any]:
    return {"endpoint": {"S": endpoint.text}, "id": {"S": id_}}


def _item(letter: WebhookDeadLetter) -> dict[str, Any]:
    return {
        **_key(letter.endpoint, letter.id),
        "message_id": {"S": letter.message_id},
        "event": {"S": json.dumps(letter.event.to_avro(), ensure_ascii=False)},
        "reason": {"S": letter.reason},
        **{name: {"N": str(value)} for name in _NUMBERS if (value := getattr(letter, name)) is not None},
        "expires_at": {"N": str(letter.at_ms // 1000 + WEBHOOK_DEAD_LETTERS_KEPT_S)},
    }


def _letter(endpoint: EndpointKey, item: Mapping[str, Any]) -> WebhookDeadLetter:
    """Return the dead letter in an item. Raises Retry if the item is malformed."""
    try:
        return WebhookDeadLetter(
            endpoint=endpoint,
            message_id=item["message_id"]["S"],
            event=EventOccurred(**known_fields(EventOccurred, json.loads(item["event"]["S"]))),
            reason=item["reason"]["S"],
            **{name: int(item[name]["N"]) for name in _NUMBERS if name in item},
        )
    except (KeyError, ValueError, TypeError) as error:
        raise Retry(f"the item of a webhook dead letter is malformed: {error!r}") from error
