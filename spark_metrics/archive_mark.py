"""Checks that an archive and a database belong together: both store the same random id, the mark.

If the archive lacked records that the database has counted, or contained another database's records, recompute would
report false differences, and --swap would write them into the served tables.
"""

from typing import Any, Protocol
from uuid import uuid4

import psycopg

from masscomm.errors import Stop
from spark_metrics.archive_table import Offsets
from spark_metrics.database import STREAM


class Table(Protocol):
    """The methods of spark_metrics.archive_table.ArchiveTable that this module needs."""

    def archive_id(self) -> str | None: ...

    def create(self, archive_id: str, begin: Offsets) -> None: ...


def claim_table(connection: psycopg.Connection[Any], table: Table, begin: Offsets) -> None:
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
        raise Stop(f"The archive's table belongs to another database ({found}): name another SPARK_ARCHIVE_DIR.")
    if known is None:
        known = str(uuid4())
        connection.execute("update stream_status set archive_id = %s where stream = %s", [known, STREAM])
    table.create(known, begin)


def check_table(connection: psycopg.Connection[Any], table: Table) -> None:
    """Check that the table is the archive of this database. Raises Stop."""
    known, _ = database_mark(connection)
    found = table.archive_id()
    if known is None:
        raise Stop("This database has counted records without an archive: an archive begins with an empty database.")
    if found is None and in_earlier_form(connection):
        raise Stop("The archive consists of files of an earlier version: run `python -m spark_metrics.move_archive`.")
    if found is None:
        raise Stop(f"The archive {known} of this database has no table: it was lost, or SPARK_ARCHIVE_DIR is another.")
    if found != known:
        raise Stop(f"The table is another archive ({found}) than this database's ({known}).")


class Markable(Protocol):
    """The methods of spark_metrics.archive.Archive that this module needs."""

    @property
    def folder(self) -> str: ...

    def is_empty(self) -> bool: ...

    def mark(self) -> str | None: ...

    def write_mark(self, text: str) -> None: ...


def claim(connection: psycopg.Connection[Any], archive: Markable | None) -> None:
    """Store the same mark in a new archive and a new database, or check that both have the same mark.

    Args:
        archive: None if no archive is configured. Then the database must not have a mark either.

    Raises:
        Stop: The marks differ, or one of the two is not new and has no mark.
    """
    known, counted = database_mark(connection)
    if archive is None:
        if known is not None:
            raise Stop(
                "SPARK_ARCHIVE_DIR is not set, but this database has an archive. Records counted without it could"
                " never be recomputed. Set it; or end the archive with"
                " `update stream_status set archive_id = null`."
            )
        return
    found = archive.mark()
    if known is None:
        if found is not None or not archive.is_empty():
            raise Stop(f"{archive.folder} is the archive of another database: name an empty folder, or that database.")
        if counted:
            raise Stop(
                f"This database has counted records that {archive.folder} does not hold: an archive begins with an"
                " empty metrics database (masscomm clean-state), or leave SPARK_ARCHIVE_DIR unset."
            )
        known = str(uuid4())
        connection.execute("update stream_status set archive_id = %s where stream = %s", [known, STREAM])
    if found is None and not counted and archive.is_empty():
        # Both are new, or a previous run was interrupted after it had stored the database's mark.
        archive.write_mark(known)
        return
    check(connection, archive)


def check(connection: psycopg.Connection[Any], archive: Markable) -> None:
    """Check that the database and the archive have the same mark. Raises Stop."""
    known, _ = database_mark(connection)
    found = archive.mark()
    if known is None:
        raise Stop(f"The records of this database are not archived, neither in {archive.folder} nor elsewhere.")
    if found is None:
        raise Stop(f"{archive.folder} holds no archive, or has lost its mark: this database's archive is {known}.")
    if found != known:
        raise Stop(f"{archive.folder} is another archive ({found}) than this database's ({known}).")


def in_earlier_form(connection: psycopg.Connection[Any]) -> bool:
    """Return whether this database's archive consists of Parquet files of an earlier version."""
    if connection.execute("select to_regclass('archive_batches') is null").fetchone() == (True,):
        return False
    return connection.execute("select exists (select from archive_batches)").fetchone() == (True,)


def database_mark(connection: psycopg.Connection[Any]) -> tuple[str | None, bool]:
    """Return the database's mark, and whether the database has counted any record."""
    row = connection.execute(
        "select (select archive_id::text from stream_status where stream = %s), exists (select from stream_offsets)",
        [STREAM],
    ).fetchone()
    return row or (None, False)
