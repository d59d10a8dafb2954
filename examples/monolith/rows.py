"""Reads and changes the rows of the example monolith, for the demo and the trial of a deployment."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import psycopg

type Connection = psycopg.Connection[Any]

# The key of each table, and the columns that are compared with its documents in the directory.
TABLES = {
    "users": ("id", ("club_id", "first_name", "last_name", "email", "locale", "time_zone")),
    "user_settings": ("user_id", ("club_id", "channels", "categories", "quiet_hours")),
    "devices": ("id", ("user_id", "platform", "token", "active")),
    "notification_templates": ("id", ("club_id", "type", "channel", "locale", "title", "body", "html", "url")),
}

# Quiet hours of three hours, in each user's own time zone.
_QUIET = """
UPDATE user_settings s SET updated_at = clock_timestamp(), quiet_hours =
  CASE WHEN wall.ends IS NOT NULL THEN
    jsonb_build_object(
      'start', to_char(wall.ends - interval '3 hours', 'HH24:MI'), 'end', to_char(wall.ends, 'HH24:MI'))
  END
FROM (SELECT id, %s::timestamptz AT TIME ZONE time_zone AS ends FROM users) wall
WHERE wall.id = s.user_id AND s.user_id = ANY(%s)
"""


def count(connection: Connection, table: str) -> int:
    """Return the number of rows of a table of TABLES."""
    row = connection.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608 - a name of ours
    return int(row[0]) if row else 0


def compared_rows(connection: Connection, table: str) -> dict[int, tuple[Any, ...]]:
    """Return the compared columns of a table of TABLES by key."""
    key, columns = TABLES[table]
    return {row[0]: row[1:] for row in connection.execute(f"SELECT {key}, {', '.join(columns)} FROM {table}")}  # noqa: S608


def people(connection: Connection) -> list[tuple[Any, ...]]:
    """Return id, club, whether there are an e-mail address and a phone number, active devices, channels, categories,
    quiet hours and time zone of each user. Users without settings have None for them.
    """
    return connection.execute(
        "SELECT u.id, u.club_id, u.email IS NOT NULL, u.phone IS NOT NULL, coalesce(d.active, 0), s.channels,"
        " s.categories, s.quiet_hours, u.time_zone FROM users u"
        " LEFT JOIN user_settings s ON s.user_id = u.id"
        " LEFT JOIN (SELECT user_id, count(*) FILTER (WHERE active) AS active FROM devices GROUP BY user_id) d"
        " ON d.user_id = u.id"
    ).fetchall()


def settings_of(connection: Connection, user_id: int) -> tuple[Any, ...] | None:
    """Return channels, categories and quiet hours of a user; None if the user has never saved settings."""
    return connection.execute(
        "SELECT channels, categories, quiet_hours FROM user_settings WHERE user_id = %s", (user_id,)
    ).fetchone()


def users_with_empty_settings(connection: Connection, *, club_id: int, up_to: int, limit: int) -> list[int]:
    """Return the ids of a club's users, up to an id, with settings that contain no rule and with an active device."""
    rows = connection.execute(
        "SELECT s.user_id FROM user_settings s"
        " WHERE s.club_id = %s AND s.channels = '{}' AND s.categories = '{}'"
        " AND EXISTS (SELECT FROM devices d WHERE d.user_id = s.user_id AND d.active)"
        " AND s.user_id <= %s ORDER BY s.user_id LIMIT %s",
        (club_id, up_to, limit),
    )
    return [user_id for (user_id,) in rows]


def active_devices(connection: Connection, users: Sequence[int] | None = None) -> dict[int, int]:
    """Return the user of each active device by the device's id: of all users, or of the given ones."""
    query = "SELECT id, user_id FROM devices WHERE active AND (%(users)s::bigint[] IS NULL OR user_id = ANY(%(users)s))"
    return dict(
        connection.execute(query + " ORDER BY id", {"users": None if users is None else list(users)}).fetchall()
    )


def set_category(connection: Connection, user_id: int, category: str, *, wanted: bool) -> None:
    """Replace a user's rule for one category. Rules for other categories stay."""
    connection.execute(
        "UPDATE user_settings SET categories = categories || jsonb_build_object(%s::text, %s::boolean),"
        " updated_at = clock_timestamp() WHERE user_id = %s",
        (category, wanted, user_id),
    )


def set_quiet_hours(connection: Connection, user_ids: Iterable[int], ends: datetime | None) -> None:
    """Set or remove the quiet hours of the given users; users without settings are skipped.

    Args:
        connection: A connection to the monolith's database.
        user_ids: The ids of the users.
        ends: The end of the quiet hours, a whole minute; None removes them.
    """
    connection.execute(_QUIET, (ends, list(user_ids)))


def create_user(connection: Connection, user_id: int, club_id: int) -> None:
    """Create a user with one active device, in one transaction."""
    with connection.transaction():
        connection.execute(
            "INSERT INTO users (id, club_id, first_name, last_name) VALUES (%s, %s, 'Nora', 'Newcomer')",
            (user_id, club_id),
        )
        connection.execute(
            "INSERT INTO devices (id, user_id, platform, token) VALUES (%s, %s, 'gcm', %s)",
            (user_id, user_id, f"token-of-{user_id}"),
        )


def create_phone_user(connection: Connection, user_id: int, club_id: int, phone: str) -> None:
    """Create a user with a phone number and without a device."""
    connection.execute(
        "INSERT INTO users (id, club_id, first_name, last_name, phone) VALUES (%s, %s, 'Nora', 'Newcomer', %s)",
        (user_id, club_id, phone),
    )
