"""Erases a person from the log of recipients in PostgreSQL.

The archive gets the same replacement user id, so that a recomputation agrees with the served metrics.
"""

from typing import Any

import psycopg

from ops.erasure.person import ERASED_USER, Person


def learn(connection: psycopg.Connection[Any], person: Person) -> None:
    """Add to `person` the tenants under which the log of recipients has the user."""
    rows = connection.execute("select distinct club_id from recipient_log where user_id = %s", [person.user_id])
    person.clubs.update(club for (club,) in rows)


def erase_log(connection: psycopg.Connection[Any], person: Person) -> int:
    """Replace the user id in the log of recipients. Return the number of rows."""
    return connection.execute(
        "update recipient_log set user_id = %(erased)s where user_id = %(user)s and club_id = %(club)s",
        {"user": person.user_id, "club": person.club_id, "erased": ERASED_USER},
    ).rowcount
