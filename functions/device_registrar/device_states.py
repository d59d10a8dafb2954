"""The states of devices, in the OpenSearch index device_state. Only the device registrar writes it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from masscomm.directory.bulk_writes import ChangedDocument, Conflict, write_changed
from masscomm.directory.by_id import documents_by_id
from masscomm.directory.client import OpenSearch
from masscomm.directory.device_states import INDEX, document_of, states_in


class Taken(NamedTuple):
    """When a row took its user and its token."""

    # The snapshot generation in whose stream the row took them; None: a snapshot has the row, without a position.
    generation: str | None
    # The log position of the change; for a row of a snapshot its `updated_at`.
    at: int


@dataclass(frozen=True, kw_only=True)
class DeviceState:
    """The state of one device in one snapshot generation, derived from the newest row of the monolith's table there."""

    # The device token.
    token: str | None
    # The ARN of the SNS endpoint of this token; None if it has none.
    endpoint_arn: str | None
    enabled: bool
    # The reason why the device is disabled; None if it is enabled.
    reason: str | None
    # The time of the last change, in milliseconds since the epoch.
    updated_at: int
    # The snapshot generation and the version of the row (masscomm.cdc.change_events.RowChanged).
    generation: str
    row_version: int
    # The user of the row, and when it took this user and the token; None for a deleted row.
    user_id: int | None = None
    taken: Taken | None = None


@dataclass(frozen=True)
class StatesOfDevice:
    """The states of one device."""

    # By snapshot generation, the oldest one first.
    by_generation: Mapping[str, DeviceState]
    # The sequence number and primary term of the document that was read; None: there was none.
    read_from: tuple[int, int] | None = field(default=None, compare=False)


class DeviceStates(Protocol):
    """The interface of the store of device states. Each method can raise Retry."""

    def read(self, device_ids: Sequence[str]) -> dict[str, StatesOfDevice]:
        """Return the existing states by device id."""
        ...

    def write(self, states: Mapping[str, StatesOfDevice]) -> dict[str, Exception | None]:
        """Store the states, except where the stored ones have changed since they were read. Return, by device id, the
        error of each write (Conflict in that case) or None.
        """
        ...


class OpenSearchDeviceStates:
    def __init__(self, client: OpenSearch) -> None:
        self._client = client

    def read(self, device_ids: Sequence[str]) -> dict[str, StatesOfDevice]:
        found = documents_by_id(self._client, INDEX, device_ids)
        return {device_id: _read(document) for device_id, document in found.items()}

    def write(self, states: Mapping[str, StatesOfDevice]) -> dict[str, Exception | None]:
        documents = [
            ChangedDocument(index=INDEX, id=device_id, after=each.read_from, source=stored_document(each))
            for device_id, each in states.items()
        ]
        return dict(zip(states, write_changed(self._client, documents), strict=True))


def _read(document: Mapping[str, Any]) -> StatesOfDevice:
    states = [
        DeviceState(
            token=source.get("token"),
            endpoint_arn=source.get("endpoint_arn"),
            enabled=source["enabled"],
            reason=source.get("reason"),
            updated_at=source["updated_at"],
            generation=source["generation"],
            row_version=source["row_version"],
            user_id=source.get("user_id"),
            taken=None if source.get("taken_at") is None else Taken(source.get("taken_in"), source["taken_at"]),
        )
        for source in states_in(document["_source"])
    ]
    return StatesOfDevice(
        {state.generation: state for state in states}, (document["_seq_no"], document["_primary_term"])
    )


def stored_document(states: StatesOfDevice) -> dict[str, Any]:
    """Return the document that the index has for a device."""
    return document_of(
        [
            {
                "token": state.token,
                "endpoint_arn": state.endpoint_arn,
                "enabled": state.enabled,
                "reason": state.reason,
                "updated_at": state.updated_at,
                "generation": state.generation,  # guard: devices.recorded_generation
                "row_version": state.row_version,
                "user_id": state.user_id,
                "taken_in": None if state.taken is None else state.taken.generation,
                "taken_at": None if state.taken is None else state.taken.at,
            }
            for state in states.by_generation.values()
        ]
    )


class InMemoryDeviceStates:
    def __init__(self) -> None:
        self.stored: dict[str, StatesOfDevice] = {}
        self.failing: Exception | None = None

    @property
    def states(self) -> dict[str, DeviceState]:
        """The state of each device in the oldest generation."""
        return {name: next(iter(stored.by_generation.values())) for name, stored in self.stored.items()}

    def read(self, device_ids: Sequence[str]) -> dict[str, StatesOfDevice]:
        self._called()
        return {name: self.stored[name] for name in device_ids if name in self.stored}

    def write(self, states: Mapping[str, StatesOfDevice]) -> dict[str, Exception | None]:
        self._called()
        return {name: self._write(name, each) for name, each in states.items()}

    def _write(self, name: str, states: StatesOfDevice) -> Exception | None:
        known = self.stored.get(name)
        if (known.read_from if known is not None else None) != states.read_from:
            return Conflict("the stored states have changed")
        number = known.read_from[0] + 1 if known is not None and known.read_from is not None else 0
        self.stored[name] = StatesOfDevice(dict(states.by_generation), (number, 1))
        return None

    def _called(self) -> None:
        if self.failing is not None:
            raise self.failing
