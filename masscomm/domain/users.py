"""Rows of the monolith's tables as the directory returns them: users, settings, devices, templates."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class User:
    """One row of the monolith's users."""

    user_id: int
    club_id: int
    first_name: str = ""
    last_name: str = ""
    email: str | None = None
    phone: str | None = None
    locale: str = "en"
    time_zone: str = "UTC"


@dataclass(frozen=True, kw_only=True)
class UserSettings:
    """One row of the monolith's user_settings. A channel or category without an entry is wanted."""

    user_id: int
    # Channel → wanted.
    channels: Mapping[str, Any] = field(default_factory=dict)
    # Category → wanted, or → {channel: wanted}.
    categories: Mapping[str, Any] = field(default_factory=dict)
    quiet_hours: Mapping[str, Any] | None = None
    # The document's version, for the decision record.
    version: int = 0


@dataclass(frozen=True, kw_only=True)
class Device:
    """One device, merged with our own state of it (device_state)."""

    device_id: int
    user_id: int
    # gcm or apns.
    platform: str
    token: str
    # None until the device registrar has created an endpoint for this token.
    endpoint_arn: str | None = None
    # False if the provider reported the endpoint as disabled or gone, or the device registrar refused the row.
    enabled: bool = True
    # When the monolith's database committed the row (ms since the epoch); None if unknown.
    changed_at_ms: int | None = None


@dataclass(frozen=True, kw_only=True)
class Template:
    """One row of the monolith's notification_templates."""

    template_id: int
    # None: for every club.
    club_id: int | None
    type: str
    channel: str
    locale: str
    title: str
    body: str
    html: str | None = None
    version: int = 0


@dataclass(frozen=True, kw_only=True)
class DirectoryPosition:
    """The position in the WAL up to which the directory is complete."""

    lsn: int
    # The database's time at the LSN (ms since the epoch).
    ts_ms: int
