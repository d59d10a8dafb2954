"""GET /v1/devices: the devices to which nothing is pushed, those disabled last first.
GET /v1/devices/counts: their number by club (tenant) and reason.
POST /v1/devices/{device_id}/enable: let the device registrar try one again.

club_id   devices of these clubs only; may be repeated
reason    devices with this reason only
limit     the maximum number of rows, by default 50
cursor    next_cursor of the previous page
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypedDict
from uuid import uuid4

from masscomm.clock import Clock
from masscomm.directory.disabled_devices import DisabledDevice, DisabledDevices, DisabledReason, Position
from masscomm.domain.audit import Action
from masscomm.domain.records import DeviceStatusChanged
from masscomm.domain.time_limits import API_FLUSH_S
from masscomm.errors import Retry
from masscomm.http import parameters as parse
from masscomm.http.body import check_empty
from masscomm.http.cursor import encode_cursor, position_in
from masscomm.http.parameters import Reader, time_of_ms
from masscomm.http.problem import Problem
from masscomm.http.requested_clubs import seen
from masscomm.http.tenant import Clubs, parse_club_id
from masscomm.integers import integer_or
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec
from masscomm.kafka.producer import Producer
from masscomm.stores.audit_log.port import Audit
from masscomm.texts import Text

DEFAULT_LIMIT, MAX_LIMIT = 50, 200
PARAMETERS = ("club_id", "reason", "limit", "cursor")
REASONS = tuple(DisabledReason)
_MAX = 2**63 - 1


class DisabledDeviceRow(TypedDict):
    """A device to which nothing is pushed. Its token and its endpoint are not shown."""

    device_id: int
    user_id: int | None
    """null: the monolith's row is gone."""
    club_id: int | None
    platform: str | None
    reason: str
    since: str
    can_be_enabled: bool
    """Whether the device can be enabled by this API. Any other device is enabled by a change of the monolith's
    row."""


class DisabledDevicesBody(TypedDict):
    """Disabled devices, those disabled last first."""

    rows: list[DisabledDeviceRow]
    truncated: bool
    """Whether the list continues. A page may have fewer rows than its limit: follow next_cursor."""
    next_cursor: str | None


class DisabledCount(TypedDict):
    """A number of disabled devices."""

    club_id: int | None
    reason: str
    devices: int


class DisabledCountsBody(TypedDict):
    """The number of disabled devices by club and reason, the largest first."""

    rows: list[DisabledCount]
    examined: int
    complete: bool
    """Whether all disabled devices were examined. false: only those that were disabled last."""


class EnabledDeviceBody(TypedDict):
    """A device that the device registrar will try again."""

    device_id: int
    status: Literal["requested"]


@dataclass(frozen=True)
class DevicesRoute:
    devices: DisabledDevices
    codec: Codec
    producer: Producer
    clock: Clock

    def answer(self, parameters: Mapping[str, list[str]], clubs: Clubs) -> DisabledDevicesBody:
        """Return the page of a query. Raises Problem (400 with each wrong parameter, 403) or Retry."""
        read = Reader(parameters, PARAMETERS)
        asked = read.several("club_id", parse_club_id)
        wanted = read.single("reason", reason)
        limit = read.single("limit", _limit)
        cursor = read.single("cursor", parse.cursor)
        read.check()
        chosen = seen(asked, clubs)  # guard: tenancy.disabled_devices
        query = (chosen, wanted)
        page = self.devices.page(
            clubs=chosen,
            reason=wanted,
            limit=limit or DEFAULT_LIMIT,
            after=None if cursor is None else position_in(cursor, query, read, _position),
        )
        return {
            "rows": [_row(device) for device in page.rows],
            "truncated": page.next is not None,
            "next_cursor": None if page.next is None else encode_cursor(query, *page.next),
        }

    def counts(self, parameters: Mapping[str, list[str]], clubs: Clubs) -> DisabledCountsBody:
        """Return the counts. Raises Problem (400 with each wrong parameter, 403) or Retry."""
        read = Reader(parameters, ("club_id",))
        asked = read.several("club_id", parse_club_id)
        read.check()
        chosen = seen(asked, clubs)  # guard: tenancy.disabled_device_counts
        found = self.devices.counts(clubs=chosen)
        rows = sorted(found.devices.items(), key=lambda each: (-each[1], str(each[0])))
        return {
            "rows": [{"club_id": club_id, "reason": why, "devices": number} for (club_id, why), number in rows],
            "examined": found.examined,
            "complete": found.complete,
        }

    def enable(self, device_id: str, content: str | None, clubs: Clubs, audit: Audit) -> EnabledDeviceBody:
        """Ask the device registrar to register the device's token again.

        Raises:
            Problem: 400 for content; 404 if the device is unknown, not disabled, or of another club; 409 if the
                monolith's row has to change.
            Retry: OpenSearch or Kafka is down.
        """
        check_empty(content)
        number = integer_or(device_id, None, lowest=0)
        device = None if number is None else self.devices.find(number)
        # guard: tenancy.enabled_device
        if device is None or device.club_id not in clubs:
            raise Problem(404, Text.DEVICE_UNKNOWN.filled())
        if not _can_be_enabled(device):
            raise Problem(409, Text.DEVICE_ENDED.filled(reason=device.reason))
        self._produce(device)
        audit(Action.DEVICE_ENABLED, subject=device_id, clubs=[device.club_id])
        return {"device_id": device.device_id, "status": "requested"}

    def _produce(self, device: DisabledDevice) -> None:
        record = DeviceStatusChanged(
            record_id=str(uuid4()),
            device_id=device.device_id,
            user_id=device.user_id or 0,
            club_id=device.club_id or 0,
            platform=device.platform or "",
            endpoint_arn=device.endpoint_arn or "",
            status="active",
            reason=None,
            timestamp=self.clock.now_ms(),
            send_id="",
        )
        value = self.codec.encode(topics.DEVICE_STATUS, "DeviceStatusChanged", record.to_avro())
        errors: list[Exception] = []

        def report(error: Exception | None) -> None:
            if error is not None:
                errors.append(error)

        self.producer.produce(topics.DEVICE_STATUS, str(device.device_id).encode(), value, [], report)
        self.producer.flush(API_FLUSH_S)
        if errors:
            raise Retry(f"the request could not be produced: {errors[0]}") from errors[0]


reason = parse.choice(DisabledReason)
_limit = parse.whole_number(1, MAX_LIMIT)


def _position(key: list[Any]) -> Position:
    match key:
        case [int() as at_ms, int() as number] if 0 <= at_ms <= _MAX and 0 <= number <= _MAX:
            return at_ms, number
    raise ValueError("not a device")


def _can_be_enabled(device: DisabledDevice) -> bool:
    return device.reason == DisabledReason.TAKES_NOTHING and device.platform is not None


def _row(device: DisabledDevice) -> DisabledDeviceRow:
    return {
        "device_id": device.device_id,
        "user_id": device.user_id,
        "club_id": device.club_id,
        "platform": device.platform,
        "reason": device.reason,
        "since": time_of_ms(device.since_ms),
        "can_be_enabled": _can_be_enabled(device),
    }
