"""The changed categories in DynamoDB, in the table of schemas/dynamodb/categories.json."""

from collections.abc import Mapping, Sequence
from typing import Any

from masscomm.aws.dynamodb import ConditionFailed, answering, query_items, write_together
from masscomm.aws.request import Limits
from masscomm.aws.table import TableAdapter
from masscomm.domain.categories import CategoriesError, CategoryVersion, Versions
from masscomm.domain.category_versions import read_stored, stored
from masscomm.errors import Retry
from masscomm.stores.categories.port import ChangedMeanwhile

_WHAT = "categories"
_PART = {"part": {"S": "categories"}}
_CHANGES = {"part": {"S": "changes"}, "name": {"S": "categories"}}


class DynamoDbCategories(TableAdapter):
    """The store of categories in DynamoDB."""

    TABLE, SETTING = "categories", "CATEGORIES_TABLE"
    LIMITS = Limits(connections=4, connect_s=1, read_s=2, attempts=3)

    def revision(self) -> int:
        with answering(_WHAT):
            answer = self._client.get_item(TableName=self._table, Key=_CHANGES, ConsistentRead=True)
        return int(answer["Item"]["count"]["N"]) if "Item" in answer else 0

    def every(self) -> Versions:
        found = query_items(self._client, _WHAT, self._table, _PART)
        return {item["name"]["S"]: _versions(item) for item in found}

    def put(self, name: str, versions: Sequence[CategoryVersion], *, revision: int) -> None:
        put = {
            "TableName": self._table,
            "Item": {**_PART, "name": {"S": name}, "versions": {"S": stored(versions)}},
        }
        # guard: categories.changed_meanwhile
        unchanged = "#count = :revision" if revision else "attribute_not_exists(#count)"
        count = {
            "TableName": self._table,
            "Key": _CHANGES,
            "UpdateExpression": "SET #count = :next",
            "ConditionExpression": unchanged,
            "ExpressionAttributeNames": {"#count": "count"},
            "ExpressionAttributeValues": {":next": {"N": str(revision + 1)}}
            | ({":revision": {"N": str(revision)}} if revision else {}),
        }
        try:
            write_together(self._client, _WHAT, [{"Put": put}, {"Update": count}])
        except ConditionFailed as error:
            raise ChangedMeanwhile from error


def _versions(item: Mapping[str, Any]) -> Sequence[CategoryVersion]:
    """Return the versions in an item. Raises Retry if the item is malformed: no rule of the category is known then."""
    try:
        return read_stored(item["versions"]["S"], item["name"]["S"])
    except (CategoriesError, KeyError, ValueError, TypeError) as error:
        raise Retry(f"the item of a category is malformed: {error!r}") from error
