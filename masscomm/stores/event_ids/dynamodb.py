"""The ids of accepted events in DynamoDB, in the table of schemas/dynamodb/event_ids.json."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from masscomm.aws.dynamodb import read_items, write_items
from masscomm.aws.request import Limits
from masscomm.aws.table import TableAdapter
from masscomm.domain.known_fields import known_fields
from masscomm.domain.records import EventOccurred
from masscomm.domain.time_limits import EVENT_IDS_KEPT_S, OWN_EVENTS_KEPT_S
from masscomm.errors import Retry
from masscomm.stores.event_ids.port import EventKey

_WHAT = "ids of events"
# The beginning of the ids of masscomm's own events.
_OWN = "own#"


class DynamoDbEventIds(TableAdapter):
    """The store of ids in DynamoDB."""

    TABLE, SETTING = "event_ids", "EVENT_IDS_TABLE"
    LIMITS = Limits(connections=4, connect_s=1, read_s=2, attempts=3)

    def known(self, keys: Iterable[EventKey], at_s: int) -> Mapping[EventKey, str]:
        found = self._items({_id(key): key for key in keys}, at_s)
        return {key: item["digest"]["S"] for key, item in found.items() if "digest" in item}

    def record(self, digests: Mapping[EventKey, str], at_s: int) -> None:
        expires_at = {"N": str(at_s + EVENT_IDS_KEPT_S)}
        items: list[dict[str, Any]] = [
            {"id": {"S": _id(key)}, "digest": {"S": digest}, "expires_at": expires_at}
            for key, digest in digests.items()
        ]
        write_items(self._client, _WHAT, self._table, items)

    def keep(self, events: Iterable[EventOccurred], at_s: int) -> None:
        expires_at = {"N": str(at_s + OWN_EVENTS_KEPT_S)}
        items: list[dict[str, Any]] = [
            {
                "id": {"S": f"{_OWN}{_id(EventKey.of(each))}"},
                "event": {"S": json.dumps(each.to_avro(), ensure_ascii=False)},
                "expires_at": expires_at,
            }
            for each in events
        ]
        write_items(self._client, _WHAT, self._table, items)

    def kept(self, keys: Iterable[EventKey], at_s: int) -> Mapping[EventKey, EventOccurred]:
        found = self._items({f"{_OWN}{_id(key)}": key for key in keys}, at_s)
        return {key: _event(item) for key, item in found.items()}

    def _items(self, by_id: Mapping[str, EventKey], at_s: int) -> dict[EventKey, Mapping[str, Any]]:
        items = read_items(self._client, _WHAT, self._table, [{"id": {"S": id_}} for id_ in by_id])
        found: dict[EventKey, Mapping[str, Any]] = {}
        for item in items:
            if int(item["expires_at"]["N"]) <= at_s:  # guard: events.expired_id
                continue
            found[by_id[item["id"]["S"]]] = item
        return found


def _id(key: EventKey) -> str:
    return f"{key.club_id}#{key.event_id}"


def _event(item: Mapping[str, Any]) -> EventOccurred:
    """Return the event in an item. Raises Retry if the item is malformed."""
    try:
        return EventOccurred(**known_fields(EventOccurred, json.loads(item["event"]["S"])))
    except (KeyError, ValueError, TypeError) as error:
        raise Retry(f"the item of an event is malformed: {error!r}") from error
