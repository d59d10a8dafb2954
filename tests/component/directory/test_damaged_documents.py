"""A damaged document of the directory hides no other one; it is logged and counted."""

from typing import Any

import pytest

from functions.device_registrar.endpoints import endpoint_arn
from functions.receipts.sent_messages import OpenSearchSentMessages
from masscomm.directory.disabled_devices import OpenSearchDisabledDevices
from masscomm.directory.port import TemplateQuery
from masscomm.directory.suppression_list import OpenSearchSuppressionList
from masscomm.domain.suppressions import INDEX as SUPPRESSIONS
from masscomm.observability import metrics
from tests.support.contracts.directory import DEVICE, EVERYBODY, NOW, TEMPLATE, USER, suppression
from tests.support.servers.directory_tables import OpenSearchTables

_SUPPRESSED = ("a@club.example", "b@club.example")


def replace_document(tables: OpenSearchTables, index: str, id_: str, **changes: Any) -> None:
    """Replace fields of a stored document; None removes a field."""
    source = tables.client.mget(body={"docs": [{"_index": index, "_id": id_}]})["docs"][0]["_source"] | changes
    body = {name: value for name, value in source.items() if value is not None}
    tables.client.index(index=index, id=id_, body=body, params={"refresh": "true"})


@pytest.mark.guarantee("lists.damaged_item_hides_no_other")
@pytest.mark.kills(guard="stored.unreadable_item")
def test_damaged_document_hides_no_other(tables: OpenSearchTables) -> None:
    disabled = DEVICE._replace(device_id=12, enabled=False)
    tables.put(USER, USER._replace(user_id=2), TEMPLATE, TEMPLATE._replace(template_id=22, locale="de"))
    tables.put(DEVICE, disabled, DEVICE._replace(device_id=13))
    tables.put(disabled._replace(device_id=14, user_id=2))
    for address in _SUPPRESSED:
        tables.suppress(suppression(address))
    tables.caught_up_to(NOW)
    tables.client.indices.refresh(index=f"device_state,{SUPPRESSIONS}")
    before = _read(tables)
    generation = tables.generation
    replace_document(tables, f"users-{generation}", str(USER.user_id), club_id="7", first_name="X")
    replace_document(tables, f"notification_templates-{generation}", str(TEMPLATE.template_id), title=None)
    replace_document(tables, f"devices-{generation}", "13", token=None)
    replace_document(tables, "device_state", "12", updated_at=None)
    replace_document(tables, SUPPRESSIONS, suppression("a@club.example").id, reason=None)
    metrics.taken()
    after = _read(tables)
    assert [len(each) for each in before] == [2, 2, 2, 2, 2, 3, 2, 2]
    assert [len(each) for each in after] == [1, 1, 1, 1, 1, 2, 1, 1]
    assert all(set(map(str, fewer)) < set(map(str, all_)) for fewer, all_ in zip(after, before, strict=True))
    assert metrics.taken()[0]["UnreadableItems"] == 8


def _read(tables: OpenSearchTables) -> list[list[Any]]:
    client, directory = tables.client, tables.directory
    query = TemplateQuery(club_ids=(7,), types=("news",), channels=("push",), limit=5)
    # Other tests suppress further addresses in the same index.
    suppressions = OpenSearchSuppressionList(client).page(clubs=[7], address_id=None, limit=100, after=None)
    return [
        list(directory.users([1, 2]).values()),
        [user_id for page in directory.members_of_club(7, EVERYBODY) for user_id in page.user_ids],
        directory.list_users(7, limit=2),
        directory.templates([(7, "news", "push")])[7, "news", "push"],
        directory.list_templates(query),
        directory.devices([1])[1],
        list(OpenSearchDisabledDevices(client).page(clubs=[7], reason=None, limit=5, after=None).rows),
        [each for each in suppressions.rows if each.id in {suppression(address).id for address in _SUPPRESSED}],
    ]


def test_damaged_state_hides_no_endpoint(tables: OpenSearchTables) -> None:
    tables.put(DEVICE, DEVICE._replace(device_id=12, endpoint_arn=endpoint_arn("gcm", "t12")))
    tables.client.indices.refresh(index="device_state")
    arns = [str(device.endpoint_arn) for device in tables.directory.devices([1])[1]]
    messages = OpenSearchSentMessages(tables.client)
    assert sorted(messages.devices(arns).values()) == [11, 12]
    replace_document(tables, "device_state", "11", endpoint_arn=arns[0], others=[{"enabled": True, "generation": "g9"}])
    assert sorted(messages.devices(arns).values()) == [12]
