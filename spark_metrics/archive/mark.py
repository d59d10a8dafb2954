"""Checks that an archive and a database belong together: both store the same random id, the mark.

If the archive lacked records that the database has counted, or contained another database's records, recompute would
report false differences, and --swap would write them into the served tables.
"""

from typing import Any
from uuid import uuid4

import psycopg

from masscomm.errors import Stop
from spark_metrics.archive.iceberg import Offsets
from spark_metrics.archive.table import ArchiveTable
from spark_metrics.common.database import STREAM


def claim_table(connection: psycopg.Connection[Any], table: ArchiveTable, begin: Offsets) -> None:
    """Create the archive of a database that has counted nothing. Do nothing for any other database.

    Args:
        begin: The first offsets that the database will count.

    Raises:
        Stop: The table is the archive of another database.
    """
    known, counted = database_mark(connection)
    if counted:
        return
    found = table.archive_id()
    if found is not None and found != known:
        raise Stop(f"The archive's table belongs to another database ({found}): name another SPARK_ARCHIVE_DATABASE.")
    if known is None:
        known = str(uuid4())
        connection.execute("update stream_status set archive_id = %s where stream = %s", [known, STREAM])
    table.create(known, begin)


def check_table(connection: psycopg.Connection[Any], table: ArchiveTable) -> None:
    """Check that the table is the archive of this database. Raises Stop."""
    known, _ = database_mark(connection)
    found = table.archive_id()
    if known is None:
        raise Stop("This database has counted records without an archive: an archive begins with an empty database.")
    if found is None:
        raise Stop(
            f"The archive {known} of this database has no table: it was lost, or SPARK_ARCHIVE_DATABASE is another."
        )
    if found != known:
        raise Stop(f"The table is another archive ({found}) than this database's ({known}).")


def check_archive_dir(connection: psycopg.Connection[Any], archive_dir: str) -> None:
    """Check that a database with an archive is not counted without one. Raises Stop."""
    known, _ = database_mark(connection)
    if known is not None and not archive_dir:
        raise Stop(
            "SPARK_ARCHIVE_DIR is not set, but this database has an archive. Records counted without it could"
            " never be recomputed. Set it; or end the archive with"
            " `update stream_status set archive_id = null`."
        )


def database_mark(connection: psycopg.Connection[Any]) -> tuple[str | None, bool]:
    """Return the database's mark, and whether the database has counted any record."""
    row = connection.execute(
        "select (select archive_id::text from stream_status where stream = %s), exists (select from stream_offsets)",
        [STREAM],
    ).fetchone()
    return row or (None, False)
