"""GET /v1/users/{user_id}: what the directory knows of a user."""

from collections.abc import Container, Sequence
from enum import StrEnum
from typing import TypedDict

from masscomm.directory.port import Directory
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


class UserLinks(TypedDict):
    """The paths of the user."""

    self: str
    preferences: str
    notifications: str


class UserBody(TypedDict):
    """A user, as the directory has it. Addresses are not shown."""

    user_id: int
    club_id: int
    first_name: str
    last_name: str
    locale: str
    time_zone: str
    channels: list[str]
    """The channels on which the user can be reached: those with an address, or with an active device."""
    devices: list[UserDevice]
    """The devices by id, at most 50."""
    truncated: bool
    """Whether the user has more devices."""
    links: UserLinks


def find_user(directory: Directory, user_id: int, clubs: Container[object]) -> UserBody | None:
    """Return a user of these clubs; None for any other user, known or not. Raises Retry."""
    user = directory.users([user_id]).get(user_id)
    if user is None or user.club_id not in clubs:  # guard: tenancy.user
        return None
    return _body(user, directory.devices([user_id])[user_id])


def _body(user: User, devices: Sequence[Device]) -> UserBody:
    statuses = [_status(device) for device in devices]
    path = f"/v1/users/{user.user_id}"
    return {
        "user_id": user.user_id,
        "club_id": user.club_id,
        "first_name": user.first_name,
        "last_name": user.last_name,
        "locale": user.locale,
        "time_zone": user.time_zone,
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
            }
            for device, status in list(zip(devices, statuses, strict=True))[:MOST_DEVICES]
        ],
        "truncated": len(devices) > MOST_DEVICES,
        "links": {"self": path, "preferences": f"{path}/preferences", "notifications": f"{path}/notifications"},
    }


def _status(device: Device) -> DeviceStatus:
    if not device.enabled:
        return DeviceStatus.DISABLED
    return DeviceStatus.UNREGISTERED if device.endpoint_arn is None else DeviceStatus.ACTIVE
