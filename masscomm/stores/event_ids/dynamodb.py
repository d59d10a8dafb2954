"""The ids of accepted events in DynamoDB, in the table of schemas/dynamodb/event_ids.json."""

from collections.abc import Iterable, Mapping
from typing import Any

from masscomm.aws.dynamodb import read_items, write_items
from masscomm.aws.request import Limits
from masscomm.aws.table import TableAdapter
from masscomm.domain.time_limits import EVENT_IDS_KEPT_S
from masscomm.stores.event_ids.port import EventKey

_WHAT = "ids of events"


class DynamoDbEventIds(TableAdapter):
    """The store of ids in DynamoDB."""

    TABLE, SETTING = "event_ids", "EVENT_IDS_TABLE"
    LIMITS = Limits(connections=4, connect_s=1, read_s=2, attempts=3)

    def known(self, keys: Iterable[EventKey], at_s: int) -> Mapping[EventKey, str]:
        by_id = {_id(key): key for key in keys}
        items = read_items(self._client, _WHAT, self._table, [{"id": {"S": id_}} for id_ in by_id])
        found: dict[EventKey, str] = {}
        for item in items:
            if int(item["expires_at"]["N"]) <= at_s:  # guard: events.expired_id
                continue
            found[by_id[item["id"]["S"]]] = item["digest"]["S"]
        return found

    def record(self, digests: Mapping[EventKey, str], at_s: int) -> None:
        expires_at = {"N": str(at_s + EVENT_IDS_KEPT_S)}
        items: list[dict[str, Any]] = [
            {"id": {"S": _id(key)}, "digest": {"S": digest}, "expires_at": expires_at}
            for key, digest in digests.items()
        ]
        write_items(self._client, _WHAT, self._table, items)


def _id(key: EventKey) -> str:
    return f"{key.club_id}#{key.event_id}"
