"""The counts of e-mails in DynamoDB, in the table of schemas/dynamodb/key_usage.json."""

from collections.abc import Iterable

from masscomm.aws.dynamodb import ConditionFailed, read_items
from masscomm.aws.request import Limits
from masscomm.aws.table import TableAdapter
from masscomm.domain.email_pauses import MS_AN_HOUR, EmailCounts
from masscomm.domain.time_limits import EMAIL_COUNTS_KEPT_S
from masscomm.stores.key_usage.dynamodb import write_repeatedly

_WHAT = "the counts of e-mails"


class DynamoDbEmailCounter(TableAdapter):
    """The counts in DynamoDB: an item for each club and hour, and one for each counted record."""

    TABLE, SETTING = "key_usage", "KEY_USAGE_TABLE"
    LIMITS = Limits(connections=2, connect_s=1, read_s=2, attempts=2)

    def add(self, club_id: int, hour: int, counts: EmailCounts, *, once: str) -> None:
        kept = {"N": str(hour * MS_AN_HOUR // 1000 + EMAIL_COUNTS_KEPT_S)}
        marker = {
            "TableName": self._table,
            "Item": {"id": {"S": f"emails#{once}"}, "expires_at": kept},
            "ConditionExpression": "attribute_not_exists(id)",  # guard: email_pauses.counted_once
        }
        values = {f":{name}": {"N": str(count)} for name, count in counts._asdict().items()}
        names = ", ".join(f"{name} :{name}" for name in counts._fields)
        addition = {
            "TableName": self._table,
            "Key": _key(club_id, hour),
            "UpdateExpression": f"ADD {names} SET expires_at = :kept",
            "ExpressionAttributeValues": {**values, ":kept": kept},
        }
        try:
            write_repeatedly(self._client, _WHAT, [{"Put": marker}, {"Update": addition}])
        except ConditionFailed:
            return  # The record is counted.

    def total(self, club_id: int, hours: Iterable[int]) -> EmailCounts:
        found = EmailCounts()
        for item in read_items(self._client, _WHAT, self._table, [_key(club_id, hour) for hour in hours]):
            found = found.plus(EmailCounts(*(int(item.get(name, {"N": "0"})["N"]) for name in EmailCounts._fields)))
        return found


def _key(club_id: int, hour: int) -> dict[str, dict[str, str]]:
    return {"id": {"S": f"emails#{club_id}#{hour}"}}
