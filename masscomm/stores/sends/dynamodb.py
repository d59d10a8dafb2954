"""The register of sends in DynamoDB, in the table of schemas/dynamodb/sends.json."""

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, fields
from datetime import UTC, date, datetime, timedelta
from functools import partial
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from masscomm.aws.dynamodb import ConditionFailed, answering, read_items, transact, write_together
from masscomm.aws.request import Limits
from masscomm.aws.table import TableAdapter
from masscomm.clock import Clock, SystemClock
from masscomm.domain.fallbacks import NO_STATE, Decided, FallbackState, Verdict
from masscomm.domain.kept_messages import KeptMessage
from masscomm.domain.pace import PaceBook
from masscomm.domain.sends import Expansion, Part, Parts, Send, SendControl, SendKey, Source
from masscomm.domain.statuses import Status
from masscomm.domain.time_limits import (
    ANNOUNCEMENTS_KEPT_S,
    EXPANSIONS_OUTLIVE_S,
    FALLBACKS_KEPT_S,
    PACE_BOOKS_LONGER_S,
)
from masscomm.errors import MasscommError, Retry
from masscomm.observability.unreadable_items import DAMAGE, UnreadableItem, described, read_each, report_unreadable
from masscomm.stores.sends.port import Announcement, ExpandedChunk, Position, Progress
from masscomm.stores.transactions import write_all

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_WHAT = "the register of sends"
INDEX = "listed"
_SEND, _PART, _CHUNK, _PROGRESS, MESSAGE, _PACE = "send", "part#", "chunk#", "progress", "message", "pace"
_FALLBACK = "fallback#"
# The keys of items that belong to no send: no send's id contains the sign #.
_CHANGED, _POSITION = "#changed", {"send_id": {"S": "#position"}, "part": {"S": "counts"}}
# The largest item of a send, its names included, and what its message has in addition to the packed texts.
_BYTES = 4_000
# The attributes of the item of a send, by their type in DynamoDB.
_TEXTS = ("principal", "content", "recipients", "type", "reference", "send_at_local", "not_kept", "fallbacks")
_NUMBERS = ("requested_at_ms", "chunks", "users", "send_at_ms", "expires_at_ms", "per_minute", "spread_over_ms")
_OF_CONTROL = ("cancelled_at_ms", "published_before", "paused_at_ms", "resumed_at_ms")
_OF_PACE = [each.name for each in fields(PaceBook)]
_PARTS = [each.name for each in fields(Parts)]
_ABSENT = "attribute_not_exists(send_id) OR expires_at <= :now"  # guard: sends.expired_item


