"""The list of disabled devices in OpenSearch keeps the contract."""

from collections.abc import Sequence

import pytest

from functions.device_registrar.device_states import DeviceState, OpenSearchDeviceStates
from masscomm.directory.bulk_writes import VersionedDocument, write
from masscomm.directory.disabled_devices import DisabledDevice, DisabledDevices, OpenSearchDisabledDevices
from tests.support.contracts.disabled_devices import NOW_MS, DisabledDevicesContract, Made
from tests.support.servers.directory_tables import OpenSearchTables


class TestOpenSearchDisabledDevices(DisabledDevicesContract):
    @pytest.fixture
    def made(self, tables: OpenSearchTables) -> Made:
        def written(rows: Sequence[DisabledDevice]) -> DisabledDevices:
            client, generation = tables.client, tables.generation
            states = {str(row.device_id): _state(row.endpoint_arn, row.reason, row.since_ms) for row in rows}
            found = OpenSearchDeviceStates(client).write(states | {"900": _state("arn:900", None, NOW_MS)})
            assert set(found.values()) == {None}
            documents = [document for row in rows for document in _rows(row, generation)]
            assert write(client, documents) == [None] * len(documents)
            client.indices.refresh(index="device_state")
            return OpenSearchDisabledDevices(client)

        return written


def _state(arn: str | None, reason: str | None, at_ms: int) -> DeviceState:
    return DeviceState(token="t", endpoint_arn=arn, enabled=reason is None, reason=reason, version=1, updated_at=at_ms)


def _rows(row: DisabledDevice, generation: str) -> list[VersionedDocument]:
    """Return the rows of a device and its user as cdc_consumer writes them; a deleted row has no columns."""
    name = f"devices-{generation}"
    if row.user_id is None:
        return [VersionedDocument(index=name, id=str(row.device_id), version=1, source={"deleted": True})]
    columns = {"id": row.device_id, "user_id": row.user_id, "platform": row.platform, "active": True}
    user = {"id": row.user_id, "club_id": row.club_id}
    return [
        VersionedDocument(index=name, id=str(row.device_id), version=1, source=columns),
        VersionedDocument(index=f"users-{generation}", id=str(row.user_id), version=1, source=user),
    ]
