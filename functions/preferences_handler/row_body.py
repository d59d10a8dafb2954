"""The row of the directory that a part of a response comes from."""

from typing import TypedDict

from masscomm.directory.person import DirectoryRow
from masscomm.http.parameters import time_of_ms


class RowBody(TypedDict):
    """The row of the directory that decides."""

    table: str
    """A table of the monolith as schemas/source.yaml names it, or preference_changes (changes through masscomm that the
    monolith has not applied), tenant_preferences, device_state or suppressions."""
    version: int
    """It increases with each change of the row; that of user settings is in decision records."""
    changed_at: str | None
    """null: the time of the newest change is unknown."""


def row_body(row: DirectoryRow) -> RowBody:
    changed_at = None if row.changed_at_ms is None else time_of_ms(row.changed_at_ms)
    return {"table": row.table, "version": row.version, "changed_at": changed_at}
