"""Registers the monolith's devices with the push provider, and stores the results in the index device_state.

newest row of each device → its stored state → concurrent calls to the provider → the new states, in one bulk write

statuses of endpoints (topic device_status), from delivery or operators → the states of these endpoints, after the rows

A redelivered row causes no provider call if its state is already up to date. A row without a token or a known platform
is dead-lettered; its stored state ends the time for which delivery waits for the endpoint. An endpoint belongs to a
token, not to a device: two devices have the same token after another user has logged in on the phone. Therefore the
registrar deletes no endpoint.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any

from functions.device_registrar.device_states import DeviceState, DeviceStates
from functions.device_registrar.endpoints import Endpoints, InvalidToken
from masscomm.cdc.captured_tables import DEVICES
from masscomm.cdc.change_events import (
    SNAPSHOT_VERSION,
    Change,
    ChangeDecoder,
    RefusedRow,
    RowChanged,
    RowsChanged,
    rows_of,
)
from masscomm.chain.batch import Batch, Item, UseCase
from masscomm.clock import Clock
from masscomm.domain.platforms import platform_named, platform_of_arn
from masscomm.domain.records import DeviceStatusChanged
from masscomm.domain.time_limits import ENDPOINT_CALL_S
from masscomm.errors import DeadLetter, Retry, Stop
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec
from masscomm.kafka.event import KafkaRecord

# The reason in the state of a device whose endpoint delivery reported as inactive.
_TAKES_NOTHING = "takes_nothing"
# The statuses of an endpoint: the provider reports it as inactive, or an operator asks for it again.
_INACTIVE, _ACTIVE = "inactive", "active"

type Fact = Change | DeviceStatusChanged


@dataclass
class _Device:
    """One device in this batch."""

    id: str
    # All records of the batch that concern the device.
    items: list[Item[Fact]]
    # The newest row of the device.
    row: RowChanged
    # The stored state of the device, and the new one.
    before: DeviceState | None = None
    after: DeviceState | None = None
    error: Exception | None = None

    def end(self, error: Exception | None) -> None:
        """Set the error on all records of the device, because they have the same result. Without an error, invalid rows
        are dead-lettered.
        """
        for item in self.items:
            item.error = error or _refusal(item.value)


class RegisterDevices(UseCase[Fact]):
    """The use case of the device registrar. `workers` is the maximum number of concurrent provider calls."""

    def __init__(
        self, *, generations: Sequence[str], states: DeviceStates, endpoints: Endpoints, clock: Clock, workers: int
    ) -> None:
        self._decoder = ChangeDecoder(*generations)  # guard: devices.every_generation
        self._states = states
        self._endpoints = endpoints
        self._clock = clock
        self._workers = workers

    def decode(self, record: KafkaRecord, codec: Codec) -> Fact:
        if record.topic == topics.DEVICE_STATUS:
            return DeviceStatusChanged.from_avro(codec.decode("DeviceStatusChanged", record.value))
        try:
            return self._decoder.decode(record)
        except RefusedRow as refused:
            if not refused.deleted:
                raise
            # cdc_consumer dead-letters the row. A device without a user is registered no longer than a deleted one.
            return RowsChanged(rows=refused.deleted)

    def dead_lettered(self, batch: Batch[Fact], item: Item[Fact], why: DeadLetter) -> None:
        """Do nothing: a changed row has no recipients, so there is no outcome to produce."""

    def handle(self, batch: Batch[Fact]) -> None:
        self._follow_rows(batch)
        self._follow_statuses(batch)

    def _follow_statuses(self, batch: Batch[Fact]) -> None:
        """Disable devices whose endpoint is reported as inactive, unless the device has got or renewed its endpoint
        since then; register the token of a disabled device again if an operator asks for it.
        """
        items_of: dict[str, list[Item[Fact]]] = {}
        newest: dict[str, DeviceStatusChanged] = {}
        for item in batch.active():
            status = item.value
            if isinstance(status, DeviceStatusChanged) and status.status in (_INACTIVE, _ACTIVE):
                device_id = str(status.device_id)
                items_of.setdefault(device_id, []).append(item)
                if device_id not in newest or newest[device_id].timestamp <= status.timestamp:
                    newest[device_id] = status
        if not newest:
            return
        changed: dict[str, DeviceState] = {}
        fates: dict[str, Exception | None] = {}
        for device_id, before in self._states.read(list(newest)).items():
            status = newest[device_id]
            if before.endpoint_arn != status.endpoint_arn or before.updated_at > status.timestamp:
                continue
            if status.status == _INACTIVE and before.enabled:
                changed[device_id] = self._disabled(before, _TAKES_NOTHING)
            # guard: devices.enabled_on_request
            if status.status == _ACTIVE and before.reason == _TAKES_NOTHING:
                try:
                    changed[device_id] = self._enabled(before, batch.remaining_s())
                except Retry as error:
                    fates[device_id] = error
        for device_id, fate in (fates | self._states.write(changed)).items():
            for item in items_of[device_id]:
                item.error = fate

    def _enabled(self, before: DeviceState, remaining_s: float) -> DeviceState:
        """Register the token of a device again, and return its new state. Raises Retry or Stop."""
        if remaining_s < ENDPOINT_CALL_S:
            raise Retry("no time was left for another call")
        try:
            platform = platform_of_arn(before.endpoint_arn or "") or ""
            arn = self._endpoints.register(platform, before.token or "")
        except InvalidToken:
            return self._disabled(before, "invalid_token")
        return replace(before, endpoint_arn=arn, enabled=True, reason=None, updated_at=self._clock.now_ms())

    def _disabled(self, before: DeviceState, reason: str) -> DeviceState:
        return replace(before, enabled=False, reason=reason, updated_at=self._clock.now_ms())

    def _follow_rows(self, batch: Batch[Fact]) -> None:
        devices = _newest(batch.active())
        known = self._states.read(list(devices))
        for device in devices.values():
            device.before = known.get(device.id)
        # An older row must not overwrite the state of a newer one.
        due = [d for d in devices.values() if d.before is None or _is_as_new(d.row, d.before)]
        pool = ThreadPoolExecutor(self._workers)
        tasks = {pool.submit(self._settle, device, batch.remaining_s): device for device in due}
        # boto3's time-outs limit single operations of a socket: a call to a slow server, or one that waits for a name
        # server, may take longer than the invocation.
        settled, late = wait(tasks, timeout=batch.remaining_s())
        pool.shutdown(wait=False, cancel_futures=True)
        for task in settled:
            task.result()
        for task in late:
            tasks[task].error = Retry("the call did not end within the invocation")
        fates = self._states.write(
            {d.id: d.after for task, d in tasks.items() if task in settled and d.after is not None}
        )
        for device in devices.values():
            device.error = device.error or fates.get(device.id)
            device.end(device.error)

    def _settle(self, device: _Device, remaining_s: Callable[[], float]) -> None:
        """Register the device as its row requires, and set its new state. Raises Stop; any other error is set on the
        device.
        """
        if remaining_s() < ENDPOINT_CALL_S:
            device.error = Retry("no time was left for another call")
            return
        try:
            device.after = self._as_the_row_says(device.row, device.before)
        except Stop:
            raise
        except Exception as error:
            device.error = error

    def _as_the_row_says(self, row: RowChanged, before: DeviceState | None) -> DeviceState:
        if row.columns is None:
            return self._state(row, before, token=None, reason="deleted")
        token, platform = _text(row.columns, "token"), platform_named(row.columns.get("platform"))
        if not token or platform is None:
            return self._state(row, before, token=token, reason="invalid_row")  # guard: endpoints.refused_row
        arn = before.endpoint_arn if before is not None and before.token == token else None
        if arn is not None and platform_of_arn(arn) != platform:  # guard: devices.corrected_platform
            arn = None
        if not _active(row):
            return self._state(row, before, token=token, endpoint_arn=arn, reason="inactive")
        known_dead = before is not None and before.reason == _TAKES_NOTHING and _is_no_news(row, before)
        if arn is not None and before is not None and (before.enabled or known_dead):
            # The device is already registered. The state gets the new version, so that no older row is applied later.
            return replace(before, **_place(row, before))
        try:
            arn = self._endpoints.register(platform, token)
            return self._state(row, before, token=token, endpoint_arn=arn)
        except InvalidToken:
            return self._state(row, before, token=token, reason="invalid_token")

    def _state(
        self,
        row: RowChanged,
        before: DeviceState | None,
        *,
        token: str | None,
        endpoint_arn: str | None = None,
        reason: str | None = None,
    ) -> DeviceState:
        return DeviceState(
            token=token,
            endpoint_arn=endpoint_arn,
            enabled=reason is None,
            reason=reason,
            updated_at=self._clock.now_ms(),
            **_place(row, before),
        )


def _newest(items: Iterable[Item[Fact]]) -> dict[str, _Device]:
    devices: dict[str, _Device] = {}
    for item in items:
        row = _device_row(item.value)
        if row is None:
            continue
        device = devices.setdefault(row.id, _Device(row.id, [], row))
        device.items.append(item)
        same = row.generation == device.row.generation
        if row.version >= device.row.version if same else row.lsn >= device.row.lsn:
            device.row = row
    return devices


def _device_row(fact: Fact) -> RowChanged | None:
    return next((row for row in rows_of(fact) if row.table == DEVICES), None)


def _is_as_new(row: RowChanged, state: DeviceState) -> bool:
    """Return whether the row is at least as new as the row that the state was derived from.

    Rows of one snapshot generation are compared by version. Rows of two generations are compared by LSN: a row in the
    new generation's snapshot is newer than changes that were streamed for the old generation before the snapshot, and
    older than those streamed after it. A state that an earlier version of the code wrote has no generation; its version
    is the row's version.
    """
    if state.generation == row.generation:
        return row.version >= (state.row_version or 0)
    return row.lsn >= state.version  # guard: devices.lsn_order


def _is_no_news(row: RowChanged, state: DeviceState) -> bool:
    """Return whether the state was derived from this row. A snapshot repeats all rows, and is no reason to register
    an inactive token again.
    """
    if row.version == SNAPSHOT_VERSION:
        return True
    return row.version == (state.version if state.generation is None else state.row_version)


def _place(row: RowChanged, before: DeviceState | None) -> dict[str, Any]:
    """Return the state's new version, snapshot generation and row version. The index refuses a version below the
    stored one.
    """
    version = max(row.lsn, before.version if before is not None else 0)
    return {"version": version, "generation": row.generation, "row_version": row.version}


def _active(row: RowChanged) -> bool:
    return row.columns is not None and row.columns.get("active") is True


def _refusal(fact: Fact) -> DeadLetter | None:
    """Return the error of a row that can never have an endpoint; None for any other row."""
    row = _device_row(fact)
    if row is not None and row.columns is not None:
        for name in ("token", "platform"):
            if not _text(row.columns, name):
                return DeadLetter("invalid", f"a device without {name}")
        # guard: devices.unknown_platform
        if platform_named(row.columns["platform"]) is None:
            return DeadLetter("invalid", f"a device of an unknown platform: {row.columns['platform']!r:.100}")
    return None


def _text(columns: Mapping[str, Any], name: str) -> str | None:
    """Return the text in a column; None if the value is not a text."""
    value = columns.get(name)
    return value if isinstance(value, str) else None
