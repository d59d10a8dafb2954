"""Rows of the directory's tables: users, settings, devices, templates.

Objects that are made for each recipient are named tuples, here and elsewhere: creating a frozen dataclass takes three
times as long.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple


class User(NamedTuple):
    """One row of the directory's table users."""

    user_id: int
    club_id: int
    first_name: str = ""
    last_name: str = ""
    email: str | None = None
    phone: str | None = None
    locale: str = "en"
    time_zone: str = "UTC"
    # Further values of the monolith's row, for templates (`attributes` in schemas/source.yaml).
    attributes: Mapping[str, Any] = {}


class UserSettings(NamedTuple):
    """One row of the directory's table user_settings. A channel or category without an entry is not an opt-out."""

    user_id: int
    # Channel → whether the user wants it.
    channels: Mapping[str, Any] = {}
    # Category → whether the user wants it, or category → {channel: whether the user wants it}.
    categories: Mapping[str, Any] = {}
    quiet_hours: Mapping[str, Any] | None = None
    # The version of the document; the decision log records it.
    version: int = 0
    # The newest version of a change through masscomm that the monolith has applied to the row
    # (masscomm.domain.preference_changes).
    preference_version: int = 0
    # Whether the monolith has no row, or has deleted it: the settings consist of changes through masscomm.
    is_absent: bool = False
    # The time of the newest change that is in the settings, in ms since the epoch; None if unknown.
    changed_at: int | None = None
    # The snapshot generation of the row: versions are comparable within it only.
    generation: str = ""


class Device(NamedTuple):
    """One device of a user, merged with its state in masscomm (the index device_state)."""

    device_id: int
    user_id: int
    # The platform: gcm or apns.
    platform: str
    # The ARN of the SNS endpoint in the application of the platform; None until the device registrar has created an
    # endpoint for this token there.
    endpoint_arn: str | None = None
    # False if the provider reported the endpoint as disabled or gone, or if the device registrar refused the row.
    enabled: bool = True
    # The time at which the monolith's database committed the row, in ms since the epoch; None if unknown.
    changed_at_ms: int | None = None


class Template(NamedTuple):
    """One row of the directory's table notification_templates."""

    template_id: int
    # The club that the template belongs to; None: the template is for every club.
    club_id: int | None
    type: str
    channel: str
    locale: str
    title: str
    body: str
    html: str | None = None
    version: int = 0
    # The deep link of a push.
    url: str | None = None


@dataclass(frozen=True, kw_only=True)
class DirectoryPosition:
    """The position in the write-ahead log up to which the directory is complete."""

    lsn: int
    # The database's time at this LSN, in ms since the epoch.
    ts_ms: int
