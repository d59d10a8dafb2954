"""Two versions may run at once: documents with further fields of a later version are read as before, in every index."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import schemas
from functions.device_registrar.device_states import OpenSearchDeviceStates
from functions.receipts.sent_messages import MESSAGES, OpenSearchSentMessages, OutcomeWithTrace
from masscomm.directory.disabled_devices import OpenSearchDisabledDevices
from masscomm.directory.port import TemplateQuery
from masscomm.directory.preference_changes import OpenSearchPreferenceChanges
from masscomm.directory.suppression_list import OpenSearchSuppressionList
from masscomm.directory.tenant_preference_store import OpenSearchTenantPreferences
from masscomm.domain.preference_changes import INDEX as PREFERENCE_CHANGES
from masscomm.domain.source_tables import OPTIONAL_TABLES
from masscomm.domain.suppressions import INDEX as SUPPRESSIONS
from masscomm.domain.tenant_preferences import INDEX as TENANT_PREFERENCES
from tests.support.contracts.directory import DEVICE, EVERYBODY, NOW, SETTINGS, TEMPLATE, USER, suppression
from tests.support.contracts.preference_changes import changed
from tests.support.contracts.sent_messages import outcome
from tests.support.contracts.tenant_preferences import RULES
from tests.support.servers.directory_tables import OpenSearchTables

# The indices that belong to all generations, and accept only the fields of their mapping.
STRICT = ("device_state", "directory_state", PREFERENCE_CHANGES, MESSAGES, SUPPRESSIONS, TENANT_PREFERENCES)
CAPTURED = ("users", "user_settings", "devices", "notification_templates")
INDICES = Path(next(iter(schemas.__path__))) / "indices"
# A later version also adds fields to the objects that no mapping describes.
LATER = (
    "ctx._source.of_later = [1]; if (ctx._source.outcome != null) { ctx._source.outcome.of_later = 1 }"
    " if (ctx._source.changes != null) { for (change in ctx._source.changes) { change.of_later = 1 } }"
)


@pytest.fixture
def later_tables(tables: OpenSearchTables) -> Iterator[OpenSearchTables]:
    """The tables after the provisioning of a later version, whose mappings have its fields."""
    _accept(tables, further=True)
    yield tables
    # Other tests store these documents again.
    body, params = {"script": {"source": "ctx._source.remove('of_later')"}}, {"refresh": True, "conflicts": "proceed"}
    tables.client.request("POST", f"{','.join(STRICT)}/_update_by_query", body, params)
    _accept(tables, further=False)


def _accept(tables: OpenSearchTables, *, further: bool) -> None:
    for index in STRICT:
        tables.client.request("PUT", f"{index}/_mapping", {"dynamic": False if further else "strict"})


def test_every_index_has_its_documents_here() -> None:
    """Those of optional tables are captured as the others, and exist only where they are mapped."""
    assert {*STRICT, *CAPTURED, *OPTIONAL_TABLES} == {path.stem for path in INDICES.glob("*.json")}


@pytest.mark.guarantee("upgrade.items_of_a_later_version")
def test_fields_of_a_later_version_change_nothing(later_tables: OpenSearchTables) -> None:
    disabled = DEVICE._replace(device_id=12, enabled=False)
    later_tables.put(USER, SETTINGS, DEVICE, disabled, TEMPLATE)
    later_tables.suppress(suppression("a@club.example"))
    later_tables.caught_up_to(NOW)
    client = later_tables.client
    assert OpenSearchPreferenceChanges(client).write(changed(1), after=None)
    assert OpenSearchTenantPreferences(client).write(RULES, after=None)
    assert OpenSearchSentMessages(client).store([OutcomeWithTrace(outcome("later", [["later"]]))]) == [None]
    names = (*STRICT, *(f"{name}-{later_tables.generation}" for name in CAPTURED))
    client.indices.refresh(index=",".join(names))
    before = _read(later_tables)
    for name in names:
        script = {"script": {"source": LATER, "lang": "painless"}}
        done = client.request("POST", f"{name}/_update_by_query", script, {"refresh": True, "conflicts": "proceed"})
        assert done["updated"] >= 1, name
    assert _read(later_tables) == before
    assert all(before)


def _read(tables: OpenSearchTables) -> list[Any]:
    client, directory = tables.client, tables.directory
    changes = OpenSearchPreferenceChanges(client)
    stored, rules = changes.read(1), OpenSearchTenantPreferences(client).read(RULES.club_id)
    person = directory.person(1, NOW)
    assert person is not None
    return [
        directory.users([1]),
        [each._replace(version=0) for each in directory.user_settings([1]).values()],
        directory.devices([1]),
        directory.templates([(7, "news", "push")]),
        directory.list_templates(TemplateQuery(club_ids=(7,), types=("news",), channels=("push",), limit=5)),
        list(directory.members_of_club(7, EVERYBODY)),
        directory.list_users(7, limit=5),
        [device for device, _ in person.devices],
        directory.suppressed(7, ["a@club.example"], NOW),
        directory.confirm(NOW),
        None if stored is None else stored.changes,
        list(changes.unproduced(NOW * 2)),
        None if rules is None else rules.preferences,
        directory.layers([1], [RULES.club_id]).tenants,
        [
            state.endpoint_arn
            for device in OpenSearchDeviceStates(client).read(["11", "12"]).values()
            for state in device.by_generation.values()
        ],
        OpenSearchDisabledDevices(client).page(clubs=[7], reason=None, limit=5, after=None).rows,
        OpenSearchSuppressionList(client).page(clubs=[7], address_id=None, limit=5, after=None).rows,
        OpenSearchSentMessages(client).find(["later"]),
    ]
