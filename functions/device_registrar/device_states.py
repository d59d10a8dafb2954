"""The states of devices, in the OpenSearch index device_state. Only the device registrar writes it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from masscomm.directory.bulk_writes import VersionedDocument, answering, write
from masscomm.directory.client import OpenSearch
from masscomm.errors import Retry

_INDEX = "device_state"
_IDS_A_REQUEST = 1_000


@dataclass(frozen=True, kw_only=True)
class DeviceState:
    """The state of one device, derived from the newest row of the monolith's table."""

    # The device token.
    token: str | None
    # The ARN of the SNS endpoint of this token; None if it has none.
    endpoint_arn: str | None
    enabled: bool
    # The reason why the device is disabled; None if it is enabled.
    reason: str | None
    # The version of the document, which increases with the LSN of the row.
    version: int
    # The time of the last change, in milliseconds since the epoch.
    updated_at: int
    # The snapshot generation and the version of the row (masscomm.cdc.change_events.RowChanged); None in states that
    # earlier versions of the code wrote.
    generation: str | None = None
    row_version: int | None = None


class DeviceStates(Protocol):
    """The interface of the store of device states. Each method can raise Retry."""

    def read(self, device_ids: Sequence[str]) -> dict[str, DeviceState]:
        """Return the existing states by device id."""
        ...

    def write(self, states: Mapping[str, DeviceState]) -> dict[str, Exception | None]:
        """Store the states, except those older than the stored ones. Return, by device id, the error of each write
        or None.
        """
        ...


class OpenSearchDeviceStates:
    def __init__(self, client: OpenSearch) -> None:
        self._client = client

    def read(self, device_ids: Sequence[str]) -> dict[str, DeviceState]:
        found = {}
        for start in range(0, len(device_ids), _IDS_A_REQUEST):
            ids = device_ids[start : start + _IDS_A_REQUEST]
            with answering("device states"):
                answer = self._client.mget(index=_INDEX, body={"ids": list(ids)})
            documents = answer.get("docs")
            if not isinstance(documents, list) or [d.get("_id") for d in documents] != list(ids):
                raise Retry("OpenSearch answered device states without a document for each id")
            for document in documents:
                if "error" in document or "found" not in document:
                    raise Retry(f"OpenSearch could not look up the state of device {document['_id']}")
                if document["found"]:
                    source = document["_source"]
                    found[document["_id"]] = DeviceState(
                        token=source.get("token"),
                        endpoint_arn=source.get("endpoint_arn"),
                        enabled=source["enabled"],
                        reason=source.get("reason"),
                        version=document["_version"],
                        updated_at=source["updated_at"],
                        generation=source.get("generation"),
                        row_version=source.get("row_version"),
                    )
        return found

    def write(self, states: Mapping[str, DeviceState]) -> dict[str, Exception | None]:
        documents = [
            VersionedDocument(
                index=_INDEX,
                id=device_id,
                version=state.version,
                source={
                    "token": state.token,
                    "endpoint_arn": state.endpoint_arn,
                    "enabled": state.enabled,
                    "reason": state.reason,
                    "updated_at": state.updated_at,
                    "generation": state.generation,  # guard: devices.recorded_generation
                    "row_version": state.row_version,
                },
            )
            for device_id, state in states.items()
        ]
        return dict(zip(states, write(self._client, documents), strict=True))


class InMemoryDeviceStates:
    def __init__(self) -> None:
        self.states: dict[str, DeviceState] = {}
        self.failing: Exception | None = None

    def read(self, device_ids: Sequence[str]) -> dict[str, DeviceState]:
        self._called()
        return {name: self.states[name] for name in device_ids if name in self.states}

    def write(self, states: Mapping[str, DeviceState]) -> dict[str, Exception | None]:
        self._called()
        for name, state in states.items():
            if name not in self.states or self.states[name].version <= state.version:
                self.states[name] = state
        return dict.fromkeys(states)

    def _called(self) -> None:
        if self.failing is not None:
            raise self.failing
