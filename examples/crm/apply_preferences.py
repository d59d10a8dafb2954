"""Write the preferences that users changed through masscomm to the tables contact_choice and quiet_time.

    python -m examples.crm.apply_preferences --kafka localhost:9092 \\
        --registry http://localhost:8081/apis/ccompat/v7 --dsn postgresql://…
"""

from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from examples.preference_consumer import main, new_quiet_hours, set_rules


def apply(connection: psycopg.Connection[Any], record: Mapping[str, Any]) -> bool:
    """Apply the changes in a record to the person's rows in one transaction. Returns whether the rows were written.

    The rows keep their contents if they have this version or a newer one, or if the person does not exist any more.
    """
    number = record["user_id"]
    with connection.transaction():
        person = connection.execute(
            "SELECT person_uuid FROM crm.person WHERE person_no = %s FOR UPDATE", (number,)
        ).fetchone()
        if person is None:
            return False
        row = connection.execute(
            "SELECT wants_push, no_mail, topics, preference_version FROM crm.contact_choice WHERE person_no = %s"
            " FOR UPDATE",
            (number,),
        ).fetchone()
        wants_push, no_mail, topics, applied = row or (None, False, {}, 0)
        if record["version"] <= applied:
            return False
        channels = {"push": wants_push, "email": not no_mail}
        set_rules(channels, topics, record, applied)
        hours = new_quiet_hours(record, applied)
        if hours is not None:
            connection.execute("DELETE FROM crm.quiet_time WHERE person_no = %s", (number,))
            if hours["start"] is not None:
                connection.execute(
                    "INSERT INTO crm.quiet_time (person_no, starts, ends) VALUES (%s, %s, %s)",
                    (number, hours["start"], hours["end"]),
                )
        connection.execute(
            "INSERT INTO crm.contact_choice (person_uuid, person_no, wants_push, no_mail, topics, preference_version)"
            " VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT (person_no) DO UPDATE SET wants_push = excluded.wants_push,"
            " no_mail = excluded.no_mail, topics = excluded.topics, preference_version = excluded.preference_version",
            (person[0], number, channels["push"], not channels["email"], Jsonb(topics), record["version"]),
        )
    return True


if __name__ == "__main__":
    main(apply)
