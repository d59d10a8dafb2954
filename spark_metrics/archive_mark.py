"""Whether an archive and a database are two accounts of the same records: each carries the same mark.

An archive that misses what the database has counted, or holds what another database counted, would make recompute
report differences that are none, and --swap serve them.
"""

from typing import Any, Protocol
from uuid import uuid4

import psycopg

from masscomm.errors import Stop
from spark_metrics.sink import STREAM


class Markable(Protocol):
    """What an archive has to do with its mark; spark_metrics.archive.Archive is one."""

    @property
    def folder(self) -> str: ...

    def is_empty(self) -> bool: ...

    def mark(self) -> str | None: ...

    def write_mark(self, text: str) -> None: ...


def claim(connection: psycopg.Connection[Any], archive: Markable | None) -> None:
    """Tie an archive and a database that are both new to each other, or see that they belong together.

    archive: None where nothing is archived; that suits a database that was never archived. Errors: Stop.
    """
    known, counted = _of_database(connection)
    if archive is None:
        if known is not None:
            raise Stop(
                "SPARK_ARCHIVE_DIR is not set, and what this database counts is archived: what would be counted now"
                " could never be counted again. Set it; or give the archive up with"
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
        # New, or cut off between the two marks.
        archive.write_mark(known)
        return
    check(connection, archive)


def check(connection: psycopg.Connection[Any], archive: Markable) -> None:
    """Errors: Stop, where the archive does not hold what the database counts."""
    known, _ = _of_database(connection)
    found = archive.mark()
    if known is None:
        raise Stop(f"What this database counts is not archived, neither in {archive.folder} nor elsewhere.")
    if found is None:
        raise Stop(f"{archive.folder} holds no archive, or has lost its mark: this database's archive is {known}.")
    if found != known:
        raise Stop(f"{archive.folder} is another archive ({found}) than this database's ({known}).")


def _of_database(connection: psycopg.Connection[Any]) -> tuple[str | None, bool]:
    """The mark, and whether anything was counted."""
    row = connection.execute(
        "select (select archive_id::text from stream_status where stream = %s), exists (select from stream_offsets)",
        [STREAM],
    ).fetchone()
    return row or (None, False)
