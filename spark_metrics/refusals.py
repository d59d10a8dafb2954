"""Records that Postgres refuses for good (a constraint, a range), found in the batch that it refused as a whole."""

import re
from collections.abc import Callable, Collection, Sequence

import psycopg
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

# Topic, partition, offset.
type Place = tuple[str, int, int]

# What waiting does not help: SQLSTATE classes 22 (data), 23 (constraints) and 54 (limits). Source: PostgreSQL's
# documentation, appendix "PostgreSQL Error Codes".
_PERMANENT = (psycopg.DataError, psycopg.IntegrityError, psycopg.errors.ProgramLimitExceeded)
_NAMED = re.compile(r"psycopg\.errors\.(\w+)")


class RefusedByPostgres(Exception):
    """Postgres will never take what was sent to it."""


def is_permanent(error: Exception) -> bool:
    """Whether it is such an error, also where it is quoted in one of Spark's."""
    if isinstance(error, psycopg.Error):
        return isinstance(error, _PERMANENT)
    named = _NAMED.search(str(error))
    kind = getattr(psycopg.errors, named[1], None) if named else None
    return kind is not None and issubclass(kind, _PERMANENT)


def refused_places(places: Sequence[Place], fits: Callable[[int, Sequence[Place]], bool]) -> list[Place]:
    """The places without which Postgres takes the others; each costs as many trials as halves lead to it.

    fits: whether it takes the first n of the places, without those given. Errors: RefusedByPostgres, where it refuses
    what holds none of them.
    """
    refused: list[Place] = []
    taken = 0
    while not fits(len(places), refused):
        if taken == len(places):
            raise RefusedByPostgres("Postgres refuses a batch for no record of it")
        not_taken = len(places)
        while not_taken - taken > 1:
            middle = (taken + not_taken) // 2
            if fits(middle, refused):
                taken = middle
            else:
                not_taken = middle
        refused.append(places[not_taken - 1])
        taken = not_taken
    return refused


def places_of(records: DataFrame) -> list[Place]:
    """Where Kafka's records stand, in order."""
    return sorted(tuple(row) for row in records.select("topic", "partition", "offset").collect())


def first_of(records: DataFrame, places: Sequence[Place], without: Collection[Place]) -> DataFrame:
    """The records at these places, which are the first of each partition, but for some."""
    ends = {f"{topic}/{partition}": offset for topic, partition, offset in places}
    ends_of = F.create_map(*[F.lit(each) for pair in ends.items() for each in pair])
    end = F.try_element_at(ends_of, F.concat_ws("/", "topic", "partition")) if ends else F.lit(None)
    return without_places(records.where(F.col("offset") <= end), without)


def without_places(records: DataFrame, places: Collection[Place]) -> DataFrame:
    """The records at other places."""
    named = ["/".join(map(str, place)) for place in places]
    return records.where(~F.concat_ws("/", "topic", "partition", "offset").isin(named)) if named else records
