"""The audit log in DynamoDB: the table of schemas/dynamodb/audit_log.json."""

from collections.abc import Iterator, Mapping
from typing import Any

from masscomm.aws.dynamodb import ConditionFailed, answering
from masscomm.aws.request import Limits
from masscomm.aws.table import TableAdapter
from masscomm.domain.audit import AuditEntry
from masscomm.errors import Retry
from masscomm.observability.unreadable_items import read_each
from masscomm.stores.audit_log.port import AuditPage, AuditQuery

_WHAT = "the audit log"
_TEXTS = ("principal", "action", "subject", "result", "detail")
# The digits of a time in the sort key, which make the order of texts that of times.
_DIGITS = 13


class DynamoDbAuditLog(TableAdapter):
    """The audit log in DynamoDB."""

    TABLE, SETTING = "audit_log", "AUDIT_LOG_TABLE"
    LIMITS = Limits(connections=2, connect_s=0.5, read_s=1.5, attempts=2)

    def record(self, entry: AuditEntry) -> None:
        item = {
            "club": {"S": _partition(entry.club_id)},
            "at": {"S": _sort_key(entry.at_ms, entry.id)},
            "expires_at": {"N": str(entry.expires_at)},
            **{name: {"S": getattr(entry, name)} for name in _TEXTS},
        }
        try:
            with answering(_WHAT):
                self._client.put_item(
                    TableName=self._table,
                    Item=item,
                    ConditionExpression="attribute_not_exists(club)",  # guard: audit.entries_are_never_replaced
                )
        except ConditionFailed:
            # The entry is stored: a lost answer is repeated with the same id.
            return

    def page(self, query: AuditQuery) -> AuditPage:
        # BETWEEN includes its upper bound; no entry has the bound itself as its key, except that of `before`.
        latest = _sort_key(query.end_ms, "") if query.before is None else _sort_key(*query.before)
        found: list[AuditEntry] = []
        for entry in self._entries(
            TableName=self._table,
            KeyConditionExpression="club = :club AND #at BETWEEN :first AND :last",
            ExpressionAttributeNames={"#at": "at"},
            ExpressionAttributeValues={
                ":club": {"S": _partition(query.club_id)},
                ":first": {"S": _sort_key(query.start_ms, "")},
                ":last": {"S": latest},
            },
            ScanIndexForward=False,
            # The entry of `before` and one more than the page.
            Limit=query.limit + 2,
            ConsistentRead=True,
        ):
            if _sort_key(entry.at_ms, entry.id) != latest:
                found.append(entry)
            if len(found) > query.limit:
                break
        return AuditPage(entries=found[: query.limit], more=len(found) > query.limit)

    def _entries(self, **query: Any) -> Iterator[AuditEntry]:
        """Yield the readable entries of a query."""
        with answering(_WHAT):
            for page in self._client.get_paginator("query").paginate(**query):
                yield from read_each(
                    page["Items"],
                    _entry,
                    store=self._table,
                    key=lambda item: {name: item[name]["S"] for name in ("club", "at")},
                )


def _partition(club_id: int | None) -> str:
    return "*" if club_id is None else str(club_id)  # guard: audit.own_entries


def _sort_key(at_ms: int, id_: str) -> str:
    return f"{at_ms:0{_DIGITS}d}#{id_}"


def _entry(item: Mapping[str, Any]) -> AuditEntry:
    """Return the entry in an item. Raises Retry if the item is malformed."""
    try:
        club, (at, _, id_) = item["club"]["S"], item["at"]["S"].partition("#")
        texts = {name: item[name]["S"] for name in _TEXTS}
        return AuditEntry(club_id=None if club == "*" else int(club), at_ms=int(at), id=id_, **texts)
    except (KeyError, ValueError) as error:
        raise Retry(f"an entry of the audit log is malformed: {error!r}") from error
