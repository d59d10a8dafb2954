"""Registers the monolith's devices with the push provider, and stores the results in the index device_state.

newest row of each device and generation → its stored states → concurrent calls to the provider → the new states and
the owners of their tokens, in bulk writes → the states as records (functions.device_registrar.token_owners)

statuses of endpoints (topic device_status), from delivery or operators → the states of these endpoints, after the rows

Each snapshot generation that has the device has a state of its own, so that no generation hides the changes of another
one, whatever their positions are (docs/decisions/085). A row takes over what another generation's
row has led to for the same token: a new snapshot registers no known token again.

Until the first snapshot is complete, no record is processed: no look-up is answered yet, so no push needs an endpoint,
and OpenSearch indexes the rows of the directory first.

A redelivered row causes no provider call if its state is already up to date. A row without a token or a known platform
is dead-lettered; its stored state ends the time for which delivery waits for the endpoint. An endpoint belongs to a
token, not to a device: two devices have the same token after another user has logged in on the phone. Therefore the
registrar deletes no endpoint.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from functions.device_registrar.device_states import DeviceState, DeviceStates, StatesOfDevice, Taken
from functions.device_registrar.endpoints import Endpoints, InvalidToken
from functions.device_registrar.token_holders import TokenHolders
from functions.device_registrar.token_owners import TokenOwners, inherited, latest
from masscomm.cdc.captured_tables import DEVICES
from masscomm.cdc.change_events import (
    SNAPSHOT_VERSION,
    Change,
    ChangeDecoder,
    MissedDelete,
    RefusedRow,
    RowChanged,
    RowsChanged,
    rows_of,
)
from masscomm.chain.batch import Batch, Item, UseCase
from masscomm.clock import Clock
from masscomm.directory.disabled_devices import DisabledReason
from masscomm.directory.document_publisher import DocumentPublisher
from masscomm.directory.generations import CreationTimes
from masscomm.domain.platforms import platform_named, platform_of_arn
from masscomm.domain.records import DeviceStatusChanged
from masscomm.domain.time_limits import ENDPOINT_CALL_S, FIRST_CAPTURE_POLL_S
from masscomm.errors import DeadLetter, Retry, Stop
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec
from masscomm.kafka.event import KafkaRecord

# The reason in the state of a device whose endpoint delivery reported as inactive.
_TAKES_NOTHING = "takes_nothing"
# The reason in the state of a device whose row was deleted.
_DELETED = "deleted"
# The place of a captured generation whose time of creation is not stored yet.
_NEWEST = 2**63
# The statuses of an endpoint: the provider reports it as inactive, or an operator asks for it again.
_INACTIVE, _ACTIVE = "inactive", "active"

type Fact = Change | DeviceStatusChanged


@dataclass
class _Device:
    """One device in this batch."""

    id: str
    # All records of the batch that concern the device.
    items: list[Item[Fact]]
    # The newest row of the device in each snapshot generation, and all its rows of the batch.
    rows: dict[str, RowChanged]
    versions: list[RowChanged]
    # The stored states of the device, and the new ones.
    before: StatesOfDevice
    after: StatesOfDevice | None = None
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
        self,
        *,
        generations: Sequence[str],
        created: CreationTimes,
        states: DeviceStates,
        holders: TokenHolders,
        endpoints: Endpoints,
        publisher: DocumentPublisher,
        clock: Clock,
        workers: int,
    ) -> None:
        self._decoder = ChangeDecoder(*generations, clock=clock)  # guard: devices.every_generation
        self._generations = generations
        self._created = created
        self._states = states
        self._endpoints = endpoints
        self._clock = clock
        self._workers = workers
        # Whether a snapshot was complete once. A later one replaces it in operation.
        self._has_directory = False
        self._owners = TokenOwners(states=states, holders=holders, publisher=publisher, order=self._order, clock=clock)

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
        self._await_directory(batch)  # guard: devices.directory_first
        self._follow_rows(batch)
        self._follow_statuses(batch)

    def _await_directory(self, batch: Batch[Fact]) -> None:
        """Wait until a snapshot is complete. Raises Retry if the time is not enough."""
        while not self._has_directory:
            self._has_directory = self._created.is_any_complete(self._generations)
            if self._has_directory:
                return
            if batch.remaining_s() < FIRST_CAPTURE_POLL_S + ENDPOINT_CALL_S:
                raise Retry("the first snapshot of the directory is not complete")
            self._clock.sleep(FIRST_CAPTURE_POLL_S)

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
        changed: dict[str, StatesOfDevice] = {}
        fates: dict[str, Exception | None] = {}
        for device_id, before in self._states.read(list(newest)).items():
            try:
                states = {
                    name: self._after_status(state, newest[device_id], batch.remaining_s)
                    for name, state in before.by_generation.items()
                }
            except Retry as error:
                fates[device_id] = error
                continue
            if states != before.by_generation:
                changed[device_id] = replace(before, by_generation=states)
        tokens = {device_id: _tokens_in(states) for device_id, states in changed.items()}
        for device_id, fate in (fates | self._owners.store(changed, tokens)).items():
            for item in items_of[device_id]:
                item.error = fate

    def _after_status(
        self, before: DeviceState, status: DeviceStatusChanged, remaining_s: Callable[[], float]
    ) -> DeviceState:
        """Return a state after a status of its endpoint. Raises Retry or Stop."""
        if before.endpoint_arn != status.endpoint_arn or before.updated_at > status.timestamp:
            return before
        if status.status == _INACTIVE and before.enabled:
            return self._disabled(before, _TAKES_NOTHING)
        # guard: devices.enabled_on_request
        if status.status == _ACTIVE and before.reason == _TAKES_NOTHING:
            return self._enabled(before, remaining_s())
        return before

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
        ids = list(dict.fromkeys(id_ for item in batch.active() if (id_ := _device_id(item.value)) is not None))
        devices = _newest(batch.active(), self._states.read(ids))
        outlived = self._outlived(devices.values())
        # An older row must not overwrite the state of a newer one.
        for device in devices.values():
            device.rows = {name: row for name, row in device.rows.items() if _is_as_new(row, device.before)}
        due = [device for device in devices.values() if device.rows]
        for device in devices.values():
            if not device.rows:
                states = self._with_times_taken(device.before.by_generation, device.versions)
                if states != device.before.by_generation:
                    device.after = replace(device.before, by_generation=states)
        pool = ThreadPoolExecutor(self._workers)
        tasks = {pool.submit(self._settle, device, outlived, batch.remaining_s): device for device in due}
        # boto3's time-outs limit single operations of a socket: a call to a slow server, or one that waits for a name
        # server, may take longer than the invocation.
        settled, late = wait(tasks, timeout=batch.remaining_s())
        pool.shutdown(wait=False, cancel_futures=True)
        for task in settled:
            task.result()
        for task in late:
            tasks[task].error = Retry("the call did not end within the invocation")
        stored = [device for device in devices.values() if device.error is None]
        fates = self._owners.store(
            {device.id: device.after for device in stored if device.after is not None},
            {device.id: _tokens_of(device) for device in stored},
        )
        for device in devices.values():
            device.error = device.error or fates.get(device.id)
            device.end(device.error)

    def _outlived(self, devices: Iterable[_Device]) -> set[str]:
        """Return the snapshot generations whose states end: those that were created before every captured one.

        Another environment may capture a later generation already, or only an earlier one still. Raises Retry.
        """
        captured = set(self._generations)
        others = {name for device in devices for name in device.before.by_generation} - captured
        if not others:
            return set()
        times = self._created.of(others | captured)
        if not captured <= times.keys():
            return set()
        first = min(times[name] for name in captured)
        return {name for name in others if times.get(name, first) < first}  # guard: devices.later_generation

    def _settle(self, device: _Device, outlived: set[str], remaining_s: Callable[[], float]) -> None:
        """Register the device as its rows require, and set its new states. Raises Stop; any other error is set on the
        device.
        """
        if remaining_s() < ENDPOINT_CALL_S:
            device.error = Retry("no time was left for another call")
            return
        states = dict(device.before.by_generation)
        try:
            for row in device.rows.values():
                own = states.get(row.generation)
                states[row.generation] = replace(
                    self._as_the_row_says(row, states),
                    user_id=None if row.columns is None else row.columns["user_id"],
                    taken=None if row.columns is None else _first_known(row, own),
                )
            states = self._with_times_taken(states, device.versions)
        except Stop:
            raise
        except Exception as error:
            device.error = error
            return
        if outlived & states.keys():
            states = inherited(states, self._order(states.keys()))
        kept = {name: state for name, state in states.items() if name not in outlived}
        device.after = replace(device.before, by_generation=kept)

    def _with_times_taken(
        self, states: Mapping[str, DeviceState], rows: Iterable[RowChanged]
    ) -> dict[str, DeviceState]:
        """Return the states with the times at which their rows took user and token, as far as these rows show. The rows
        may be older than those of the states, because environments may process them in any order.
        """
        found = dict(states)
        order = self._order(states.keys())
        for row in rows:
            state, taken = found.get(row.generation), _taken(row)
            if state is None or taken is None or row.columns is None or state.user_id is None:
                continue
            is_same = (row.columns["user_id"], _text(row.columns, "token")) == (state.user_id, state.token)
            if is_same or taken.generation is not None:
                found[row.generation] = replace(state, taken=latest(state.taken, taken, order))
        return found

    def _order(self, generations: Collection[str]) -> dict[str, int]:
        """Return the place of snapshot generations in the order of their creation. Raises Retry."""
        if len(generations) <= 1:
            return dict.fromkeys(generations, 0)
        times = self._created.of(generations)
        return {name: times.get(name, _NEWEST if name in self._generations else 0) for name in generations}

    def _as_the_row_says(self, row: RowChanged, states: Mapping[str, DeviceState]) -> DeviceState:
        if row.columns is None:
            return self._state(row, token=None, reason=_DELETED)
        token, platform = _text(row.columns, "token"), platform_named(row.columns.get("platform"))
        if not token or platform is None:
            return self._state(row, token=token, reason="invalid_row")  # guard: endpoints.refused_row
        own = states.get(row.generation)
        before = _registered(token, platform, own, states)
        arn = before.endpoint_arn if before is not None else None
        if not _active(row):
            return self._state(row, token=token, endpoint_arn=arn, reason="inactive")
        known_dead = before is not None and before.reason == _TAKES_NOTHING and _is_no_news(row, own)
        has_moved = before is not None and before.reason == DisabledReason.TOKEN_MOVED
        if before is not None and (before.enabled or known_dead or has_moved):
            # The device is already registered. The state gets the new version, so that no older row is applied later.
            return replace(before, generation=row.generation, row_version=row.version)
        try:
            arn = self._endpoints.register(platform, token)
            return self._state(row, token=token, endpoint_arn=arn)
        except InvalidToken:
            return self._state(row, token=token, reason="invalid_token")

    def _state(
        self, row: RowChanged, *, token: str | None, endpoint_arn: str | None = None, reason: str | None = None
    ) -> DeviceState:
        return DeviceState(
            token=token,
            endpoint_arn=endpoint_arn,
            enabled=reason is None,
            reason=reason,
            updated_at=self._clock.now_ms(),
            generation=row.generation,
            row_version=row.version,
        )


def _newest(items: Iterable[Item[Fact]], states: Mapping[str, StatesOfDevice]) -> dict[str, _Device]:
    """Return the devices in a batch by id, with their stored states."""
    devices: dict[str, _Device] = {}
    for item in items:
        device_id = _device_id(item.value)
        if device_id is None:
            continue
        before = states.get(device_id, StatesOfDevice({}))
        device = devices.setdefault(device_id, _Device(device_id, [], {}, [], before))
        device.items.append(item)
        row = _missed_row(item.value, device) if isinstance(item.value, MissedDelete) else _device_row(item.value)
        if row is None:
            continue
        device.versions.append(row)
        known = device.rows.get(row.generation)
        if known is None or row.version >= known.version:
            device.rows[row.generation] = row
    return devices


def _device_row(fact: Fact) -> RowChanged | None:
    return next((row for row in rows_of(fact) if row.table == DEVICES), None)


def _device_id(fact: Fact) -> str | None:
    """Return the id of the device that a change concerns; None for any other change."""
    if isinstance(fact, MissedDelete):
        return fact.id if DEVICES in fact.tables else None  # guard: devices.missed_delete
    row = _device_row(fact)
    return None if row is None else row.id


def _missed_row(change: MissedDelete, device: _Device) -> RowChanged | None:
    """Return the deleted row of a deletion that was not read; None if no row of the device is left."""
    row, state = device.rows.get(change.generation), device.before.by_generation.get(change.generation)
    if row is None and (state is None or state.reason == _DELETED):
        return None
    return change.row(DEVICES, max(row.version if row else 0, state.row_version if state else 0))


def _is_as_new(row: RowChanged, states: StatesOfDevice) -> bool:
    """Return whether the row is at least as new as the row of its snapshot generation that the state there was derived
    from. Versions of two generations cannot be compared: a moved or restored database assigns its positions again.
    """
    state = states.by_generation.get(row.generation)  # guard: devices.positions_of_one_generation
    return state is None or row.version >= state.row_version


def _registered(
    token: str, platform: str, own: DeviceState | None, states: Mapping[str, DeviceState]
) -> DeviceState | None:
    """Return a state with an endpoint of this token and platform: the own one of the row's snapshot generation, else
    the first one; None if there is none.
    """
    for state in (own, *states.values()):
        if state is None or state.token != token or state.endpoint_arn is None:
            continue
        if platform_of_arn(state.endpoint_arn) != platform:  # guard: devices.corrected_platform
            continue
        return state
    return None


def _is_no_news(row: RowChanged, state: DeviceState | None) -> bool:
    """Return whether the state was derived from this row. A snapshot repeats all rows: it does not register an
    inactive token again.
    """
    return row.version == SNAPSHOT_VERSION or (state is not None and row.version == state.row_version)


def _taken(row: RowChanged) -> Taken | None:
    """Return when the row took its user and token, as far as this version of it shows: the change in a stream that gave
    it both, or the snapshot that has it. None: an earlier version of the row took them.
    """
    columns, earlier = row.columns, row.earlier
    if columns is None:
        return None
    if row.version == SNAPSHOT_VERSION:
        return Taken(None, _updated_at(columns))
    # guard: devices.when_taken
    if earlier is not None and all(earlier.get(name) == columns.get(name) for name in ("user_id", "token")):
        return None
    return Taken(row.generation, row.version)


def _first_known(row: RowChanged, own: DeviceState | None) -> Taken:
    """Return when a row took its user and token, by its stored state; without one, as for a row of a snapshot."""
    return own.taken if own is not None and own.taken is not None else Taken(None, _updated_at(row.columns or {}))


def _updated_at(columns: Mapping[str, Any]) -> int:
    """Return a row's `updated_at` in µs since the epoch, or as the number that it is; 0 if it has none."""
    value = columns.get("updated_at")
    if isinstance(value, int):
        return value
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return 0
    if at is None:
        return 0
    return round((at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp() * 1_000_000)


def _tokens_in(states: StatesOfDevice) -> set[str]:
    return {state.token for state in states.by_generation.values() if state.token}


def _tokens_of(device: _Device) -> set[str]:
    """Return all tokens that the device has or had: in its states, and in its rows before and after a change."""
    columns = [each for row in device.versions for each in (row.columns, row.earlier)]
    # guard: devices.tokens_of_a_redelivered_row
    found = {token for each in columns if each is not None and (token := _text(each, "token"))}
    return found | _tokens_in(device.before) | (_tokens_in(device.after) if device.after else set())


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
