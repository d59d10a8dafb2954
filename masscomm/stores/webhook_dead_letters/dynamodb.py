"""The dead letters of webhooks in DynamoDB, in the table of schemas/dynamodb/webhook_dead_letters.json."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from masscomm.aws.dynamodb import answering, delete_items, read_items, write_items
from masscomm.aws.request import Limits
from masscomm.aws.table import TableAdapter
from masscomm.domain.known_fields import known_fields
from masscomm.domain.records import EventOccurred
from masscomm.domain.time_limits import WEBHOOK_DEAD_LETTERS_KEPT_S
from masscomm.domain.webhooks import EndpointKey
from masscomm.errors import Retry
from masscomm.stores.webhook_dead_letters.port import (
    MILLION,
    REMOVED_AT_ONCE,
    Bound,
    DeadLetterPage,
    WebhookDeadLetter,
)

_WHAT = "webhook dead letters"
# The suffix of the partition keys of the sample.
_SAMPLE = "#sample"
_NUMBERS = ("at_ms", "produced_at_ms", "attempts", "status")


class DynamoDbWebhookDeadLetters(TableAdapter):
    """The store of dead letters in DynamoDB."""

    TABLE, SETTING = "webhook_dead_letters", "WEBHOOK_DEAD_LETTERS_TABLE"
    LIMITS = Limits(connections=16, connect_s=1, read_s=2, attempts=3)

    def __init__(self, *, bound: Bound = MILLION, **options: Any) -> None:
        super().__init__(**options)
        self._bound = bound

    def put(self, letters: Collection[WebhookDeadLetter]) -> None:
        distinct = {(letter.endpoint, letter.id): _item(letter) for letter in letters}
        sample = [
            _key(endpoint, id_, _SAMPLE) | {"expires_at": item["expires_at"]}
            for (endpoint, id_), item in distinct.items()
            if self._bound.is_sampled(id_)
        ]
        write_items(self._client, _WHAT, self._table, (*distinct.values(), *sample))

    def remove_oldest(self, endpoint: EndpointKey, stored: Collection[str]) -> int:
        if not any(map(self._bound.is_sampled, stored)):
            return 0
        sample = self._ids(f"{endpoint.text}{_SAMPLE}", is_latest_first=True)
        first_of_others = next(islice(sample, self._bound.samples, None), None)
        if first_of_others is None:  # guard: events.kept_dead_letters
            return 0
        removed = list(islice(self._ids(endpoint.text, up_to=first_of_others), REMOVED_AT_ONCE))
        self.delete(endpoint, removed)
        return len(removed)

    def page(
        self, endpoint: EndpointKey, *, limit: int, after: str, up_to: str, event_type: str | None = None
    ) -> DeadLetterPage:
        first = f"{after} "  # No id is between.
        if first > up_to:
            return DeadLetterPage([], more=False, last=None)
        with answering(_WHAT):
            answer = self._client.query(
                TableName=self._table,
                KeyConditionExpression="endpoint = :endpoint AND id BETWEEN :first AND :last",
                ExpressionAttributeValues={
                    ":endpoint": {"S": endpoint.text},
                    ":first": {"S": first},
                    ":last": {"S": up_to},
                },
                # One item more shows whether there are later ones.
                Limit=limit + 1,
                ConsistentRead=True,
            )
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
        distinct = sorted(set(ids))
        sample = [_key(endpoint, id_, _SAMPLE) for id_ in distinct if self._bound.is_sampled(id_)]
        keys = (*(_key(endpoint, id_) for id_ in distinct), *sample)
        delete_items(self._client, _WHAT, self._table, keys)

    def _ids(self, part: str, *, up_to: str = "~", is_latest_first: bool = False) -> Iterator[str]:
        """Yield the ids of a partition key. A page of the answer has up to 1 MB of items."""
        with answering(_WHAT):
            for page in self._client.get_paginator("query").paginate(
                TableName=self._table,
                KeyConditionExpression="endpoint = :part AND id <= :last",
                ExpressionAttributeValues={":part": {"S": part}, ":last": {"S": up_to}},
                ProjectionExpression="id",
                ScanIndexForward=not is_latest_first,
            ):
                yield from (item["id"]["S"] for item in page["Items"])


def _key(endpoint: EndpointKey, id_: str, suffix: str = "") -> dict[str, Any]:
    return {"endpoint": {"S": f"{endpoint.text}{suffix}"}, "id": {"S": id_}}


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
