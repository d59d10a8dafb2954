"""Checks that an archive and a database belong together: both have the same mark.

If the archive lacked records that the database has counted, or had records of another database, recompute would
report false differences, and --swap would serve them.
"""

from typing import Any, Protocol
from uuid import uuid4

import psycopg

from masscomm.errors import Stop
from spark_metrics.sink import STREAM


class Markable(Protocol):
    """The methods of spark_metrics.archive.Archive that the mark needs."""

    @property
    def folder(self) -> str: ...

    def is_empty(self) -> bool: ...

    def mark(self) -> str | None: ...

    def write_mark(self, text: str) -> None: ...


def claim(connection: psycopg.Connection[Any], archive: Markable | None) -> None:
    """Give a new archive and a new database the same mark, or check that they have the same.

    archive: None if no archive is configured; the database must then never have been archived. Errors: Stop.
    """
    known, counted = _of_database(connection)
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
        # Both are new, or the previous run was interrupted between the two marks.
        archive.write_mark(known)
        return
    check(connection, archive)


def check(connection: psycopg.Connection[Any], archive: Markable) -> None:
    """Check that both have the same mark. Errors: Stop, if they do not."""
    known, _ = _of_database(connection)
    found = archive.mark()
    if known is None:
        raise Stop(f"The records of this database are not archived, neither in {archive.folder} nor elsewhere.")
    if found is None:
        raise Stop(f"{archive.folder} holds no archive, or has lost its mark: this database's archive is {known}.")
    if found != known:
        raise Stop(f"{archive.folder} is another archive ({found}) than this database's ({known}).")


def _of_database(connection: psycopg.Connection[Any]) -> tuple[str | None, bool]:
    """The mark, and whether any record was counted."""
    row = connection.execute(
        "select (select archive_id::text from stream_status where stream = %s), exists (select from stream_offsets)",
        [STREAM],
    ).fetchone()
    return row or (None, False)
