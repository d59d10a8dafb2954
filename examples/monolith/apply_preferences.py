"""Write the preferences that users changed through masscomm to the monolith's table user_settings.

    python -m examples.monolith.apply_preferences --kafka localhost:9092 \\
        --registry http://localhost:8081/apis/ccompat/v7 --dsn postgresql://…
"""

from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from examples.preference_consumer import main, new_quiet_hours, set_rules


def apply(connection: psycopg.Connection[Any], record: Mapping[str, Any]) -> bool:
    """Apply the changes in a record to the user's row in one transaction. Returns whether the row was written.

    The row keeps its contents if it has this version or a newer one, or if the user does not exist any more.
    """
    with connection.transaction():
        user = connection.execute("SELECT club_id FROM users WHERE id = %s FOR UPDATE", (record["user_id"],)).fetchone()
        if user is None:
            return False
        row = connection.execute(
            "SELECT channels, categories, quiet_hours, preference_version FROM user_settings"
            " WHERE user_id = %s FOR UPDATE",
            (record["user_id"],),
        ).fetchone()
        channels, categories, quiet_hours, applied = row or ({}, {}, None, 0)
        if record["version"] <= applied:
            return False
        set_rules(channels, categories, record, applied)
        hours = new_quiet_hours(record, applied)
        if hours is not None:
            quiet_hours = None if hours["start"] is None else {"start": hours["start"], "end": hours["end"]}
        connection.execute(
            "INSERT INTO user_settings (user_id, club_id, channels, categories, quiet_hours, preference_version)"
            " VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT (user_id) DO UPDATE SET channels = excluded.channels,"
            " categories = excluded.categories, quiet_hours = excluded.quiet_hours,"
            " preference_version = excluded.preference_version, updated_at = now()",
            (
                record["user_id"],
                user[0],
                Jsonb(channels),
                Jsonb(categories),
                None if quiet_hours is None else Jsonb(quiet_hours),
                record["version"],
            ),
        )
    return True


if __name__ == "__main__":
    main(apply)
