"""Erases a person from the metrics: from the log of recipients in PostgreSQL, and from the archive.

The log and the archive get the same replacement user id, so that a recomputation agrees with the served metrics.
"""

from typing import Any

import psycopg
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from erasure.person import ERASED_USER, Person
from spark_metrics import recipient_log
from spark_metrics.archive import Archive
from spark_metrics.archived_records import WritersOf, archived_facts
from spark_metrics.views import maintained_since


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


def erase_archive(
    spark: SparkSession, connection: psycopg.Connection[Any], folder: str, person: Person, writers_of: WritersOf
) -> int:
    """Rewrite each hour of the archive that contains the user or whole records (a format of earlier versions).

    An hour with whole records loses the values of all its records.

    Returns:
        The number of rewritten hours.
    """
    archive = Archive(spark, folder)
    logged, _ = maintained_since(connection, recipient_log.NAME)

    def anonymised(rows: DataFrame) -> DataFrame:
        facts = archived_facts(rows, writers_of, recipients=logged)
        return facts.withColumn("user_ids", _erased_users(person)) if logged else facts  # guard: erasure.archive

    named = (F.col("club_id") == person.club_id) & F.array_contains("user_ids", person.user_id)
    return archive.rewrite(connection, anonymised, F.col("value").isNotNull() | F.coalesce(named, F.lit(False)))


def _erased_users(person: Person) -> Column:
    def one(user_id: Column) -> Column:
        return F.when(user_id == person.user_id, F.lit(ERASED_USER).cast("long")).otherwise(user_id)

    return F.when(F.col("club_id") == person.club_id, F.transform("user_ids", one)).otherwise(F.col("user_ids"))
