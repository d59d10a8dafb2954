"""Finds the records that Postgres rejects permanently (a constraint, a range) in a batch that it has rejected as a
whole.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager

import psycopg
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from masscomm.errors import Stop

# Topic, partition and offset of a record.
type Place = tuple[str, int, int]

# Permanent errors: SQLSTATE classes 22 (data), 23 (constraints) and 54 (limits). Source: PostgreSQL's
# documentation, appendix "PostgreSQL Error Codes".
_PERMANENT = (psycopg.DataError, psycopg.IntegrityError, psycopg.errors.ProgramLimitExceeded)


class RefusedByPostgres(Exception):
    """Postgres permanently rejects the rows."""


def is_permanent(error: Exception) -> bool:
    """Return whether Postgres rejects the rows, however often it gets them."""
    return isinstance(error, _PERMANENT)


def refused_places(places: Sequence[Place], fits: Callable[[int, Sequence[Place]], bool]) -> list[Place]:
    """Return the positions without which Postgres accepts the others. Bisection finds each one in a logarithmic number
    of trials.

    Raises RefusedByPostgres if Postgres rejects even a batch without records.

    Args:
        fits: Returns whether Postgres accepts the first n positions without the given ones.
    """
    refused: list[Place] = []
    taken = 0
    while not fits(len(places), refused):
        if taken == len(places):
            raise RefusedByPostgres("Postgres rejects a batch without any record")
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


def places_of(rows: DataFrame) -> list[Place]:
    """Return the positions of the records; those of unknown schemas have a row in each lane."""
    return sorted({tuple(row) for row in rows.select("topic", "partition", "kafka_offset").collect()})


def first_of(rows: DataFrame, places: Sequence[Place], without: Collection[Place]) -> DataFrame:
    """Return the rows of the records at these positions without some of them. The positions must be the first ones of
    each partition.
    """
    ends = {f"{topic}/{partition}": offset for topic, partition, offset in places}
    ends_of = F.create_map(*[F.lit(each) for pair in ends.items() for each in pair])
    end = F.try_element_at(ends_of, F.concat_ws("/", "topic", "partition")) if ends else F.lit(None)
    return without_places(rows.where(F.col("kafka_offset") <= end), without)


def without_places(rows: DataFrame, places: Collection[Place]) -> DataFrame:
    named = ["/".join(map(str, place)) for place in places]
    return rows.where(~F.concat_ws("/", "topic", "partition", "kafka_offset").isin(named)) if named else rows


@contextmanager
def postgres_errors() -> Iterator[None]:
    """Raise psycopg's OperationalError, or Stop for a wrong installation, instead of Spark's errors that quote an error
    of Postgres. Executors return the errors of rows (is_permanent) as results.
    """
    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        quoted = _QUOTED.search(str(error))
        if quoted is None:
            raise
        text = f"Postgres cannot merge a lane: {first_line(quoted[0])}"
        kind: type[Exception] = getattr(psycopg.errors, quoted[1], psycopg.Error)
        if issubclass(kind, (psycopg.OperationalError, psycopg.InterfaceError)):
            raise psycopg.OperationalError(text) from error
        raise Stop(text) from error


_QUOTED = re.compile(r"psycopg\.(?:errors\.)?(\w+): .*")


def first_line(error: object) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]
