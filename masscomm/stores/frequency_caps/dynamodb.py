"""The places of frequency caps in DynamoDB, in the table of schemas/dynamodb/frequency_caps.json.

An item has the places of one user for one cap. It is replaced under the condition that its revision is the one that was
read, so that a cap is exact under concurrent writers.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from masscomm.aws.dynamodb import read_items
from masscomm.aws.request import Limits
from masscomm.aws.table import TableAdapter
from masscomm.observability.unreadable_items import DAMAGE, UnreadableItem, described, report_unreadable
from masscomm.stores.conditional_puts import under_revision, write_groups
from masscomm.stores.frequency_caps.port import Change, PlacesKey, StoredPlaces

_WHAT = "the places of frequency caps"
# The size of an item's other attributes, and that of a place: its name, the time, and what DynamoDB adds.
# https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html
_ITEM_BYTES, _PLACE_BYTES = 300, 100


class DynamoDbFrequencyCaps(TableAdapter):
    """The store in DynamoDB."""

    TABLE, SETTING = "frequency_caps", "FREQUENCY_CAPS_TABLE"
    LIMITS = Limits(connections=4, connect_s=1, read_s=2, attempts=3)

    def read(self, keys: Iterable[PlacesKey]) -> Mapping[PlacesKey, StoredPlaces]:
        found = read_items(self._client, _WHAT, self._table, map(_key, keys))
        return dict(map(self._stored, found))

    def write(self, changes: Sequence[Sequence[Change]], now_ms: int) -> list[bool]:
        return write_groups(
            self._client,
            _WHAT,
            [[self._put(change, now_ms // 1000) for change in each] for each in changes],
            [sum(_ITEM_BYTES + _PLACE_BYTES * len(change.taken) for change in each) for each in changes],
        )

    def _stored(self, item: Mapping[str, Any]) -> tuple[PlacesKey, StoredPlaces]:
        """Return the places in an item. One that cannot be read concerns its user alone."""
        club_id, _, user_id = item["recipient"]["S"].partition("#")
        key = PlacesKey(int(club_id), int(user_id), item["cap"]["S"])
        try:
            taken = {entry: int(at["N"]) for entry, at in item["taken"]["M"].items()}
            return key, StoredPlaces(taken, int(item["revision"]["N"]))
        except DAMAGE as error:
            report_unreadable(
                UnreadableItem(
                    store=self._table,
                    key={name: item[name]["S"] for name in ("recipient", "cap")},
                    error=described(error),
                )
            )
        return key, StoredPlaces(is_damaged=True)

    def _put(self, change: Change, now_s: int) -> dict[str, Any]:
        put = {"TableName": self._table, "Item": item_of(change, now_s)}
        return under_revision(put, change.before.revision)


def item_of(change: Change, now_s: int) -> dict[str, Any]:
    """Return the item of places after a change."""
    return {
        **_key(change.key),
        "taken": {"M": {entry: {"N": str(at_ms)} for entry, at_ms in change.taken.items()}},
        "revision": {"N": str(change.before.revision + 1)},
        "expires_at": {"N": str(now_s + change.kept_s)},
    }


def partition_of(club_id: int, user_id: int) -> str:
    """Return the partition key of a user's items."""
    return f"{club_id}#{user_id}"


def _key(key: PlacesKey) -> dict[str, Any]:
    return {"recipient": {"S": partition_of(key.club_id, key.user_id)}, "cap": {"S": key.cap}}
