"""The sources of incoming webhooks in DynamoDB, in the table of schemas/dynamodb/webhook_sources.json."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from masscomm.aws.dynamodb import answering, key_of, query_items, read_items, write_items
from masscomm.aws.request import Limits
from masscomm.aws.table import TableAdapter
from masscomm.domain.time_limits import REFUSALS_KEPT_S
from masscomm.domain.webhook_sources import (
    MAX_ACCEPTED,
    MAX_REFUSALS,
    AcceptedWebhook,
    Encoding,
    Refusal,
    RefusedWebhook,
    Scheme,
    Signature,
    SourceKey,
    WebhookSource,
)
from masscomm.errors import Retry
from masscomm.observability.unreadable_items import read_each
from masscomm.stores.webhook_sources.port import Refusals

_WHAT = "sources of webhooks"
_COUNT = "count"


class DynamoDbWebhookSources(TableAdapter):
    """The store of sources in DynamoDB."""

    TABLE, SETTING = "webhook_sources", "WEBHOOK_SOURCES_TABLE"
    LIMITS = Limits(connections=4, connect_s=1, read_s=2, attempts=3)

    def put(self, source: WebhookSource) -> None:
        with answering(_WHAT):
            self._client.put_item(TableName=self._table, Item=_item(source))

    def find(self, keys: Iterable[SourceKey]) -> Mapping[SourceKey, WebhookSource]:
        items = read_items(self._client, _WHAT, self._table, [_key(key) for key in dict.fromkeys(keys)])
        return {found.key: found for found in map(_source, items)}

    def of_club(self, club_id: int) -> Sequence[WebhookSource]:
        return list(read_each(self._items(f"club#{club_id}"), _source, store=self._table, key=key_of("part", "id")))

    def delete(self, key: SourceKey) -> bool:
        with answering(_WHAT):
            answer = self._client.delete_item(TableName=self._table, Key=_key(key), ReturnValues="ALL_OLD")
        return bool(answer.get("Attributes"))

    def accept(self, key: SourceKey, accepted: Sequence[AcceptedWebhook]) -> None:
        last = sorted([*self._accepted(key), *accepted], reverse=True)[:MAX_ACCEPTED]
        item = _accepted_key(key) | {
            "last": {"S": json.dumps([each._asdict() for each in last])},
            "expires_at": {"N": str(_expiry(last[0].at_ms))},
        }
        with answering(_WHAT):
            self._client.put_item(TableName=self._table, Item=item)

    def last_accepted(self, key: SourceKey, at_s: int) -> Sequence[AcceptedWebhook]:
        found = self._accepted(key)
        return found if found and _expiry(found[0].at_ms) > at_s else []  # guard: sources.expired_accepted

    def refuse(self, key: SourceKey, refused: Sequence[RefusedWebhook]) -> None:
        expires_at = _expiry(max(each.at_ms for each in refused))
        with answering(_WHAT):
            answer = self._client.update_item(
                TableName=self._table,
                Key={"part": {"S": _refused(key)}, "id": {"S": _COUNT}},
                UpdateExpression="ADD refused :number SET expires_at = :expires_at",
                ExpressionAttributeValues={
                    ":number": {"N": str(len(refused))},
                    ":expires_at": {"N": str(expires_at)},
                },
                ReturnValues="ALL_NEW",
            )
        first = int(answer["Attributes"]["refused"]["N"]) - len(refused)
        # A refusal replaces the one that is MAX_REFUSALS older: a flood of them fills no table.
        listed = list(enumerate(refused, first))[-MAX_REFUSALS:]
        items = [_refusal_item(key, number % MAX_REFUSALS, each) for number, each in listed]
        write_items(self._client, _WHAT, self._table, items)

    def refusals(self, key: SourceKey, at_s: int) -> Refusals:
        total, last = 0, []
        for item in self._items(_refused(key)):
            if int(item["expires_at"]["N"]) <= at_s:  # guard: sources.expired_refusal
                continue
            if item["id"]["S"] == _COUNT:
                total = int(item["refused"]["N"])
            else:
                last.append(_refusal(item))
        return Refusals(total, sorted(last, key=lambda each: each.at_ms, reverse=True))

    def _accepted(self, key: SourceKey) -> Sequence[AcceptedWebhook]:
        """Return the listed webhooks, the latest first."""
        items = read_items(self._client, _WHAT, self._table, [_accepted_key(key)])
        found = [each for item in items for each in json.loads(item["last"]["S"])]
        return [AcceptedWebhook(*map(each.get, AcceptedWebhook._fields)) for each in found]

    def _items(self, part: str) -> Iterator[Mapping[str, Any]]:
        return query_items(self._client, _WHAT, self._table, {"part": {"S": part}})


def _key(key: SourceKey) -> dict[str, Any]:
    return {"part": {"S": f"club#{key.club_id}"}, "id": {"S": key.id}}


def _accepted_key(key: SourceKey) -> dict[str, Any]:
    return {"part": {"S": f"accepted#{key.id}"}, "id": {"S": "last"}}


def _expiry(at_ms: int) -> int:
    """Return when a listed webhook expires, in seconds since the epoch."""
    return at_ms // 1000 + round(REFUSALS_KEPT_S)


def _refused(key: SourceKey) -> str:
    return f"refused#{key.id}"


def _item(source: WebhookSource) -> dict[str, Any]:
    previous = {"previous_sealed": source.previous_sealed, "previous_until_ms": source.previous_until_ms}
    return {
        **_key(source.key),
        "description": {"S": source.description},
        "scheme": {"S": source.signature.scheme},
        "header": {"S": source.signature.header},
        "encoding": {"S": source.signature.encoding},
        "prefix": {"S": source.signature.prefix},
        "id_header": {"S": source.signature.id_header},
        "club_ids": {"S": json.dumps(source.club_ids)},
        "mapping": {"S": json.dumps(source.mapping, ensure_ascii=False)},
        "sealed": {"B": source.sealed},
        "created_at_ms": {"N": str(source.created_at_ms)},
        **{
            name: {"B": value} if isinstance(value, bytes) else {"N": str(value)}
            for name, value in previous.items()
            if value is not None
        },
    }


def _source(item: Mapping[str, Any]) -> WebhookSource:
    """Return the source in an item. Raises Retry if the item is malformed."""
    try:
        club_ids = json.loads(item["club_ids"]["S"])
        return WebhookSource(
            key=SourceKey(int(item["part"]["S"].removeprefix("club#")), item["id"]["S"]),
            description=item["description"]["S"],
            signature=Signature(
                scheme=Scheme(item["scheme"]["S"]),
                header=item["header"]["S"],
                encoding=Encoding(item["encoding"]["S"]),
                prefix=item["prefix"]["S"],
                id_header=item["id_header"]["S"],
            ),
            club_ids=None if club_ids is None else tuple(club_ids),
            mapping=json.loads(item["mapping"]["S"]),
            sealed=bytes(item["sealed"]["B"]),
            previous_sealed=bytes(item["previous_sealed"]["B"]) if "previous_sealed" in item else None,
            previous_until_ms=int(item["previous_until_ms"]["N"]) if "previous_until_ms" in item else None,
            created_at_ms=int(item["created_at_ms"]["N"]),
        )
    except (KeyError, ValueError, TypeError) as error:
        raise Retry(f"the item of a source of webhooks is malformed: {error!r}") from error


def _refusal_item(key: SourceKey, place: int, refused: RefusedWebhook) -> dict[str, Any]:
    return {
        "part": {"S": _refused(key)},
        "id": {"S": f"{place:02}"},
        "at_ms": {"N": str(refused.at_ms)},
        "message_id": {"S": refused.message_id},
        "reason": {"S": refused.reason},
        "detail": {"S": refused.detail},
        "expires_at": {"N": str(_expiry(refused.at_ms))},
    }


def _refusal(item: Mapping[str, Any]) -> RefusedWebhook:
    return RefusedWebhook(
        at_ms=int(item["at_ms"]["N"]),
        message_id=item["message_id"]["S"],
        reason=Refusal(item["reason"]["S"]),
        detail=item["detail"]["S"],
    )