class DynamoDbSends(TableAdapter):
    """The register in DynamoDB."""

    TABLE, SETTING = "sends", "SENDS_TABLE"
    LIMITS = Limits(connections=2, connect_s=1, read_s=2, attempts=2)

    def __init__(
        self, *, table: str | None = None, client: "DynamoDBClient | None" = None, clock: Clock | None = None
    ) -> None:
        super().__init__(table=table, client=client)
        self._clock = clock or SystemClock()

    # --- sends and their controls -------------------------------------------------------------------------------------

    def read(self, keys: Iterable[SendKey]) -> Mapping[SendKey, Send]:
        # Several tenants may name one id.
        by_id: dict[str, list[SendKey]] = {}
        for key in keys:
            if key.is_valid:  # guard: sends.hostile_send_id
                by_id.setdefault(key.send_id, []).append(key)
        items = read_items(self._client, _WHAT, self._table, map(_key, by_id)) if by_id else []
        return {
            key: found
            for item in items
            for key in by_id[item["send_id"]["S"]]
            if (found := self._read(item, key)) is not None
        }

    def controls(self, keys: Iterable[SendKey]) -> Mapping[SendKey, SendControl]:
        asked = set(keys)
        found = self.read(asked)
        return {key: found[key].control if key in found else SendControl(send=key) for key in asked}

    def find(self, send_id: str) -> Send | None:
        item = self._get(_key(send_id)) if SendKey(0, send_id).is_valid else None
        return None if item is None else _send(item)

    def register(self, sends: Iterable[Send]) -> Mapping[str, Send | MasscommError]:
        by_id = {send.key.send_id: send for send in sends}
        puts = {
            send_id: [self._put_if_absent(item_of(send, self._kept(send))), *self._message_puts(send)]
            for send_id, send in by_id.items()
        }

        def together(send_ids: Sequence[str]) -> Mapping[str, Callable[[], Send]]:
            owners = [send_id for send_id in send_ids for _ in puts[send_id]]
            cancelled = transact(self._client, _WHAT, [put for send_id in send_ids for put in puts[send_id]])
            if not cancelled:
                return {send_id: partial(_same, by_id[send_id]) for send_id in send_ids}
            # Without the stored item, the transaction was cancelled by a conflict, and the send may not be recorded.
            conflicts = {owners[index]: partial(alone, owners[index]) for index in cancelled}
            return conflicts | {owners[index]: partial(_send, stored) for index, stored in cancelled.items() if stored}

        def alone(send_id: str) -> Send:
            stored = self._put_together(puts[send_id])
            return by_id[send_id] if stored is None else _send(stored)

        sizes = {send_id: _BYTES + sum(len(_packed_of(put)) for put in more) for send_id, (_, *more) in puts.items()}
        items = {send_id: len(each) for send_id, each in puts.items()}
        return write_all(sizes, transact=together, alone=alone, items=items)

    def message(self, key: SendKey) -> KeptMessage | None:
        item = self._get(_key(key.send_id, MESSAGE)) if key.is_valid else None
        # guard: tenancy.kept_message
        return _message(item) if item is not None and int(item["club_id"]["N"]) == key.club_id else None

    def _message_puts(self, send: Send) -> list[dict[str, Any]]:
        """Return the put of a send's message, if it is kept. It has no condition: it is part of a transaction, in which
        the id of the send is free.
        """
        if send.message is None:
            return []
        kept_until = send.message_kept_until(self._clock.now_ms())
        return [{"TableName": self._table, "Item": message_item(send.key, send.message, kept_until)}]

    def change(self, send: Send, before: Send) -> bool:
        control = send.control
        values = {name: _number(getattr(control, name)) for name in _OF_CONTROL}
        values |= _replaced(control)
        values |= {"revision": _number(control.revision), **_listing(send)}
        return self._announced(send, before, values, {})

    def end_expansion(self, send: Send, before: Send) -> bool:
        return self._announced(
            send, before, {"expansion": _ended(send.expansion)}, {"expansion": _ended(before.expansion)}
        )

    def _announced(self, send: Send, before: Send, values: Mapping[str, Any], condition: Mapping[str, Any]) -> bool:
        """Store changed attributes of a send, and announce it."""
        if not before.is_known and before.control.revision == 0:
            write = {"Put": self._put_if_absent(item_of(send, self._kept(send)))}
        else:
            write = {"Update": self._update(send, values, {**condition, **_unchanged(before)})}
        return self._together(write, {"Put": self._announcement(send.key)})

    def _announcement(self, send: SendKey) -> dict[str, Any]:
        """Return the parameters of the put that announces a changed send."""
        now_ms = self._clock.now_ms()
        expires_at = _number(now_ms // 1000 + ANNOUNCEMENTS_KEPT_S)
        item = {**_key(_CHANGED, send.text), "changed_at_ms": _number(now_ms), "expires_at": expires_at}
        return {"TableName": self._table, "Item": item}

    # --- parts --------------------------------------------------------------------------------------------------------

    def part(self, send_id: str, index: int) -> Part | None:
        item = self._get(_key(send_id, _part_name(index)))
        return None if item is None else _part(item)

    def add_part(self, send: Send, before: Send | None, index: int, part: Part) -> bool:
        if send.parts is None:
            return False
        kept = self._kept(send)
        if before is None or before.parts is None:
            write = {"Put": self._put_if_absent(item_of(send, kept))}
        else:
            values = {name: _number(getattr(send, name)) for name in ("users", "chunks")}
            values |= {"parts_registered": _number(send.parts.registered), "parts_chunks": _number(send.parts.chunks)}
            # guard: named_sends.concurrent_parts
            condition = {"parts_registered": _number(before.parts.registered), **_unchanged(before)}
            write = {"Update": self._update(send, values, condition)}
        item = {
            **_key(send.key.send_id, _part_name(index)),
            "digest": {"S": part.digest},
            **{name: _number(getattr(part, name)) for name in ("first_chunk", "chunks", "chunk_count")},
            "expires_at": _number(kept),
        }
        messages = self._message_puts(send) if "Put" in write else []
        return self._together(write, {"Put": self._put_if_absent(item)}, *({"Put": each} for each in messages))

    def mark_produced(self, send: Send, index: int) -> None:
        with suppress(ConditionFailed), answering(_WHAT):
            self._client.update_item(
                TableName=self._table,
                Key=_key(send.key.send_id, _part_name(index)),
                UpdateExpression="SET is_produced = :yes",
                ConditionExpression="attribute_exists(digest)",
                ExpressionAttributeValues={":yes": {"BOOL": True}},
            )

    # --- the expansion of an audience ---------------------------------------------------------------------------------

    def record(self, send: Send, index: int, chunk: ExpandedChunk) -> ExpandedChunk:
        item = {
            **_key(send.key.send_id, _chunk_name(index)),
            "user_ids": {"B": _packed(chunk.user_ids)},
            "up_to": _number(chunk.up_to),
            "users_before": _number(chunk.users_before),
            "expires_at": _number(self._kept(send) + EXPANSIONS_OUTLIVE_S),
        }
        stored = self._put(self._put_if_absent(item))  # guard: audiences.recorded_chunk
        return chunk if stored is None else _chunk(stored)

    def last(self, send_id: str) -> tuple[int, ExpandedChunk] | None:
        with answering(_WHAT):
            answer = self._client.query(
                TableName=self._table,
                KeyConditionExpression="send_id = :send AND begins_with(part, :chunk)",
                ExpressionAttributeValues={":send": {"S": send_id}, ":chunk": {"S": _CHUNK}},
                ScanIndexForward=False,
                Limit=1,
                ConsistentRead=True,
            )
        for item in filter(self._is_kept, answer["Items"]):
            return int(item["part"]["S"].removeprefix(_CHUNK)), _chunk(item)
        return None

    def chunks(self, send_id: str, first: int, end: int) -> Iterator[ExpandedChunk]:
        for index in range(first, end):
            item = self._get(_key(send_id, _chunk_name(index)))
            if item is None:
                raise Retry(f"chunk {index} of an expansion is not recorded")
            yield _chunk(item)

    def records(self, send_id: str, ended: Expansion) -> int:
        if ended.chunks <= 1:
            return min(ended.chunks, ended.users)
        pages = self._pages(
            KeyConditionExpression="send_id = :send AND part BETWEEN :first AND :last",
            ExpressionAttributeValues={
                ":send": {"S": send_id},
                ":first": {"S": _chunk_name(0)},
                ":last": {"S": _chunk_name(ended.chunks - 1)},
            },
            ProjectionExpression="users_before",
            ConsistentRead=True,
        )
        users_before = [_users_before(item) for item in pages]
        return sum(before < after for before, after in pairwise([*users_before, ended.users]))

    def progress(self, send_id: str) -> Progress:
        item = self._get(_key(send_id, _PROGRESS))
        return Progress() if item is None else _progress(item)

    def advance(self, send: Send, progress: Progress) -> None:
        numbers = {name: _number(value) for name, value in asdict(progress).items() if value is not None}
        kept = {"expires_at": _number(self._kept(send) + EXPANSIONS_OUTLIVE_S)}
        with answering(_WHAT):
            self._client.put_item(TableName=self._table, Item={**_key(send.key.send_id, _PROGRESS), **numbers, **kept})

    # --- pace ---------------------------------------------------------------------------------------------------------

    def pace(self, key: SendKey) -> PaceBook:
        item = self._get(_key(key.send_id, _PACE)) if key.is_valid else None
        return PaceBook() if item is None or item.get("club_id") != _number(key.club_id) else _pace(item)

    def set_pace(self, send: Send, book: PaceBook, before: PaceBook) -> bool:
        item = {
            **{name: _number(value) for name, value in asdict(book).items()},
            "expires_at": _number(self._kept(send) + PACE_BOOKS_LONGER_S),
        }
        return self._put_revision(send.key, _PACE, item, before.revision)

    # --- fallbacks ----------------------------------------------------------------------------------------------------

    def fallback(self, key: SendKey, record_id: str) -> FallbackState:
        item = self._get(_key(key.send_id, f"{_FALLBACK}{record_id}")) if key.is_valid else None
        return NO_STATE if item is None or item.get("club_id") != _number(key.club_id) else _fallback(item)

    def set_fallback(self, key: SendKey, record_id: str, state: FallbackState) -> bool:
        item = {
            "state": {"B": _packed_state(state)},
            "expires_at": _number(self._clock.now_ms() // 1000 + FALLBACKS_KEPT_S),
        }
        return self._put_revision(key, f"{_FALLBACK}{record_id}", item, state.revision)

    # --- the list of sends, and changes -------------------------------------------------------------------------------

    def listed(self, club_id: int, *, start_ms: int, before_ms: int) -> Iterator[Send]:
        day, first = _day(before_ms - 1), _day(start_ms)
        while day >= first:
            items = self._pages(
                IndexName=INDEX,
                KeyConditionExpression="listed_in = :day AND listed_at BETWEEN :start AND :before",
                ExpressionAttributeValues={
                    ":day": {"S": f"{club_id}#{day}"},
                    ":start": {"S": _moment(start_ms)},
                    ":before": {"S": _moment(before_ms)},
                },
                ScanIndexForward=False,
            )
            yield from read_each(
                filter(self._is_kept, items),
                _send,
                store=f"{self._table}/{INDEX}",
                key=lambda item: {"send_id": item["send_id"]["S"]},
            )
            day -= timedelta(days=1)

    def announce(self, send: SendKey) -> None:
        self._put(self._announcement(send))

    def announced(self) -> Iterator[Announcement]:
        items = self._pages(
            KeyConditionExpression="send_id = :changed",
            ExpressionAttributeValues={":changed": {"S": _CHANGED}},
            ConsistentRead=True,
        )
        yield from read_each(
            items,
            _announcement,
            store=self._table,
            key=lambda item: {name: item[name]["S"] for name in ("send_id", "part")},
        )

    def forget(self, announcement: Announcement) -> None:
        with suppress(ConditionFailed), answering(_WHAT):
            self._client.delete_item(
                TableName=self._table,
                Key=_key(_CHANGED, announcement.send.text),
                ConditionExpression="changed_at_ms = :examined",  # guard: webhooks.changed_again
                ExpressionAttributeValues={":examined": _number(announcement.changed_at_ms)},
            )

    def position(self) -> Position | None:
        with answering(_WHAT):
            item = self._client.get_item(TableName=self._table, Key=_POSITION, ConsistentRead=True).get("Item")
        if item is None:
            return None
        transaction, _, send_id = item["last"]["S"].partition("/")
        return Position(int(transaction), send_id)

    def move(self, position: Position) -> None:
        last = f"{position.transaction}/{position.send_id}"
        with answering(_WHAT):
            self._client.put_item(TableName=self._table, Item={**_POSITION, "last": {"S": last}})

    # --- requests -----------------------------------------------------------------------------------------------------

    def _kept(self, send: Send) -> int:
        return send.kept_until(self._clock.now_ms())

    def _is_kept(self, item: Mapping[str, Any]) -> bool:
        # DynamoDB may delete an expired item days later (AWS documentation, "Working with expired items and time to
        # live").
        return int(item["expires_at"]["N"]) > self._clock.now_ms() // 1000  # guard: sends.expired_message

    def _get(self, key: Mapping[str, Any]) -> Mapping[str, Any] | None:
        with answering(_WHAT):
            item: Mapping[str, Any] | None = self._client.get_item(
                TableName=self._table, Key=key, ConsistentRead=True
            ).get("Item")
        return item if item is not None and self._is_kept(item) else None

    def _put_revision(self, key: SendKey, part: str, item: Mapping[str, Any], before: int) -> bool:
        """Put a part of a send, unless it has changed since revision `before` (0: it was absent), or is another
        tenant's; return whether it is stored.
        """
        club_id = _number(key.club_id)
        put = self._put_if_absent(
            {**_key(key.send_id, part), "club_id": club_id, **item, "revision": _number(before + 1)}
        )
        if before:
            condition = "club_id = :club AND revision = :before"  # guard: sends.changed_meanwhile
            values = {":club": club_id, ":before": _number(before)}
            put |= {"ConditionExpression": condition, "ExpressionAttributeValues": values}
        try:
            with answering(_WHAT):
                self._client.put_item(**put)
        except ConditionFailed:
            return False
        return True

    def _put_if_absent(self, item: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters of a put of an item whose key is free."""
        return {
            "TableName": self._table,
            "Item": item,
            "ConditionExpression": _ABSENT,
            "ExpressionAttributeValues": {":now": _number(self._clock.now_ms() // 1000)},
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }

    def _put_together(self, puts: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
        """Write all items, or none: then return the one that is stored under the key of the first."""
        if len(puts) == 1:
            return self._put(puts[0])  # It costs half of a transaction.
        try:
            write_together(self._client, _WHAT, [{"Put": each} for each in puts])
        except ConditionFailed as failed:
            return failed.item
        return None

    def _put(self, put: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Write an item; return the one that is stored under its key already."""
        try:
            with answering(_WHAT):
                self._client.put_item(**put)
        except ConditionFailed as failed:
            return failed.item
        return None

    def _update(self, send: Send, values: Mapping[str, Any], condition: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters of an update of a send if attributes have the values of a condition. An attribute with
        the value None is removed, or absent.
        """
        values = {**values, "expires_at": _number(self._kept(send))}
        condition = {**condition, "club_id": _number(send.key.club_id)}
        stored = [f"#{name} = :{name}" for name, value in values.items() if value is not None]
        removed = [f"#{name}" for name, value in values.items() if value is None]
        return {
            "TableName": self._table,
            "Key": _key(send.key.send_id),
            "UpdateExpression": f"SET {', '.join(stored)}" + (f" REMOVE {', '.join(removed)}" if removed else ""),
            "ConditionExpression": " AND ".join(
                f"attribute_not_exists(#{name})" if value is None else f"#{name} = :was_{name}"
                for name, value in condition.items()
            ),
            "ExpressionAttributeNames": {f"#{name}": name for name in (*values, *condition)},
            "ExpressionAttributeValues": {
                **{f":{name}": value for name, value in values.items() if value is not None},
                **{f":was_{name}": value for name, value in condition.items() if value is not None},
            },
        }

    def _together(self, *actions: Mapping[str, Any]) -> bool:
        """Write all actions, or none if a condition is not met."""
        try:
            write_together(self._client, _WHAT, actions)
        except ConditionFailed:
            return False
        return True

    def _pages(self, **query: Any) -> Iterator[Mapping[str, Any]]:
        """Yield the items of all pages of a query, each of at most 1 MB."""
        with answering(_WHAT):
            for page in self._client.get_paginator("query").paginate(TableName=self._table, **query):
                yield from page["Items"]

    def _read(self, item: Mapping[str, Any], key: SendKey) -> Send | None:
        """Return the send in an item; None if it has expired, or is another tenant's. One that cannot be read concerns
        its send alone: its control says so.
        """
        try:
            return _send(item).of(key) if self._is_kept(item) else None
        except DAMAGE as error:  # guard: send_controls.damaged_item
            fault = described(error)
        at = {"send_id": key.send_id, "part": _SEND}
        report_unreadable(UnreadableItem(store=self._table, key=at, error=fault))
        cancelled_at_ms = 0 if "cancelled_at_ms" in item else None
        return Send(key=key, control=SendControl(send=key, cancelled_at_ms=cancelled_at_ms, fault=fault))


def _same(send: Send) -> Send:
    """Return the answer about a send that was recorded."""
    return send


def _number(value: int | None) -> Any:
    return None if value is None else {"N": str(value)}


def _key(send_id: str, part: str = _SEND) -> dict[str, Any]:
    return {"send_id": {"S": send_id}, "part": {"S": part}}


def _part_name(index: int) -> str:
    return f"{_PART}{index:04d}"


def _chunk_name(index: int) -> str:
    return f"{_CHUNK}{index:08d}"


def _day(at_ms: int) -> date:
    return datetime.fromtimestamp(max(0, at_ms) / 1000, UTC).date()


def _moment(at_ms: int) -> str:
    return f"{max(0, at_ms):015d}"


def _unchanged(before: Send) -> dict[str, Any]:
    """Return the condition that no other request has changed the control of a send."""
    # guard: send_controls.previous_revision
    return {"revision": _number(before.control.revision or None)}


def _listing(send: Send) -> dict[str, Any]:
    """Return the attributes of the index; none of a send that is not listed."""
    if not send.is_known or not send.is_listed:
        return {}
    at_ms = send.requested_at_ms
    return {
        "listed_in": {"S": f"{send.key.club_id}#{_day(at_ms)}"},
        "listed_at": {"S": f"{_moment(at_ms)}#{send.key.send_id}"},
    }


def _ended(expansion: Expansion | None) -> Any:
    return None if expansion is None else {"S": json.dumps(asdict(expansion))}


def item_of(send: Send, kept_until: int) -> dict[str, Any]:
    """Return the item of a send, which is kept until a time in seconds since the epoch."""
    control, parts = send.control, send.parts
    found = {
        **{name: {"S": value} for name in _TEXTS if (value := getattr(send, name)) is not None},
        **{name: _number(getattr(send, name)) for name in _NUMBERS},
        **{name: _number(getattr(control, name)) for name in _OF_CONTROL},
        **_replaced(control),
        "revision": _number(control.revision or None),
        "source": None if send.source is None else {"S": send.source},
        "channels": {"S": ",".join(send.channels)} if send.channels else None,
        "is_test": {"BOOL": True} if send.is_test else None,
        "is_to_audience": {"BOOL": True} if send.is_to_audience else None,
        "expansion": _ended(send.expansion),
        **({} if parts is None else {f"parts_{name}": _number(value) for name, value in asdict(parts).items()}),
    }
    return {
        **_key(send.key.send_id),
        "club_id": _number(send.key.club_id),
        **{name: value for name, value in found.items() if value is not None},
        **_listing(send),
        "expires_at": _number(kept_until),
    }


def message_item(send: SendKey, message: KeptMessage, kept_until: int) -> dict[str, Any]:
    """Return the item of a send's message, which is kept until a time in seconds since the epoch."""
    texts = {name: value for name, value in asdict(message).items() if name not in ("user_ids", "push")}
    texts |= {} if message.push is None else {"push": message.push}
    return {
        **_key(send.send_id, MESSAGE),
        "club_id": _number(send.club_id),
        "message": {"B": zlib.compress(json.dumps(texts, ensure_ascii=False).encode())},
        **({"user_ids": {"NS": list(map(str, message.user_ids))}} if message.user_ids else {}),
        "expires_at": _number(kept_until),
    }


def _packed_of(put: Mapping[str, Any]) -> bytes:
    """Return the packed texts in the put of a message."""
    packed: bytes = put["Item"]["message"]["B"]
    return packed


def _message(item: Mapping[str, Any]) -> KeptMessage:
    """Return the message in an item. Raises Retry if the item is malformed."""
    try:
        found = json.loads(zlib.decompress(item["message"]["B"]))
        return KeptMessage(
            type=found["type"],
            channels=tuple(found["channels"]),
            template=found["template"],
            locale=found["locale"],
            data=found["data"],
            push=found.get("push"),  # Absent from the items of version 0.1.0.
            user_ids=tuple(map(int, item["user_ids"]["NS"])) if "user_ids" in item else (),
        )
    except (LookupError, ValueError, TypeError, zlib.error) as error:
        raise Retry(f"the item of a message is malformed: {error!r}") from error


def _send(item: Mapping[str, Any]) -> Send:
    """Return the send in an item. Raises Retry if the item is malformed."""
    try:
        key = SendKey(int(item["club_id"]["N"]), item["send_id"]["S"])
        numbers = {name: int(item[name]["N"]) for name in (*_NUMBERS, *_OF_CONTROL) if name in item}
        return Send(
            key=key,
            source=Source(item["source"]["S"]) if "source" in item else None,
            **{name: item[name]["S"] for name in _TEXTS if name in item},
            **{name: value for name, value in numbers.items() if name in _NUMBERS},  # type: ignore[arg-type]
            channels=tuple(item["channels"]["S"].split(",")) if "channels" in item else (),
            is_test="is_test" in item,
            is_to_audience="is_to_audience" in item,
            parts=_parts(item) if "parts_count" in item else None,
            expansion=Expansion(**json.loads(item["expansion"]["S"])) if "expansion" in item else None,
            control=SendControl(
                send=key,
                **{name: value for name, value in numbers.items() if name in _OF_CONTROL},  # type: ignore[arg-type]
                send_at_ms=int(item["moved_to_ms"]["N"]) if "moved_to_ms" in item else None,
                per_minute=int(item["paced_to"]["N"]) if "paced_to" in item else None,
                pace_revision=int(item["pace_revision"]["N"]) if "pace_revision" in item else 0,
                revision=int(item["revision"]["N"]) if "revision" in item else 0,
            ),
        )
    except (LookupError, ValueError, TypeError, AttributeError) as error:
        raise Retry(f"the item of a send is malformed: {error!r}") from error


def _replaced(control: SendControl) -> dict[str, Any]:
    """Return the attributes of the values of a control that replace those of the send's records."""
    return {
        "moved_to_ms": _number(control.send_at_ms),
        "paced_to": _number(control.per_minute),
        "pace_revision": _number(control.pace_revision or None),
    }


def _pace(item: Mapping[str, Any]) -> PaceBook:
    """Return the state of a pace in an item. Raises Retry if the item is malformed."""
    try:
        return PaceBook(**{name: int(item[name]["N"]) for name in _OF_PACE})
    except (LookupError, ValueError, TypeError) as error:
        raise Retry(f"the state of a pace is malformed: {error!r}") from error


def _packed_state(state: FallbackState) -> bytes:
    """Return the state of a waiting record as compressed JSON: 500 recipients take some 3 kB."""
    by_status: dict[str, list[int]] = {}
    for position, status in sorted(state.statuses.items()):
        by_status.setdefault(status, []).append(position)
    document = {"statuses": by_status, "decided": state.decided}
    return zlib.compress(json.dumps(document, separators=(",", ":")).encode())


def _fallback(item: Mapping[str, Any]) -> FallbackState:
    """Return the state of a waiting record in an item. Raises Retry if the item is malformed."""
    try:
        document = json.loads(zlib.decompress(bytes(item["state"]["B"])))
        return FallbackState(
            statuses={position: Status(name) for name, some in document["statuses"].items() for position in some},
            decided=tuple(
                Decided(by, Verdict(verdict), tuple(positions)) for by, verdict, positions, *_ in document["decided"]
            ),
            revision=int(item["revision"]["N"]),
        )
    except (LookupError, ValueError, TypeError, AttributeError, zlib.error) as error:
        raise Retry(f"the state of fallbacks is malformed: {error!r}") from error


def _parts(item: Mapping[str, Any]) -> Parts:
    return Parts(**{name: int(item[f"parts_{name}"]["N"]) for name in _PARTS})


def _part(item: Mapping[str, Any]) -> Part:
    """Return the part in an item. Raises Retry if the item is malformed."""
    try:
        first_chunk, chunks, chunk_count = (int(item[name]["N"]) for name in ("first_chunk", "chunks", "chunk_count"))
        return Part(item["digest"]["S"], first_chunk, chunks, chunk_count, "is_produced" in item)
    except (LookupError, ValueError, TypeError) as error:
        raise Retry(f"the item of a part is malformed: {error!r}") from error


def _announcement(item: Mapping[str, Any]) -> Announcement:
    """Return the announcement in an item. Raises Retry if the item is malformed."""
    try:
        return Announcement(SendKey.of_text(item["part"]["S"]), int(item["changed_at_ms"]["N"]))
    except (LookupError, ValueError) as error:
        raise Retry(f"the item of a changed send is malformed: {error!r}") from error


def _chunk(item: Mapping[str, Any]) -> ExpandedChunk:
    """Return the chunk in an item. Raises Retry if the item is malformed."""
    try:
        return ExpandedChunk(
            user_ids=_unpacked(item["user_ids"]["B"]),
            up_to=int(item["up_to"]["N"]),
            users_before=int(item["users_before"]["N"]),
        )
    except (KeyError, ValueError, TypeError, zlib.error) as error:
        raise Retry(f"a chunk of an expansion is malformed: {error!r}") from error


def _users_before(item: Mapping[str, Any]) -> int:
    try:
        return int(item["users_before"]["N"])
    except (KeyError, ValueError) as error:
        raise Retry(f"a chunk of an expansion is malformed: {error!r}") from error


def _progress(item: Mapping[str, Any]) -> Progress:
    """Return the progress in an item. Raises Retry if the item is malformed."""
    try:
        return Progress(
            share=int(item["share"]["N"]),
            chunks=int(item["chunks"]["N"]),
            records=int(item["records"]["N"]),
            record_count=int(item["record_count"]["N"]) if "record_count" in item else None,
        )
    except (KeyError, ValueError) as error:
        raise Retry(f"the progress of an expansion is malformed: {error!r}") from error


def _packed(user_ids: Sequence[int]) -> bytes:
    """Return ascending ids as the compressed JSON of their differences: some 2 bytes an id if ids are dense. 5,000
    random ids of 63 bits take some 50 kB; an item has at most 400 kB.
    """
    differences = [*user_ids[:1], *(after - before for before, after in pairwise(user_ids))]
    return zlib.compress(json.dumps(differences, separators=(",", ":")).encode())


def _unpacked(packed: bytes) -> list[int]:
    return list(accumulate(json.loads(zlib.decompress(packed))))
