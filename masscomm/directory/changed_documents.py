"""The rules by which changes of the monolith's rows become versioned documents of the directory. They are the same for
every store of the directory, so that all of them converge to the same documents (docs/decisions/085-cdc-versions.md).
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from masscomm.cdc.captured_tables import DEVICES, RULES, TEMPLATES, USERS
from masscomm.cdc.change_events import SNAPSHOT_VERSION, MissedDelete, RowChanged
from masscomm.directory.bulk_writes import VersionedDocument
from masscomm.directory.documents import template
from masscomm.domain.channels import CHANNELS
from masscomm.domain.phone_ends import PHONE_END, phone_end
from masscomm.domain.source_tables import directory_table

type Source = Mapping[str, Any]


def index_of(table: str, generation: str) -> str:
    """Return the name of a table's index in a snapshot generation."""
    return f"{table}-{generation}"


def document_of(row: RowChanged) -> VersionedDocument:
    """Return the document of a row. That of a deleted row is a mark."""
    # A deleted row keeps a document: because of its version, the index refuses older changes that are redelivered.
    source = row.columns if row.columns is not None else {"deleted": True, "deleted_at_ms": row.changed_at_ms}
    if row.applied_version is not None:
        # Changes that a deleted row had must not apply again.
        source = {**source, "preference_version": row.applied_version}  # guard: preferences.deleted_row
    if row.columns is not None and row.version == SNAPSHOT_VERSION and directory_table(row.table) in RULES:
        # A change of preferences belongs to a row. The rows of all snapshots have one version.
        source = {**row.columns, "snapshot_lsn": row.lsn}
    if row.columns is not None and row.table == USERS and (end := phone_end(row.columns.get("phone"))) is not None:
        source = {**row.columns, PHONE_END: end}
    if row.columns is not None and row.table == DEVICES:
        # Delivery reads this time, because it waits for the endpoint of a device whose row is only seconds old.
        source = {**row.columns, "changed_at_ms": row.changed_at_ms}
    return VersionedDocument(index=index_of(row.table, row.generation), id=row.id, version=row.version, source=source)


def opt_out(row: RowChanged, stored: tuple[int, Source] | None) -> VersionedDocument | None:
    """Return the opt-out of a user whose settings cannot be read; None if there are earlier settings, which stay.

    Its version is that of the missing or deleted document in whose place it is, so that each valid row replaces it.

    Args:
        stored: The version and the source of the stored document; None: there is none.
    """
    if stored is None:
        return replace(document_of(row), version=0)
    version, source = stored
    return replace(document_of(row), version=version) if source.get("deleted") else None


def missed_row(change: MissedDelete, table: str, known: tuple[int, Source] | None) -> RowChanged | None:
    """Return the deleted row of a deletion that was not read; None if there is no such row, or none any more.

    Args:
        known: The version and the source of the row's newest document before the tombstone; None: there is none.
    """
    if known is None or known[1].get("deleted"):
        return None
    version, source = known
    # guard: preferences.missed_delete
    return change.row(table, version, source.get("preference_version"))


def with_earlier_values(row: RowChanged, stored: Source) -> VersionedDocument:
    """Return the document of a row with the stored values of the columns that it has lost."""
    document = document_of(row)
    kept = (*row.kept, PHONE_END) if "phone" in row.kept else row.kept
    return replace(document, source={**document.source, **{name: stored[name] for name in kept if name in stored}})


def problem_of_template(rows: Iterable[RowChanged]) -> str | None:
    """Return the reason why no message can be rendered from a template among the rows of a change; None for any other
    change. The previous version of such a template stays in use.
    """
    for row in rows:
        # A channel that is not known here may belong to another service.
        if row.table != TEMPLATES or row.columns is None or row.columns["channel"] not in CHANNELS:
            continue
        # Most batches have no template, so the compiler is not imported for them.
        from masscomm.rendering.preview import problem_of

        if (problem := problem_of(template(int(row.id), row.columns))) is not None:
            return f"the template {row.id} cannot be rendered: {problem}"
    return None
