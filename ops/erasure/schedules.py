"""Erases a person from schedules and their occurrences that have begun, in the table `categories`."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from masscomm.aws.dynamodb import ConditionFailed, answering
from ops.erasure.person import Person

_WHAT = "schedules"
# The attribute of an item that has a send: of a schedule the send itself, of an occurrence it is a member.
_SEND, _CONTENT = "send", "content"


@dataclass(frozen=True, kw_only=True)
class ScheduleItems:
    """The schedules with personal data. The method raises Retry or Stop."""

    # A client of class masscomm.aws.client.DynamoDb, or boto3's client.
    client: Any
    table: str

    def erase(self, person: Person) -> int:
        """Remove the person from the recipients of each schedule, with its variables. A schedule to the person alone is
        deleted. Return the number of changed and deleted items.
        """
        erased = 0
        with answering(_WHAT):
            pages = self.client.get_paginator("scan").paginate(
                TableName=self.table,
                FilterExpression="begins_with(part, :schedules) OR begins_with(part, :occurrences)",
                ExpressionAttributeValues={":schedules": {"S": "schedules#"}, ":occurrences": {"S": "occurrences#"}},
            )
            for page in pages:
                erased += sum(self._erase(person, item) for item in page["Items"])
        return erased

    def _erase(self, person: Person, item: Mapping[str, Any]) -> bool:
        attribute = _SEND if _SEND in item else _CONTENT
        if attribute not in item:
            return False
        document = json.loads(item[attribute]["S"])
        send = document if attribute == _SEND else document["send"]
        if send["club_id"] != person.club_id:  # guard: erasure.schedule_of_another_tenant
            return False
        changed = _without(send, person.user_id)
        if changed == send:
            return False
        key = {name: item[name] for name in ("part", "name")}
        is_alone = changed.get("audience") is None and not changed["to_users"]
        after = changed if attribute == _SEND else document | {"send": changed}
        request: dict[str, Any] = {
            "TableName": self.table,
            "Key": key,
            # A request may have changed the schedule meanwhile: the erasure is repeated until it finds nothing.
            "ConditionExpression": f"{attribute} = :before",
            "ExpressionAttributeValues": {":before": item[attribute]},
        }
        with suppress(ConditionFailed), answering(_WHAT):
            if is_alone:
                self.client.delete_item(**request)
            else:
                request["UpdateExpression"] = f"SET {attribute} = :after"
                request["ExpressionAttributeValues"][":after"] = {"S": json.dumps(after, ensure_ascii=False)}
                self.client.update_item(**request)
        return True


def _without(send: Mapping[str, Any], user_id: int) -> dict[str, Any]:
    """Return a send without a user."""
    changed = dict(send)
    if user_id in send.get("to_users", ()):
        changed["to_users"] = [each for each in send["to_users"] if each != user_id]
    if str(user_id) in send.get("recipient_data", {}):
        changed["recipient_data"] = {name: own for name, own in send["recipient_data"].items() if name != str(user_id)}
    audience = send.get("audience") or {}
    if user_id in audience.get("except_users", ()):
        changed["audience"] = audience | {
            "except_users": [each for each in audience["except_users"] if each != user_id]
        }
    return changed
