"""An erasure removes a person from schedules."""

from dataclasses import replace
from typing import Any

import pytest

from masscomm.stores.schedules.dynamodb import DynamoDbSchedules
from ops.erasure.person import Person
from ops.erasure.schedules import ScheduleItems
from tests.support.contracts.schedules import WEEKLY, occurrence
from tests.support.servers.dynamodb_table import new_table

SEND = {"type": "news", "club_id": 7, "to_users": [42, 43], "recipient_data": {"42": {"name": "Ada"}}}
EXCEPT: dict[str, Any] = {"type": "news", "club_id": 7, "audience": {"all_users": True, "except_users": [42]}}


@pytest.mark.kills(guard="erasure.schedule_of_another_tenant")
def test_person_is_removed_from_schedules(moto_dynamodb: Any) -> None:
    table = new_table(moto_dynamodb, "categories")
    store = DynamoDbSchedules(table=table, client=moto_dynamodb)
    sends = {
        "few": SEND,
        "alone": SEND | {"to_users": [42]},
        "exceptions": EXCEPT,
        "others": SEND | {"to_users": [43], "recipient_data": {}},
    }
    for name, send in sends.items():
        store.put(replace(WEEKLY, name=name, send=send), None)
    store.put(replace(WEEKLY, club_id=8, send=SEND | {"club_id": 8}), None)
    store.record(occurrence(content={"send": SEND}))
    items = ScheduleItems(client=moto_dynamodb, table=table)
    assert [items.erase(Person(user_id=42, club_id=7)) for _ in range(2)] == [4, 0]
    erased = SEND | {"to_users": [43], "recipient_data": {}}
    assert {each.name: each.send for each in store.of_club(7)} == {
        "few": erased,
        "exceptions": EXCEPT | {"audience": {"all_users": True, "except_users": []}},
        "others": sends["others"],
    }
    (begun,) = store.history(WEEKLY.id, 1)
    assert begun.content == {"send": erased}
    assert [each.send["to_users"] for each in store.of_club(8)] == [[42, 43]]
