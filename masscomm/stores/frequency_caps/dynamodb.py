"""The places of frequency caps in DynamoDB, in the table of schemas/dynamodb/frequency_caps.json.

An item has the places of one user for one cap. It is replaced under the condition that its revision is the one that was
read, so that a cap is exact under concurrent writers.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from masscomm.aws.dynamodb import ConditionFailed, answering, read_items, transact, write_together
from masscomm.aws.request import Limits
from masscomm.aws.table import TableAdapter
from masscomm.errors import MasscommError
from masscomm.observability.unreadable_items import DAMAGE, UnreadableItem, described, report_unreadable
from masscomm.stores.frequency_caps.port import Change, PlacesKey, StoredPlaces
from masscomm.stores.transactions import write_all

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
        puts = {
            str(number): [self._put(change, now_ms // 1000) for change in each] for number, each in enumerate(changes)
        }
        written = write_all(
            {
                number: sum(_ITEM_BYTES + _PLACE_BYTES * len(change.taken) for change in changes[int(number)])
                for number in puts
            },
            transact=lambda numbers: self._transact({number: puts[number] for number in numbers}),
            alone=lambda number: self._alone(puts[number]),
            items={number: len(each) for number, each in puts.items()},
        )
        answers = [written[number] for number in puts]
        for answer in answers:
            if isinstance(answer, MasscommError):
                raise answer
        return [answer is True for answer in answers]

    def _transact(self, puts: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
        """Write the items of all users, or none. If it is cancelled, name the users that cancelled it, so that their
        items are not tried again.
        """
        owners = [number for number, each in puts.items() for _ in each]
        cancelled = transact(self._client, _WHAT, [put for each in puts.values() for put in each])
        if not cancelled:
            return dict.fromkeys(puts, _written)
        # A conflict with another transaction returns no item: the user's items may be unchanged.
        changed = {owners[index] for index, item in cancelled.items() if item}
        return dict.fromkeys(changed, _changed)

    def _alone(self, puts: Sequence[Mapping[str, Any]]) -> bool:
        try:
            if len(puts) == 1:
                with answering(_WHAT):
                    self._client.put_item(**puts[0])
            else:
                write_together(self._client, _WHAT, [{"Put": put} for put in puts])
        except ConditionFailed:
            return False
        return True

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
        revision = change.before.revision
        return {
            "TableName": self._table,
            "Item": item_of(change, now_s),
            # guard: frequency_caps.changed_meanwhile
            "ConditionExpression": "revision = :revision" if revision else "attribute_not_exists(revision)",
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            **({"ExpressionAttributeValues": {":revision": {"N": str(revision)}}} if revision else {}),
        }


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


def _written() -> bool:
    return True


def _changed() -> bool:
    return False
