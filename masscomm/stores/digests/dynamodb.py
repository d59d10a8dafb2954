"""Digests in DynamoDB, in the table of schemas/dynamodb/frequency_caps.json: with the places of frequency caps, the
items of a user.

The last digest of a key is one item, which is replaced under the condition of its revision. A member, and the decision
about a closed digest, are items of their own that are written in the same transaction.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from masscomm.aws.dynamodb import read_items
from masscomm.aws.request import Limits
from masscomm.aws.table import TableAdapter
from masscomm.domain.digest_members import ClosedDigest, DigestKey, Member, OpenDigest
from masscomm.domain.time_limits import DIGESTS_KEPT_S
from masscomm.observability.unreadable_items import DAMAGE, UnreadableItem, described, report_unreadable
from masscomm.stores.conditional_puts import under_revision, write_groups
from masscomm.stores.digests.port import ClosedKey, DigestChange, MemberKey
from masscomm.stores.frequency_caps.dynamodb import DynamoDbFrequencyCaps, partition_of

_WHAT = "digests"
# The size of an item's other attributes and of a member's send, with what DynamoDB adds.
# https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html
_ITEM_BYTES, _SEND_BYTES = 300, 70


class DynamoDbDigests(TableAdapter):
    """The store in DynamoDB."""

    TABLE, SETTING = DynamoDbFrequencyCaps.TABLE, DynamoDbFrequencyCaps.SETTING
    LIMITS = Limits(connections=4, connect_s=1, read_s=2, attempts=3)

    def read(self, keys: Iterable[DigestKey]) -> Mapping[DigestKey, OpenDigest]:
        found = {}
        for key, item in self._read({key: _sort_key(key) for key in keys}):
            try:
                found[key] = _open_digest(item)
            except DAMAGE as error:
                self._report(item, error)
                found[key] = OpenDigest(is_damaged=True)
        return found

    def members(self, keys: Iterable[MemberKey]) -> Mapping[MemberKey, Member]:
        return self._readable({key: _member_key(key) for key in keys}, _member)

    def closed(self, keys: Iterable[ClosedKey]) -> Mapping[ClosedKey, ClosedDigest]:
        return self._readable({key: _closed_key(key) for key in keys}, _closed)

    def write(self, changes: Sequence[DigestChange]) -> list[bool]:
        groups = [puts_of(self._table, change) for change in changes]
        sizes = [
            _ITEM_BYTES * len(puts)
            + _SEND_BYTES * (len(change.after.members) + len(change.before.members))
            + sum(len(put["Item"].get("document", {"S": ""})["S"].encode()) for put in puts)
            for change, puts in zip(changes, groups, strict=True)
        ]
        return write_groups(self._client, _WHAT, groups, sizes)

    def _read[K: DigestKey | MemberKey | ClosedKey](
        self, sort_keys: Mapping[K, str]
    ) -> Iterator[tuple[K, Mapping[str, Any]]]:
        """Yield the items that exist, each with its key."""
        by_item = {
            (partition_of(digest.club_id, digest.user_id), sort_key): key
            for key, sort_key in sort_keys.items()
            for digest in [key if isinstance(key, DigestKey) else key.digest]
        }
        keys = [{"recipient": {"S": recipient}, "cap": {"S": sort_key}} for recipient, sort_key in by_item]
        for item in read_items(self._client, _WHAT, self._table, keys):
            yield by_item[item["recipient"]["S"], item["cap"]["S"]], item

    def _readable[K: MemberKey | ClosedKey, V](
        self, sort_keys: Mapping[K, str], read: Callable[[Mapping[str, Any]], V]
    ) -> dict[K, V]:
        found = {}
        for key, item in self._read(sort_keys):
            try:
                found[key] = read(json.loads(item["document"]["S"]))
            except DAMAGE as error:
                self._report(item, error)
        return found

    def _report(self, item: Mapping[str, Any], error: Exception) -> None:
        key = {name: item[name]["S"] for name in ("recipient", "cap")}
        report_unreadable(UnreadableItem(store=self._table, key=key, error=described(error)))


def puts_of(table: str, change: DigestChange) -> list[dict[str, Any]]:
    """Return the puts of a change, as parameters of PutItem: the last digest first, under its revision."""
    key, after = change.key, change.after
    kept = {"expires_at": {"N": str(after.due_ms // 1000 + round(DIGESTS_KEPT_S))}}
    revision = change.before.revision
    head = {
        **_item_key(key, _sort_key(key)),
        "number": {"N": str(after.number)},
        "due_ms": {"N": str(after.due_ms)},
        "members": {"L": [{"S": send_id} for send_id in after.members]},
        "is_closed": {"BOOL": after.is_closed},
        "revision": {"N": str(revision + 1)},
        **kept,
    }
    documents: list[tuple[str, Mapping[str, Any]]] = []
    if change.joins is not None:
        send_id, member = change.joins
        fields = member._asdict() | {"data": dict(member.data)}
        documents.append((_member_key(MemberKey(key, send_id)), fields))
    if change.closed is not None:
        closed = change.closed._asdict() | {"left_out": dict(change.closed.left_out)}
        documents.append((_closed_key(ClosedKey(key, change.before.number)), closed))
    texts = [(sort_key, json.dumps(fields, separators=(",", ":"))) for sort_key, fields in documents]
    items = [{**_item_key(key, sort_key), "document": {"S": text}, **kept} for sort_key, text in texts]
    return [
        under_revision({"TableName": table, "Item": head}, revision),
        *({"TableName": table, "Item": item} for item in items),
    ]


def _open_digest(item: Mapping[str, Any]) -> OpenDigest:
    return OpenDigest(
        number=int(item["number"]["N"]),
        due_ms=int(item["due_ms"]["N"]),
        members=tuple(each["S"] for each in item["members"]["L"]),
        is_closed=item["is_closed"]["BOOL"],
        revision=int(item["revision"]["N"]),
    )


def _member(document: Mapping[str, Any]) -> Member:
    return Member(
        number=int(document["number"]),
        data=dict(document["data"]),
        expires_at_ms=document["expires_at_ms"],
        follows=document.get("follows"),  # Absent from the items of earlier versions.
    )


def _closed(document: Mapping[str, Any]) -> ClosedDigest:
    return ClosedDigest(
        closed_ms=int(document["closed_ms"]),
        sender=document["sender"],
        contents=str(document["contents"]),
        left_out=dict(document["left_out"]),
        follows=document.get("follows"),
    )


def _sort_key(key: DigestKey) -> str:
    return f"digest#{key.channel}#{key.key}"


def _member_key(key: MemberKey) -> str:
    return f"{_sort_key(key.digest)}#member#{key.send_id}"


def _closed_key(key: ClosedKey) -> str:
    return f"{_sort_key(key.digest)}#closed#{key.number}"


def _item_key(key: DigestKey, sort_key: str) -> dict[str, Any]:
    return {"recipient": {"S": partition_of(key.club_id, key.user_id)}, "cap": {"S": sort_key}}
