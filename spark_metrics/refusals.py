"""Tells Postgres' permanent errors (a constraint, a range) from temporary ones, also where Spark quotes them."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from masscomm.errors import Stop

# Permanent errors: SQLSTATE classes 22 (data), 23 (constraints) and 54 (limits). Source: PostgreSQL's
# documentation, appendix "PostgreSQL Error Codes".
_PERMANENT = (psycopg.DataError, psycopg.IntegrityError, psycopg.errors.ProgramLimitExceeded)


def is_permanent(error: Exception) -> bool:
    """Return whether Postgres rejects the rows, however often it gets them."""
    return isinstance(error, _PERMANENT)


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
