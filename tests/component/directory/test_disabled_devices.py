"""The list of disabled devices in OpenSearch keeps the contract."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from functions.device_registrar.device_states import DeviceState, OpenSearchDeviceStates, StatesOfDevice
from masscomm.directory.bulk_writes import VersionedDocument, write
from masscomm.directory.disabled_devices import DisabledDevice, DisabledDevices, OpenSearchDisabledDevices
from tests.support.contracts.disabled_devices import NOW_MS, DisabledDevicesContract, Made, device
from tests.support.servers.directory_tables import OpenSearchTables


class TestOpenSearchDisabledDevices(DisabledDevicesContract):
    @pytest.fixture
    def made(self, tables: OpenSearchTables) -> Made:
        def written(rows: Sequence[DisabledDevice]) -> DisabledDevices:
            client, generation = tables.client, tables.generation
            states = {
                str(row.device_id): _states(_state(row.endpoint_arn, row.reason, row.since_ms, generation))
                for row in rows
            }
            enabled = _state("arn:900", None, NOW_MS, generation)
            found = OpenSearchDeviceStates(client).write(states | {"900": _states(enabled)})
            assert set(found.values()) == {None}
            documents = [document for row in rows for document in _rows(row, generation)]
            assert write(client, documents) == [None] * len(documents)
            client.indices.refresh(index="device_state")
            return OpenSearchDisabledDevices(client)

        return written

    def test_generation_that_answers_decides(self, made: Made, tables: OpenSearchTables) -> None:
        listed = made([device(1), device(2)])
        states = OpenSearchDeviceStates(tables.client)
        for device_id, is_first in (("1", True), ("2", False)):
            stored = states.read([device_id])[device_id]
            own = stored.by_generation[tables.generation]
            other = replace(own, generation="earlier", enabled=True, reason=None)
            both = _states(other, own) if is_first else _states(replace(other, generation=own.generation), other)
            assert states.write({device_id: replace(both, read_from=stored.read_from)}) == {device_id: None}
        tables.client.indices.refresh(index="device_state")
        assert [row.device_id for row in listed.page(clubs=(), reason="takes_nothing", limit=9, after=None).rows] == [1]
        assert listed.find(2) is None


def _state(arn: str | None, reason: str | None, at_ms: int, generation: str) -> DeviceState:
    return DeviceState(
        token="t",
        endpoint_arn=arn,
        enabled=reason is None,
        reason=reason,
        updated_at=at_ms,
        generation=generation,
        row_version=1,
    )


def _states(*states: DeviceState) -> StatesOfDevice:
    return StatesOfDevice({each.generation: each for each in states})


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
