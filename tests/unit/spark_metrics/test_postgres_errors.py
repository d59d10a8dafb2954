"""An error of Postgres is permanent, temporary, or one of the installation."""

import re

import psycopg
import pytest
from pyspark.errors import PySparkException

from masscomm.errors import Stop
from spark_metrics.common.database import is_permanent, postgres_errors


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
