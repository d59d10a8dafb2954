"""GET /v1/users/{user_id}: a user in the directory."""

from enum import StrEnum
from typing import TypedDict

from functions.preferences_handler.row_body import RowBody, row_body
from masscomm.directory.person import Person
from masscomm.domain.channels import CHANNELS
from masscomm.domain.users import Device, User
from masscomm.http.parameters import time_of_ms

# The largest number of devices in a response.
MOST_DEVICES = 50


class DeviceStatus(StrEnum):
    """Whether push messages reach a device."""

    ACTIVE = "active"
    UNREGISTERED = "unregistered"  # The device registrar has not created an endpoint for its token yet.
    DISABLED = "disabled"  # The provider reported its token as gone, or the device registrar refused it.


class UserDevice(TypedDict):
    """A device of the user. Its token and its endpoint are not shown."""

    device_id: int
    platform: str
    status: DeviceStatus
    changed_at: str | None
    """The time of the newest change of the monolith's row; null: it is unknown."""
    row: RowBody
    """The row that decides about the status."""


class UserSuppression(TypedDict):
    """The suppression of the user's e-mail address: no e-mail is sent to it."""

    reason: str
    """As in outcomes: bounced_permanent or complained."""
    expires_at: str
    row: RowBody


class UserLinks(TypedDict):
    """The paths of the user."""

    self: str
    preferences: str
    notifications: str
    stream: str


class UserColumns(TypedDict):
    """The columns of a user that are shown. Addresses are not."""

    user_id: int
    club_id: int
    first_name: str
    last_name: str
    locale: str
    time_zone: str


def user_columns(user: User) -> UserColumns:
    return {
        "user_id": user.user_id,
        "club_id": user.club_id,
        "first_name": user.first_name,
        "last_name": user.last_name,
        "locale": user.locale,
        "time_zone": user.time_zone,
    }


class UserBody(UserColumns):
    """A user, as the directory has it. Addresses are not shown."""

    channels: list[str]
    """The channels on which the user can be reached: those with an address, or with an active device."""
    devices: list[UserDevice]
    """The devices by id, at most 50."""
    truncated: bool
    """Whether the user has more devices."""
    suppression: UserSuppression | None
    """null: the address is not suppressed, or the user has none."""
    row: RowBody
    """The row of names, locale and time zone."""
    links: UserLinks


def user_body(person: Person) -> UserBody:
    user, suppression = person.user, person.suppression
    statuses = [_status(device) for device, _ in person.devices]
    path = f"/v1/users/{user.user_id}"
    return {
        **user_columns(user),
        "channels": [
            name
            for name, channel in CHANNELS.items()
            if (DeviceStatus.ACTIVE in statuses if channel.to_devices else channel.reaches(user))
        ],
        "devices": [
            {
                "device_id": device.device_id,
                "platform": device.platform,
                "status": status,
                "changed_at": None if device.changed_at_ms is None else time_of_ms(device.changed_at_ms),
                "row": row_body(row),
            }
            for (device, row), status in list(zip(person.devices, statuses, strict=True))[:MOST_DEVICES]
        ],
        "truncated": len(person.devices) > MOST_DEVICES,
        "suppression": None
        if suppression is None
        else {
            "reason": suppression.reason,
            "expires_at": time_of_ms(suppression.expires_ms),
            "row": row_body(suppression.row),
        },
        "row": row_body(person.row),
        "links": {
            "self": path,
            "preferences": f"{path}/preferences",
            "notifications": f"{path}/notifications",
            "stream": f"{path}/stream",
        },
    }


def _status(device: Device) -> DeviceStatus:
    if not device.enabled:
        return DeviceStatus.DISABLED
    return DeviceStatus.UNREGISTERED if device.endpoint_arn is None else DeviceStatus.ACTIVE
