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
    """One row of the monolith's user_settings.

    channels: channel → wanted; categories: category → wanted, or → {channel: wanted}; what is absent is wanted.
    version: of the document, for the decision record.
    """

    user_id: int
    channels: Mapping[str, Any] = field(default_factory=dict)
    categories: Mapping[str, Any] = field(default_factory=dict)
    quiet_hours: Mapping[str, Any] | None = None
    version: int = 0


@dataclass(frozen=True, kw_only=True)
class Device:
    """One device with what we learnt of it ourselves (device_state) merged in.

    platform: gcm or apns; endpoint_arn: None until the device registrar has made one for this very token;
    enabled: False once the provider said that the endpoint is disabled or gone, or the registrar refused the row;
    changed_at_ms: when the monolith's database committed the row (ms since the epoch), None where that is unknown.
    """

    device_id: int
    user_id: int
    platform: str
    token: str
    endpoint_arn: str | None = None
    enabled: bool = True
    changed_at_ms: int | None = None


@dataclass(frozen=True, kw_only=True)
class Template:
    """One row of the monolith's notification_templates; club_id None: for every club."""

    template_id: int
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
    """How far the directory has come: the WAL position (LSN) and the database's time there, in ms since the epoch."""

    lsn: int
    ts_ms: int
