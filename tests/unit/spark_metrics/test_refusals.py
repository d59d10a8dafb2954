"""The records that Postgres rejects in a batch are found, and no others."""

import re

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import PySparkException

from masscomm.errors import Stop
from spark_metrics.refusals import Place, RefusedByPostgres, is_permanent, postgres_errors, refused_places

PLACES: list[Place] = [("outcome", n % 3, n) for n in range(100)]


@given(st.sets(st.integers(0, 99), max_size=8))
def test_exactly_the_refused_records_are_found(bad: set[int]) -> None:
    trials = 0

    def fits(n: int, without: object) -> bool:
        nonlocal trials
        trials += 1
        return not any(place in bad_places and place not in found_of(without) for place in PLACES[:n])

    bad_places = {PLACES[n] for n in bad}
    assert set(refused_places(PLACES, fits)) == bad_places
    assert trials <= 1 + 8 * len(bad)


def found_of(without: object) -> list[Place]:
    assert isinstance(without, list)
    return without


def test_last_of_records_that_overflow_together_is_refused() -> None:
    """Postgres accepts each record alone, but their sum exceeds the range of the column's type."""
    assert refused_places(PLACES[:5], lambda n, without: n - len(without) < 4) == PLACES[3:5]


def test_batch_refused_without_a_bad_record_is_an_error() -> None:
    with pytest.raises(RefusedByPostgres):
        refused_places(PLACES[:4], lambda _n, _without: False)


@pytest.mark.guarantee("postgres_answer.permanent_codes")
@pytest.mark.parametrize(
    ("error", "permanent"),
    [
        (psycopg.errors.NumericValueOutOfRange("x"), True),
        (psycopg.errors.CheckViolation("x"), True),
        (psycopg.errors.UntranslatableCharacter("x"), True),
        (psycopg.errors.ProgramLimitExceeded("index row size 3000 exceeds btree maximum"), True),
        (psycopg.OperationalError("connection refused"), False),
        (psycopg.errors.AdminShutdown("x"), False),
        (psycopg.errors.DiskFull("x"), False),
        (psycopg.errors.DeadlockDetected("x"), False),
        (psycopg.errors.UndefinedColumn("x"), False),
        (RuntimeError("something else"), False),
    ],
)
def test_error_that_a_retry_cannot_cure_is_permanent(error: Exception, permanent: bool) -> None:
    assert is_permanent(error) == permanent


@pytest.mark.parametrize(
    ("quoted", "kind"),
    [
        ("psycopg.OperationalError: connection refused", psycopg.OperationalError),
        ("psycopg.errors.AdminShutdown: terminating connection", psycopg.OperationalError),
        ("psycopg.errors.DiskFull: could not extend file", psycopg.OperationalError),
        ("psycopg.InterfaceError: the connection is closed", psycopg.OperationalError),
        ('psycopg.errors.UndefinedTable: relation "sends" does not exist', Stop),
        ("psycopg.errors.InsufficientPrivilege: permission denied for table sends", Stop),
        ("OSError: no space left on device", PySparkException),
    ],
)
def test_error_of_a_lane_is_retried_or_ends_the_job(quoted: str, kind: type[Exception]) -> None:
    """An executor's error reaches the driver as text."""
    trace = (
        f"Job aborted:\nTraceback (most recent call last):\n  File psycopg/connection.py\n{quoted}\n\n\tat org.apache"
    )
    with pytest.raises(kind, match=re.escape(quoted)), postgres_errors():
        raise PySparkException(trace)
